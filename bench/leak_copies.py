"""Full copies of a replica, by kind of data: each replaces all that the one before has left."""

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from bench.client import ask, load, request
from bench.servers import Target

OPTIONS: Final = ("--appendonly", "yes")
_KEYS: Final = 100_000
_LINK_S_MAX: Final = 120.0
_POLL_S: Final = 0.02

Filling = Callable[[], Iterator[bytes]]


def copies_of(filling: Filling) -> Callable[[Target, int], Sequence[socket.socket]]:
    """Return what has a server take so many copies of another one with this data."""

    def repeat(target: Target, count: int) -> Sequence[socket.socket]:
        with Target(target.kind, OPTIONS) as primary:
            with primary.connect() as sock:
                load(sock, [*filling()])
            with target.connect() as sock:
                for _ in range(count):
                    ask(sock, "REPLICAOF", "127.0.0.1", primary.port)
                    _wait_for_link(sock)
                    ask(sock, "REPLICAOF", "NO", "ONE")
                    ask(sock, "SET", "own", "v")  # so that it cannot go on where it was
                ask(sock, "MEMORY", "PURGE")  # of what both data sets took while one was loaded beside the other
        return []

    return repeat


def _wait_for_link(sock: socket.socket) -> None:
    until = time.monotonic() + _LINK_S_MAX
    while b"master_link_status:up" not in bytes(ask(sock, "INFO", "replication")):  # type: ignore[call-overload]
        if time.monotonic() > until:
            raise SystemExit(f"leaks: the replica is not linked after {_LINK_S_MAX:.0f} s")
        time.sleep(_POLL_S)


def strings() -> Iterator[bytes]:
    """Small strings."""
    return (request("SET", f"k{number}", "v") for number in range(_KEYS))


def expiring() -> Iterator[bytes]:
    """Small strings that expire."""
    return (request("SET", f"k{number}", "v", "EX", 86_400 + number) for number in range(_KEYS))


def hashes() -> Iterator[bytes]:
    """Small hashes, a tenth of them with a field that expires."""
    for number in range(_KEYS):
        yield request("HSET", f"h{number}", "f", "v", "g", "w")
        if number % 10 == 0:
            yield request("HEXPIRE", f"h{number}", 86_400, "FIELDS", 1, "f")


def streams() -> Iterator[bytes]:
    """Streams of an entry with an idempotent ID, a tenth of them with a group that has a pending entry."""
    for number in range(_KEYS):
        yield request("XADD", f"s{number}", "IDMP", "p", "i", "*", "f", "v")
        if number % 10 == 0:
            yield request("XGROUP", "CREATE", f"s{number}", "g", 0)
            yield request("XREADGROUP", "GROUP", "g", "c", "STREAMS", f"s{number}", ">")


def members() -> Iterator[bytes]:
    """A sorted set, a set and a list."""
    for number in range(_KEYS):
        yield request("ZADD", "z", number, f"m{number}")
        yield request("SADD", "set", f"m{number}")
        yield request("RPUSH", "l", f"m{number}")
