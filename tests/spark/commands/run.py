"""One run: devices send readings and get commands, while driver, executor, gateway and server are killed."""

import asyncio
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import redis

from demo.checkpoint import Checkpoint
from demo.processes import session_members
from spark_source.java import spark_environment
from tests.mqtt.chaos.checker import LOST, Finding
from tests.mqtt.chaos.devices import Device
from tests.mqtt.chaos.faulty_proxy import FaultyProxy
from tests.mqtt.chaos.links import pause
from tests.mqtt.chaos.processes import STORES, Gateway, Killable, read_log
from tests.mqtt.chaos.records import NAMED, QOS2, Delivery, Received, Record, Stored
from tests.mqtt.chaos.subscribers import Manner, Subscriber
from tests.mqtt.chaos.world import World
from tests.spark.chaos.cluster import JAVA, Cluster, Started, parent, send
from tests.spark.commands.check import COMMANDS, check_commands, readings_in
from tests.spark.commands.job import COMMANDS_LOG, LOCAL
from tests.spark.sessions import ROOT

MANNERS = (Manner(packets_per_cut=40), Manner(), Manner(packets_per_cut=60, away_s=2.0, receive_maximum=3))
QUIET_S = 60.0  # longer than Spark needs for a batch, also where others use the processors
GATEWAY, SERVER, WORKER, EXECUTOR, DRIVER = "gateway", "server", "Python worker", "executor", "driver"


@dataclass(frozen=True)
class Plan:
    """What a run is to do. kills: what is killed, one after the other; an executor needs a cluster.

    rate: readings a second of all devices; plant: a fault that a proxy before the gateway adds.
    """

    kills: tuple[str, ...]
    devices: int = 6
    rate: float = 6.0
    per_batch: int = 500
    exactly_once: str = "auto"
    store: str = "streamd"
    is_cluster: bool = False
    plant: str | None = None
    seed: int = 1
    seconds_max: float = 600.0


@dataclass
class Outcome:
    """What was found. recognised: rows that were written again, and of which the server said that it had them."""

    findings: list[Finding]
    faults: list[str]
    counts: Counter[str]
    recognised: int
    planted: int

    @property
    def is_good(self) -> bool:
        return not self.findings and not self.faults


