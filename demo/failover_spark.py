"""The Spark job of the demo of failovers: it reads orders and writes invoices, by way of Sentinels."""

import argparse
import sys
import threading

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from demo.spark_job import cause, session, wait_for_line

# What the query stops with when it has read orders that only the lost machine had. The producer sends them again.
LOSS = "lost its newest entries"


def main() -> int:
    """Run the query until a line arrives on standard input, then until it has caught up; return an exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.failover_spark")
    parser.add_argument("--url", required=True)
    parser.add_argument("--read", required=True, metavar="STREAM")
    parser.add_argument("--write", required=True, metavar="STREAM")
    parser.add_argument("--replicas", required=True, type=int)
    parser.add_argument("--checkpoint", required=True)
    options = parser.parse_args()

    spark = session()
    finish = threading.Event()
    threading.Thread(target=wait_for_line, args=(finish,), daemon=True).start()
    accepts_loss = False
    while True:
        query = start(spark, options, accepts_loss)
        try:
            while not finish.is_set():
                query.awaitTermination(1)
            query.processAllAvailable()
            break
        except StreamingQueryException as error:
            if LOSS not in str(error):
                print(f"the query failed: {cause(str(error))}", file=sys.stderr)
                return 1
            print("the query had read orders that only the lost machine had; it goes on after those that are left")
            accepts_loss = True
    query.stop()
    spark.stop()
    return 0


def start(spark: SparkSession, options: argparse.Namespace, accepts_loss: bool) -> StreamingQuery:
    """Start the query: a row for each order, named by the order, and written when all replicas have it."""
    orders = (
        spark.readStream.format("streamd")
        .schema("order string, cents long")
        .option("url", options.url)
        .option("stream", options.read)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", str(not accepts_loss).lower())
        .load()
    )
    return (
        orders.select("order", (f.col("cents") * 119 / 100).cast("long").alias("with_tax"))
        .writeStream.format("streamd")
        .option("url", options.url)
        .option("stream", options.write)
        .option("identity", "key")
        .option("idempotencyKey", "order")
        .option("idempotencyScope", "stream")
        .option("durability", f"replicas:{options.replicas}")
        .option("checkpointLocation", options.checkpoint)
        .start()
    )


if __name__ == "__main__":
    sys.exit(main())
