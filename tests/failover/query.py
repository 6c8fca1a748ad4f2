"""A Spark query behind Sentinels: it copies a stream, and its sink waits for all replicas."""

import re
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


class Query:
    """A query that is started again whenever it has stopped, and the reasons why it stopped.

    Spark finds the data source only in the thread that made the session.
    """

    def __init__(self, spark: "SparkSession", machines: Machines, place: Path) -> None:
        self.stops: Counter[str] = Counter()
        self._spark, self._machines, self._place = spark, machines, place
        self._client = machines.remote_client()
        self._query: StreamingQuery | None = None
        self._accepts_loss = False
        self._rows = 0

    def keep_going(self) -> None:
        """Start the query where it is not running."""
        if self._query is not None and self._query.isActive:
            return
        if self._query is not None:
            text = str(self._query.exception())
            errors = re.findall(ERRORS, text, re.MULTILINE)
            why = ALLOWED_STOP if ALLOWED_STOP in text else errors[-1][:300] if errors else text[:300]
            self.stops[why] += 1
            self._accepts_loss = why == ALLOWED_STOP
        self._query = self._start()

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
            self.keep_going()
            assert time.monotonic() < until, f"{self.rows()} of {rows} rows after {CATCH_UP_S:.0f} s: {self.stops}"
            time.sleep(TIMEOUT_S / 10)

    def stop(self) -> None:
        """End the query."""
        if self._query is not None:
            self._query.stop()
