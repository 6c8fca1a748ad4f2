"""The Spark job of the demo: reads a stream, enriches each entry, writes a second stream."""

import argparse
import re
import sys
import threading

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from demo import feed
from spark_source import StreamdSource

SCHEMA = "_id string, order string, shop string, item string, quantity long, cents long, currency string"


def main() -> int:
    """Run the query until a line arrives on standard input, then until it has caught up; return an exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.spark_job")
    parser.add_argument("--url", required=True)
    parser.add_argument("--read", required=True, metavar="STREAM")
    parser.add_argument("--write", required=True, metavar="STREAM")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--entries-per-trigger", type=int, required=True)
    options = parser.parse_args()

    spark = session()
    entries = (
        spark.readStream.format("streamd")
        .schema(SCHEMA)
        .option("url", options.url)
        .option("stream", options.read)
        .option("startingOffsets", "earliest")
        .option("maxEntriesPerTrigger", options.entries_per_trigger)
        .option("entriesPerPartition", options.entries_per_trigger // 2)
        .load()
    )
    query = (
        enrich(entries)
        .writeStream.format("streamd")
        .option("url", options.url)
        .option("stream", options.write)
        .option("checkpointLocation", options.checkpoint)
        .start()
    )
    finish = threading.Event()
    threading.Thread(target=wait_for_line, args=(finish,), daemon=True).start()
    # A query that fails is to be noticed before the line arrives.
    try:
        while not finish.is_set():
            query.awaitTermination(1)
        query.processAllAvailable()
    except StreamingQueryException as error:
        print(f"the query failed: {cause(str(error))}", file=sys.stderr)
        return 1
    query.stop()
    spark.stop()
    return 0


def wait_for_line(finish: threading.Event) -> None:
    """Set the event when a line arrives, or when the process that started this job is gone."""
    sys.stdin.readline()
    finish.set()


def session() -> SparkSession:
    """Return a session on two threads of this machine, quiet."""
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("streamd demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    if " " in pyspark.__file__:  # then Spark 4.3 does not find sources by itself: it looks for its own files under %20
        spark.dataSource.register(StreamdSource)
    return spark


def cause(text: str) -> str:
    """Return the last Python error in the text of a failed query, which holds tracebacks of two languages."""
    return (re.findall(r"^[\w.]+(?:Error|Exception): .*", text, re.MULTILINE) or [text])[-1]


def enrich(entries: DataFrame) -> DataFrame:
    """Return a row per entry: its ID, the order's country, its worth in euro cents, and a size class."""
    country = lookup({shop: country for shop, (country, _, _) in feed.SHOPS.items()}, "shop")
    rate = lookup(feed.EURO_RATES, "currency")
    priced = entries.withColumn("rate", rate).withColumn(
        "eur_cents", f.expr("(quantity * cents * rate + 500000) div 1000000")
    )
    return priced.select(
        f.col("_id").alias("source_id"),
        "order",
        "shop",
        country.alias("country"),
        "item",
        "eur_cents",
        f.when(f.col("eur_cents") >= 10_000, "large").otherwise("small").alias("size"),
    )


def lookup(table: dict[str, str] | dict[str, int], column: str) -> Column:
    """Return the column that maps another through a small table."""
    return f.create_map([f.lit(part) for pair in table.items() for part in pair])[f.col(column)]


if __name__ == "__main__":
    sys.exit(main())