class Run:
    """Everything that one run starts; `run` ends it all, whatever has happened."""

    def __init__(self, plan: Plan, directory: Path, say: Callable[[str], None] = lambda line: None) -> None:
        self.plan, self.directory = plan, directory
        self._say = say
        self.began = time.monotonic()
        self.record = Record(directory)
        self.counts: Counter[str] = Counter()
        self.store: Killable = STORES[plan.store](directory / "store")
        self.gateway = Gateway(directory / "gateway", self.store, "--log", f"{COMMANDS_LOG}=commands")
        self.cluster = Cluster(directory) if plan.is_cluster else None
        self.checkpoint = Checkpoint(directory / "checkpoint")
        self.driver: Started | None = None
        self.devices: list[Device] = []
        self.subscribers: list[Subscriber] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.planted = 0

    async def run(self) -> Outcome:
        """Return the outcome. Raises: AssertionError if the run does not come to its end."""
        for name in ("events", "local"):
            (self.directory / name).mkdir()
        try:
            world = await self._start()
            await self._until_a_new_reading_is_answered()
            for which in self.plan.kills:
                await self._kill(which)
                await self._until_a_new_reading_is_answered()
            world.is_over = True
            return await self._end()
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
            self._stop()

    def _stop(self) -> None:
        for subscriber in self.subscribers:
            if subscriber.link is not None:
                subscriber.link.break_off("the run is over")
        if self.driver is not None:
            self.driver.kill()
        if self.cluster is not None:
            self.cluster.stop()
        for process in (self.gateway, self.store):
            process.stop()
        self.record.close()

    def say(self, line: str) -> None:
        self.record.event("run", line)
        self._say(f"{time.monotonic() - self.began:5.1f} s  {line}")

    # --- what is started ---------------------------------------------------------------------------------------------

    async def _start(self) -> World:
        plan = self.plan
        if self.cluster is not None:
            self.cluster.start()
        for process in (self.store, self.gateway):
            await asyncio.to_thread(process.start)
        self._start_driver()
        port = self.gateway.port
        if plan.plant is not None:
            self.proxy = FaultyProxy(("127.0.0.1", port), plan.plant, 20, "witness")
            await self.proxy.start()
            port = self.proxy.port
        world = World(self.record, ("127.0.0.1", port), plan.seed, plan.devices / plan.rate)
        for number in range(plan.devices):
            name = f"d{number}"
            received = Received(f"{name}-commands", f"{COMMANDS}{name}", 2)
            self.record.received.append(received)
            manner = MANNERS[number % len(MANNERS)]
            self.subscribers.append(Subscriber(received.name, 5, 2, received.filter, manner, world, received))
            self.devices.append(Device(name, (NAMED, QOS2)[number % 2], world))
        self.tasks = [asyncio.create_task(one.run()) for one in self.subscribers]
        await self._until("all devices subscribe", lambda: all(one.subscribed.is_set() for one in self.subscribers))
        for device in self.devices:
            device.begin()
            self.tasks.append(asyncio.create_task(device.run()))
        return world

    def _start_driver(self) -> None:
        plan = self.plan
        given = {
            "master": LOCAL if self.cluster is None else self.cluster.url,
            "directory": self.directory,
            "checkpoint": self.checkpoint.path,
            "exactly-once": plan.exactly_once,
            "port": self.store.port,
            "per-batch": plan.per_batch,
        }
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        local = {
            "TMPDIR": str(self.directory),
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
            "JAVA_TOOL_OPTIONS": JAVA,
        }
        environment = {**spark_environment(), "PYTHONPATH": str(ROOT), **local}
        log = self.directory / f"driver-{self.counts[DRIVER]}.log"
        self.driver = Started([sys.executable, "-m", "tests.spark.commands.job", *words], log, environment)

    # --- kills -------------------------------------------------------------------------------------------------------

    async def _kill(self, which: str) -> None:
        if which == DRIVER:
            await self._kill_driver()
        elif which in (WORKER, EXECUTOR):
            await self._until(f"there is a {which}", lambda: bool(self._processes(which)))
            send(self._processes(which)[-1], signal.SIGKILL)
        else:
            process = self.store if which == SERVER else self.gateway
            process.kill()
            await asyncio.to_thread(process.start)
        self.counts[which] += 1
        self.say(f"killed the {which}")
        if which == DRIVER:
            self._start_driver()

    async def _kill_driver(self) -> None:
        """Kill the driver behind a commit, and take back what it noted of that: as if it had died just before."""
        before = self.checkpoint.committed_batches()
        await self._until("a batch is committed", lambda: self.checkpoint.committed_batches() > before, 0.001)
        assert self.driver is not None
        self.driver.kill()
        batch = self.checkpoint.committed_batches() - 1
        if self.checkpoint.open_batch() is None:
            commits = self.checkpoint.path / "commits"
            (commits / str(batch)).unlink()
            (commits / f".{batch}.crc").unlink(missing_ok=True)
            self.counts["commits taken back"] += 1
            with redis.Redis(port=self.store.port) as client:
                for key in client.scan_iter(f"{{{COMMANDS_LOG}/*}}:g*:spark"):  # what the sink noted of it
                    marks = [field for field in client.hkeys(key) if b":" not in field]
                    if marks:
                        client.hdel(key, *marks)

    def _processes(self, which: str) -> list[int]:
        """Return the executors, or the Python processes that work for tasks."""
        if self.cluster is not None:
            return self.cluster.executors() if which == EXECUTOR else self.cluster.python_workers()
        assert which == WORKER, "an executor of its own needs a cluster"
        assert self.driver is not None
        daemons = {pid for pid in session_members(self.driver.process.pid) if "pyspark.daemon" in _command(pid)}
        return sorted(pid for pid in daemons if parent(pid) in daemons)

    # --- waiting -----------------------------------------------------------------------------------------------------

    async def _until_a_new_reading_is_answered(self) -> None:
        """Wait until all parts of the way work: for the command that answers a reading sent from now on."""
        before = len(self.record.messages)

        def is_answered() -> bool:
            new = set(islice(self.record.messages, before, None))
            return any(delivery.key in new for delivery in self._deliveries())

        await self._until("a new reading is answered", is_answered)

    def _deliveries(self) -> Iterator[Delivery]:
        for one in self.record.received:
            for member in one.members.values():
                yield from member

    async def _until(self, what: str, reached: Callable[[], bool], pause_s: float = 0.05) -> None:
        while not reached():
            assert time.monotonic() - self.began < self.plan.seconds_max, f"not within the time: {what}"
            assert self.driver is not None
            assert not self.driver.ended, self.driver.last_lines()
            for task in self.tasks:
                if task.done() and (error := task.exception()) is not None:
                    raise error
            await pause(pause_s)

    async def _end(self) -> Outcome:
        """Wait until each reading is stored and answered, and each command delivered."""
        await self._until("all readings are stored", lambda: not any(one.in_flight for one in self.devices))
        await self._until_nothing_is_missing()
        log = await self._log()
        for subscriber in self.subscribers:
            subscriber.stop()
        findings = check_commands(self.record.messages, log, self.record.received)
        counts = self.counts + Counter(
            {"readings": readings_in(log).total(), "commands": len(log) - readings_in(log).total()}
        )
        recognised = await asyncio.to_thread(self._recognised)
        return Outcome(findings, self.record.faults, counts, recognised, self.proxy.planted if self.plan.plant else 0)

    async def _until_nothing_is_missing(self) -> None:
        """Wait until the checker finds nothing lost, or nothing has come for so long."""
        before, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET_S:
            has_open_batch = self.checkpoint.open_batch() is not None
            log = await self._log()
            findings = check_commands(self.record.messages, log, self.record.received)
            if not has_open_batch and not any(one.kind == LOST for one in findings):
                return
            came = len(log) + sum(1 for _ in self._deliveries())
            if came != before:
                before, since = came, time.monotonic()
            await pause(0.2)

    async def _log(self) -> list[Stored]:
        readings = await asyncio.to_thread(read_log, self.store.port)
        return readings + await asyncio.to_thread(read_log, self.store.port, COMMANDS_LOG)

    def _recognised(self) -> int:
        with redis.Redis(port=self.store.port) as client:
            streams = client.scan_iter(f"{{{COMMANDS_LOG}/*}}:g*", _type="stream")
            return sum(client.xinfo_stream(stream).get("iids-duplicates", 0) for stream in streams)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
