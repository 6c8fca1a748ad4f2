"""Reading a range against real servers: pages follow the size of entries, and a worker's memory stays small."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis

from spark_source import ids
from spark_source.connecting.connection import Server, Session
from spark_source.reading import entry_pages
from spark_source.reading.offsets import Range
from spark_source.settings.options import parse_options
from spark_source.values.arrow import RawConverter
from spark_source.values.schema import raw_schema
from tests.spark.one_task import port_of

ROOT = Path(__file__).resolve().parent.parent.parent
MB = 1 << 20

PREPARE = """
import re, sys
from spark_source.values.arrow import MappedConverter, RawConverter
from spark_source.values.collector import undisturbed
from spark_source.connecting.connection import Server
from spark_source.writing.durable import Durability
from spark_source.values.encode import RowEncoder
from spark_source.naming.identity import BatchName
from spark_source.reading.offsets import Range
from spark_source.settings.options import parse_options
from spark_source.reading.entry_pages import read_range
from spark_source.values.schema import raw_schema
from spark_source.writing.sink import Task, TaskWriter
from tests.spark.schemas import schema

def peak():
    # Not ru_maxrss: that begins with what the process had from which this one was forked, here that of all tests.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

server = Server(parse_options({"port": sys.argv[1]}).connection)
"""

READ = """
raw, mapped = RawConverter(raw_schema(False, "map")), MappedConverter(schema("v string"), False)
converter = raw if sys.argv[2] == "raw" else mapped

def read(stream):
    part = Range(stream, "0-0", f"{2**63}-0", 0)
    return sum(batch.num_rows for batch in read_range(server, part, converter, 5000, True))

assert read("small") == 100
before = peak()
print(read("large"), peak() - before)
"""

COPY = """
columns = schema("n string, v string")
converter = MappedConverter(columns, False) if sys.argv[2] == "mapped" else RawConverter(raw_schema(False, "map"))
if sys.argv[2] == "raw":
    columns = raw_schema(False, "map")

def copy(stream):
    '''Read a stream and write it to another, in one process: a task whose two Python workers were one.'''
    options = parse_options({"port": sys.argv[1], "stream": f"{stream}-copy"})
    task = Task(BatchName("sink", "0", 0, True), 0, 0, "r1", "idmp", Durability(), frozenset())
    writer = TaskWriter(server, options.write, RowEncoder(columns, (), f"{stream}-copy"), task)
    rows = undisturbed(read_range(server, Range(stream, "0-0", f"{2**63}-0", 0), converter, 5000, True))
    return sum(writer.write(rows).rows.values())

assert copy("small") == 100
before = peak()
print(copy("large"), peak() - before)
"""


@pytest.mark.parametrize(("kind", "small"), [("raw", 0), ("mapped", 10_000)])
def test_large_entries_take_64_mb_at_most_above_pythons_own(either: redis.Redis, kind: str, small: int) -> None:
    """100 entries of 1 MB; also behind small ones, whose pages are of thousands."""
    fill_unevenly(either, small, 100)

    assert taken_mb(either, READ, kind, 100 + small) < 64


@pytest.mark.parametrize(("kind", "small", "large"), [("mapped", 150_000, 0), ("raw", 10_000, 100)])
def test_reading_and_writing_in_one_process_take_64_mb_at_most_together(
    streamd: redis.Redis, kind: str, small: int, large: int
) -> None:
    fill_unevenly(streamd, small, large)

    assert taken_mb(streamd, COPY, kind, small + large) < 64


def fill_unevenly(client: redis.Redis, small: int, large: int) -> None:
    """Add entries to stream `large`: small ones, and behind them some of 1 MB; and a few to `small`."""
    pipe = client.pipeline(transaction=False)
    for n in range(100):
        pipe.xadd("small", {"n": n, "v": "x"})
    for n in range(small):
        pipe.xadd("large", {"n": n, "v": f"value {n}"})
        if len(pipe) >= 10_000:
            pipe.execute()
    for n in range(large):
        pipe.xadd("large", {"n": n, "v": b"%d" % n + b"x" * MB})
        if len(pipe) >= 20:
            pipe.execute()
    pipe.execute()


def taken_mb(client: redis.Redis, script: str, kind: str, rows: int) -> float:
    """Run a script in a process; return what it took of memory above Python's own, once it has done all rows."""
    words = [sys.executable, "-c", PREPARE + script, port_of(client), kind]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    client.flushall()
    assert done.returncode == 0, done.stderr
    got, taken_kib = map(int, done.stdout.split())
    assert got == rows
    return taken_kib / 1024


@pytest.mark.parametrize("limit", [200, 3000, 10_000])
def test_pages_that_are_larger_than_foreseen_are_asked_for_again_in_smaller_ones(
    either: redis.Redis, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    sizes = [1] * 300 + [5000, 1, 1, 2000, 2000, 1] + [1] * 50 + [900] * 20
    for n, size in enumerate(sizes):
        either.xadd("s", {"v": f"{n} {'x' * size}"})
    monkeypatch.setattr(entry_pages, "LIMIT_BYTES", limit)
    monkeypatch.setattr(entry_pages, "PAGE_BYTES", limit // 2)

    assert numbers(either) == list(range(len(sizes)))


def test_pages_are_read_where_redis_py_is_built_otherwise(either: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    receive = entry_pages.receive

    def hidden(session: Session, limit: int | None) -> object:
        return receive(SimpleNamespace(connection=None, receive=session.receive), limit)  # type: ignore[arg-type]

    monkeypatch.setattr(entry_pages, "receive", hidden)
    for n in range(2000):
        either.xadd("s", {"v": f"{n} "})
    assert numbers(either) == list(range(2000))


@pytest.mark.parametrize("count", [8, 9, 40])
def test_a_page_that_ends_with_the_greatest_id_there_is_is_the_last(either: redis.Redis, count: int) -> None:
    greatest = f"{ids.SEQ_MAX}-{ids.SEQ_MAX}"
    for n in range(count):
        either.xadd("s", {"v": f"{n} "}, id=greatest if n == count - 1 else "*")
    assert numbers(either, greatest) == list(range(count))


def numbers(client: redis.Redis, end: str = f"{2**63}-0") -> list[int]:
    server = Server(parse_options({"port": port_of(client)}).connection)
    part = Range("s", "0-0", end, 0)
    found = entry_pages.read_range(server, part, RawConverter(raw_schema(True, "map")), 5000, True)
    return [int(dict(row["fields"])["v"].partition(" ")[0]) for batch in found for row in batch.to_pylist()]
