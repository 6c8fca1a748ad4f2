"""The driver: answers each reading in a log with a command to its device, and starts its query again if it fails."""

import argparse
import re
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.chaos.job import cluster_session
from tests.spark.sessions import quiet_session

LOCAL = "local"
COMMANDS_LOG = "commands"  # in the log of the readings the query would read its own rows
FAILURES_MAX = 60


def main() -> None:
    """Answer readings until it is killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.commands.job")
    for name in ("--master", "--directory", "--checkpoint", "--exactly-once"):
        parser.add_argument(name, required=True)
    for name in ("--port", "--per-batch"):
        parser.add_argument(name, required=True, type=int)
    options = parser.parse_args()
    is_local = options.master == LOCAL
    spark = quiet_session() if is_local else cluster_session(options.master, Path(options.directory))
    for _ in range(FAILURES_MAX):
        query = (
            commands(spark, options.port, options.per_batch)
            .writeStream.format("streamd")
            .options(port=options.port, log=COMMANDS_LOG, pipeline=5, exactlyOnce=options.exactly_once)
            .option("checkpointLocation", options.checkpoint)
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            causes = re.findall(r"^[\w.]+(?:Error|Exception|Changed|Expired|Loss): .*", str(error), re.MULTILINE)
            print(f"failed: {(causes or [str(error)[:300]])[-1]}", flush=True)


def commands(spark: SparkSession, port: int, per_batch: int) -> DataFrame:
    """Return a command for each reading: to its device, with QoS 2, for an hour."""
    readings = (
        spark.readStream.format("streamd")
        .schema("publisher string, payload string")
        .options(port=port, log="mqtt", topicFilter="chaos/#", startingOffsets="earliest")
        .options(maxEntriesPerTrigger=per_batch, entriesPerPartition=max(1, per_batch // 2))
        .load()
    )
    return readings.selectExpr("concat('commands/', publisher) AS topic", "payload", "2 AS qos", "3600 AS expiry_s")


if __name__ == "__main__":
    main()
