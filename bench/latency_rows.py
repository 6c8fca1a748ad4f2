"""The large requests of one client during which another one's PING is measured."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from bench.client import ask, request
from bench.journal_shapes import SHAPES, Shape
from bench.latency_replica import copy_from_primary, copy_of_shape, copy_to_replica
from bench.servers import Target

PIECE_BYTES = 16 * 1024
JOURNAL = ("--appendonly", "yes", "--appendfsync", "everysec")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: a client's requests, and how long another one may wait, in ms.

    wanted_ms: None for no longer than redis-server.
    prepare: requests that are executed before, each time. make_ready: called behind these, before others send PING.
    times: number of runs; one if they change the data. wait: called in place of requests; returns a remark when the
    work is done.
    options: of the server, for a row that has one of its own.
    """

    name: str
    send: Callable[[], Iterable[bytes]] = tuple
    wanted_ms: float | None = 20
    prepare: Callable[[], Iterable[bytes]] = tuple
    times: int = 3
    make_ready: Callable[[Target], None] | None = None
    wait: Callable[[Target], str] | None = None
    options: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("streamd", "redis-server")


def _one(*words: bytes | str | int) -> Callable[[], Iterable[bytes]]:
    return lambda: [request(*words)]


def _many(count: int, *words: str) -> Callable[[], Iterable[bytes]]:
    """Return what makes `count` requests, `#` in their words being a number."""
    return lambda: (request(*(word.replace("#", str(number)) for word in words)) for number in range(1, count + 1))


def _in_pieces(*words: bytes | str | int) -> Iterator[bytes]:
    data = request(*words)
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES]


def _idempotent(size: int) -> Iterator[bytes]:
    for number in range(size):
        yield request("XADD", "s", "MAXLEN", "~", 1_000, "IDMP", f"p{number % 1000}", number, "*", "f", "v")


def rows(size: int) -> list[Row]:
    """Return all rows; they build on each other in this order. size: entries, keys, fields; groups are a tenth."""
    tenth = size // 10
    value = "v" * 20
    scattered = [f"{number}-1" for number in range(7, size, 10)]
    missing = [f"missing:{number}" for number in range(size)]
    thousand = request("EXISTS", *missing[:1_000])

    def fill() -> Iterator[bytes]:
        yield from _many(size, "XADD", "s", "#-1", "f", value)()
        yield request("XGROUP", "CREATE", "s", "g", "0")

    def groups() -> Iterator[bytes]:
        yield request("FLUSHALL")
        yield request("XADD", "s", "1-1", "f", "v")
        yield from _many(tenth, "XGROUP", "CREATE", "s", "g#", "0")()
        yield from _many(tenth, "XGROUP", "CREATECONSUMER", "s", "g1", "c#")()

    def keys() -> Iterator[bytes]:
        yield request("FLUSHALL")
        yield from _many(size, "SET", "key:#", value)()

    def fields() -> Iterator[bytes]:
        yield request("FLUSHALL")
        yield from _many(size, "HSET", "h", "field:#", value)()

    def window() -> Iterator[bytes]:
        yield request("FLUSHALL")
        yield request("XADD", "s", "*", "f", "v")
        yield request("XCFGSET", "s", "IDMP-DURATION", 86_400, "IDMP-MAXSIZE", 10_000)
        yield from _idempotent(size)

    return [
        Row("XRANGE s - +", _one("XRANGE", "s", "-", "+"), prepare=once(fill)),
        Row("XREVRANGE s + -", _one("XREVRANGE", "s", "+", "-")),
        Row("XREAD STREAMS s 0", _one("XREAD", "STREAMS", "s", "0")),
        Row("XREADGROUP of all", _one("XREADGROUP", "GROUP", "g", "c", "COUNT", size, "STREAMS", "s", ">"), 50,
            times=1),
        Row("XPENDING s g - + of all", _one("XPENDING", "s", "g", "-", "+", size)),
        Row("XINFO STREAM s FULL COUNT 0", _one("XINFO", "STREAM", "s", "FULL", "COUNT", "0")),
        Row("XREADGROUP, the history", _one("XREADGROUP", "GROUP", "g", "c", "COUNT", size, "STREAMS", "s", "0")),
        Row(f"XAUTOCLAIM COUNT {tenth:,}, none idle",
            _one("XAUTOCLAIM", "s", "g", "d", 3_600_000, "0", "COUNT", tenth), 50),
        Row("COPY, with the pending entries", _one("COPY", "s", "t", "REPLACE"), None, times=1),
        Row(f"XDEL of {tenth:,} scattered IDs", _one("XDEL", "t", *scattered), 50, times=1),
        Row("XTRIM MAXLEN 0", _one("XTRIM", "t", "MAXLEN", "0"), 100, times=1),
        Row("DEL s", _one("DEL", "s"), 100, times=1),
        Row(f"XINFO GROUPS of {tenth:,}", _one("XINFO", "GROUPS", "s"), prepare=once(groups)),
        Row(f"XINFO CONSUMERS of {tenth:,}", _one("XINFO", "CONSUMERS", "s", "g1")),
        Row("KEYS *", _one("KEYS", "*"), prepare=once(keys)),
        Row("SCAN 0 COUNT of all, the first", _one("SCAN", 0, "COUNT", size), times=1),
        Row("SCAN 0 COUNT of all", _one("SCAN", 0, "COUNT", size)),
        Row("DEL of as many words, in pieces of 16 KiB", partial(_in_pieces, "DEL", *missing), 250),
        Row("EXISTS of 1,000 words, 300 of them", lambda: [thousand] * 300, 50),
        Row("FLUSHALL", _one("FLUSHALL"), 100, times=1),
        Row("HGETALL h", _one("HGETALL", "h"), 60, prepare=once(fields)),
        Row("HSCAN h 0 COUNT of all, the first", _one("HSCAN", "h", 0, "COUNT", size), 60, times=1),
        Row("HSCAN h 0 COUNT of all", _one("HSCAN", "h", 0, "COUNT", size), 60),
        Row("DEL h", _one("DEL", "h"), 100, times=1),
        Row("XCFGSET, which forgets as many idempotent IDs", _one("XCFGSET", "s", "IDMP-DURATION", 100), 140,
            prepare=once(window), times=1, kinds=("streamd",)),
    ]  # fmt: skip


