"""A client of Spark Connect that writes, reads and copies a stream: `-m tests.spark.connect_job PORT DIRECTORY`."""

import json
import os
import sys

from pyspark.sql import SparkSession

from spark_source.java import spark_environment
from tests.spark.sessions import ROOT


def main(port: str, directory: str) -> None:
    """Print what was seen as one line of JSON."""
    os.environ.update(spark_environment())
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "FATAL")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    server = {"port": port}
    rows = spark.range(100).selectExpr("id AS n", "concat('value ', id) AS v")
    rows.write.format("streamd").options(stream="in", **server).mode("append").save()
    read = spark.read.format("streamd").options(stream="in", **server).schema("n long, v string").load()
    total = read.selectExpr("sum(n)").first()[0]
    spark.sql(f"CREATE TEMPORARY VIEW v USING streamd OPTIONS (port '{port}', stream 'in')")
    counted = spark.sql("SELECT count(*) FROM v").first()[0]
    source = spark.readStream.format("streamd").options(stream="in", startingOffsets="earliest", **server).load()
    query = (
        source.selectExpr("id AS source", "fields")
        .writeStream.format("streamd")
        .options(stream="out", **server)
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    latest = query.lastProgress.sources[0].latestOffset
    print(
        json.dumps({"kind": type(spark).__module__, "total": total, "counted": counted, "latest": json.loads(latest)})
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
