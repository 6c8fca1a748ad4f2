"""One run of the chaos test: servers and queries start, faults happen as the rows come, and every row is looked at."""

import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import redis

from bench.ports import free_port
from demo.checkpoint import Checkpoint
from demo.proxy import CuttingProxy
from tests.spark.chaos.check import Comparison, compare, twice
from tests.spark.chaos.cluster import Cluster, Started, send

STREAMS = ("copied", "shuffled", "loaded")
FEED_BATCH = 50
AHEAD_BATCHES = 3  # of the queries: Spark 4.0 takes all that waits in one batch when a query starts
PAUSE_S = 5.0  # how long a worker is stopped: long enough for Spark to start a copy of its task
MARKERS = {"copied": "{copied}:spark", "shuffled": "{shuffled}:spark"}


@dataclass(frozen=True)
class Plan:
    """What a run is to do. Rows are per query; the load writes as many in all."""

    rows: int
    faults: tuple[str, ...]
    per_batch: int = 600
    load_parts: int = 3
    seed: int = 1
    fail_share: float = 0.04
    exactly_once: str = "auto"
    seconds_max: float = 300.0
    changing: bool = False


@dataclass
class Result:
    """What a run did, and what it found."""

    comparisons: list[Comparison]
    faults: Counter[str]
    cuts: int
    tasks: Counter[str]
    failures: int
    seconds: float
    story: list[str] = field(default_factory=list)
    twice: Counter[str] = field(default_factory=Counter)
    """Of each stream whose rows change at each attempt: the rows that are there twice."""

    @property
    def exact(self) -> bool:
        """Whether each row is there once where that is promised, and no row twice where its query has to stop."""
        return not any(one.lost or one.duplicated for one in self.comparisons) and not self.twice.total()

    @property
    def stops(self) -> int:
        """How many of the queries whose rows change stopped for that."""
        return sum("failed changing-" in line and "RowsChanged" in line for line in self.story)


