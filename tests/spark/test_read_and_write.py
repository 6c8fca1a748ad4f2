"""Batch and streaming, reading and writing through Spark: what a user types, and what a wrong word brings."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from pyspark.sql import DataFrame, SparkSession

from tests.spark.sessions import compare, copy, fill, finish, read_stream

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def filled(streamd_port: int) -> Iterator[redis.Redis]:
    """A streamd with 1,000 entries in `in`, for tests that only read."""
    from tests.spark.servers import client

    with client(streamd_port) as connected:
        connected.flushall()
        fill(connected, 1000)
        connected.xadd("other", {"n": "x", "w": "y"}, id="1700000000000-5")
        yield connected


def load(spark: SparkSession, port: int, schema: str | None = None, **options: object) -> DataFrame:
    given = {"port": port, "stream": "in", **options}
    reader = spark.read.format("streamd").options(**{name: value for name, value in given.items() if value is not None})
    return (reader.schema(schema) if schema else reader).load()


def error_of(work) -> str:
    """Return the line of the data source's own error in what Spark raises."""
    with pytest.raises(Exception) as caught:
        work()
    lines = [line for line in str(caught.value).splitlines() if "spark_source.errors." in line]
    assert lines, str(caught.value)[-2000:]
    return lines[-1].partition(": ")[2]


def test_raw_and_mapped_reads_in_even_partitions(spark: SparkSession, filled: redis.Redis, streamd_port: int) -> None:
    raw = load(spark, streamd_port, stream="in,other", entriesPerPartition=250)
    assert raw.rdd.getNumPartitions() == 5
    rows = raw.selectExpr("stream", "id", "ts", "seq", "cast(fields['n'] AS string) AS n").collect()
    expected = [(entry_id.decode(), fields[b"n"].decode()) for entry_id, fields in filled.xrange("in")]
    assert [(row.id, row.n) for row in rows if row.stream == "in"] == expected
    assert [(str(row.ts), row.seq) for row in rows if row.stream == "other"] == [("2023-11-14 22:13:20", 5)]

    mapped = load(spark, streamd_port, "n int, v string, w string, _id string, _corrupt string", stream="in,other")
    row = mapped.selectExpr("sum(n)", "count(distinct _id)", "count(v)", "max(w)", "max(_corrupt)").first()
    assert tuple(row) == (499_500, 1001, 1000, "y", '{"n": "x", "w": "y"}')


def test_offsets_and_times_bound_a_batch_read(spark: SparkSession, filled: redis.Redis, streamd_port: int) -> None:
    names = [entry_id.decode() for entry_id, _ in filled.xrange("in")]
    bounds = {"startingOffsets": f'{{"in": "{names[9]}"}}', "endingOffsets": f'{{"in": "{names[19]}"}}'}
    assert [row.id for row in load(spark, streamd_port, **bounds).select("id").collect()] == names[10:20]

    last_ms = int(names[-1].partition("-")[0])
    inside = [name for name in names if int(name.partition("-")[0]) < last_ms]
    assert load(spark, streamd_port, startingTimestamp="0", endingTimestamp=last_ms).count() == len(inside)
    both = load(spark, streamd_port, stream="in,other", endingTimestamp=f'{{"in": {last_ms}}}')
    assert both.count() == len(inside) + 1
    assert load(spark, streamd_port, stream="in,other", startingTimestamp=f'{{"in": {last_ms}}}').count() == 1001 - len(
        inside
    )
    assert load(spark, streamd_port, stream=None, streamRegex="in|oth.*").count() == 1001


def test_sql_finds_the_source_by_its_name(spark: SparkSession, filled: redis.Redis, streamd_port: int) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING streamd OPTIONS (port '{streamd_port}', stream 'in')")

    assert spark.sql("SELECT count(*) FROM v").first()[0] == 1000


