"""The driver of the chaos test: three streaming queries and a batch load, each started again whenever it fails.

* copied: stream to stream; a row is known by its content, and carries the ID of the entry it was made of.
* shuffled: stream to shuffle to stream; rows change their partitions at each attempt, a row is known by its key.
* loaded: batch to stream, in parts with names; rows come several times, and as often they are wanted.
* changing: stream to stream with `rand()`, known by its content: nothing is promised but that it stops rather than
  write a row twice. When it does, the next one begins, with a stream and a checkpoint of its own.
"""

import argparse
import re
import sys
import threading
import time
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.spark.chaos.unruly import UnrulySource

FAILURES_MAX = 60
EQUAL_ROWS = 3  # each row of the batch load is there so many times

# Each query that starts puts these into the one environment of a registered source, a map that no lock guards: two
# queries that put the same new name at the same time spoil its size, and then no task of this driver can be read
# (OptionalDataException). Names that are there already are only given their values.
SHARED_NAMES = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}


def main() -> int:
    """Run until a line arrives on standard input, then until everything that is there has been written."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.chaos.job")
    for name in ("--master", "--directory", "--exactly-once"):
        parser.add_argument(name, required=True)
    for name in ("--port", "--per-batch", "--load-rows", "--load-parts", "--changing"):
        parser.add_argument(name, required=True, type=int)
    parser.add_argument("--fail-share", required=True, type=float)
    return Job(parser.parse_args()).run()


class Job:
    """The queries of one driver; options are those of the command line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.spark = cluster_session(options.master, Path(options.directory))
        self.spark.sparkContext.environment.update(SHARED_NAMES)
        self.spark.dataSource.register(UnrulySource)
        self.failures = 0
        self.checkpoints = Path(options.directory) / "checkpoints"
        self.finish = threading.Event()
        self.loaded = threading.Event()

    def run(self) -> int:
        threading.Thread(target=self._wait_for_line, daemon=True).start()
        threading.Thread(target=self._load, daemon=True).start()
        queries: dict[str, StreamingQuery] = {}
        while self.failures < FAILURES_MAX:
            self._keep_going(queries)
            if self.options.changing:
                self._keep_changing(queries)
            if self.finish.is_set() and self.loaded.is_set():
                try:
                    if "changing" in queries:
                        queries.pop("changing").stop()
                    for query in queries.values():
                        query.processAllAvailable()
                    print("done", flush=True)
                    return 0
                except StreamingQueryException:
                    continue  # and start it again
            time.sleep(0.1)
        print("too many failures", flush=True)
        return 1

    def _keep_going(self, queries: dict[str, StreamingQuery]) -> None:
        for start in (self._copied, self._shuffled):
            name = start.__name__.strip("_")
            if name not in queries or not queries[name].isActive:
                if name in queries:
                    self._failed(name, str(queries[name].exception()))
                queries[name] = start()

    def _keep_changing(self, queries: dict[str, StreamingQuery]) -> None:
        """Start the query whose rows change; where it stopped for that, the next, else the same again."""
        stopped = len(list(self.checkpoints.glob("stopped-*")))
        query = queries.get("changing")
        if query is not None and query.isActive:
            return
        if query is not None:
            cause = self._failed(f"changing-{stopped}", str(query.exception()), counts=False)
            if "RowsChanged" in cause:
                (self.checkpoints / f"stopped-{stopped}").touch()
                stopped += 1
        self.checkpoints.mkdir(exist_ok=True)
        at = "earliest" if stopped == 0 else "latest"
        rows = self._entries(at, self.options.per_batch // 4).selectExpr("source", "n", "rand() AS v")
        queries["changing"] = self._start(f"changing-{stopped}", rows)

    def _entries(self, at: str = "earliest", per_batch: int = 0) -> DataFrame:
        """Return the entries of `in`, as rows in an order that nobody knows."""
        options = self.options
        per_batch = per_batch or options.per_batch
        entries = (
            self.spark.readStream.format("unruly")
            .schema("_id string, n string, v string")
            .options(port=options.port, stream="in", startingOffsets=at, failShare=options.fail_share)
            .options(maxEntriesPerTrigger=per_batch, entriesPerPartition=per_batch // 2)
            .load()
        )
        return entries.selectExpr("_id AS source", "n", "v")

    def _sink(self, stream: str) -> dict[str, object]:
        options = self.options
        shared = {"port": options.port, "exactlyOnce": options.exactly_once, "failShare": options.fail_share}
        return {**shared, "stream": stream, "pipeline": 20}

    def _copied(self) -> StreamingQuery:
        return self._start("copied", self._entries())

    def _shuffled(self) -> StreamingQuery:
        key = {} if self.options.exactly_once == "none" else {"identity": "key", "idempotencyKey": "source"}
        return self._start("shuffled", self._entries().repartition(3), **key)

    def _start(self, name: str, rows: DataFrame, **options: object) -> StreamingQuery:
        writer = rows.writeStream.format("unruly").options(**self._sink(name)).options(**options)
        return writer.option("checkpointLocation", f"{self.options.directory}/checkpoints/{name}").start()

    def _load(self) -> None:
        """Write each part until that succeeds, and then once more, as somebody would who does not know."""
        self.spark.createDataFrame([], "n int")  # makes the session this thread's, where registered sources are found
        size = self.options.load_rows
        for part in range(self.options.load_parts):
            numbers = self.spark.range(part * size, (part + 1) * size, 1, 4)
            rows = numbers.selectExpr(f"id div {EQUAL_ROWS} AS n", f"concat('value ', id div {EQUAL_ROWS}) AS v")
            left = 1 if self.options.exactly_once == "none" else 2
            while left:
                try:
                    sink = {**self._sink("loaded"), "sinkId": "load", "sinkBatch": part}
                    rows.write.format("unruly").options(**sink).mode("append").save()
                    left -= 1
                except Exception as error:  # whatever it was: the job is submitted again
                    self._failed("loaded", str(error))
        self.loaded.set()

    def _failed(self, name: str, text: str, counts: bool = True) -> str:
        """Say why something failed, and return it."""
        self.failures += counts
        causes = re.findall(r"^[\w.]+(?:Error|Exception|Changed|Expired|Loss): .*", text, re.MULTILINE) or [text[:300]]
        print(f"failed {name}: {causes[-1]}", flush=True)
        return causes[-1]

    def _wait_for_line(self) -> None:
        sys.stdin.readline()
        self.finish.set()


def cluster_session(master: str, directory: Path) -> SparkSession:
    """Return a session on the cluster: small executors, speculation, and an event log to count by."""
    java = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.io.tmpdir={directory}/local"
    settings = {
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": java,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": java,
        "spark.cores.max": "2",
        "spark.scheduler.mode": "FAIR",
        "spark.task.maxFailures": "4",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "300ms",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        # Spark would sort rows before it deals them out, so that a retry deals them out alike.
        "spark.sql.execution.sortBeforeRepartition": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{directory}/events",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.network.timeout": "60s",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",
    }
    builder = SparkSession.builder.master(master).appName("chaos")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    sys.exit(main())
