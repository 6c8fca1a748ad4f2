"""A real server, killed at random points while producers that retry and consumers that acknowledge are at work."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PRODUCERS = 8
CONSUMERS = 2
STREAM, GROUP = "orders", "workers"


@dataclass
class Result:
    """What was counted; all from `lost` on must be 0, under each policy: a kill takes nothing from a file."""

    kills: int = 0
    acknowledged: int = 0
    retried: int = 0
    consumed: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong_id: int = 0
    order_violations: int = 0
    altered: int = 0
    unacknowledged_again: int = 0

    @property
    def faults(self) -> int:
        return (
            self.lost
            + self.duplicated
            + self.wrong_id
            + self.order_violations
            + self.altered
            + self.unacknowledged_again
        )

    def __add__(self, other: "Result") -> "Result":
        return Result(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Result)))

    def __str__(self) -> str:
        return ", ".join(f"{one.name.replace('_', ' ')} {getattr(self, one.name)}" for one in fields(Result))


@dataclass
class Producer:
    """One producer's memory. acknowledged: iid -> entry ID."""

    name: str
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    retried: int = 0


@contextmanager
def undisturbed() -> Iterator[None]:
    """Have Ctrl-C wait for the end of the block: a process that is being started has no name to kill it by."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


class KillLoop:
    """Runs producers, consumers and the killer; `run(kills)` returns what was counted."""

    def __init__(self, directory: Path, policy: str, seed: int) -> None:
        self._directory = directory
        self._policy = policy
        self._chance = random.Random(seed)
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self._stop = threading.Event()
        self._give_up = False
        self._up = threading.Event()  # who asks a server that is not there takes the time of the one that starts
        self._producers = [Producer(f"p{number}") for number in range(PRODUCERS)]
        self._consumed: set[bytes] = set()
        self._log_path = directory.parent / f"{directory.name}-{policy}.log"
        self._log = open(self._log_path, "a")  # noqa: SIM115

    def run(self, kills: int, on_kill: Callable[[], None] = lambda: None) -> Result:
        """Kill the server so many times, then look at what is there; on_kill is called after each start."""
        threads = [threading.Thread(target=self._produce, args=(producer,)) for producer in self._producers]
        threads += [threading.Thread(target=self._consume, args=(f"c{number}",)) for number in range(CONSUMERS)]
        try:
            self._start()
            client = redis.Redis(port=self._port)
            client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
            client.execute_command("XCFGSET", STREAM, "IDMP-DURATION", 86400, "IDMP-MAXSIZE", 1000)
            client.waitaof(1, 0, 5000)
            for thread in threads:
                thread.start()
            for _ in range(kills):
                self._kill()
                self._start()
                on_kill()
            self._stop.set()
            for thread in threads:
                thread.join()
            result = self._verify(kills)
            assert self._process is not None
            self._process.terminate()
            assert self._process.wait(5) == 0
            return result
        finally:
            self._give_up = True
            self._stop.set()
            self._up.set()
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            for thread in threads:
                if thread.ident is not None:
                    thread.join(5)
            self._log.close()

    def _kill(self) -> None:
        time.sleep(self._chance.uniform(0.02, 0.25))
        if self._chance.random() < 0.3:
            try:
                redis.Redis(port=self._port).bgrewriteaof()
                time.sleep(self._chance.uniform(0, 0.03))
            except redis.RedisError:
                pass
        assert self._process is not None
        self._up.clear()
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        words = [sys.executable, "-m", "streamd", "serve", "--port", "0", "--bind", "127.0.0.1"]
        words += ["--dir", str(self._directory), "--appendonly", "yes", "--appendfsync", self._policy]
        with undisturbed():
            self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("Ready"):
                self._port = int(line.rpartition(":")[2])
                self._up.set()
                return
        code = self._process.wait()
        raise AssertionError(f"the server does not start: exit code {code}: {self._log_path.read_text()[-2_000:]}")

    def _connect(self) -> redis.Redis:
        return redis.Redis(port=self._port, socket_timeout=2, retry=Retry(NoBackoff(), 0))

    def _produce(self, producer: Producer) -> None:
        number = 0
        client = None
        retry = False
        while not self._give_up and (not self._stop.is_set() or retry):
            try:
                client = client or self._connect()
                entry_id = client.execute_command(
                    "XADD", STREAM, "IDMP", producer.name, number, "*", "producer", producer.name, "number", number
                )
            except redis.RedisError:
                client, retry = None, True
                producer.retried += 1
                time.sleep(0.002)
                self._up.wait()
                continue
            producer.acknowledged[number] = entry_id
            number += 1
            retry = False

    def _consume(self, name: str) -> None:
        client = None
        while not self._stop.is_set():
            try:
                client = client or self._connect()
                found = client.execute_command("XREADGROUP", "GROUP", GROUP, name, "COUNT", 50, "STREAMS", STREAM, ">")
                ids = [row[0] for row in found[0][1]] if found else []
                if ids and client.xack(STREAM, GROUP, *ids) == len(ids):
                    self._consumed.update(ids)
                elif not ids:
                    time.sleep(0.005)
            except redis.RedisError:
                client = None
                time.sleep(0.002)
                self._up.wait()

    def _verify(self, kills: int) -> Result:
        client = redis.Redis(port=self._port)
        result = Result(kills, consumed=len(self._consumed))
        there: dict[tuple[str, int], list[bytes]] = {}
        order: dict[str, list[int]] = {}
        for entry_id, entry in client.xrange(STREAM):
            producer, number = entry[b"producer"].decode(), int(entry[b"number"])
            there.setdefault((producer, number), []).append(entry_id)
            order.setdefault(producer, []).append(number)
        for producer in self._producers:
            result.acknowledged += len(producer.acknowledged)
            result.retried += producer.retried
            for number, entry_id in producer.acknowledged.items():
                found = there.get((producer.name, number), [])
                result.lost += not found
                result.duplicated += len(found) > 1
                result.wrong_id += bool(found) and entry_id not in found
            numbers = order.get(producer.name, [])
            result.order_violations += numbers != sorted(numbers)
            known = set(producer.acknowledged) | {max(producer.acknowledged, default=-1) + 1}
            result.altered += len(set(numbers) - known)
        pending = {row["message_id"] for row in client.xpending_range(STREAM, GROUP, "-", "+", 1_000_000)}
        result.unacknowledged_again = len(pending & self._consumed)
        return result
