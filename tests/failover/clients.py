"""Clients of servers that fail over: they repeat by name what too few replicas have, and note what they were told."""

import threading
import time
from collections import Counter
from collections.abc import Callable

import redis

from tests.failover.machines import Machine, Machines

WAIT_MS = 300
PAUSE_S = 0.05
BATCH = 3
GROUP = "workers"
# A name must outlive all retries of a run.
WINDOW = ("IDMP-DURATION", 86_400, "IDMP-MAXSIZE", 10_000)
FAILURES = (redis.RedisError, OSError)


def create(client: redis.Redis, stream: str) -> None:
    """Create a stream with a group and a wide window, for all replicas."""
    client.xgroup_create(stream, GROUP, id="0", mkstream=True)
    pipeline = client.pipeline(transaction=False)
    pipeline.execute_command("XCFGSET", stream, *WINDOW)
    pipeline.execute_command("WAIT", 2, 10_000)
    assert pipeline.execute()[1] == 2


class Client(threading.Thread):
    """A thread that works until it is told to end."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.is_over = threading.Event()
        self.error: Exception | None = None
        self.last: object = None

    def run(self) -> None:
        """Work; an exception that is no failure of a server ends the run."""
        try:
            while not self.is_over.is_set():
                try:
                    self.work()
                except FAILURES as error:
                    self.last = error
                    self.failed(error)
                    time.sleep(PAUSE_S)
        except Exception as error:
            self.error = error

    def work(self) -> None:
        """Do one piece of work. Raises: redis.RedisError, after which it is done again."""
        raise NotImplementedError

    def failed(self, error: Exception) -> None:
        """Find the primary again, where the client does not do so by itself."""


class Producer(Client):
    """Stores numbered entries by name, a few at a time, again and again until `replicas` have them.

    told: the number of each entry that it takes for stored -> the entry ID.
    """

    def __init__(self, machines: Machines, stream: str, name: str, replicas: int, pause_s: float = 0.02) -> None:
        super().__init__(f"{stream} {name}")
        self.stream, self.pid, self.replicas, self.pause_s = stream, name, replicas, pause_s
        self.told: dict[int, bytes] = {}
        self.tries = 0
        self.next = 0
        self._client = machines.remote_client()

    def client(self) -> redis.Redis:
        """Return the way to the primary."""
        return self._client

    def work(self) -> None:
        """Store the next entries."""
        numbers = range(self.next, self.next + BATCH)
        pipeline = self.client().pipeline(transaction=False)
        for n in numbers:
            pipeline.execute_command("XADD", self.stream, "IDMP", self.pid, n, "*", "p", self.pid, "n", n)
        pipeline.execute_command("WAIT", self.replicas, WAIT_MS if self.replicas else 1)
        self.tries += 1
        *ids, found = pipeline.execute()
        self.last = found
        if found >= self.replicas:
            self.told.update(zip(numbers, ids, strict=True))
            self.next = numbers.stop
            time.sleep(self.pause_s)


class LocalProducer(Producer):
    """A producer on the primary's own machine: no cable is between them, and it stays while the server takes writes."""

    def __init__(self, machines: Machines, stream: str, name: str, replicas: int) -> None:
        super().__init__(machines, stream, name, replicas)
        self._machines = machines
        self._move()

    def client(self) -> redis.Redis:
        """Return the way to the server of this machine."""
        return self._local

    def failed(self, error: Exception) -> None:
        """Go to the machine of the new primary, when this one is none."""
        self._move()

    def _move(self) -> None:
        chosen: Machine | None = self._machines.named()
        if chosen is not None:
            retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
            self._local = redis.Redis(port=chosen.node.port, retry=retry, socket_timeout=2.0)


class Worker(Client):
    """A consumer: for each entry it stores a result by name, acknowledges, and waits until two replicas have both.

    done: the entry ID of each entry that it takes for acknowledged. again: how many of these any worker was given
    later on.
    """

    def __init__(self, machines: Machines, name: str, done: dict[bytes, bytes]) -> None:
        super().__init__(name)
        self._client = machines.remote_client()
        self.done = done
        self.again: Counter[bytes] = Counter()
        self._from = "0"  # what it was given before, first

    def work(self) -> None:
        """Take some entries, and finish them."""
        known = set(self.done)
        block_ms = None if self._from == "0" else 200
        reply = self._client.xreadgroup(GROUP, self.name, {"jobs": self._from}, count=5, block=block_ms)
        entries = reply[0][1] if reply else []
        if not entries:
            self._from = ">"
            return
        self.again.update(entry_id for entry_id, _ in entries if entry_id in known)
        while not self.is_over.is_set() and not self._finish(entries):
            pass

    def failed(self, error: Exception) -> None:
        """Begin with what this consumer was given before: the new primary may know of it."""
        self._from = "0"

    def _finish(self, entries: list[tuple[bytes, dict[bytes, bytes]]]) -> bool:
        pipeline = self._client.pipeline(transaction=False)
        for _, fields in entries:
            job = b"%b:%b" % (fields[b"p"], fields[b"n"])
            pipeline.execute_command("XADD", "results", "IDMP", "workers", job, "*", "job", job)
        pipeline.xack("jobs", GROUP, *(entry_id for entry_id, _ in entries))
        pipeline.execute_command("WAIT", 2, WAIT_MS)
        *_, found = pipeline.execute()
        self.last = found
        if found < 2:
            return False
        self.done.update((entry_id, fields[b"p"] + b":" + fields[b"n"]) for entry_id, fields in entries)
        return True


def wait_for(clients: list[Client], holds: Callable[[], bool], timeout_s: float) -> None:
    """Wait until something holds, while none of the clients has failed. Raises: AssertionError."""
    until = time.monotonic() + timeout_s
    while not holds():
        for client in clients:
            if client.error is not None:
                raise AssertionError(f"{client.name} ended") from client.error
        assert time.monotonic() < until, [f"{client.name}: {client.last!r}" for client in clients]
        time.sleep(0.02)