def test_errors_are_one_line_that_says_what_to_do(spark: SparkSession, filled: redis.Redis, streamd_port: int) -> None:
    def read(**options):
        return lambda: load(spark, **{"port": streamd_port, **options}).count()

    assert error_of(read(stream="nowhere")).startswith("stream nowhere does not exist on 127.0.0.1:")
    assert error_of(read(strem="in")) == "unknown option strem: did you mean stream?"
    assert error_of(read(port="1", timeout="1s")).startswith("127.0.0.1:1 did not answer for ")
    assert error_of(read(maxEntriesPerTrigger=5)).startswith("maxEntriesPerTrigger is for streaming queries")
    assert error_of(lambda: load(spark, streamd_port, "a array<int>").count()).startswith("column a of type array<int>")
    secret = error_of(read(password="hunter2", username="nobody"))
    assert "does not let in user nobody" in secret
    assert "hunter2" not in secret
    assert error_of(read(db="4095")).endswith(" has no database 4095: correct db, or the number at the end of url")


def test_writes_append_repeat_by_name_and_overwrite(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int
) -> None:
    rows = spark.range(0, 100, 1, 2).selectExpr("id AS n", "concat('value ', id) AS v")

    def write(mode: str = "append", rows: DataFrame = rows, **options) -> int:
        given = {"port": streamd_port, "stream": "out", **options}
        rows.write.format("streamd").options(**given).mode(mode).save()
        return streamd.xlen("out")

    assert write() == 100
    assert write() == 200, "without a name each write is another one"
    assert write(sinkId="load", sinkBatch="monday") == 300
    assert write(sinkId="load", sinkBatch="monday") == 300
    assert write(sinkId="load", sinkBatch="tuesday") == 400
    assert write("overwrite") == 100
    assert write("overwrite", rows.limit(0)) == 0
    assert error_of(lambda: write(rows=rows.selectExpr("array(n) AS a"))).startswith("column a of type array<bigint>")
    assert {key.decode() for key in streamd.scan_iter()} <= {
        "out",
        "{out}:spark",
        "{out}:spark:stats",
        "{out}:spark:batches",
        "{out}:spark:digests",
    }


def test_each_batch_of_foreach_batch_is_a_write_by_name(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    fill(streamd, 100)
    rows = read_stream(spark, streamd_port).selectExpr("id AS source", "fields")

    def twice(batch: DataFrame, number: int) -> None:
        for _ in range(2):
            given = {"port": streamd_port, "stream": "out", "sinkId": "mine", "sinkBatch": number}
            batch.write.format("streamd").options(**given).mode("append").save()

    query = rows.writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path))
    finish(query.trigger(availableNow=True).start())

    assert compare(streamd) == (0, 0)


