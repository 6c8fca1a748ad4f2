"""The data source on Spark 4.0, which knows neither Arrow batches for streaming writers nor limits for readers.

`make test-spark40` runs this in an environment of its own; on later versions the other tests say more.
"""

from pathlib import Path

import pyspark
import pytest
import redis
from pyspark.sql import SparkSession

from spark_source.listener import BatchFigures, StreamdListener
from spark_source.reading.stream_reader import DEFAULT_MAX_ENTRIES
from tests.spark.deployments import wait_until
from tests.spark.servers import Proxy
from tests.spark.sessions import compare, copy, fill, finish, read_stream

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not pyspark.__version__.startswith("4.0."), reason="for Spark 4.0: make test-spark40"),
]

ENTRIES = 2000


@pytest.fixture
def filled(streamd: redis.Redis) -> redis.Redis:
    fill(streamd, ENTRIES)
    return streamd


def test_a_batch_is_read_raw_and_with_a_schema(spark: SparkSession, filled: redis.Redis, streamd_port: int) -> None:
    reader = spark.read.format("streamd").options(port=streamd_port, stream="in", entriesPerPartition=500)

    raw = reader.load()
    assert raw.rdd.getNumPartitions() == 4
    entry_ids = [entry_id.decode() for entry_id, _ in filled.xrange("in")]
    assert [row.id for row in raw.orderBy("ts", "seq").select("id").collect()] == entry_ids
    mapped = reader.schema("n long, v string, _ts timestamp").load()
    assert tuple(mapped.selectExpr("sum(n)", "max(v)", "count(_ts)").first()) == (1_999_000, "value 999", ENTRIES)


def test_a_batch_is_written_once_by_its_name(spark: SparkSession, streamd: redis.Redis, streamd_port: int) -> None:
    rows = spark.range(0, 100, 1, 2).selectExpr("id AS n", "timestamp_millis(id) AS at", "cast(id AS decimal(5,2)) d")

    def write(mode: str = "append", **options: object) -> int:
        given = {"port": streamd_port, "stream": "out", **options}
        rows.write.format("streamd").options(**given).mode(mode).save()
        return streamd.xlen("out")

    assert write(sinkId="load", sinkBatch="monday") == 100
    assert write(sinkId="load", sinkBatch="monday") == 100
    assert write() == 200
    assert write("overwrite") == 100
    assert {fields[b"at"] for _, fields in streamd.xrange("out")} >= {b"1970-01-01 00:00:00.099000Z"}


@pytest.mark.parametrize("options", [{}, {"idempotencyKey": "source"}, {"exactlyOnce": "marker"}], ids=str)
def test_a_stream_is_copied_once_over_connections_that_break(
    spark: SparkSession, filled: redis.Redis, streamd_port: int, proxy: Proxy, tmp_path: Path, options: dict
) -> None:
    proxy.cut(3, 11)
    rows = read_stream(spark, streamd_port, entriesPerPartition=500).selectExpr("id AS source", "fields")

    assert finish(copy(spark, proxy.port, tmp_path, rows, timeout="10ms", **options)) == [ENTRIES]

    assert compare(filled) == (0, 0)
    sink = next(iter(filled.hgetall("{out}:spark"))).decode()
    assert int(filled.hget("{out}:spark:stats", f"{sink}:rows")) == ENTRIES
    if "exactlyOnce" not in options:  # a transaction that was cut in two leaves nothing to be repeated
        assert int(filled.hget("{out}:spark:stats", f"{sink}:duplicates")) > 0


@pytest.mark.parametrize("commit", ["kept", "lost"])
def test_a_query_that_is_started_again_goes_on_where_it_was(
    spark: SparkSession, filled: redis.Redis, streamd_port: int, tmp_path: Path, commit: str
) -> None:
    finish(copy(spark, streamd_port, tmp_path))
    fill(filled, 10, first=ENTRIES)
    if commit == "lost":
        (tmp_path / "commits" / "0").unlink()
        (tmp_path / "commits" / ".0.crc").unlink()
        filled.delete("{out}:spark")

    if commit == "lost":
        assert finish(copy(spark, streamd_port, tmp_path)) == [ENTRIES], "AvailableNow is one batch, here an old one"
    assert finish(copy(spark, streamd_port, tmp_path)) == [10]
    assert compare(filled) == (0, 0)


def test_available_now_reads_all_that_waits_at_each_start(
    spark: SparkSession, filled: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    """Of more entries than the default limit: a run that reports success has left none."""
    rows = read_stream(spark, streamd_port).selectExpr("id AS source", "fields")
    assert finish(copy(spark, streamd_port, tmp_path, rows)) == [ENTRIES]
    more = DEFAULT_MAX_ENTRIES + 10
    fill(filled, more, first=ENTRIES)
    assert finish(copy(spark, streamd_port, tmp_path, rows)) == [more]
    assert compare(filled) == (0, 0)


def test_a_limit_is_kept_from_the_second_batch_on(
    spark: SparkSession, filled: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    rows = read_stream(spark, streamd_port, maxEntriesPerTrigger=800).selectExpr("id AS source", "fields")
    query = rows.writeStream.format("streamd").options(port=streamd_port, stream="out")
    query = query.option("checkpointLocation", str(tmp_path)).start()
    try:
        query.processAllAvailable()
        fill(filled, ENTRIES, first=ENTRIES)
        query.processAllAvailable()
        sizes = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    finally:
        query.stop()
    assert sizes[0] == ENTRIES
    assert max(sizes[1:]) == 800
    assert compare(filled) == (0, 0)


def test_json_in_fields_both_ways_by_a_query(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    streamd.xadd("in", {"l": '[{"a":1,"at":"2026-01-31T12:00:00.000000Z"},null]', "m": '{"k":1.5}', "v": '{"x":[1]}'})
    reader = spark.readStream.format("streamd").options(port=streamd_port, stream="in", startingOffsets="earliest")
    rows = reader.option("valueFormat", "json").schema(
        "l array<struct<a: int, at: timestamp>>, m map<string, double>, v variant"
    )
    query = rows.load().writeStream.format("streamd").options(port=streamd_port, stream="out", valueFormat="json")
    query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()

    assert finish(query) == [1]
    assert streamd.xrange("out")[0][1] == streamd.xrange("in")[0][1]


def test_the_listener_and_the_group_work_without_a_latest_offset(
    spark: SparkSession, filled: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    shown: list[BatchFigures] = []
    listener = StreamdListener(sink="out", port=streamd_port, report=shown.append)
    spark.streams.addListener(listener)
    try:
        rows = read_stream(spark, streamd_port, progressGroup="spark").selectExpr("id AS source", "fields")
        finish(copy(spark, streamd_port, tmp_path, rows))
        fill(filled, 10, first=ENTRIES)
        rows = read_stream(spark, streamd_port, progressGroup="spark").selectExpr("id AS source", "fields")
        finish(copy(spark, streamd_port, tmp_path, rows))
        wait_until(lambda: len(shown) >= 2)
    finally:
        spark.streams.removeListener(listener)

    assert [sink.rows for figures in shown for sink in figures.sinks] == [ENTRIES, 10]
    assert [group["name"] for group in filled.xinfo_groups("in")] == [b"spark"]
