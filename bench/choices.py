"""`python -m bench.choices`: the cost of code that was written for speed, beside the obvious other way.

The other way is timed where it is a few lines. CPU time, the least of some rounds: the table "Figures behind single
choices" in bench/NOTES.md.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random

from streamd.base.limits import AUTHENTICATED
from streamd.commands.stream.options import parse_ids
from streamd.idmp.table import IdmpTable
from streamd.journal.record import encode_columns, encode_command
from streamd.lua.side_run import SideRun
from streamd.resp.fast_decoder import FastDecoder
from streamd.resp.template import RequestColumns
from streamd.stream.entry_id import format_id, parse_id
from streamd.stream.groups.pending import PendingEntries
from streamd.stream.groups.pending_chunk import Consumer
from streamd.stream.log.entry_log import Log
from streamd.stream.wire.entry_columns import EntryColumns
from streamd.stream.wire.entry_encoder import encode_entry

ROUNDS = 7
VALUE = Random(3).randbytes(64)
FIRST = 1_795_248_000_000 << 64
MILLION = 1_000_000


@dataclass(frozen=True)
class Choice:
    """One row: an operation, done in the chosen way and in the other.

    chosen, other: do it `times` over; other is None where the other way is more than a few lines.
    """

    where: str
    what: str
    times: int
    chosen: Callable[[], object]
    other_name: str = ""
    other: Callable[[], object] | None = None


def cost_us(action: Callable[[], object], times: int) -> float:
    """Return the microseconds of CPU of one of the `times` operations of `action`."""
    action()
    least = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        action()
        least = min(least, time.process_time_ns() - start)
    return least / times / 1000


def repeated(action: Callable[[], object], times: int) -> Callable[[], None]:
    """Return a function that calls `action` this many times."""

    def run() -> None:
        for _ in range(times):
            action()

    return run


def choices() -> Iterator[Choice]:
    """Yield the rows."""
    yield from _journal()
    yield from _windows()
    yield from _entries()
    yield from _ids()
    yield from _scripts()


def _journal() -> Iterator[Choice]:
    command = [b"XADD", b"orders", b"1795248000000-1", b"f", VALUE]

    def joined() -> bytes:
        return b"".join([b"*5\r\n", *(b"$%d\r\n%b\r\n" % (len(word), word) for word in command)])

    assert encode_command(command) == joined()
    chosen, other = repeated(lambda: encode_command(command), 1000), repeated(joined, 1000)
    yield Choice(
        "streamd/journal/record.py", "a command of five words, by one format", 1000, chosen, "pieces joined", other
    )
    columns = [b"XADD", b"orders", range(FIRST, FIRST + 1000), b"f", [VALUE] * 999 + [b"x" * 64]]
    yield Choice(
        "streamd/journal/record.py", "XADDs that are alike, by columns", 1000, lambda: encode_columns(columns),
        "one by one", lambda: [encode_command([b"XADD", b"orders", format_id(n), b"f", VALUE]) for n in columns[2]],
    )  # fmt: skip


def _windows() -> Iterator[Choice]:
    for producers in (1, 1_000, 20_000):
        name = f"look up and record, {producers:,} producer{'s' * (producers > 1)}"
        yield Choice("streamd/idmp/table.py", name, 20_000, _new_iids(producers))
    large = IdmpTable(3600, 100)
    for number in range(MILLION):
        large.lookup_or_record(b"p%d" % (number % 10_000), b"%d" % number, FIRST + number, FIRST >> 64)
    yield Choice(
        "streamd/idmp/table.py",
        "a snapshot of a million iids of 10,000 producers",
        1,
        large.snapshot,
        "copied",
        large.copy,
    )


def _new_iids(producers: int) -> Callable[[], None]:
    """Return what looks up and records 20,000 new iids of so many producers in turn, whose windows are full."""
    table, numbers = IdmpTable(3600, 100), Random(producers)
    ids = iter(range(FIRST, FIRST + 100 * MILLION))
    rounds: list[list[tuple[bytes, bytes, int]]] = [
        [(b"producer-%d" % numbers.randrange(producers), b"order-%d" % n, n) for n in islice(ids, 20_000)]
        for _ in range(ROUNDS + 1)
    ]
    for entry_id in islice(ids, 100 * max(producers, 1_000)):
        table.lookup_or_record(b"producer-%d" % (entry_id % producers), b"order-%d" % entry_id, entry_id, FIRST >> 64)

    def run() -> None:
        for pid, iid, entry_id in rounds.pop():
            table.lookup_or_record(pid, iid, entry_id, FIRST >> 64)

    return run


def _entries() -> Iterator[Choice]:
    log, next_id = Log(), FIRST
    ids = range(MILLION)

    def one_by_one() -> None:
        nonlocal next_id
        for _ in range(16_000):
            next_id += 1
            log.append(next_id, [b"f", VALUE])

    def together() -> None:
        nonlocal next_id
        for _ in range(1_000):
            log.append_columns(range(next_id + 1, next_id + 17), EntryColumns((b"f",), [VALUE] * 16, (len(VALUE),)))
            next_id += 16

    yield Choice(
        "streamd/stream/log/entry_log.py", "an entry of a pipeline of 16", 16_000, together, "one by one", one_by_one
    )
    read = Log()
    read.append_columns([FIRST + n for n in ids], EntryColumns((b"f",), [VALUE] * MILLION, (len(VALUE),)))
    first_hundred = [(FIRST + n, [b"f", VALUE]) for n in range(100)]
    yield Choice(
        "streamd/stream/log/segment.py", "100 entries, read again", 200,
        repeated(lambda: read.encode_parts(0, FIRST + 99), 200),
        "encoded each", repeated(lambda: b"".join([encode_entry(*entry) for entry in first_hundred]), 200),
    )  # fmt: skip
    yield Choice("streamd/stream/log/segment_list.py", "a snapshot of a million entries", 1, read.copy)
    pending, reader = PendingEntries(), Consumer(b"c", 0)
    for start in range(0, MILLION, 100):
        pending.deliver([FIRST + n for n in range(start, start + 100)], reader, FIRST >> 64)
    consumers = {b"c": reader}
    yield Choice(
        "streamd/stream/groups/pending.py", "a snapshot of a million pending entries", 1, pending.snapshot,
        "copied", lambda: pending.copy(consumers),
    )  # fmt: skip


def _ids() -> Iterator[Choice]:
    words = [b"%d-0" % (1_795_248_000_000 + n * 7919) for n in range(100)]
    yield Choice(
        "streamd/commands/stream/options.py", "100 entry IDs, read together", 100,
        repeated(lambda: parse_ids(words), 100),
        "each", repeated(lambda: [parse_id(word) for word in words], 100),
    )  # fmt: skip
    request = b"*5\r\n$4\r\nXADD\r\n$6\r\norders\r\n$1\r\n*\r\n$1\r\nf\r\n$64\r\n%b\r\n" % VALUE
    pipeline, decoder = request * 16, FastDecoder(AUTHENTICATED)
    yield Choice(
        "streamd/resp/fast_decoder.py", "a request, of a pipeline of 16", 1_600,
        repeated(lambda: _made(decoder.receive(pipeline)), 100),
        "alone", repeated(lambda: decoder.receive(request), 1_600),
    )  # fmt: skip


def _made(requests: list[list[bytes]] | RequestColumns) -> list[list[bytes]]:
    return requests.rows() if isinstance(requests, RequestColumns) else requests


def _scripts() -> Iterator[Choice]:
    if not SideRun.is_possible:
        print("greenlet is not installed: no figure for scripts", file=sys.stderr)
        return
    side = SideRun()
    yield Choice(
        "streamd/lua/side_run.py",
        "hand over and back, by greenlets",
        1_000,
        repeated(lambda: side.run(_nothing), 1_000),
    )


def _nothing() -> None:
    return None


def main() -> int:
    """Print the table; return the exit code."""
    print("| where | what | CPU | the other way | CPU |\n|---|---|---|---|---|")
    for row in choices():
        other = _text(cost_us(row.other, row.times)) if row.other is not None else ""
        print(
            f"| `{row.where}` | {row.what} | {_text(cost_us(row.chosen, row.times))} | {row.other_name} | {other} |",
            flush=True,
        )
    return 0


def _text(us: float) -> str:
    if us < 1:
        return f"{us * 1000:.0f} ns"
    return f"{us:.1f} us" if us < 1000 else f"{us / 1000:.1f} ms"


if __name__ == "__main__":
    sys.exit(main())
