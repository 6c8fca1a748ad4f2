"""The state of an open log: its meta hash as last read, and the server's abilities."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from streamd.clients.topics import layout
from streamd.clients.topics.numbers import NONE, Number
from streamd.clients.topics.recorded import Recorded
from streamd.clients.topics.steps import Steps, run_all


class LogDropped(ValueError):
    """The log was dropped; new messages would be lost."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """The commands that the server knows, by COMMAND INFO."""

    idmp: bool
    scripts: bool
    xfilter: bool


@dataclass(slots=True)
class Handle:
    """An open log.

    meta: the meta hash as last read. now_ms: the server's time of that read. retained_ms: the server's time when this
    handle last looked for entries older than the retention. probe_until_s: the time, on this machine's monotonic clock,
    until which a message may already be stored in a closed generation. recorded: the iids that this handle published.
    highest: the highest number of a retained message that this handle has drawn, or that a gateway has noted.
    """

    meta: layout.Meta
    abilities: Abilities
    now_ms: int
    block_ms_max: int = 1_000
    retained_ms: int = 0
    probe_until_s: float = 0.0
    monotonic_s: Callable[[], float] = time.monotonic
    recorded: Recorded = field(default_factory=Recorded)
    highest: Number = NONE

    @property
    def name(self) -> str:
        """The log's name."""
        return self.meta.name

    def take(self, meta: layout.Meta | None, now_ms: int) -> layout.Meta:
        """Remember a meta hash that was read again, and return it. Raises: LogDropped."""
        if meta is None or meta.uid != self.meta.uid:
            raise LogDropped(
                f"log {self.name!r} was dropped"
                + (", and another one made under its name: open that" if meta else ": create it again")
            )
        if meta.current.number != self.meta.current.number or not self.now_ms:
            self._probe(meta, now_ms)
        self.meta, self.now_ms = meta, now_ms
        return meta

    def begin(self) -> None:
        """Compute, from the first meta hash, how long closed generations have to be searched."""
        self._probe(self.meta, self.now_ms)

    def closed_generations(self) -> list[layout.Generation]:
        """Return the generations, beside the current one, in which a message with an iid may be stored already."""
        if self.monotonic_s() >= self.probe_until_s:
            return []
        ended_after_ms = self.now_ms - layout.WINDOW_S * 1_000
        pairs = pairwise(self.meta.generations)
        return [one for one, successor in pairs if successor.since_ms > ended_after_ms]

    def _probe(self, meta: layout.Meta, now_ms: int) -> None:
        left_ms = layout.WINDOW_S * 1_000 - (now_ms - meta.current.since_ms)
        self.probe_until_s = self.monotonic_s() + max(0, min(left_ms, layout.WINDOW_S * 1_000)) / 1_000


def read_meta(name: str) -> Steps[tuple[layout.Meta | None, int]]:
    """Return a log's meta hash, None without such a log, and the server's time in Unix milliseconds."""
    fields, now = yield from run_all([("HGETALL", layout.meta_key(name)), ("TIME",)])
    return layout.parse_meta(name, fields), server_ms(now)


def server_ms(reply: tuple[int, int]) -> int:
    """Return the reply of TIME in Unix milliseconds."""
    return int(reply[0]) * 1_000 + int(reply[1]) // 1_000


def refresh(handle: Handle) -> Steps[layout.Meta]:
    """Return the present meta hash. Raises: LogDropped."""
    meta, now_ms = yield from read_meta(handle.name)
    return handle.take(meta, now_ms)


def read_abilities() -> Steps[Abilities]:
    """Return the server's abilities, by its commands instead of its version."""
    replies = yield from run_all([("COMMAND INFO", name) for name in ("XCFGSET", "EVAL", "XFILTER")])
    return Abilities(*(bool(reply) and reply != [None] for reply in replies))
