"""Many small streams: they share tasks and requests, and each is read as if it were alone."""

import json
import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from spark_source.connecting.connection import Server
from spark_source.errors import DataLoss, StreamMissing
from spark_source.reading import several_ranges, stream_reader
from spark_source.reading.batch_reader import StreamdReader
from spark_source.reading.entry_pages import FIRST_PAGE
from spark_source.reading.stream_reader import StreamdStreamReader
from spark_source.reading.tasks import STREAMS_MAX
from spark_source.settings.options import parse_options
from spark_source.values.schema import raw_schema
from tests.spark.one_task import port_of
from tests.spark.schemas import schema

STREAMS = 300
RAW = raw_schema(True, "map")
Row = tuple[str, str]


def sizes(streams: int = STREAMS) -> dict[str, int]:
    """Return the number of entries of each stream: from 1 to a few more than are asked for together."""
    return {f"s-{n:03}": n % (FIRST_PAGE + 3) + 1 for n in range(streams)}


def fill(client: redis.Redis, counts: dict[str, int]) -> list[Row]:
    """Add numbered entries; return (stream, number) of each."""
    pipe = client.pipeline(transaction=False)
    for stream, count in counts.items():
        for n in range(count):
            pipe.xadd(stream, {"n": n})
    pipe.execute()
    return [(stream, str(n)) for stream, count in counts.items() for n in range(count)]


def source(client: redis.Redis, kind: type = StreamdStreamReader, **options: object):
    starting = {"startingOffsets": "earliest"} if kind is StreamdStreamReader else {}
    given = {"port": port_of(client), "streamPattern": "s-*", **starting, **options}
    return kind(parse_options({name: str(value) for name, value in given.items()}), RAW)


def plan(reader: StreamdStreamReader) -> tuple[dict, dict]:
    start = json.loads(json.dumps(reader.initialOffset()))
    return start, json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))


def read(reader: StreamdStreamReader | StreamdReader, parts: list) -> list[Row]:
    worker = pickle.loads(pickle.dumps(reader))
    found = [row for part in parts for batch in worker.read(part) for row in batch.to_pylist()]
    return [(row["stream"], dict(row["fields"])["n"]) for row in found]


@contextmanager
def sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter]:
    """Count how often a connection is lent: a round trip or more each."""
    counted: Counter = Counter()
    lend = Server.session

    def counting(self: Server, *given, **named):
        counted["s"] += 1
        return lend(self, *given, **named)

    monkeypatch.setattr(Server, "session", counting)
    yield counted
    monkeypatch.setattr(Server, "session", lend)