def test_aggregations_are_replaced_or_their_changes_added_by_foreach_batch(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    """And not otherwise: Spark refuses `update` for Python sinks, and `complete` is told what to do instead."""
    rows = read_stream(spark, streamd_port, maxEntriesPerTrigger=10).selectExpr(
        "CAST(CAST(fields['n'] AS string) AS long) AS n"
    )
    counts = rows.groupBy((rows.n % 3).alias("rest")).count()

    def run(mode: str, checkpoint: str, write: Callable | None = None) -> None:
        writer = counts.writeStream.outputMode(mode).option("checkpointLocation", str(tmp_path / checkpoint))
        if write is None:
            writer = writer.format("streamd").option("port", streamd_port).option("stream", "out")
        else:
            writer = writer.foreachBatch(write)
        finish(writer.trigger(availableNow=True).start())

    def writing(stream: str, how: str) -> Callable:
        def write(batch: DataFrame, number: int) -> None:
            given = {"port": streamd_port, "stream": stream, "sinkId": stream, "sinkBatch": number}
            batch.write.format("streamd").options(**given).mode(how).save()

        return write

    for added in range(2):
        fill(streamd, 20, first=20 * added)
        run("complete", "complete", writing("whole", "overwrite"))
        run("update", "update", writing("changes", "append"))
        found = [(fields[b"rest"], fields[b"count"]) for _, fields in streamd.xrange("whole")]
        wanted = [sum(n % 3 == rest for n in range(20 * added + 20)) for rest in range(3)]
        assert sorted(found) == [(b"%d" % rest, b"%d" % count) for rest, count in enumerate(wanted)]
        newest = {fields[b"rest"]: fields[b"count"] for _, fields in streamd.xrange("changes")}
        assert newest == dict(found), "the last entry of each"
    for mode, said in (("complete", r"use foreachBatch, and in it mode\('overwrite'\)"), ("update", "Update mode")):
        with pytest.raises(Exception, match=said):
            run(mode, f"direct-{mode}")


def test_a_stream_that_comes_later_is_waited_for(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    rows = read_stream(spark, streamd_port, stream="late", startingOffsets="latest").selectExpr(
        "id AS source", "fields"
    )
    query = rows.writeStream.format("streamd").options(port=streamd_port, stream="out")
    query = query.option("checkpointLocation", str(tmp_path)).start()
    try:
        while query.lastProgress is None:
            time.sleep(0.1)
        fill(streamd, 50, "late")
        query.processAllAvailable()
        assert query.exception() is None
        assert compare(streamd, "late") == (0, 0)
    finally:
        query.stop()


def test_new_streams_of_a_pattern_are_read_from_their_start(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    def run() -> list[int]:
        source = spark.readStream.format("streamd").options(
            port=streamd_port, streamPattern="in*", startingOffsets="earliest", maxEntriesPerTrigger=100
        )
        rows = source.load().selectExpr("id AS source", "fields")
        return finish(copy(spark, streamd_port, tmp_path, rows))

    fill(streamd, 30, "in1")
    assert run() == [30]
    fill(streamd, 20, "in2")
    assert sum(run()) == 20


def test_lost_entries_stop_a_query_unless_that_is_allowed(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    fill(streamd, 10)
    finish(copy(spark, streamd_port, tmp_path))
    fill(streamd, 10, first=10)
    streamd.xtrim("in", maxlen=7, approximate=False)

    text = error_of(lambda: finish(copy(spark, streamd_port, tmp_path)))
    assert "stream in was trimmed past offset" in text
    assert "up to 3 entries are gone: restore them, start from another offset, or set failOnDataLoss=false" in text

    assert sum(finish(copy(spark, streamd_port, tmp_path, read={"failOnDataLoss": "false"}))) == 7


def test_a_planned_range_that_came_back_short_stops_the_query(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    """The batch is planned and in the checkpoint, then its stream is trimmed: the repeated batch cannot be whole."""
    fill(streamd, 10)
    finish(copy(spark, streamd_port, tmp_path))
    (tmp_path / "commits" / "0").unlink()
    (tmp_path / "commits" / ".0.crc").unlink()
    streamd.xtrim("in", maxlen=4, approximate=False)

    text = error_of(lambda: finish(copy(spark, streamd_port, tmp_path)))
    assert "6 of 10 entries are gone, its first entry is now" in text


def test_a_query_that_passes_stream_on_writes_where_the_option_says_and_never_into_its_source(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    fill(streamd, 100)
    source = read_stream(spark, streamd_port).selectExpr("stream AS _stream", "id AS source", "fields")
    finish(copy(spark, streamd_port, tmp_path / "a", source))
    assert compare(streamd) == (0, 0)
    assert streamd.xlen("in") == 100

    for options in ({"stream": "in"}, {"streamColumn": "_stream"}):
        text = error_of(lambda given=options: finish(copy(spark, streamd_port, tmp_path / str(given), source, **given)))
        assert text.startswith("stream in is a source of this query, which would read its own rows: write to another")
    assert streamd.xlen("in") == 100


def test_a_query_whose_checkpoint_the_session_names_stops_at_its_second_batch(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    fill(streamd, 100)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        rows = read_stream(spark, streamd_port).selectExpr("id AS source", "fields")
        query = rows.writeStream.format("streamd").options(port=streamd_port, stream="in").start()
        text = error_of(lambda: finish(query))
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")

    assert text.startswith("stream in is also written by this query, which reads its own rows")
    assert streamd.xlen("in") == 200
