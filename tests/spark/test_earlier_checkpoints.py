"""Checkpoints of an earlier version, each with an open batch: a query goes on from them, every entry once."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from spark_source.reading.stream_reader import StreamdStreamReader
from spark_source.settings.options import parse_options
from spark_source.values.schema import raw_schema
from spark_source.values.topic_schema import topic_schema
from tests.spark.data.checkpoints.make import COLUMNS, HERE, LIMIT, OPTIONS, add, run
from tests.spark.one_task import port_of

QUERIES = list(OPTIONS)
ENTRIES, MORE = 3 * LIMIT, 10


def restore(client: redis.Redis, query: str) -> None:
    """Give a server the streams and hashes that the checkpoint's had, with their entry IDs."""
    held = json.loads((HERE / query / "server.json").read_text())
    for key, entries in held["streams"].items():
        for entry_id, fields in entries:
            client.xadd(key, fields, id=entry_id)
    for key, fields in held["hashes"].items():
        if "retention_s" in fields:  # a day: since then the log would remove what was recorded
            fields["retention_s"] = str(10**9)
        client.hset(key, mapping=fields)


def offset(query: str, batch: int) -> dict:
    """Return the end of a batch as the checkpoint has it."""
    return json.loads((HERE / query / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()[-1])


@pytest.mark.parametrize("query", QUERIES)
def test_an_open_batch_is_read_as_it_was_planned_and_the_next_ones_follow_it(either: redis.Redis, query: str) -> None:
    restore(either, query)
    first, start = offset(query, 0), offset(query, 1)
    source = reader(either, query)
    read = list(rows(source, query, first, start))
    assert len(read) == sum(count for mark in start.values() for _, count in mark["cuts"]) > 0, "the open batch"
    add(either, query, ENTRIES, ENTRIES + MORE)
    for _ in range(5):
        end = json.loads(json.dumps(source.latestOffset(start, source.getDefaultReadLimit())))
        if end == start:
            break
        read += rows(source, query, start, end)
        start = end
    assert sorted(map(int, read)) == list(range(LIMIT, ENTRIES + MORE))


def reader(client: redis.Redis, query: str) -> StreamdStreamReader:
    given = {"port": port_of(client), "text": "true", "maxEntriesPerTrigger": str(LIMIT), **OPTIONS[query]}
    schema = topic_schema(True) if query == "log" else raw_schema(True, "map")
    return StreamdStreamReader(parse_options(given), schema)


def rows(source: StreamdStreamReader, query: str, start: dict, end: dict) -> Iterator[str]:
    for part in source.partitions(start, end):
        for batch in source.read(part):
            for row in batch.to_pylist():
                yield row["payload"] if query == "log" else dict(row["fields"])["n"]


@pytest.mark.spark
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_goes_on_from_an_earlier_checkpoint(
    spark: SparkSession, streamd: redis.Redis, query: str, tmp_path: Path
) -> None:
    restore(streamd, query)
    add(streamd, query, ENTRIES, ENTRIES + MORE)
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(HERE / query / "checkpoint", checkpoint)
    run(spark, int(port_of(streamd)), query, checkpoint, COLUMNS[query])

    written = [fields for _, fields in streamd.xrange("out")]
    assert sorted(int(fields[b"n"]) for fields in written) == list(range(ENTRIES + MORE))
    assert len({(fields[b"source"], fields[b"source_id"]) for fields in written}) == ENTRIES + MORE
