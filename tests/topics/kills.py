"""A server that is killed while publishers, readers, members of a shared replay, and an administrator are at work."""

import queue
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from bench.ports import free_port
from streamd.clients.topics import Entry, Message, TopicLog
from tests.integration.process import ServerProcess
from tests.topics.replays import by_pair, replay
from tests.topics.storms import run_threads

TRIES = 600
PAUSE_S = 0.05
LOG, LEASE_MS = "log", 3_000


class Killable:
    """A server process on a port that stays, whose journal is synced before each reply."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.directory = directory
        self.port = free_port()
        self.process: subprocess.Popen[Any]
        self.start()

    def start(self) -> None:
        """Serve what is in the directory."""
        if self.kind == "streamd":
            options = ("--port", str(self.port), "--appendfsync", "always")
            self.process = ServerProcess(self.directory, *options).process
            return
        words = f"redis-server --port {self.port} --bind 127.0.0.1 --appendonly yes --appendfsync always --save".split()
        self.process = subprocess.Popen([*words, ""], cwd=self.directory, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "Ready to accept connections" in line:
                break

    def kill(self) -> None:
        """End it as a power failure ends a process."""
        self.process.kill()
        self.process.communicate()


@dataclass
class Result:
    """What was counted. All from `lost` on must be 0."""

    kills: int = 0
    published: int = 0
    tried_again: int = 0
    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    unseen_later: int = 0
    shared_lost: int = 0
    shared_out_of_order: int = 0

    @property
    def faults(self) -> int:
        return (
            self.lost
            + self.duplicated
            + self.out_of_order
            + self.unseen_later
            + self.shared_lost
            + self.shared_out_of_order
        )

    def __str__(self) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {getattr(self, name):,}" for name in vars(self))


@dataclass
class KillRun:
    """One log, its server killed so many times, evenly over what is published."""

    server: Killable
    kills: int
    publishers: int
    topics: int
    count: int
    batch: int = 10
    result: Result = field(default_factory=Result)
    done: threading.Event = field(default_factory=threading.Event)
    acknowledged: "queue.Queue[int]" = field(default_factory=queue.Queue)

    def run(self) -> Result:
        """Do it, compare, and return what was counted."""
        TopicLog.create(self.client(), LOG, shards=2)
        jobs: list[Callable[[], Any]] = [lambda one=one: self.publish(f"p{one}") for one in range(self.publishers)]
        jobs += [lambda: self.read("#"), lambda: self.read("load/t0"), self.kill_and_reconfigure]
        jobs += [lambda: self.work("m0"), lambda: self.work("m1")]
        results = run_threads(jobs)
        readers, members = results[self.publishers : self.publishers + 2], results[-2:]
        self.check(readers, members)
        return self.result

    def client(self) -> redis.Redis:
        """Return a client that does not try again by itself."""
        return redis.Redis(port=self.server.port, retry=Retry(ConstantBackoff(0), 0))

    def insist(self, call: Callable[[TopicLog], Any]) -> Any:
        """Return what a call returns that is made again after each lost connection."""
        patient = redis.Redis(port=self.server.port, retry=Retry(ConstantBackoff(PAUSE_S), TRIES))
        for _ in range(TRIES):
            try:
                patient.ping()
                return call(TopicLog.open(self.client(), LOG))
            except (redis.ConnectionError, redis.TimeoutError):
                self.result.tried_again += 1
        raise AssertionError("the server does not come back")

    def publish(self, publisher: str) -> None:
        """Publish 0, 1, 2 ... under each topic, each batch until it is answered."""
        messages = [
            Message(f"load/t{topic}", str(number), publisher, f"{topic}/{number}")
            for number in range(self.count)
            for topic in range(self.topics)
        ]
        for at in range(0, len(messages), self.batch):
            batch = messages[at : at + self.batch]
            self.acknowledged.put(len(self.insist(lambda log, batch=batch: log.publish_many(batch))))

    def read(self, pattern: str) -> list[Entry]:
        """Read from the beginning until all was published, and the end was come to."""
        found: list[Entry] = []
        iterator = self.insist(lambda log: log.iterator(pattern))
        while True:
            was_done = self.done.is_set()
            entries, iterator, state = self.insist(lambda log, at=iterator: log.next(at, 100, block_ms=100))
            assert state in ("more", "live"), state
            found += entries
            if was_done and state == "live":
                return found

    def work(self, name: str) -> list[Entry]:
        """Be a member of an ordered shared replay; return what was acknowledged."""
        done: list[Entry] = []
        while True:
            was_done = self.done.is_set()

            def some(log: TopicLog) -> list[Entry]:
                with log.share("group", member=name, lease_ms=LEASE_MS, ordered=True) as member:
                    for _ in range(5):
                        entries, _ = member.next(self.batch * 8, block_ms=50)
                        done.extend(entries)  # noted first: an acknowledgement may be lost on its way
                        member.ack(entries)
                return entries

            entries = self.insist(some)
            if was_done and not entries:
                return done

    def kill_and_reconfigure(self) -> None:
        """Kill and start the server, and begin generations, in between, until all is published."""
        total = self.publishers * self.topics * self.count
        steps = [total * number // (2 * self.kills + 1) for number in range(1, 2 * self.kills + 1)]
        while self.result.published < total:
            self.result.published += self.acknowledged.get(timeout=120)
            if steps and self.result.published >= steps[0]:
                steps.pop(0)
                if len(steps) % 2:
                    self.server.kill()
                    self.server.start()
                    self.result.kills += 1
                else:
                    shards = 1 + len(steps) % 4
                    self.insist(lambda log, shards=shards: log.reconfigure(shards=shards))
        self.done.set()

    def check(self, readers: list[list[Entry]], members: list[list[Entry]]) -> None:
        """Compare what was read at any time with what must be there, and with what is read now."""
        result, wanted = self.result, list(range(self.count))
        now = replay(TopicLog.open(self.client(), LOG), n=1_000)
        places = {entry.place: number for number, entry in enumerate(now)}
        for publisher in range(self.publishers):
            for topic in range(self.topics):
                numbers = by_pair(now).get((f"p{publisher}", f"load/t{topic}"), [])
                result.lost += len(set(wanted) - set(numbers))
                result.duplicated += len(numbers) - len(set(numbers))
                result.out_of_order += numbers != sorted(numbers)
        for entries in readers:
            result.duplicated += len(entries) - len({entry.place for entry in entries})
            result.unseen_later += sum(entry.place not in places for entry in entries)
            result.out_of_order += sum(numbers != sorted(numbers) for numbers in by_pair(entries).values())
        whole, one_topic = readers
        result.lost += len(now) - len({entry.place for entry in whole})
        result.lost += self.publishers * self.count - len({entry.place for entry in one_topic})
        worked = {entry.place for entries in members for entry in entries}
        result.shared_lost += len(places.keys() - worked)
        for entries in members:
            # Work may be done again after a kill; what is done for the first time comes in order.
            fresh = list({entry.place: entry for entry in entries}.values())
            result.shared_out_of_order += sum(numbers != sorted(numbers) for numbers in by_pair(fresh).values())


def run_kills(kind: str, directory: Path, kills: int, publishers: int, topics: int, count: int, batch: int) -> Result:
    """Return what was counted in a run on a kind of server: streamd or redis."""
    directory.mkdir(parents=True, exist_ok=True)
    server = Killable(kind, directory)
    try:
        return KillRun(server, kills, publishers, topics, count, batch).run()
    finally:
        server.kill()
        shutil.rmtree(directory, ignore_errors=True)
