"""Stream to stream through Spark while drivers, tasks, connections and commits are lost: each row comes once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from tests.spark.servers import Proxy
from tests.spark.sessions import ROOT, compare, copy, fill, finish, read_stream

pytestmark = pytest.mark.spark

ENTRIES = 2000


@pytest.fixture
def filled(streamd: redis.Redis) -> redis.Redis:
    fill(streamd, ENTRIES)
    return streamd


def test_a_driver_killed_in_the_middle_of_a_batch(
    filled: redis.Redis, streamd_port: int, proxy: Proxy, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The first of this file: its driver is gone before the shared session starts, two at once would be slow."""
    proxy.hold(14)  # the first batch has 10 chunks: the second is half written
    words = [sys.executable, "-m", "tests.spark.copy_job", str(streamd_port), str(proxy.port), str(tmp_path)]
    left_behind = str(tmp_path / "left-behind")  # a killed driver does not clean up
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": left_behind, "SPARK_LOCAL_DIRS": left_behind}
    os.mkdir(left_behind)
    driver = subprocess.Popen(words, cwd=ROOT, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        assert proxy.holding.wait(240), "the driver did not get that far"
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        proxy.close()
    assert 1000 < filled.xlen("out") < ENTRIES
    assert [file.name for file in sorted((tmp_path / "commits").glob("[0-9]*"))] == ["0"]
    before = filled.xinfo_stream("out")["iids-duplicates"]

    session: SparkSession = request.getfixturevalue("spark")
    batches = finish(copy(session, streamd_port, tmp_path))

    assert sum(batches) == ENTRIES - 1000
    assert compare(filled) == (0, 0)
    assert filled.xinfo_stream("out")["iids-duplicates"] > before


def test_the_control_without_identity_shows_what_retries_do(
    spark: SparkSession, filled: redis.Redis, streamd_port: int, proxy: Proxy, tmp_path: Path
) -> None:
    """Were this to show no duplicate, the other tests would show nothing."""
    proxy.cut(3, 11)
    rows = read_stream(spark, streamd_port, maxEntriesPerTrigger=1000, entriesPerPartition=500)
    finish(copy(spark, proxy.port, tmp_path, rows.selectExpr("id AS source", "fields"), exactlyOnce="none"))

    lost, duplicated = compare(filled)
    assert lost == 0
    assert duplicated >= 100


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": "10ms"},
        {"identity": "key", "idempotencyKey": "source"},
        {"exactlyOnce": "marker"},
    ],
    ids=["content, tasks fail", "key, tasks try again", "marker"],
)
def test_connections_cut_while_their_rows_are_written(
    spark: SparkSession, filled: redis.Redis, streamd_port: int, proxy: Proxy, tmp_path: Path, options: dict
) -> None:
    proxy.cut(3, 11)
    rows = read_stream(spark, streamd_port, maxEntriesPerTrigger=1000, entriesPerPartition=500)
    finish(copy(spark, proxy.port, tmp_path, rows.selectExpr("id AS source", "fields"), **options))

    assert compare(filled) == (0, 0)
    sink = next(iter(filled.hgetall("{out}:spark"))).decode()
    stats = filled.hgetall("{out}:spark:stats")
    assert int(stats[f"{sink}:rows".encode()]) == ENTRIES
    assert int(stats[f"{sink}:duplicates".encode()]) > 0


def test_a_task_that_fails_once_after_it_has_written(
    spark: SparkSession, filled: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    """exactlyOnce=marker writes rows as they come, so those before the failure are there when it comes.

    The padding is for Spark, which hands rows on when it has 64 KiB of them."""
    flag = str(tmp_path / "failed")

    def fail_once(value: bytes) -> str:
        if value == b"1500" and not os.path.exists(flag):
            open(flag, "w").close()
            time.sleep(1)  # meanwhile the sink works on what it was given
            raise ValueError("a failure on purpose")
        return value.decode()

    rows = read_stream(spark, streamd_port, entriesPerPartition=ENTRIES)
    failing = rows.select("id", udf(fail_once)("fields.n").alias("n"), "fields").selectExpr(
        "id AS source", "n", "cast(fields['v'] AS string) AS v", "repeat('x', 500) AS padding"
    )
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "200")
    try:
        finish(copy(spark, streamd_port, tmp_path / "checkpoint", failing, exactlyOnce="marker"))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    assert os.path.exists(flag)
    assert compare(filled) == (0, 0)
    duplicates = [int(n) for name, n in filled.hgetall("{out}:spark:stats").items() if name.endswith(b":duplicates")]
    assert duplicates[0] > 0


def test_rows_that_are_others_at_each_attempt_stop_the_query(
    spark: SparkSession, filled: redis.Redis, streamd_port: int, proxy: Proxy, tmp_path: Path
) -> None:
    """A task loses its connection in the middle, is tried again, and draws its random numbers anew."""
    proxy.cut(3)
    dice = udf(lambda: str(random.random())).asNondeterministic()
    rows = read_stream(spark, streamd_port, entriesPerPartition=ENTRIES)
    rows = rows.selectExpr("id AS source", "fields").withColumn("dice", dice())
    with pytest.raises(StreamingQueryException) as caught:
        finish(copy(spark, proxy.port, tmp_path, rows, timeout="10ms"))

    lines = [line for line in str(caught.value).splitlines() if "spark_source.errors.RowsChanged: " in line]
    assert "may have written some, this one has 2000 and they are not the same: set idempotencyKey" in lines[-1]
    assert compare(filled)[1] == 0, "nothing is there twice"

    finish(copy(spark, streamd_port, tmp_path, rows, onRowsChanged="continue"))
    assert compare(filled)[0] == 0


def test_a_commit_that_spark_forgot(
    spark: SparkSession, filled: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    """The batch runs again: with the sink's own marker it is not even sent, without it each row is recognised."""
    assert finish(copy(spark, streamd_port, tmp_path)) == [1000, 1000]
    forget_commit(tmp_path, 1)
    finish(copy(spark, streamd_port, tmp_path))
    assert compare(filled) == (0, 0)
    assert filled.xinfo_stream("out")["iids-duplicates"] == 0

    forget_commit(tmp_path, 1)
    filled.delete("{out}:spark")
    fill(filled, 10, first=ENTRIES)
    assert sum(finish(copy(spark, streamd_port, tmp_path))) == 1010, "and then the query goes on"
    assert compare(filled) == (0, 0)
    assert filled.xinfo_stream("out")["iids-duplicates"] == 1000


def forget_commit(checkpoint: Path, batch: int) -> None:
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink()
