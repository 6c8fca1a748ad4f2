"""Spark's part in the demo of MQTT: a query that answers each device's readings with one command."""

import argparse
import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from demo.spark_job import cause, session

ENTRIES_MAX = 10_000_000  # all readings are one batch, for a further batch would send a further command


def main() -> int:
    """Write `{"readings": ..., "average": ...}` to each device; return an exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.mqtt_spark")
    for name in ("--url", "--log", "--filter", "--commands", "--checkpoint"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    spark = session()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    readings = (
        spark.readStream.format("streamd")
        .schema("topic string, payload string")
        .option("url", options.url)
        .option("log", options.log)
        .option("topicFilter", options.filter)
        .option("startingOffsets", "earliest")
        .option("maxEntriesPerTrigger", ENTRIES_MAX)
        .load()
    )

    def answer(batch: DataFrame, number: int) -> None:
        averages = batch.groupBy(f.split("topic", "/")[1].alias("device")).agg(
            f.count("*").alias("readings"), f.avg(f.col("payload").cast("double")).alias("average")
        )
        commands = averages.selectExpr(
            "concat('commands/', device) AS topic", "to_json(struct(readings, average)) AS payload", "2 AS qos"
        )
        # The names make a command one entry, also if a batch that was interrupted runs again.
        names = {"sinkId": "averages", "sinkBatch": str(number)}
        given = {"url": options.url, "log": options.commands, **names}
        commands.write.format("streamd").options(**given).mode("append").save()

    query = (
        readings.writeStream.foreachBatch(answer)
        .option("checkpointLocation", options.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(f"the query failed: {cause(str(error))}", file=sys.stderr)
        return 1
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
