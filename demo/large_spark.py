"""Spark's counts by device in the demo of large streams."""

import argparse
import json
import sys

from pyspark.sql import functions as f

from demo.spark_job import session


def main() -> int:
    """Print `{device: [readings, sum of their numbers]}` as JSON; return an exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.large_spark")
    parser.add_argument("--url", required=True)
    parser.add_argument("--stream", required=True)
    options = parser.parse_args()
    spark = session()
    readings = (
        spark.read.format("streamd")
        .schema("device string, n long")
        .option("url", options.url)
        .option("stream", options.stream)
        .load()
    )
    counts = readings.groupBy("device").agg(f.count("*").alias("readings"), f.sum("n").alias("total"))
    print(json.dumps({row.device: [row.readings, row.total] for row in counts.collect()}))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
