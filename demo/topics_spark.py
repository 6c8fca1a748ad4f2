"""Spark's average per device in the demo of topics, from the log's streams as they lie in the server."""

import argparse
import json
import sys

from pyspark.sql import functions as f

from demo.spark_job import session


def main() -> int:
    """Print `{device: [readings, average]}` as JSON; return an exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.topics_spark")
    parser.add_argument("--url", required=True)
    parser.add_argument("--streams", required=True, nargs="+")
    parser.add_argument("--start-ms", type=int, required=True)
    options = parser.parse_args()
    spark = session()
    parts = [
        spark.read.format("streamd")
        .schema("_id string, t string, p string")
        .option("url", options.url)
        .option("stream", stream)
        .load()
        for stream in options.streams
    ]
    entries = parts[0]
    for part in parts[1:]:
        entries = entries.union(part)
    averages = (
        entries.where(f.col("t").rlike("^devices/[^/]*/temperature$"))
        .where(f.split("_id", "-")[0].cast("decimal(20)") >= options.start_ms)
        .groupBy(f.split("t", "/")[1].alias("device"))
        .agg(f.count("*").alias("readings"), f.avg(f.col("p").cast("double")).alias("average"))
    )
    print(json.dumps({row.device: [row.readings, row.average] for row in averages.collect()}))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