def background_rows(size: int) -> list[Row]:
    """Return the rows of work without a request, each with a server of its own."""
    value = "v" * 20

    def entries() -> Iterator[bytes]:
        yield from _many(size, "XADD", "s", "#-1", "f", value)()
        yield request("XGROUP", "CREATE", "s", "g", "0")
        yield request("XREADGROUP", "GROUP", "g", "c", "COUNT", size // 10, "STREAMS", "s", ">")
        yield from _many(size // 10, "SET", "key:#", value)()

    def keys() -> Iterator[bytes]:
        for number in range(size):
            yield request("SET", f"key:{number}", value)
        # They end within one second, after all of them were told so.
        first_ms = int(time.time() * 1000) + 30_000 + size // 40
        for number in range(size):
            yield request("PEXPIREAT", f"key:{number}", first_ms + number % 1000)
        yield request("SET", "first", first_ms)

    def iids() -> Iterator[bytes]:
        yield request("XADD", "s", "*", "f", "v")
        yield request("XCFGSET", "s", "IDMP-DURATION", 45 + size // 40_000, "IDMP-MAXSIZE", 10_000)
        yield from _idempotent(size)

    return [
        Row("(a rewrite of as many entries)", wait=_rewrite, prepare=once(entries), times=1, options=JOURNAL),
        Row("(a replica takes a copy of these, beside 2,000 XADDs a second)", times=1, options=JOURNAL,
            wait=lambda target: copy_to_replica(target, JOURNAL)),
        Row("(loading these at a start)", wait=_restart, times=1, options=JOURNAL),
        Row("(a copy of another server's, which takes their place)", times=1, options=JOURNAL,
            wait=lambda target: copy_from_primary(target, JOURNAL, size)),
        Row("(as many keys that end in one second)", wait=_expire, prepare=once(keys), times=1),
        Row("(as many idempotent IDs that expire)", wait=_sweep, prepare=once(iids), times=1, kinds=("streamd",)),
        *(load_row(shape, size // 5) for shape in SHAPES),
        *(copy_row(shape, size // 5) for shape in (SHAPES[0], SHAPES[7])),
    ]  # fmt: skip


def load_row(shape: Shape, count: int) -> Row:
    """Return the row of a start on a journal of a shape, of so many requests."""
    return Row(
        f"(loading {count:,} at a start: {shape.name})",
        make_ready=lambda target: shape.write(target, count),
        wait=_restart,
        times=1,
        options=JOURNAL,
        kinds=("streamd",),
    )


def copy_row(shape: Shape, count: int) -> Row:
    """Return the row of a replica that takes a copy of such a journal."""
    return Row(
        f"(a copy of {count:,} of another server's: {shape.name})",
        wait=lambda target: copy_of_shape(target, JOURNAL, shape, count),
        times=1,
        options=JOURNAL,
        kinds=("streamd",),
    )


def _info(sock, section: str, field: str) -> str:  # type: ignore[no-untyped-def]
    text = bytes(ask(sock, "INFO", section)).decode()  # type: ignore[call-overload]
    return text.split(f"{field}:", 1)[1].splitlines()[0]


def _rewrite(target: Target) -> str:
    with target.connect() as sock:
        ask(sock, "BGREWRITEAOF")
        while _info(sock, "persistence", "aof_rewrite_in_progress") != "0":
            time.sleep(0.05)
    return ""


def _restart(target: Target) -> str:
    target.restart(wait=False)
    while True:
        try:
            with target.connect() as sock:
                sock.sendall(request("PING"))
                if sock.recv(64).startswith(b"+PONG"):
                    return ""
        except OSError:
            pass
        time.sleep(0.05)


def _expire(target: Target) -> str:
    with target.connect() as sock:
        first_ms = int(bytes(ask(sock, "GET", "first")))  # type: ignore[call-overload]
        while time.time() * 1000 < first_ms:
            time.sleep(0.05)
        before_s = target.cpu_s()
        while ask(sock, "DBSIZE") != 1:
            time.sleep(0.05)
        took_ms = time.time() * 1000 - first_ms - 1_000
    cpu_s = target.cpu_s() - before_s
    return f"the last of them was gone {took_ms:,.0f} ms after its time, for {cpu_s:.1f} s of CPU since the first"


def _sweep(target: Target) -> str:
    with target.connect() as sock:
        while True:
            facts = ask(sock, "XINFO", "STREAM", "s")
            assert isinstance(facts, list)
            if facts[facts.index(b"iids-tracked") + 1] == 0:
                return ""
            time.sleep(0.2)


def once(make: Callable[[], Iterable[bytes]]) -> Callable[[], Iterable[bytes]]:
    made: list[bool] = []

    def prepare() -> Iterable[bytes]:
        if made:
            return ()
        made.append(True)
        return make()

    return prepare
