"""A Spark query behind Sentinels: it copies a stream, and its sink waits for all replicas."""

import re
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import redis

from tests.failover.machines import REPLICAS, TIMEOUT_S, Machines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

TIMEOUT = "60s"
# What docs/exactly-once.md says a query stops with when its source lost what it had read.
ALLOWED_STOP = "lost its newest entries"
CATCH_UP_S = 120.0
ERRORS = r"^[\w.]+(?:Error|Exception|Loss|Durable|Unreachable): .*"


class Query(threading.Thread):
    """Keeps a query running, and notes why it stopped."""

    def __init__(self, spark: "SparkSession", machines: Machines, place: Path) -> None:
        super().__init__(daemon=True)
        self.stops: Counter[str] = Counter()
        self._spark, self._machines, self._place = spark, machines, place
        self._client = machines.remote_client()
        self._is_over = threading.Event()
        self._accepts_loss = False
        self._rows = 0

    def run(self) -> None:
        """Start the query again whenever it has stopped."""
        from pyspark.errors import StreamingQueryException

        while not self._is_over.is_set():
            query = self._start()
            try:
                while not self._is_over.is_set() and not query.awaitTermination(1):
                    pass
            except StreamingQueryException as error:
                text = str(error)
                errors = re.findall(ERRORS, text, re.MULTILINE)
                why = ALLOWED_STOP if ALLOWED_STOP in text else errors[-1][:300] if errors else text[:300]
                self.stops[why] += 1
                self._accepts_loss = why == ALLOWED_STOP
            finally:
                query.stop()

    def _start(self) -> "StreamingQuery":
        reader = self._spark.readStream.format("streamd").schema("n string")
        source = reader.options(url=self._machines.url, stream="in", startingOffsets="earliest", timeout=TIMEOUT)
        # One partition for each batch: rows have an order then.
        source = source.options(maxEntriesPerTrigger="2000", entriesPerPartition="2000")
        source = source.options(failOnDataLoss=str(not self._accepts_loss).lower())
        sink = source.load().writeStream.format("streamd").options(url=self._machines.url, stream="out")
        # An entry that a failover took, and whose producer sends it again, is another entry: the row is known by its n.
        sink = sink.options(timeout=TIMEOUT, identity="key", idempotencyKey="n", idempotencyScope="stream")
        sink = sink.options(durability=f"replicas:{REPLICAS}")
        return sink.option("checkpointLocation", str(self._place / "checkpoint")).start()

    def rows(self) -> int:
        """Return how many rows it has written, as far as is known."""
        try:
            self._rows = max(self._rows, int(self._client.xlen("out")))
        except (redis.RedisError, OSError):
            pass
        return self._rows

    def catch_up(self, rows: int) -> None:
        """Wait until it has written so many. Raises: AssertionError."""
        until = time.monotonic() + CATCH_UP_S
        while self.rows() < rows:
            assert time.monotonic() < until, f"{self.rows()} of {rows} rows after {CATCH_UP_S:.0f} s: {self.stops}"
            time.sleep(TIMEOUT_S / 10)

    def stop(self) -> None:
        """End the query."""
        self._is_over.set()
        if self.is_alive():
            self.join(60)