def test_small_streams_share_tasks_and_are_read_once_in_order(
    either: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = sizes()
    wanted = fill(either, counts)
    reader = source(either)
    with sessions(monkeypatch) as planning:
        start, end = plan(reader)
    parts = reader.partitions(start, end)
    assert len(parts) == -(-STREAMS // STREAMS_MAX) == 2
    with sessions(monkeypatch) as reading:
        assert read(reader, parts) == wanted
    assert planning["s"] < STREAMS / 10
    ordinary = sum(count > FIRST_PAGE for count in counts.values())
    assert reading["s"] < ordinary + STREAMS / 2


def test_a_batch_read_shares_tasks_too(either: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = fill(either, sizes())
    reader = source(either, StreamdReader)
    with sessions(monkeypatch) as planning:
        parts = reader.partitions()
    assert planning["s"] < STREAMS / 10
    assert len(parts) == 2
    assert read(reader, parts) == wanted
    assert len(source(either, StreamdReader, entriesPerPartition=1).partitions()) == len(wanted)


def test_columns_of_a_schema_come_from_shared_tasks(either: redis.Redis) -> None:
    fill(either, sizes(40))
    given = {"port": port_of(either), "streamPattern": "s-*"}
    reader = StreamdReader(parse_options(given), schema("_stream string, n int, none string"))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert len(batches) < 40
    rows = [(row["_stream"], row["n"], row["none"]) for batch in batches for row in batch.to_pylist()]
    assert rows == [(stream, n, None) for stream, count in sizes(40).items() for n in range(count)]


@pytest.mark.parametrize("options", [{"entriesPerPartition": 1}, {"minPartitions": 4}, {"entriesPerPartition": 10**6}])
@pytest.mark.parametrize("lacks", [False, True])
def test_a_planned_batch_keeps_its_tasks_whatever_the_options_are_then(
    either: redis.Redis, monkeypatch: pytest.MonkeyPatch, options: dict, lacks: bool
) -> None:
    """Before Spark 4.2 ranges are cut anew when a batch runs again; streams of one entry have nothing to cut."""
    wanted = fill(either, sizes(40) if not lacks else dict.fromkeys(sizes(40), 1))
    if lacks:
        monkeypatch.setattr(stream_reader, "ReadLimit", None)
    reader = source(either, entriesPerPartition=30)
    start = json.loads(json.dumps(reader.initialOffset()))
    end = json.loads(json.dumps(reader.latestOffset(*(() if lacks else (start, reader.getDefaultReadLimit())))))
    parts = [part.value for part in reader.partitions(start, end)]
    assert 1 < len(parts) < 40

    fill(either, sizes(40))
    again = source(either, **options)
    planned = again.partitions(start, end)
    assert [part.value for part in planned] == parts
    assert sorted(read(again, planned)) == sorted(wanted)


def test_each_stream_has_its_least_number_of_tasks(either: redis.Redis) -> None:
    counts = {f"s-{n}": n + 1 for n in range(8)}
    wanted = fill(either, counts)
    reader = source(either, minPartitions=4)
    start, end = plan(reader)
    parts = reader.partitions(start, end)
    used = Counter(stream for part in parts for stream in {one.stream for one in part.value})
    assert all(min(4, count) <= used[stream] <= count for stream, count in counts.items()), used
    found = read(reader, parts)
    assert sorted(found) == wanted
    for stream in counts:
        assert [n for name, n in found if name == stream] == [n for name, n in wanted if name == stream]


@pytest.mark.parametrize(
    ("harm", "error"),
    [
        (lambda client: client.xtrim("s-003", maxlen=2, approximate=False), DataLoss),
        (lambda client: client.xtrim("s-003", maxlen=0, approximate=False), DataLoss),
        (lambda client: client.delete("s-003"), StreamMissing),
    ],
    ids=["trimmed", "emptied", "deleted"],
)
def test_a_loss_in_one_of_them_is_noticed(either: redis.Redis, harm, error: type) -> None:
    wanted = fill(either, sizes(20))
    reader = source(either)
    parts = reader.partitions(*plan(reader))
    harm(either)
    with pytest.raises(error, match=r"^stream s-003 from 0-0 to"):
        read(reader, parts)
    left = either.xlen("s-003")
    kept = [row for row in wanted if row[0] != "s-003" or int(row[1]) >= 4 - left]
    assert read(source(either, failOnDataLoss=False), parts) == kept


def test_a_single_entry_that_was_deleted_is_no_loss(either: redis.Redis) -> None:
    fill(either, dict.fromkeys(sizes(20), 1))
    reader = source(either)
    start = plan(reader)[1]
    wanted = fill(either, sizes(20))
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    parts = reader.partitions(start, end)
    gone = {"s-003": 1, "s-005": 5}  # one in the middle, and the last one
    for stream, n in gone.items():
        either.xdel(stream, either.xrange(stream)[1 + n][0])
    assert read(reader, parts) == [row for row in wanted if gone.get(row[0]) != int(row[1])]


@pytest.mark.parametrize("broken", range(0, 30, 6))
def test_a_lost_connection_loses_and_repeats_nothing(
    either: redis.Redis, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    wanted = fill(either, sizes(40))
    reader = source(either)
    parts = reader.partitions(*plan(reader))
    calls = iter(range(10**6))
    receive = several_ranges.receive

    def breaking(session, limit):
        if next(calls) == broken:
            session.connection.disconnect()
            raise redis.ConnectionError("cut")
        return receive(session, limit)

    monkeypatch.setattr(several_ranges, "receive", breaking)
    worker = source(either)
    found = [row for part in parts for batch in worker.read(part) for row in batch.to_pylist()]
    assert next(calls) > broken
    assert [(row["stream"], dict(row["fields"])["n"]) for row in found] == wanted
