"""One run: a feeder, a query and failovers; at the end every row is looked at."""

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import redis
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.spark.deployments import wait_until
from tests.spark.failing_over import Cluster, wait_s

STREAMS = ("in", "out")
FEED_BATCH = 20
FEED_WAIT_MS = 1_000
AHEAD = 3_000  # rows that the query may be behind
TIMEOUT = "60s"
# What docs/exactly-once.md says a query stops with when its source lost what it had read.
ALLOWED_STOP = "lost its newest entries"


@dataclass
class Result:
    """What a run found. rows: how many the producer was told are written, on a replica, too."""

    rows: int
    failovers: int
    lost: int
    duplicated: int
    stops: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def exact(self) -> bool:
        return not self.lost and not self.duplicated and set(self.stops) <= {ALLOWED_STOP}


class Run:
    """A feeder that waits for a replica, a query that does, and a hand that kills masters."""

    def __init__(
        self, spark: SparkSession, cluster: Cluster, place: Path, say: Callable[[str], None], seed: int, durability: str
    ) -> None:
        self.spark = spark
        self.durability = durability
        self.cluster = cluster
        self.place = place
        self.chance = random.Random(seed)
        self.say = say
        self.url = "redis://" + ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes[:3])
        self.fed = self.written = 0
        self.enough = threading.Event()
        self.stops: Counter[str] = Counter()
        self.query: StreamingQuery | None = None
        self.is_loss_accepted = False

    def run(self, failovers: int) -> Result:
        """Return what came of so many failovers. Raises: AssertionError when something does not come to an end."""
        began = time.monotonic()
        feeder = threading.Thread(target=self._feed)
        feeder.start()
        try:
            for number in range(failovers):
                stream = STREAMS[number % 2]
                self._go_on_until(lambda: self._length("out") > 0)
                wait_s(self.chance.uniform(0.2, 1.5))
                self._fail_over(stream)
                self.say(f"failover {number + 1} of {failovers}, of {stream}: {self.fed} rows fed")
        finally:
            self.enough.set()
            feeder.join()
        self._finish()
        found = Counter(fields[b"n"] for fields in self._entries("out"))
        wanted = Counter(b"%d" % n for n in range(self.fed))
        lost, more = (wanted - found).total(), (found - wanted).total()
        return Result(self.fed, failovers, lost, more, self.stops, time.monotonic() - began)

    # --- the producer ------------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Write numbered entries, each batch again by its names until a replica has it, too."""
        while not self.enough.is_set():
            if self.fed - self.written > AHEAD:
                wait_s(0.1)
                self.written = max(self.written, self._length("out"))
                continue
            rows = range(self.fed, self.fed + FEED_BATCH)
            while not self._fed(rows):
                wait_s(0.05)
            self.fed = rows.stop

    def _fed(self, rows: range) -> bool:
        try:
            master = self.cluster.master_of("in")
            with redis.Redis(port=master.port, socket_timeout=5) as client:
                pipe = client.pipeline(transaction=False)
                for n in rows:
                    pipe.execute_command("XADD", "in", "IDMP", "feeder", n, "*", "n", n)
                pipe.execute_command("WAIT", 1, FEED_WAIT_MS)
                return bool(pipe.execute()[-1] >= 1)
        except (redis.RedisError, AssertionError):
            return False

    # --- the query ---------------------------------------------------------------------------------------------------

    def _start(self) -> StreamingQuery:
        reader = self.spark.readStream.format("streamd").schema("n string")
        source = reader.options(url=self.url, stream="in", startingOffsets="earliest", timeout=TIMEOUT)
        source = source.options(failOnDataLoss=str(not self.is_loss_accepted).lower(), maxEntriesPerTrigger="2000")
        # An entry that a failover took, and whose producer sends it again, is another entry: the row is known by its n.
        sink = source.load().writeStream.format("streamd").options(url=self.url, stream="out", timeout=TIMEOUT)
        sink = sink.options(durability=self.durability, identity="key", idempotencyKey="n", idempotencyScope="stream")
        return sink.option("checkpointLocation", str(self.place / "checkpoint")).start()

    def _keep_going(self) -> None:
        """Start the query where it is not running, and note why it stopped; a loss that it reported is accepted."""
        if self.query is not None and self.query.isActive:
            return
        if self.query is not None:
            text = str(self.query.exception())
            errors = re.findall(r"^[\w.]+(?:Error|Exception|Loss|Durable|Unreachable): .*", text, re.MULTILINE)
            why = ALLOWED_STOP if ALLOWED_STOP in text else errors[-1][:300] if errors else text[:300]
            self.stops[why] += 1
            self.say(f"the query stopped: {why}")
            self.is_loss_accepted = why == ALLOWED_STOP
        try:
            self.query = self._start()
        except StreamingQueryException as error:
            self.say(f"the query did not start: {error}")

    def _go_on_until(self, holds: Callable[[], bool]) -> None:
        def looked() -> bool:
            self._keep_going()
            return holds()

        wait_until(looked, 180)

    def _finish(self) -> None:
        """Have the query write all that is there, and stop it."""
        while True:
            self._keep_going()
            try:
                if self.query is not None:
                    self.query.processAllAvailable()
                    self.query.stop()
                    return
            except StreamingQueryException:
                continue  # it is started again

    def _length(self, stream: str) -> int:
        try:
            return int(self.cluster.master_of(stream).client.xlen(stream))
        except (redis.RedisError, AssertionError):
            return -1

    def _entries(self, stream: str) -> list[dict[bytes, bytes]]:
        return [fields for _, fields in self.cluster.master_of(stream).client.xrange(stream)]

    # --- the failovers -----------------------------------------------------------------------------------------------

    def _fail_over(self, stream: str) -> None:
        """Kill the master of a stream a moment after its replica lost it, so that the replica lacks what was answered
        last; the replica takes over, and the killed one comes back as its replica.
        """
        master = self.cluster.master_of(stream)
        (replica,) = self.cluster.replicas_of(master)
        master.drop_replicas()
        wait_s(self.chance.uniform(0.1, 0.8))
        master.kill()
        wait_until(lambda: replica.client.execute_command("ROLE")[0] == b"master", 60)
        master.start()
        self._go_on_until(lambda: self._is_whole(replica.port))

    def _is_whole(self, port: int) -> bool:
        try:
            node = next(node for node in self.cluster.nodes if node.port == port)
            return self.cluster.is_whole() and node.replication()["connected_slaves"] >= 1
        except (redis.RedisError, KeyError):
            return False
