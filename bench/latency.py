"""How long others wait while one client does something large: PING's longest time, beside redis-server's."""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from bench.client import Replies, request
from bench.servers import Target, redis_binary

END = b"the end of the reply"
PIPELINE = 2_000
PIECE_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what a client sends, and how long another one may wait, in ms (None: no longer than redis-server).

    prepare: requests that are executed before, each time. times: how often it is measured; what changes the data once.
    """

    name: str
    send: Callable[[], Iterable[bytes]]
    wanted_ms: float | None = 20
    prepare: Callable[[], Iterable[bytes]] = tuple
    times: int = 3


def _one(*words: bytes | str | int) -> Callable[[], Iterable[bytes]]:
    return lambda: [request(*words)]


def _many(count: int, *words: str) -> Callable[[], Iterable[bytes]]:
    """Return what makes `count` requests, `#` in their words being a number."""
    return lambda: (request(*(word.replace("#", str(number)) for word in words)) for number in range(1, count + 1))


def _in_pieces(*words: bytes | str | int) -> Iterator[bytes]:
    data = request(*words)
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES]


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

    return [
        Row("XRANGE s - +", _one("XRANGE", "s", "-", "+"), prepare=_once(fill)),
        Row("XREVRANGE s + -", _one("XREVRANGE", "s", "+", "-")),
        Row("XREAD STREAMS s 0", _one("XREAD", "STREAMS", "s", "0")),
        Row("XREADGROUP of all", _one("XREADGROUP", "GROUP", "g", "c", "COUNT", size, "STREAMS", "s", ">"), None,
            times=1),
        Row("XPENDING s g - + of all", _one("XPENDING", "s", "g", "-", "+", size)),
        Row("XINFO STREAM s FULL COUNT 0", _one("XINFO", "STREAM", "s", "FULL", "COUNT", "0")),
        Row("XREADGROUP, the history", _one("XREADGROUP", "GROUP", "g", "c", "COUNT", size, "STREAMS", "s", "0")),
        Row(f"XAUTOCLAIM COUNT {tenth:,}, none idle",
            _one("XAUTOCLAIM", "s", "g", "d", 3_600_000, "0", "COUNT", tenth), None),
        Row("COPY, with the pending entries", _one("COPY", "s", "t", "REPLACE"), None, times=1),
        Row(f"XDEL of {tenth:,} scattered IDs", _one("XDEL", "t", *scattered), None, times=1),
        Row("XTRIM MAXLEN 0", _one("XTRIM", "t", "MAXLEN", "0"), 100, times=1),
        Row("DEL s", _one("DEL", "s"), 100, times=1),
        Row(f"XINFO GROUPS of {tenth:,}", _one("XINFO", "GROUPS", "s"), prepare=_once(groups)),
        Row(f"XINFO CONSUMERS of {tenth:,}", _one("XINFO", "CONSUMERS", "s", "g1")),
        Row("KEYS *", _one("KEYS", "*"), prepare=_once(keys)),
        Row("SCAN 0 COUNT of all, the first", _one("SCAN", 0, "COUNT", size), times=1),
        Row("SCAN 0 COUNT of all", _one("SCAN", 0, "COUNT", size)),
        Row("DEL of as many words, in pieces of 16 KiB", partial(_in_pieces, "DEL", *missing), 250),
        Row("EXISTS of 1,000 words, 300 of them", lambda: [thousand] * 300, 50),
        Row("FLUSHALL", _one("FLUSHALL"), 100, times=1),
        Row("HGETALL h", _one("HGETALL", "h"), 60, prepare=_once(fields)),
        Row("DEL h", _one("DEL", "h"), 100, times=1),
    ]  # fmt: skip


def _once(make: Callable[[], Iterable[bytes]]) -> Callable[[], Iterable[bytes]]:
    made: list[bool] = []

    def prepare() -> Iterable[bytes]:
        if made:
            return ()
        made.append(True)
        return make()

    return prepare


def measure(target: Target, row: Row) -> tuple[float, float]:
    """Return the longest PING and how long the whole took, both in ms."""
    sock = target.connect()
    source = iter(row.prepare())
    while batch := list(islice(source, PIPELINE)):
        sock.sendall(b"".join(batch))
        replies = Replies(sock)
        for _ in batch:
            replies.reply()
    pieces = list(row.send())
    done = threading.Event()

    def work() -> None:
        reader = threading.Thread(target=_drain, args=(sock,))
        reader.start()
        for piece in pieces:
            sock.sendall(piece)
        sock.sendall(request("ECHO", END))
        reader.join()
        done.set()

    pinger = target.connect()
    longest_s = 0.0
    worker = threading.Thread(target=work)
    started = time.perf_counter()
    worker.start()
    while not done.is_set():
        sent = time.perf_counter()
        pinger.sendall(b"PING\r\n")
        pinger.recv(64)
        longest_s = max(longest_s, time.perf_counter() - sent)
    took_s = time.perf_counter() - started
    worker.join()
    # What is done behind the reply holds up as well.
    until = time.perf_counter() + 0.5
    while time.perf_counter() < until:
        sent = time.perf_counter()
        pinger.sendall(b"PING\r\n")
        pinger.recv(64)
        longest_s = max(longest_s, time.perf_counter() - sent)
    sock.close()
    pinger.close()
    return longest_s * 1e3, took_s * 1e3


def _drain(sock) -> None:  # type: ignore[no-untyped-def]
    last = b""
    while not last.endswith(END + b"\r\n"):
        data = sock.recv(1 << 20)
        if not data:
            raise SystemExit("bench: the server closed the connection")
        last = (last + data)[-64:] if len(data) < 64 else data[-64:]


def main() -> int:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description=__doc__)
    parser.add_argument("--size", type=int, default=1_000_000, help="entries, keys and fields")
    parser.add_argument("--only", default="", help="measure the rows whose name contains this text; all are prepared")
    arguments = parser.parse_args()
    kinds = ["streamd", "redis-server"] if redis_binary("redis-server") else ["streamd"]
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for kind in kinds:
        with Target(kind) as target:
            for row in rows(arguments.size):
                runs = [measure(target, row) for _ in range(row.times)]
                result = tuple(statistics.median(column) for column in zip(*runs, strict=True))
                found.setdefault(row.name, {})[kind] = (result[0], result[1])
                print(f"{kind}: {row.name}: {result[0]:.0f} ms of {result[1]:.0f}", file=sys.stderr)
    print("| one client does, with " + f"{arguments.size:,} | others' PING, at most | redis-server | wanted |")
    print("|---|---|---|---|")
    for row in rows(arguments.size):
        if arguments.only.lower() not in row.name.lower():
            continue
        ours, theirs = found[row.name]["streamd"], found[row.name].get("redis-server")
        wanted = "–" if row.wanted_ms is None else f"{row.wanted_ms:.0f} ms"
        print(f"| {row.name} | {ours[0]:.0f} ms | {'–' if theirs is None else f'{theirs[0]:.0f} ms'} | {wanted} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
