"""Spark's average per device in the demo of topics, from the log that the members replay."""

import argparse
import json
import sys

from pyspark.sql import functions as f

from demo.spark_job import session


def main() -> int:
    """Print `{device: [readings, average]}` as JSON; return an exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.topics_spark")
    parser.add_argument("--url", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--filter", required=True)
    parser.add_argument("--start-ms", type=int, required=True)
    options = parser.parse_args()
    spark = session()
    messages = (
        spark.read.format("streamd")
        .schema("topic string, payload string")
        .option("url", options.url)
        .option("log", options.log)
        .option("topicFilter", options.filter)
        .option("startingTimestamp", options.start_ms)
        .load()
    )
    averages = messages.groupBy(f.split("topic", "/")[1].alias("device")).agg(
        f.count("*").alias("readings"), f.avg(f.col("payload").cast("double")).alias("average")
    )
    print(json.dumps({row.device: [row.readings, row.average] for row in averages.collect()}))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