class Run:
    """Everything that one run starts. `end()` ends it all, whatever has happened."""

    def __init__(self, plan: Plan, directory: Path, say: Callable[[str], None] = lambda line: None) -> None:
        self.plan = plan
        self.directory = directory
        self.began = time.monotonic()
        self.chance = random.Random(plan.seed)
        self._say = say
        self.faults: Counter[str] = Counter()
        self.expected = 3 * plan.rows
        self.port = free_port()
        self.client = redis.Redis(port=self.port)
        self.proxy = CuttingProxy(self.port, (20, 120), plan.seed, write_delay_s=0.01)
        self.cluster = Cluster(directory)
        self.server: Started | None = None
        self.driver: Started | None = None
        self.drivers: list[Path] = []
        self.stopping = threading.Event()
        self.stopped: dict[int, float] = {}
        self.feeder = threading.Thread(target=self._feed, daemon=True)

    def run(self) -> Result:
        """Return what came of it. Raises: AssertionError when it does not come to an end."""
        for name in ("events", "local", "checkpoints", "data"):
            (self.directory / name).mkdir()
        self.cluster.start()
        self._start_server()
        self.proxy.start()
        self._start_driver()
        self.feeder.start()
        for number, fault in enumerate(self.plan.faults):
            self._wait_until(lambda number=number: self._progress() >= (number + 0.5) / (len(self.plan.faults) + 1))
            self._wait_for_writes(self.chance.randint(1, 20))
            getattr(self, f"_{fault}")()
        self._wait_until(lambda: not self.feeder.is_alive())
        assert self.driver is not None
        assert self.driver.process.stdin is not None
        self.driver.process.stdin.write(b"\n")
        self.driver.process.stdin.flush()
        self._wait_until(lambda: self.driver is not None and self.driver.ended)
        assert self.driver.process.returncode == 0, self.driver.last_lines()
        self.say("everything is written")
        return self._result()

    def end(self) -> None:
        """End every process and thread that was started."""
        self.stopping.set()
        for started in (self.driver, self.server):
            if started is not None:
                started.kill()
        self.cluster.stop()
        if self.proxy.port:
            self.proxy.stop()
        if self.feeder.ident is not None:
            self.feeder.join()
        self.client.close()

    def say(self, line: str) -> None:
        self._say(f"{time.monotonic() - self.began:5.1f} s  {line}")

    # --- what is started ---------------------------------------------------------------------------------------------

    def _start_server(self) -> None:
        words = [sys.executable, "-m", "streamd", "serve", "--port", str(self.port), "--bind", "127.0.0.1"]
        journal = ["--dir", str(self.directory / "data"), "--appendonly", "yes", "--appendfsync", "always"]
        self.server = Started([*words, *journal], self.directory / "streamd.log")
        while not self._answers():
            assert not self.server.ended, self.server.last_lines()
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False

    def _start_driver(self) -> None:
        plan = self.plan
        given = {
            "master": self.cluster.url,
            "directory": self.directory,
            "port": self.proxy.port,
            "per-batch": plan.per_batch,
            "load-rows": plan.rows // plan.load_parts,
            "load-parts": plan.load_parts,
            "fail-share": plan.fail_share,
            "exactly-once": plan.exactly_once,
            "changing": int(plan.changing),
        }
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        log = self.directory / f"driver-{len(self.drivers)}.log"
        self.drivers.append(log)
        self.driver = Started([sys.executable, "-m", "tests.spark.chaos.job", *words], log, self.cluster.environment)

    def _feed(self) -> None:
        """Write the entries of `in`, as a producer that tries again until it has an answer."""
        with redis.Redis(port=self.port) as client:
            ready = False
            for start in range(0, self.plan.rows, FEED_BATCH):
                done = False
                while not done and not self.stopping.is_set():
                    try:
                        if start - client.xlen("copied") > AHEAD_BATCHES * self.plan.per_batch:
                            time.sleep(0.05)
                            continue
                        if not ready:
                            client.xgroup_create("in", "none", mkstream=True)
                            client.xgroup_destroy("in", "none")
                            client.execute_command("XCFGSET", "in", "IDMP-DURATION", 3600, "IDMP-MAXSIZE", 10_000)
                            ready = True
                        pipe = client.pipeline(transaction=False)
                        for n in range(start, min(start + FEED_BATCH, self.plan.rows)):
                            pipe.xadd("in", {"n": n, "v": f"value {n}"}, idmp=("feed", b"%d" % n))
                        pipe.execute()
                        done = True
                    except redis.ConnectionError:
                        time.sleep(0.05)

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _progress(self) -> float:
        """Return the share of the rows that are written."""
        try:
            return sum(self.client.xlen(stream) for stream in STREAMS) / self.expected
        except redis.RedisError:
            return 0.0

    def _wait_until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self._tick()
            time.sleep(0.05)

    def _wait_for_writes(self, count: int) -> None:
        """Wait until tasks have written so many more times: then some task is most likely in the middle of it."""
        target, deadline = self.proxy.writes + count, time.monotonic() + 5
        while self.proxy.writes < target and time.monotonic() < deadline:
            self._tick()
            time.sleep(0.002)

    def _tick(self) -> None:
        assert time.monotonic() - self.began < self.plan.seconds_max, f"not done in {self.plan.seconds_max} seconds"
        for pid, until in list(self.stopped.items()):
            if time.monotonic() > until:
                send(pid, signal.SIGCONT)
                del self.stopped[pid]
        self.cluster.check()
        assert self.driver is not None
        assert not self.driver.ended or self.driver.process.returncode == 0, self.driver.last_lines()

    # --- faults ------------------------------------------------------------------------------------------------------

    def _executor(self) -> None:
        """Kill an executor, and with it the shuffle files it holds."""
        self._kill_one("an executor", self.cluster.executors)

    def _python(self) -> None:
        """Kill a Python process that reads, computes or writes for a task."""
        self._kill_one("a Python worker", self.cluster.python_workers)

    def _kill_one(self, what: str, find: Callable[[], list[int]]) -> None:
        self._wait_until(lambda: bool(find()))
        if send(self.chance.choice(find()), signal.SIGKILL):
            self.faults[what] += 1
            self.say(f"killed {what}")

    def _stall(self) -> None:
        """Stop the Python processes of one executor for a while: Spark starts copies of its tasks elsewhere."""
        self._wait_until(lambda: bool(self.cluster.python_workers()))
        workers = self.cluster.python_workers()
        executor = self.chance.choice(workers)
        for pid in workers:
            if pid == executor or same_daemon(pid, executor):
                send(pid, signal.SIGSTOP)
                self.stopped[pid] = time.monotonic() + PAUSE_S
        self.faults["stalled tasks"] += 1
        self.say(f"stopped the Python workers of an executor for {PAUSE_S:.0f} s")

    def _streamd(self) -> None:
        assert self.server is not None
        self.server.kill()
        self.faults["streamd"] += 1
        self.say("killed streamd")
        self._start_server()
        self.say("streamd is back")

    def _driver(self) -> None:
        """Kill the driver in the middle of whatever it does."""
        self._kill_driver("the driver")
        self._start_driver()

    def _commit(self) -> None:
        """Kill the driver as soon as a batch is committed, and take back what it noted of that."""
        name = self.chance.choice(sorted(MARKERS))
        checkpoint = Checkpoint(self.directory / "checkpoints" / name)
        before = checkpoint.committed_batches()
        deadline = time.monotonic() + 10
        while checkpoint.committed_batches() == before and time.monotonic() < deadline:
            self._tick()
            time.sleep(0.001)
        self._kill_driver("the driver after a commit")
        batch = checkpoint.committed_batches() - 1
        if batch >= 0 and checkpoint.open_batch() is None:
            commits = checkpoint.path / "commits"
            (commits / str(batch)).unlink()
            (commits / f".{batch}.crc").unlink(missing_ok=True)
            self.faults["removed commit files"] += 1
            forgets = self.faults["removed commit files"] % 2 == 1
            if forgets:
                for sink in self.client.hkeys(MARKERS[name]):
                    if b":" not in sink:
                        self.client.hdel(MARKERS[name], sink)
            also = " and the sink's marker" if forgets else ""
            self.say(f"removed the commit of batch {batch} of {name}{also}")
        self._start_driver()

    def _kill_driver(self, what: str) -> None:
        assert self.driver is not None
        self.driver.kill()
        self.faults[what] += 1
        self.say(f"killed {what}")

    # --- the result --------------------------------------------------------------------------------------------------

    def _result(self) -> Result:
        loaded = self.plan.rows // self.plan.load_parts * self.plan.load_parts
        comparisons = compare(self.client, self.plan.rows, loaded)
        failures = [line for log in self.drivers for line in log.read_text().splitlines() if line.startswith("failed ")]
        return Result(
            comparisons,
            self.faults,
            sum(self.proxy.cuts.values()),
            count_tasks(self.directory / "events"),
            len(failures),
            time.monotonic() - self.began,
            failures,
            twice(self.client),
        )


def same_daemon(pid: int, other: int) -> bool:
    """Return whether two Python workers belong to the same executor."""
    from tests.spark.chaos.cluster import parent

    return parent(pid) == parent(other) != 0


def count_tasks(events: Path) -> Counter[str]:
    """Return how many attempts of tasks there were, how many were speculative, and how many failed, of all drivers."""
    counted: Counter[str] = Counter()
    for log in events.iterdir():
        for line in log.read_text(errors="replace").splitlines():
            if '"SparkListenerTaskEnd"' not in line:
                continue
            try:
                event = json.loads(line)
            except ValueError:  # the last line of a killed driver
                continue
            counted["attempts"] += 1
            counted["speculative"] += bool(event["Task Info"]["Speculative"])
            counted["failed"] += event["Task End Reason"]["Reason"] not in ("Success", "TaskKilled")
    return counted
