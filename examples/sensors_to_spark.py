"""A feed of sensors into a stream, read by Spark: the average of each sensor and minute, written once.

    python examples/sensors_to_spark.py [--url redis://127.0.0.1:6379] [--sensors 4] [--minutes 10]

Each sensor sends a reading every five seconds, under its time as idempotent ID; some are sent twice, and some come half
a minute late. A streaming query reads them, takes the average over windows of a minute, and writes each window to a
second stream when no reading can come for it any more. It ends in the middle and goes on from its checkpoint. The rows
pass a shuffle, so the sink knows them by a key: `idempotencyKey=sensor,minute`.

Ends with exit code 0 if each closed window is there once with the right average, else 1. Without --url it starts a
server of its own. Needs `pip install ".[spark]"`; takes half a minute, most of it Spark's.
"""

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from statistics import mean
from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READINGS, AVERAGES = "sensor-readings", "sensor-averages"
START = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
EVERY_S, LATE_S, WATERMARK = 5, 30, "1 minute"
Reading = tuple[str, datetime, float]


def readings(sensors: int, first_minute: int, minutes: int) -> list[Reading]:
    """Return what sensors measure in so many minutes: sensor, time, degrees."""
    return [
        (f"sensor-{sensor}", START + timedelta(seconds=second), 20 + sensor + second % 60 / 10)
        for second in range(first_minute * 60, (first_minute + minutes) * 60, EVERY_S)
        for sensor in range(sensors)
    ]


def send(client: redis.Redis, measured: list[Reading]) -> None:
    """Write readings as they come in: every tenth of a sensor late, every seventh twice."""

    def comes_in(numbered: tuple[int, Reading]) -> datetime:
        return numbered[1][1] + timedelta(seconds=LATE_S if numbered[0] % 10 == 0 else 0)

    with client.pipeline(transaction=False) as pipeline:
        for number, (sensor, at, degrees) in sorted(enumerate(measured), key=comes_in):
            fields = {"sensor": sensor, "at": at.isoformat(), "degrees": degrees}
            for _ in range(2 if number % 7 == 0 else 1):
                pipeline.xadd(READINGS, fields, idmp=(sensor, at.isoformat()))
        pipeline.execute()


def average(spark: "SparkSession", url: str, checkpoint: str) -> None:
    """Read what is there and was not read yet, and write the windows that are over."""
    from pyspark.sql import functions as f

    measured = (
        spark.readStream.format("streamd")
        .option("url", url)
        .option("stream", READINGS)
        .option("startingOffsets", "earliest")
        .schema("sensor string, at timestamp, degrees double")
        .load()
    )
    averages = (
        measured.withWatermark("at", WATERMARK)
        .groupBy("sensor", f.window("at", "1 minute").alias("window"))
        .agg(f.avg("degrees").alias("average"), f.count("*").alias("readings"))
        .select("sensor", f.unix_timestamp("window.start").alias("minute"), "average", "readings")
    )
    query = (
        averages.writeStream.format("streamd")
        .option("url", url)
        .option("stream", AVERAGES)
        .option("idempotencyKey", "sensor,minute")
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def run(spark: "SparkSession", url: str, sensors: int, minutes: int) -> int:
    """Send, average, send more, go on, and compare; return the exit code."""
    client = redis.Redis.from_url(url, decode_responses=True)
    client.delete(READINGS, AVERAGES)
    half = minutes // 2
    parts = [readings(sensors, 0, half), readings(sensors, half, minutes - half)]
    with tempfile.TemporaryDirectory() as checkpoint:
        for part in parts:
            send(client, part)
            average(spark, url, checkpoint)
            print(f"readings {client.xlen(READINGS)}, windows written {client.xlen(AVERAGES)}; the query has ended")

    wanted: dict[tuple[str, int], list[float]] = defaultdict(list)
    for sensor, at, degrees in parts[0] + parts[1]:
        wanted[sensor, int(at.replace(second=0).timestamp())].append(degrees)
    written = [fields for _, fields in client.xrange(AVERAGES)]
    found = {(row["sensor"], int(row["minute"])): row for row in written}
    wrong = [
        window
        for window, row in found.items()
        if int(row["readings"]) != len(wanted[window]) or abs(float(row["average"]) - mean(wanted[window])) > 1e-9
    ]
    for sensor in sorted({sensor for sensor, _ in found}):
        each = [float(row["average"]) for row in written if row["sensor"] == sensor]
        print(f"  {sensor}: {len(each)} minutes, average of the first {each[0]:.2f} degrees")
    # The last reading closes every window that ended a minute (the watermark) before it.
    last = parts[1][-1][1] - timedelta(minutes=1)
    closed = {window for window in wanted if window[1] + 60 <= last.timestamp()}
    twice, lost = len(written) - len(found), len(closed - found.keys())
    still_open = len(wanted) - len(found)
    print(f"windows closed {len(closed)}, lost {lost}, twice {twice}, wrong {len(wrong)}, still open {still_open}")
    return 0 if lost == twice == len(wrong) == 0 and found else 1


def session() -> "SparkSession":
    """Return a quiet session on two threads of this machine."""
    from pyspark.sql import SparkSession

    from spark_source.java import spark_environment

    os.environ.update(spark_environment())
    return (
        SparkSession.builder.master("local[2]")
        .appName("sensors")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )


def main() -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description="a feed of sensors, averaged by Spark over windows of a minute")
    parser.add_argument("--url", help="a running server; by default one is started inside this process")
    parser.add_argument("--sensors", type=int, default=4)
    parser.add_argument("--minutes", type=int, default=10, help="how long the sensors measure, at least 6")
    arguments = parser.parse_args()
    if arguments.sensors < 1 or arguments.minutes < 6:
        parser.error("--sensors is at least 1, --minutes at least 6")
    with ExitStack() as stack:
        url = arguments.url
        if url is None:
            from streamd.testing import Clock, EmbeddedServer

            url = stack.enter_context(EmbeddedServer(clock=Clock())).url
        try:
            redis.Redis.from_url(url).ping()  # Spark's own words on a server that is not there take a page
            spark = session()
            stack.callback(spark.stop)
            return run(spark, url, arguments.sensors, arguments.minutes)
        except redis.RedisError as error:
            needs = "; this needs streamd, or Redis from 8.6 on" if isinstance(error, redis.ResponseError) else ""
            print(f"sensors_to_spark: {url}: {error}{needs}", file=sys.stderr)
        except (ImportError, RuntimeError) as error:  # no pyspark, no Java
            print(f'sensors_to_spark: {error}; pip install ".[spark]" brings what is needed', file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
