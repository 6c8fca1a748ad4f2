"""The samples of `streamd top`, and the rates between two of them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import redis

from streamd.clients.choosing import Chooser
from streamd.clients.terminal.asking import Source, paired

# Streams that are asked for everything in one sample.
STREAMS_MAX: Final = 200
# The list of clients is asked for while it is short.
_CLIENTS_MAX: Final = 200


@dataclass
class Group:
    """One consumer group. lag: None if the server does not know it; read_rate: entries delivered a second."""

    stream: bytes
    name: bytes
    consumers: int
    pending: int
    lag: int | None
    read: int | None
    read_rate: float | None = None


@dataclass
class Stream:
    """One stream. added: since it was made; rate: entries added a second; duplicates: None without a window."""

    key: bytes
    length: int
    added: int
    last_id: bytes
    groups: int
    duplicates: int | None
    rate: float | None = None


@dataclass
class Sample:
    """One sample of a server.

    found: streams that are there, as far as they were found; surveyed: those of them among which was chosen; walked:
    all keys were looked through; pattern: of the streams' names.
    """

    at_s: float
    info: dict[str, str]
    streams: dict[bytes, Stream] = field(default_factory=dict)
    groups: dict[tuple[bytes, bytes], Group] = field(default_factory=dict)
    clients: list[dict[str, str]] = field(default_factory=list)
    found: int = 0
    surveyed: int = 0
    walked: bool = True
    pattern: str = "*"
    rates: dict[str, float] = field(default_factory=dict)


class Sampler:
    """Samples a server repeatedly. pattern: of the streams' names, as SCAN takes it; seconds: a clock."""

    def __init__(self, source: Source, pattern: str = "*", seconds: Callable[[], float] = time.monotonic) -> None:
        self._source, self._pattern, self._seconds = source, pattern, seconds
        self._chooser = Chooser(self._scan, self._ask, STREAMS_MAX)
        self._before: Sample | None = None

    def sample(self) -> Sample:
        """Return a sample; from the second time on with rates. Raises: Trouble."""
        keys, chooser = self._chooser.look(), self._chooser
        info = self._source.info("server", "clients", "memory", "stats", "replication", "keyspace")
        sample = Sample(self._seconds(), info, pattern=self._pattern)
        self._ask_streams(sample, keys)
        sample.found, sample.walked = chooser.known, chooser.walked and not chooser.is_full
        sample.surveyed = chooser.surveyed if chooser.known > STREAMS_MAX else chooser.known
        if int(info.get("connected_clients", 0)) <= _CLIENTS_MAX:
            sample.clients = _clients(self._source.ask("CLIENT", "LIST").decode("utf-8", "backslashreplace"))
        if self._before is not None:
            _compare(self._before, sample)
        self._before = sample
        return sample

    def _scan(self, cursor: bytes, count: int) -> tuple[bytes, list[bytes]]:
        words = ("SCAN", cursor, "MATCH", self._pattern, "COUNT", count, "TYPE", "stream")
        cursor, keys = self._source.ask(*words)
        return cursor, keys

    def _ask(self, requests: list[tuple[str, bytes]]) -> list[Any]:
        return self._source.ask_many((*name.split(), key) for name, key in requests)

    def _ask_streams(self, sample: Sample, keys: list[bytes]) -> None:
        replies = self._source.ask_many(
            request for key in keys for request in (("XINFO", "STREAM", key), ("XINFO", "GROUPS", key))
        )
        for key, stream, groups in zip(keys, replies[::2], replies[1::2], strict=True):
            if isinstance(stream, redis.RedisError) or isinstance(groups, redis.RedisError):
                # It is gone, or is something else now, or this user may not read it.
                self._chooser.drop(key, isinstance(stream, redis.exceptions.NoPermissionError))
                continue
            sample.streams[key] = _stream(key, paired(stream))
            for one in groups:
                group = _group(key, paired(one))
                sample.groups[key, group.name] = group


def _stream(key: bytes, found: dict[str, Any]) -> Stream:
    length = found["length"]
    # A server before Redis 7.0 does not count what was added.
    added = found.get("entries-added", length)
    return Stream(key, length, added, found["last-generated-id"], found["groups"], found.get("iids-duplicates"))


def _group(key: bytes, found: dict[str, Any]) -> Group:
    return Group(
        key, found["name"], found["consumers"], found["pending"], found.get("lag"), found.get("entries-read")
    )  # fmt: skip


def _clients(text: str) -> list[dict[str, str]]:
    return [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in text.splitlines()]


def _compare(before: Sample, now: Sample) -> None:
    """Fill in the rates of `now`. A counter that fell was reset, and has no rate."""
    seconds = max(now.at_s - before.at_s, 1e-6)
    for key, stream in now.streams.items():
        old = before.streams.get(key)
        if old is not None and stream.added >= old.added:
            stream.rate = (stream.added - old.added) / seconds
    for place, group in now.groups.items():
        was = before.groups.get(place)
        if was is not None and group.read is not None and was.read is not None and group.read >= was.read:
            group.read_rate = (group.read - was.read) / seconds
    for name in ("total_commands_processed", "total_net_input_bytes", "total_net_output_bytes"):
        if name in now.info and name in before.info and int(now.info[name]) >= int(before.info[name]):
            now.rates[name] = (int(now.info[name]) - int(before.info[name])) / seconds
