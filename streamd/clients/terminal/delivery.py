"""The progress of consumer groups, read without side effects."""

from dataclasses import dataclass
from typing import Any, Final

from streamd.clients.terminal.asking import Source, nearest, paired
from streamd.clients.terminal.failing import Trouble
from streamd.clients.terminal.showing import printable, span

_PAGE: Final = 500

WAITING, PENDING, DONE = "waiting", "pending", "done"
_STYLES: Final = {WAITING: "yellow", PENDING: "magenta", DONE: "dim"}


@dataclass(frozen=True)
class Delivery:
    """The state of one entry in one group; consumer, count and idle_ms if it is pending.

    `done`: the entry was acknowledged, or passed over when the group was made or set.
    """

    state: str
    consumer: str = ""
    count: int = 0
    idle_ms: int = 0

    @property
    def style(self) -> str:
        """The colour of the state."""
        return _STYLES[self.state]

    def __str__(self) -> str:
        if self.state != PENDING:
            return self.state
        times = f", {self.count} times" if self.count != 1 else ""
        return f"pending with {printable(self.consumer.encode('utf-8', 'surrogateescape'))}{times} for " + span(
            self.idle_ms / 1_000
        )

    def as_json(self) -> dict[str, object]:
        """Return the form for programs."""
        if self.state != PENDING:
            return {"state": self.state}
        return {
            "state": PENDING, "consumer": self.consumer, "delivery_count": self.count, "idle_ms": self.idle_ms,
        }  # fmt: skip


class Deliveries:
    """The groups of a stream, or the named one. Raises: Trouble if it does not exist."""

    def __init__(self, source: Source, stream: str, group: str) -> None:
        self._source, self._stream = source, stream
        there = [_decoded(one["name"]) for one in self._groups()]
        if group and group not in there:
            near = nearest(group, there)
            hint = f"did you mean {near}?" if near else f"those there are: {', '.join(there) or 'none'}"
            raise Trouble(f"{source.place}: stream {stream} has no group {group}; {hint}")
        self._wanted = group

    def of(self, ids: list[bytes]) -> list[dict[str, Delivery]]:
        """Return for each entry ID, in ascending order, its delivery by group."""
        found: list[dict[str, Delivery]] = [{} for _ in ids]
        if not ids:
            return found
        for group in self._groups():
            name = _decoded(group["name"])
            if self._wanted and name != self._wanted:
                continue
            last = _order(group["last-delivered-id"])
            pending = self._pending(group["name"], ids)
            for entry_id, states in zip(ids, found, strict=True):
                waits = Delivery(WAITING) if _order(entry_id) > last else Delivery(DONE)
                states[name] = pending.get(entry_id, waits)
        return found

    def _groups(self) -> list[dict[str, Any]]:
        return [paired(one) for one in self._source.ask("XINFO", "GROUPS", self._stream)]

    def _pending(self, group: bytes, ids: list[bytes]) -> dict[bytes, Delivery]:
        found: dict[bytes, Delivery] = {}
        start = ids[0].decode()
        while page := self._source.ask("XPENDING", self._stream, group, start, ids[-1], _PAGE):
            for entry_id, consumer, idle_ms, count in page:
                found[entry_id] = Delivery(PENDING, _decoded(consumer), count, idle_ms)
            if len(page) < _PAGE:
                break
            start = "(" + page[-1][0].decode()
        return found


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _order(entry_id: bytes) -> tuple[int, int]:
    ms, _, sequence = entry_id.partition(b"-")
    return int(ms), int(sequence)
