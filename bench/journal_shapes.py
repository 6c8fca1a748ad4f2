"""Journals of ten shapes, whose loading others may notice: small runs, small streams, long transactions."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from bench.client import Replies, ask, request
from bench.servers import Target

# Clients without pipelines, whose requests come together: each turn is a run of the journal.
_CLIENTS: Final = 12
_PIPELINE: Final = 2_000
_VALUE: Final = "v" * 20


class Shape(NamedTuple):
    """A journal. requests(count): what it is made of. at_once: requests that a client sends before it reads replies.
    rewrites: whether the journal is rewritten then. is_foreign: the requests are the file, as redis-server writes it.
    """

    name: str
    requests: Callable[[int], Iterator[bytes]]
    at_once: int = 1
    rewrites: bool = False
    is_foreign: bool = False

    def write(self, target: Target, count: int) -> None:
        """Have a server write such a journal in place of the one that it has."""
        with target.connect() as sock:
            ask(sock, "FLUSHALL")
            _rewrite(sock)
        if self.is_foreign:
            _append(target, b"".join(self.requests(count)))
            return
        socks = [target.connect() for _ in range(_CLIENTS if self.at_once == 1 else 1)]
        readers = [Replies(sock) for sock in socks]
        source = self.requests(count)
        while parts := [part for _ in socks if (part := [*islice(source, self.at_once)])]:
            for sock, part in zip(socks, parts, strict=False):
                sock.sendall(b"".join(part))
            for reader, part in zip(readers, parts, strict=False):
                for _ in part:
                    reader.reply()
        if self.rewrites:
            _rewrite(socks[0])
        for sock in socks:
            sock.close()


def _rewrite(sock) -> None:  # type: ignore[no-untyped-def]
    ask(sock, "BGREWRITEAOF")
    while b"aof_rewrite_in_progress:0" not in bytes(ask(sock, "INFO", "persistence")):  # type: ignore[call-overload]
        pass


def _append(target: Target, data: bytes) -> None:
    """Append commands to the journal of a server, as redis-server would do, and start it again."""
    target.end()
    increments = sorted(target.directory.glob("appendonlydir/*.incr.aof"))
    with increments[-1].open("ab") as file:
        file.write(data)
    target.restart()


def _each(*words: str) -> Callable[[int], Iterator[bytes]]:
    """Return what makes so many requests, `#` in their words being a number."""
    return lambda count: (
        request(*(word.replace("#", str(number)) for word in words)) for number in range(1, count + 1)
    )


def _transactions(of: int) -> Callable[[int], Iterator[bytes]]:
    """Return what makes SETs in transactions of so many; 0: in one."""

    def requests(count: int) -> Iterator[bytes]:
        sets = _each("SET", "k#", _VALUE)(count)
        while part := [*islice(sets, of or count)]:
            yield from [request("MULTI"), *part, request("EXEC")]

    return requests


def _groups(count: int) -> Iterator[bytes]:
    for number in range(count // 3):
        yield request("XADD", f"s{number}", "*", "f", _VALUE)
        yield request("XGROUP", "CREATE", f"s{number}", "g", 0)
        yield request("XREADGROUP", "GROUP", "g", "c", "STREAMS", f"s{number}", ">")


SHAPES: Final = (
    Shape("SETs without pipelines", _each("SET", "k#", _VALUE)),
    Shape("streams of one entry, without pipelines", _each("XADD", "s#", "*", "f", "v")),
    Shape("entries of one stream, without pipelines", _each("XADD", "s", "*", "f", _VALUE)),
    Shape("idempotent entries, without pipelines", _each("XADD", "s", "IDMP", "p", "i#", "*", "f", "v")),
    Shape("SETs in pipelines of seven", _each("SET", "k#", _VALUE), at_once=7),
    Shape("SETs in transactions of three", _transactions(3), at_once=5),
    Shape("SETs in one transaction", _transactions(0), at_once=_PIPELINE),
    Shape("a base of streams of one entry, with a group", _groups, at_once=_PIPELINE, rewrites=True),
    Shape("a base of hashes of one field", _each("HSET", "h#", "f", "v"), at_once=_PIPELINE, rewrites=True),
    Shape("SETs that redis-server wrote", _each("SET", "k#", _VALUE), is_foreign=True),
)
