"""A real server, killed at random points while producers that retry and consumers that acknowledge are at work."""

import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PRODUCERS = 8
CONSUMERS = 2
STREAM, GROUP = "orders", "workers"


@dataclass
class Result:
    """What was counted: all of the second line must be 0."""

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
    late_losses: int = 0

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


@dataclass
class Producer:
    """One producer's memory. acknowledged: iid -> (entry ID, when)."""

    name: str
    acknowledged: dict[int, tuple[bytes, float]] = field(default_factory=dict)
    wrong_id: int = 0
    retried: int = 0


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
        self._consumed: dict[bytes, float] = {}
        self._kill_times: list[float] = []
        self._log = open(directory.parent / f"{directory.name}-{policy}.log", "a")  # noqa: SIM115

    def run(self, kills: int) -> Result:
        """Kill the server so many times, then look at what is there."""
        self._start()
        client = redis.Redis(port=self._port)
        client.xgroup_create(STREAM, GROUP, "0", mkstream=True)
        client.execute_command("XCFGSET", STREAM, "IDMP-DURATION", 86400, "IDMP-MAXSIZE", 1000)
        client.waitaof(1, 0, 5000)
        threads = [threading.Thread(target=self._produce, args=(producer,)) for producer in self._producers]
        threads += [threading.Thread(target=self._consume, args=(f"c{number}",)) for number in range(CONSUMERS)]
        try:
            for thread in threads:
                thread.start()
            for _ in range(kills):
                self._kill()
                self._start()
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
        self._kill_times.append(time.monotonic())
        assert self._process is not None
        self._up.clear()
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        words = [sys.executable, "-m", "streamd", "serve", "--port", "0", "--bind", "127.0.0.1"]
        words += ["--dir", str(self._directory), "--appendonly", "yes", "--appendfsync", self._policy]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("Ready"):
                self._port = int(line.rpartition(":")[2])
                self._up.set()
                return
        raise AssertionError(f"the server does not start again: exit code {self._process.wait()}")

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
            producer.acknowledged[number] = (entry_id, time.monotonic())
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
                    self._consumed.update(dict.fromkeys(ids, time.monotonic()))
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
        for entry_id, fields in client.xrange(STREAM):
            producer, number = fields[b"producer"].decode(), int(fields[b"number"])
            there.setdefault((producer, number), []).append(entry_id)
            order.setdefault(producer, []).append(number)
        for producer in self._producers:
            result.acknowledged += len(producer.acknowledged)
            result.retried += producer.retried
            for number, (entry_id, at) in producer.acknowledged.items():
                found = there.get((producer.name, number), [])
                result.duplicated += len(found) > 1
                if not found:
                    if self._policy == "always" or not self._was_late(at):
                        result.lost += 1
                    result.late_losses += 1
                elif entry_id not in found:
                    result.wrong_id += 1
            numbers = order.get(producer.name, [])
            result.order_violations += numbers != sorted(numbers)
            known = set(producer.acknowledged) | {max(producer.acknowledged, default=-1) + 1}
            result.altered += len(set(numbers) - known)
        pending = {row["message_id"] for row in client.xpending_range(STREAM, GROUP, "-", "+", 1_000_000)}
        for entry_id, at in self._consumed.items():
            if entry_id in pending and (self._policy == "always" or not self._was_late(at)):
                result.unacknowledged_again += 1
        return result

    def _was_late(self, at: float) -> bool:
        """Return whether something was acknowledged in the last two seconds before a kill."""
        return any(at <= killed <= at + 2 for killed in self._kill_times)
