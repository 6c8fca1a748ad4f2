"""Reading a range against real servers: pages follow the size of entries, and a worker's memory stays small."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis

from spark_source import pages
from spark_source.arrow import RawConverter
from spark_source.connection import Server, Session
from spark_source.offsets import Range
from spark_source.options import parse_options
from spark_source.schema import raw_schema
from tests.spark.one_task import port_of

ROOT = Path(__file__).resolve().parent.parent.parent
MB = 1 << 20

READ = """
import resource, sys
from spark_source.arrow import MappedConverter, RawConverter
from spark_source.connection import Server
from spark_source.offsets import Range
from spark_source.options import parse_options
from spark_source.pages import read_range
from spark_source.schema import raw_schema
from tests.spark.schemas import schema

server = Server(parse_options({"port": sys.argv[1]}).connection)
raw, mapped = RawConverter(raw_schema(False, "map")), MappedConverter(schema("v string"), False)
converter = raw if sys.argv[2] == "raw" else mapped

def read(stream):
    part = Range(stream, "0-0", f"{2**63}-0", 0)
    return sum(batch.num_rows for batch in read_range(server, part, converter, 5000, True))

assert read("small") == 100
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(read("large"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(("kind", "small"), [("raw", 0), ("mapped", 10_000)])
def test_large_entries_take_64_mb_at_most_above_pythons_own(either: redis.Redis, kind: str, small: int) -> None:
    """300 entries of 1 MB; also behind small ones, whose pages are of thousands."""
    pipe = either.pipeline(transaction=False)
    for _ in range(100):
        pipe.xadd("small", {"v": "x"})
    for _ in range(small):
        pipe.xadd("large", {"v": "x"})
    pipe.execute()
    for n in range(300):
        either.xadd("large", {"v": b"%d" % n + b"x" * MB})

    words = [sys.executable, "-c", READ, port_of(either), kind]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    either.flushall()
    rows, taken_kib = map(int, told.split())
    assert rows == 300 + small
    assert taken_kib < 64 << 10, f"{taken_kib >> 10} MB"


@pytest.mark.parametrize("limit", [200, 3000, 10_000])
def test_pages_that_are_larger_than_foreseen_are_asked_for_again_in_smaller_ones(
    either: redis.Redis, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    sizes = [1] * 300 + [5000, 1, 1, 2000, 2000, 1] + [1] * 50 + [900] * 20
    for n, size in enumerate(sizes):
        either.xadd("s", {"v": f"{n} {'x' * size}"})
    monkeypatch.setattr(pages, "LIMIT_BYTES", limit)
    monkeypatch.setattr(pages, "PAGE_BYTES", limit // 2)

    assert numbers(either) == list(range(len(sizes)))


def test_pages_are_read_where_redis_py_is_built_otherwise(either: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    receive = pages.receive

    def hidden(session: Session, limit: int | None) -> object:
        return receive(SimpleNamespace(connection=None, receive=session.receive), limit)  # type: ignore[arg-type]

    monkeypatch.setattr(pages, "receive", hidden)
    for n in range(2000):
        either.xadd("s", {"v": f"{n} "})
    assert numbers(either) == list(range(2000))


def numbers(client: redis.Redis) -> list[int]:
    server = Server(parse_options({"port": port_of(client)}).connection)
    part = Range("s", "0-0", f"{2**63}-0", 0)
    found = pages.read_range(server, part, RawConverter(raw_schema(True, "map")), 5000, True)
    return [int(dict(row["fields"])["v"].partition(" ")[0]) for batch in found for row in batch.to_pylist()]
