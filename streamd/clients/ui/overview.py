"""A look at a whole server: its largest streams, the groups that are furthest behind, its memory and clients."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamd.clients.choosing import Chooser
from streamd.clients.server_role import Role, role_of
from streamd.clients.ui.groups import LISTED_MAX, Group, listed
from streamd.clients.ui.source import Request, Source, is_forbidden_key, needed
from streamd.clients.ui.streams import Rates, Stream, described, is_gone, ms_of

# Streams that an overview shows, and asks for everything: as many as /metrics has by name.
STREAMS_MAX = 100
# Several readers share a look that is younger than this.
LOOK_S_MIN = 1.0


@dataclass(frozen=True)
class StreamGroup:
    """A consumer group of a stream."""

    stream: bytes
    group: Group


@dataclass(frozen=True)
class Look:
    """A server at one moment.

    found: streams that are there, as far as they were found; surveyed: those of them among which was chosen; is_whole:
    all keys were looked through. memory_bytes, clients: None if the page's user may not see them. role: in replication,
    None without it.
    """

    streams: list[Stream]
    groups: list[StreamGroup]
    found: int
    surveyed: int
    is_whole: bool
    memory_bytes: int | None
    clients: int | None
    now_ms: int
    role: Role | None

    @property
    def rate(self) -> float | None:
        """Entries per second of the streams shown; None while no rate is known."""
        known = [stream.rate for stream in self.streams if stream.rate is not None]
        return sum(known) if known or not self.streams else None

    @property
    def is_average(self) -> bool:
        """Whether the rate of a stream is an average, since it was not looked at before."""
        return any(stream.is_average and stream.rate is not None for stream in self.streams)

    @property
    def left_out(self) -> int:
        """The number of streams that are not shown."""
        return self.found - len(self.streams)

    @property
    def furthest(self) -> StreamGroup | None:
        """The group that is furthest behind; None if none is behind."""
        return max((one for one in self.groups if one.group.lag), key=lambda one: one.group.lag or 0, default=None)

    def lag(self, key: bytes) -> int | None:
        """Return the lag of the group of a stream that is furthest behind; None without one."""
        return max((one.group.lag or 0 for one in self.groups if one.stream == key), default=None)


class Overview:
    """Looks at a server, again and again. It asks for at most STREAMS_MAX streams and the Chooser's survey."""

    def __init__(self, source: Source, rates: Rates, seconds: Callable[[], float] = time.monotonic) -> None:
        """seconds: a clock."""
        self._source, self._rates, self._seconds = source, rates, seconds
        self._chooser = Chooser(self._scan, self._ask, STREAMS_MAX)
        self._lock = threading.Lock()
        self._looked_s = -LOOK_S_MIN
        self._look: Look | None = None
        self._groups: dict[bytes, int] = {}

    def look(self) -> Look:
        """Return a look, made now or a moment ago. Raises: SourceError."""
        with self._lock:
            if self._look is None or self._seconds() - self._looked_s >= LOOK_S_MIN:
                self._look = self._new_look(self._chooser.look())
                self._looked_s = self._seconds()
            return self._look

    def _scan(self, cursor: bytes, count: int) -> tuple[bytes, list[bytes]]:
        cursor, keys = self._source.ask("SCAN", cursor, "COUNT", count, "TYPE", "stream")
        return cursor, keys

    def _ask(self, requests: list[tuple[str, bytes]]) -> list[Any]:
        return self._source.ask_all(requests)

    def _new_look(self, keys: list[bytes]) -> Look:
        self._count_groups([key for key in keys if key not in self._groups])
        with_groups = [key for key in keys if 0 < self._groups.get(key, 0) <= LISTED_MAX]
        requests: list[Request] = [("TIME",), ("INFO", "memory"), ("INFO", "clients"), ("INFO", "replication")]
        for key in keys:
            requests += [("XINFO STREAM", key), ("MEMORY USAGE", key)]
        requests += [("XINFO GROUPS", key) for key in with_groups]
        replies, now_s = self._source.ask_all(requests), self._seconds()
        now, memory, clients, replication, *facts = replies
        streams = []
        for key, reply, bytes_ in zip(keys, facts[: 2 * len(keys) : 2], facts[1 : 2 * len(keys) : 2], strict=True):
            if is_gone(reply) or is_forbidden_key(reply):
                self._chooser.drop(key, is_forbidden_key(reply))
            else:
                streams.append(described(key, needed(reply), bytes_, self._rates, now_s))
        groups = [
            StreamGroup(key, group)
            for key, reply in zip(with_groups, facts[2 * len(keys) :], strict=True)
            if isinstance(reply, list)
            for group in listed(reply)
        ]
        self._groups = {stream.key: stream.groups for stream in streams}
        chooser = self._chooser
        surveyed = chooser.surveyed if chooser.known > STREAMS_MAX else chooser.known
        return Look(
            streams, groups, chooser.known, surveyed, chooser.walked and not chooser.is_full,
            _number(memory, "used_memory"), _number(clients, "connected_clients"), ms_of(needed(now)),
            role_of(_fields(replication)),
        )  # fmt: skip

    def _count_groups(self, keys: list[bytes]) -> None:
        """Note how many groups each stream has, since a stream with very many is not asked for them."""
        for key, reply in zip(keys, self._source.ask_all([("XINFO STREAM", key) for key in keys]), strict=True):
            if isinstance(reply, list):
                self._groups[key] = int(dict(zip(reply[::2], reply[1::2], strict=False))[b"groups"])


def _number(info: Any, name: str) -> int | None:
    """Return a number of INFO; None if the user may not see it."""
    value = _fields(info).get(name, "")
    return int(value) if value.isdigit() else None


def _fields(info: Any) -> dict[str, str]:
    """Return the fields of a reply of INFO; none if the user may not see it."""
    if not isinstance(info, bytes):
        return {}
    lines = info.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
