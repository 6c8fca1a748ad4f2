"""Through Spark: a checkpoint that was put back or cut stops the query, and daily writes have names of their own."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.one_task import port_of
from tests.spark.sessions import compare, copy, fill, finish, read_stream

pytestmark = pytest.mark.spark

SMALL = {"maxEntriesPerTrigger": 10}


def run_native(spark: SparkSession, port: int, checkpoint: Path, **read: int) -> None:
    finish(copy(spark, port, checkpoint, read=read, idempotencyKey="source"))


def run_foreach(spark: SparkSession, port: int, checkpoint: Path, **read: int) -> None:
    def write(batch: DataFrame, number: int) -> None:
        batch.write.format("streamd").options(port=port, stream="out", sinkId="me").mode("append").save()

    rows = read_stream(spark, port, **read).selectExpr("id AS source", "fields")
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    finish(query.trigger(availableNow=True).start())


def cut(checkpoint: Path) -> None:
    """Remove the newest offsets and commit, with their checksums."""
    for part in ("offsets", "commits"):
        newest = max(int(file.name) for file in (checkpoint / part).glob("[0-9]*"))
        for file in (checkpoint / part).glob(f"*{newest}*"):
            file.unlink()


@pytest.mark.parametrize(
    ("run", "server"),
    [
        (run_native, "streamd"),
        pytest.param(run_native, "other_redis", marks=[pytest.mark.long, pytest.mark.redis]),
        pytest.param(run_foreach, "streamd", marks=pytest.mark.long),
        pytest.param(run_foreach, "other_redis", marks=[pytest.mark.long, pytest.mark.redis]),
    ],
)
def test_a_checkpoint_that_is_older_than_the_sink_stops_the_query(
    spark: SparkSession, tmp_path: Path, run: Callable, server: str, request: pytest.FixtureRequest
) -> None:
    either: redis.Redis = request.getfixturevalue(server)
    port, used, backup = int(port_of(either)), tmp_path / "used", tmp_path / "backup"
    fill(either, 20)
    run(spark, port, used, **SMALL)
    shutil.copytree(used, backup)
    fill(either, 20, first=20)
    run(spark, port, used, **SMALL)
    assert compare(either) == (0, 0)
    cut(used)
    fill(either, 10, first=40)

    for checkpoint, what in ((backup, "comes after batch 3 was committed"), (used, "and comes again with 20")):
        with pytest.raises(StreamingQueryException, match="the checkpoint is older than the sink") as caught:
            run(spark, port, checkpoint)
        assert what in str(caught.value)
        assert "a new sinkId" in str(caught.value)
    assert compare(either) == (10, 0), "the new entries wait"


def test_daily_writes_are_each_written_or_refused(spark: SparkSession, streamd: redis.Redis) -> None:
    port = int(port_of(streamd))

    def write(first: int, **name: str) -> None:
        rows = spark.range(first, first + 10).selectExpr("id AS n")
        rows.write.format("streamd").options(port=port, stream="s", **name).mode("append").save()

    with pytest.raises(Exception, match="sinkId=load without sinkBatch names all batch writes alike"):
        write(0, sinkId="load")
    assert streamd.xlen("s") == 0
    for day in range(3):
        write(10 * day, sinkId="load", idempotencyKey="n", idempotencyScope="stream")
    assert streamd.xlen("s") == 30
    for day in range(3):
        write(100 + 10 * day, sinkId="load", sinkBatch=str(day))
    assert streamd.xlen("s") == 60

    write(100, sinkId="load", sinkBatch="0")
    with pytest.raises(Exception, match="has 10 rows in s and comes again with 10, which are not the same"):
        write(500, sinkId="load", sinkBatch="0")
    assert streamd.xlen("s") == 60
