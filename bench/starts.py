"""Starts: the time to the first PONG, empty and with a journal, and the journal's growth by duplicates."""

import time
from collections.abc import Callable, Collection
from statistics import median

from bench.client import ask, load, request
from bench.servers import IDEMPOTENT, KINDS, Target
from bench.workloads import VALUE

# Nothing is rewritten: redis-server reads commands as well.
OPTIONS = (
    "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0",
)  # fmt: skip
PLAIN = 200_000
MIXED_STREAMS = 4
DUPLICATES = 96_000


def empty(kind: str) -> float:
    """Return the seconds to the first PONG of an empty server, the median of five."""
    times = []
    for _ in range(5):
        with Target(kind) as target:
            times.append(target.start_s)
    return median(times)


def _start_with(fill: Callable[[Target], None], kind: str) -> float:
    with Target(kind, OPTIONS) as target:
        fill(target)
        times = []
        for _ in range(3):
            target.restart()
            times.append(target.start_s)
        return median(times)


def _fill_plain(target: Target) -> None:
    with target.connect() as sock:
        for start in range(0, PLAIN, 50_000):
            load(sock, [request("XADD", "s", "*", "f", VALUE)] * min(50_000, PLAIN - start))


def _fill_mixed(target: Target, records: int) -> None:
    """Write records: entries, half of them with an iid where that is known, deliveries, acknowledgements."""
    each = records * 2 // 5 // MIXED_STREAMS
    with target.connect() as sock:
        for stream in range(MIXED_STREAMS):
            key = f"s{stream}"
            named = stream % 2 == 1 and target.kind != "redis-server"
            for start in range(0, each, 20_000):
                load(sock, [_append(key, named, number) for number in range(start, start + 20_000)])
            ask(sock, "XGROUP", "CREATE", key, "g", "0")
            ids: list[bytes] = []
            for _ in range(each * 3 // 4 // 10):
                ids += _delivered(ask(sock, "XREADGROUP", "GROUP", "g", "c", "COUNT", 10, "STREAMS", key, ">"))
            load(sock, [request("XACK", key, "g", entry_id) for entry_id in ids[: each * 5 // 8]])


def _append(key: str, named: bool, number: int) -> bytes:
    words = ("IDMP", f"p{number % 100}", f"order-{number}") if named else ()
    return request("XADD", key, *words, "*", "f", VALUE)


def _delivered(reply: object) -> list[bytes]:
    """Return the entry IDs of a reply of XREADGROUP from one stream."""
    return [entry[0] for entry in reply[0][1]]  # type: ignore[index]


def with_plain_entries(kind: str) -> float:
    """Return the seconds to the first PONG with 200,000 entries."""
    return _start_with(_fill_plain, kind)


def with_mixed_records(records: int) -> Callable[[str], float]:
    """Return what measures the seconds to the first PONG with this many records."""
    return lambda kind: _start_with(lambda target: _fill_mixed(target, records), kind)


def duplicate_bytes(kind: str) -> float:
    """Return the journal's growth in bytes with each duplicate of a retry storm."""
    sent = [request("XADD", "s", "IDMP", "p", f"order-{n}", "*", "f", VALUE) for n in range(100)]
    with Target(kind, OPTIONS) as target, target.connect() as sock:
        load(sock, sent)
        before = _journal_bytes(sock)
        load(sock, sent * (DUPLICATES // len(sent)))
        time.sleep(0.2)
        return (_journal_bytes(sock) - before) / DUPLICATES


def _journal_bytes(sock: object) -> int:
    info = bytes(ask(sock, "INFO", "persistence"))  # type: ignore[arg-type]
    return int(next(line for line in info.splitlines() if line.startswith(b"aof_current_size:")).partition(b":")[2])


# name, measure(kind), unit, wanted: at most so many times redis-server's, or as a text; which servers can do it
STARTS: tuple[tuple[str, Callable[[str], float], str, str, Collection[str]], ...] = (
    ("start, empty", empty, "s", "0.12 s", KINDS),
    ("start with 200,000 plain entries", with_plain_entries, "s", "1.2 x", KINDS),
    (
        "start with 200,000 mixed records: entries, iids, claims, acknowledgements",
        with_mixed_records(200_000),
        "s",
        "1.1 x, pure 2.0",
        KINDS,
    ),
    (
        "start with a million records: entries, iids, claims, acknowledgements",
        with_mixed_records(1_000_000),
        "s",
        "2 x",
        KINDS,
    ),
    ("journal per duplicate in a retry storm", duplicate_bytes, "B", "a note a turn", IDEMPOTENT),
)
