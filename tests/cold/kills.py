"""A real server with little memory for entries, killed again and again while entries move to files and back.

`python -m tests.cold.kills --kills 100`
"""

import argparse
import hashlib
import random
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.integration.process import ServerProcess

LIMIT = "16mb"
BATCH = 100  # as many idempotent IDs as a producer has in its window
PAYLOAD_BYTES = 600
# A stream of so many entries is deleted and begins anew: all are read after each kill.
ENTRIES_MAX = 80_000
TRIMMED_TO = 20_000


def payload(key: str, number: int) -> bytes:
    """Return what the entry with a number has."""
    return hashlib.shake_128(f"{key} {number}".encode()).digest(PAYLOAD_BYTES)


@dataclass
class Known:
    """What is known of a stream. ids: entry ID by number; deleted: numbers that are certainly deleted, or may be."""

    key: str
    trimmed: bool
    deletes: bool
    ids: dict[int, bytes] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    maybe_deleted: set[int] = field(default_factory=set)
    next: int = 0


class Kills:
    """Loads, kills, starts and checks; counts what it has seen."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.chance = random.Random(seed)
        self.generation = 0
        self.counts = {"kills": 0, "acknowledged": 0, "checked": 0, "files": 0, "blocks read": 0, "checks of files": 0}
        self.streams = [self.new_stream(kind) for kind in ("plain", "trimmed", "deleted")]

    def new_stream(self, kind: str) -> Known:
        """Return a stream that is not there yet."""
        self.generation += 1
        return Known(f"{kind}-{self.generation}", kind == "trimmed", kind == "deleted")

    def run(self, kills: int) -> dict[str, int]:
        """Kill the server so often; return what was counted. Raises: AssertionError for anything lost or doubled."""
        for _ in range(kills):
            server = self.start()
            client = redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0), socket_timeout=60)
            self.check(client)
            killer = threading.Timer(self.chance.uniform(0.3, 3.0), server.process.kill)
            killer.start()
            try:
                while True:
                    self.work(client)
            except (redis.ConnectionError, redis.TimeoutError, OSError):
                pass
            killer.join()
            server.process.communicate()
            client.close()
            self.counts["kills"] += 1
            if self.chance.random() < 0.2:
                self.check_files()
        server = self.start()
        self.check(redis.Redis(port=server.port, socket_timeout=60))
        assert server.stop()[0] == 0
        return self.counts

    def start(self) -> ServerProcess:
        """Start the server; the option is given now and then, and else remembered."""
        words = ["--appendfsync", "always", "--auto-aof-rewrite-min-size", "8mb"]
        if not self.counts["kills"] or self.chance.random() < 0.5:
            words += ["--stream-memory", LIMIT]
        return ServerProcess(self.directory, *words)

    def check_files(self) -> None:
        """Have `streamd check` look at the directory."""
        words = [sys.executable, "-m", "streamd", "check", str(self.directory)]
        found = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert found.returncode in (0, 1), found  # 1: a torn end, which a start cuts off
        self.counts["checks of files"] += 1

    def work(self, client: "redis.Redis[bytes]") -> None:
        """Add to a stream, and delete of it."""
        one = self.chance.choice(self.streams)
        numbers = range(one.next, one.next + BATCH)
        pipeline = client.pipeline(transaction=False)
        for number in numbers:
            words: list[object] = ["XADD", one.key]
            words += ["MAXLEN", "~" if number % 2 else "=", TRIMMED_TO] if one.trimmed else []
            pipeline.execute_command(*words, "IDMP", "p", number, "*", "n", number, "d", payload(one.key, number))
        for number, entry_id in zip(numbers, pipeline.execute(), strict=True):
            one.ids[number] = entry_id
        one.next += BATCH
        self.counts["acknowledged"] += BATCH
        if one.deletes and self.chance.random() < 0.5:
            there = [number for number in self.chance.sample(range(one.next), 40) if number not in one.deleted]
            one.maybe_deleted.update(there)
            client.xdel(one.key, *[one.ids[number] for number in there])
            one.deleted.update(there)
        chance = self.chance.random()
        if chance < 0.05:
            client.xrange(one.key, one.ids[self.chance.randrange(one.next)], count=50)
        elif chance < 0.07:
            with suppress(redis.ResponseError):  # one is under way
                client.bgrewriteaof()
        elif one.next > ENTRIES_MAX or chance < 0.072:
            gone = one.key
            self.streams[self.streams.index(one)] = self.new_stream(gone.partition("-")[0])
            client.delete(gone)

    def check(self, client: "redis.Redis[bytes]") -> None:
        """Read all: what was acknowledged is there, once, and unaltered."""
        for one in self.streams:
            seen: dict[int, bytes] = {}
            start = b"-"
            while entries := client.xrange(one.key, start, "+", 1000):
                for entry_id, fields in entries:
                    number = int(fields[b"n"])
                    assert number not in seen, f"{one.key} has {number} twice"
                    assert fields[b"d"] == payload(one.key, number), f"{one.key}: {number} is altered"
                    seen[number] = entry_id
                start = b"(" + entries[-1][0]
            assert client.xlen(one.key) == len(seen)
            behind = max(one.next, *[number + 1 for number in seen], 0)
            first = max(0, behind - TRIMMED_TO) if one.trimmed else 0
            for number in range(first, one.next):
                if number in one.deleted:
                    assert number not in seen, f"{one.key}: {number} is there again"
                elif number not in one.maybe_deleted:
                    assert seen.get(number) == one.ids[number], f"{one.key}: {number} is lost"
            one.deleted.update([number for number in one.maybe_deleted if number not in seen])
            one.maybe_deleted = set(one.deleted)
            for number in sorted(seen):
                if number >= one.next:  # written, but not acknowledged: sent again, it is the same entry
                    one.ids[number] = seen[number]
            self.counts["checked"] += len(seen)
        facts = client.info("persistence")
        self.counts["files"] = max(self.counts["files"], facts.get("cold_files", 0))
        self.counts["blocks read"] += facts.get("cold_block_misses", 0)


def main() -> int:
    """Return 0 if nothing was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m tests.cold.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as directory:
        counts = Kills(Path(directory).absolute(), options.seed).run(options.kills)
    said = ", ".join(f"{number} {name}" for name, number in counts.items())
    print(f"seed {options.seed}: {said}; nothing is lost or there twice")
    if options.kills >= 10 and not (counts["files"] and counts["blocks read"]):
        print("this run has shown nothing: no entry was on the disk alone", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
