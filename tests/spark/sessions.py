"""The Spark session of the tests, and the query that several of them run: a stream copied to another."""

import os
from collections import Counter
from pathlib import Path

import redis
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_source.java import spark_environment

ROOT = Path(__file__).resolve().parent.parent.parent


def quiet_session() -> SparkSession:
    """Return a session on two threads of this machine; a task has four attempts."""
    os.environ.update(spark_environment())
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{path}" if path else str(ROOT)
    return (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "FATAL")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.task.maxFailures", "4")
        .getOrCreate()
    )


def fill(client: redis.Redis, count: int, stream: str = "in", first: int = 0) -> None:
    """Add entries with fields n and v."""
    pipe = client.pipeline(transaction=False)
    for n in range(first, first + count):
        pipe.xadd(stream, {"n": n, "v": f"value {n}"})
    pipe.execute()


def read_stream(spark: SparkSession, port: int, **options: object) -> DataFrame:
    given = {"port": port, "stream": "in", "startingOffsets": "earliest", **options}
    return spark.readStream.format("streamd").options(**given).load()


def copy(
    spark: SparkSession, port: int, checkpoint: Path, rows: DataFrame | None = None, read: dict | None = None, **write
) -> StreamingQuery:
    """Start the query that writes `out`: the entries of `in` with their IDs, up to those that are there now."""
    if rows is None:
        limits = {"maxEntriesPerTrigger": 1000, "entriesPerPartition": 500}
        rows = read_stream(spark, port, **{**limits, **(read or {})}).selectExpr("id AS source", "fields")
    return (
        rows.writeStream.format("streamd")
        .options(**{"port": port, "stream": "out", "pipeline": 100, **write})
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def finish(query: StreamingQuery) -> list[int]:
    """Wait for the end of a query; return the rows of its batches. Raises what ended it."""
    try:
        query.awaitTermination(180)
        assert not query.isActive, "the query did not end within three minutes"
        return [progress["numInputRows"] for progress in query.recentProgress]
    finally:
        query.stop()


def compare(client: redis.Redis, source: str = "in", target: str = "out") -> tuple[int, int]:
    """Return how many entries of `source` are lost in `target`, and how many are there too often."""
    wanted = Counter((entry_id, fields[b"n"], fields[b"v"]) for entry_id, fields in client.xrange(source))
    found = Counter((fields[b"source"], fields[b"n"], fields[b"v"]) for _, fields in client.xrange(target))
    return sum((wanted - found).values()), sum((found - wanted).values())
