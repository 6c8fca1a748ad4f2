"""Memory of values of each type, and what MEMORY USAGE says of them."""

import socket
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from bench.client import ask, load, request
from bench.group_workloads import entry_id
from bench.servers import Target

# So many elements of each: more than 5 MB.
_COUNT: Final = 200_000
_WARM: Final = 1_000
_SETTLE_S: Final = 0.5
_STRINGS_ASKED: Final = 500


def usage(sock: socket.socket, key: str) -> int:
    """Return what MEMORY USAGE says of a key."""
    told = ask(sock, "MEMORY", "USAGE", key)
    assert isinstance(told, int)
    return told


def beside(name: str, grown: float, told: float) -> str:
    """Return a line with both numbers and their ratio."""
    return f"{name:60}{grown:12.1f} bytes in Pss_Anon, MEMORY USAGE {told:12.1f}, {told / max(grown, 1e-9):5.2f}"


class TypeRow(NamedTuple):
    """A value of one type. requests(key, count): makes it. prepare: makes what is not to count."""

    name: str
    requests: Callable[[str, int], Iterator[bytes]]
    prepare: Callable[[str, int], Iterator[bytes]] = lambda key, count: iter(())
    has_one_key: bool = True

    def measure(self, kind: str) -> tuple[float, float]:
        """Return the growth of the server's memory per element, and what MEMORY USAGE says of it."""
        with Target(kind) as target, target.connect() as sock:
            load(sock, [*self.prepare("warm", _WARM), *self.requests("warm", _WARM)])
            load(sock, [*self.prepare("k", _COUNT)])
            before_told = 0 if not self.has_one_key else ask(sock, "MEMORY", "USAGE", "k") or 0
            assert isinstance(before_told, int)
            sent = [*self.requests("k", _COUNT)]
            time.sleep(_SETTLE_S)
            before = target.anonymous_bytes()
            load(sock, sent)
            time.sleep(_SETTLE_S)
            grown = target.anonymous_bytes() - before
            if self.has_one_key:
                return grown / _COUNT, (usage(sock, "k") - before_told) / _COUNT
            step = _COUNT // _STRINGS_ASKED
            return grown / _COUNT, sum(usage(sock, f"k:{n}") for n in range(0, _COUNT, step)) / _STRINGS_ASKED


def _each(*words: str) -> Callable[[str, int], Iterator[bytes]]:
    """Return what makes requests: `@` in their words is the key, `#` a number, `%` one with 20 digits."""

    def requests(key: str, count: int) -> Iterator[bytes]:
        for n in range(count):
            yield request(*(word.replace("@", key).replace("#", str(n)).replace("%", f"{n:020d}") for word in words))

    return requests


def _entries(key: str, count: int) -> Iterator[bytes]:
    """A stream that has been read, so that what is kept of entries for their readers is there."""
    yield request("XGROUP", "CREATE", key, "g", 0, "MKSTREAM")
    for n in range(count):
        yield request("XADD", key, entry_id(n), "f", "v")
    for n in range(0, count, 1_000):
        yield request("XRANGE", key, entry_id(n), "+", "COUNT", 1_000)


def _deliver(at_once: int) -> Callable[[str, int], Iterator[bytes]]:
    def requests(key: str, count: int) -> Iterator[bytes]:
        for n in range(count // at_once):
            yield request("XREADGROUP", "GROUP", "g", f"c{n % 10}", "COUNT", at_once, "STREAMS", key, ">")

    return requests


TYPE_ROWS: Final = (
    TypeRow("a string of 20 bytes, with its key", _each("SET", "@:#", "%"), has_one_key=False),
    TypeRow("a piece of a string that grows", _each("APPEND", "@", "v" * 100)),
    TypeRow("a field of a hash with 20 bytes", _each("HSET", "@", "field:#", "%")),
    TypeRow("an element of a list", _each("RPUSH", "@", "element:#")),
    TypeRow("a member of a set", _each("SADD", "@", "member:#")),
    TypeRow("a member of a sorted set", _each("ZADD", "@", "#", "member:#")),
    TypeRow("an entry with 100 bytes", _each("XADD", "@", "*", "f", "%" * 5)),
    TypeRow("a pending entry, delivered 100 at a time", _deliver(100), _entries),
    TypeRow("a pending entry, delivered one at a time", _deliver(1), _entries),
    TypeRow("a consumer group", _each("XGROUP", "CREATE", "@", "g#", "$"), _each("XADD", "@", "*", "f", "v")),
)
