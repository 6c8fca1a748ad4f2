"""A server with cold segments is killed, or its power cut, before each operation of its disk: nothing is lost, nothing
is there twice, no file is missing, and none is left behind.
"""

import errno
import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from streamd.base.clock import ManualClock
from streamd.stream.stream import Stream
from tests.cold.cold_restartable import ColdRestartable
from tests.cold.cold_server import evict, make_cold
from tests.crash.simulated_disk import SimulatedDisk

Entries = dict[bytes, dict[int, bytes]]


class WatchedDisk(SimulatedDisk):
    """Calls `before` in front of each operation that changes something."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] | None = None

    def step(self, name: str, length: int = 0) -> int:
        before = self.before
        if before is not None and name not in ("read", "open", "list", "identity", "lock", "make_directory"):
            self.before = None
            before()
            self.before = before
        return super().step(name, length)

    @staticmethod
    def of(disk: SimulatedDisk) -> "WatchedDisk":
        """Return a disk with the contents of another one, which is not used any more."""
        other = WatchedDisk()
        other.names, other.durable_names, other.next_salt = disk.names, disk.durable_names, disk.next_salt
        return other


class History:
    """A server, and what it has: `states` are those that a start may find."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = ManualClock(1_700_000_000_000)
        self.disk = WatchedDisk()
        self.server = ColdRestartable(self.disk, self.clock)
        self.states: list[Entries] = [{}]
        self.last = 0
        self.cuts = 0
        self.failures: list[BaseException] = []
        self.is_nested = False

    def entries(self, server: ColdRestartable) -> Entries:
        store = server.store
        if store is not None:
            store.in_place += 1
        try:
            return {
                key: {one: fields[1] for one, fields in value.log.iterate()}
                for key, value in server.engine.state.keyspace[0].values.items()
                if isinstance(value, Stream) and len(value)
            }
        finally:
            if store is not None:
                store.in_place -= 1

    def check(self) -> None:
        """Start on what a kill leaves, and on what a power cut leaves."""
        for disk in (self.disk.kill(), self.disk.cut_power(self.chance.getrandbits(32))):
            self.cuts += 1
            try:
                self.start(disk)
            except BaseException as error:  # the server on trial would take it for a bug of its own
                self.failures.append(error)
                return

    def start(self, found: SimulatedDisk) -> None:
        nested = not self.is_nested and self.chance.random() < 0.03
        disk = WatchedDisk.of(found)
        if nested:  # the start is cut off as well
            outer, self.disk, self.is_nested = self.disk, disk, True
            disk.before = self.check
        try:
            again = ColdRestartable(disk, self.clock)
        finally:
            if nested:
                self.disk, self.is_nested = outer, False
        disk.before = None
        assert self.entries(again) in self.states
        there = {path for path in disk.names if path.endswith(".seg")}
        assert there == {hold.file.path for hold in again.persistence.journal.holds}

    def do(self, change: Callable[[Entries], None], *words: bytes | str) -> None:
        after = {key: dict(rows) for key, rows in self.states[-1].items()}
        change(after)
        after = {key: rows for key, rows in after.items() if rows}
        self.states.append(after)
        self.server.send(*words)
        if self.server.at_once:
            self.states = [after]
        assert self.entries(self.server) == after

    def add(self, key: bytes, count: int) -> None:
        for _ in range(count):
            self.last += 1
            number, value = self.last, b"%d" % self.last

            def change(after: Entries, number: int = number, value: bytes = value) -> None:
                after.setdefault(key, {})[number << 64] = value

            self.do(change, b"XADD", key, b"%d-0" % number, b"f", value)

    def delete(self, key: bytes) -> None:
        there = sorted(self.states[-1].get(key, {}))
        if there:
            ids = sorted(self.chance.sample(there, min(3, len(there))))

            def change(after: Entries) -> None:
                for one in ids:
                    del after[key][one]

            self.do(change, b"XDEL", key, *[b"%d-0" % (one >> 64) for one in ids])

    def trim(self, key: bytes) -> None:
        there = sorted(self.states[-1].get(key, {}))
        keep = self.chance.randint(0, len(there))

        def change(after: Entries) -> None:
            for one in there[: len(there) - keep]:
                del after[key][one]

        if self.chance.random() < 0.5:
            self.do(change, b"XTRIM", key, b"MAXLEN", b"%d" % keep)
        elif keep:
            self.do(change, b"XTRIM", key, b"MINID", b"%d-0" % (there[len(there) - keep] >> 64))

    def remove(self, key: bytes) -> None:
        self.do(lambda after: after.pop(key, None) and None, b"DEL", key)

    def move(self, key: bytes) -> None:
        if key in self.states[-1] and self.server.store is not None:
            stream = self.server.engine.state.keyspace[0].values[key]
            assert isinstance(stream, Stream)
            if stream.log.sealed:
                make_cold(self.server.engine, key)
                evict(self.server.engine)

    def rewrite(self) -> None:
        """Rewrite, a job at a time; meanwhile entries go."""
        server = self.server
        server.at_once = False
        server.send("BGREWRITEAOF")
        while server.jobs or server.persistence.is_rewriting:
            server.engine.cron()
            if self.chance.random() < 0.3:
                self.chance.choice([self.delete, self.trim, self.remove])(self.chance.choice([b"s", b"t"]))
            if server.jobs:
                self.chance.choice(server.jobs).wait()
        server.at_once = True
        server.end_turn()
        server.cron()
        self.states = self.states[-1:]

    def restart(self) -> None:
        self.disk.before = None
        self.disk = WatchedDisk.of(self.disk.kill())
        self.disk.before = self.check
        self.server = ColdRestartable(self.disk, self.clock)

    def run(self, steps: int) -> None:
        """Do something at random, again and again."""
        keys = [b"s", b"t"]
        for _ in range(steps):
            key = self.chance.choice(keys)
            what = self.chance.choice(
                [self.delete, self.trim, self.move, self.move, self.remove, self.rewrite, self.restart, self.add]
            )
            if what == self.add:
                self.disk.before = None
                self.add(key, 45)
            elif what in (self.rewrite, self.restart):
                self.disk.before = self.check
                what()  # type: ignore[call-arg]
            else:
                self.disk.before = self.check
                what(key)  # type: ignore[call-arg]
            if self.failures:
                raise self.failures[0]
        self.disk.before = self.check
        self.rewrite()
        for key in keys:
            self.remove(key)
        self.rewrite()
        self.disk.before = None
        if self.failures:
            raise self.failures[0]
        assert [path for path in self.disk.names if path.endswith(".seg")] == []


@pytest.mark.parametrize("seed", range(6))
def test_the_power_is_cut_before_each_operation(seed):
    history = History(seed)
    history.add(b"s", 95)
    history.add(b"t", 33)
    history.run(14)
    assert history.cuts > 100


def made(disk: SimulatedDisk | None = None) -> ColdRestartable:
    server = ColdRestartable(disk)
    server.cool(b"s", 95)
    server.rewrite()
    server.cool(b"t", 55)
    server.send("XDEL", "s", "30-1")
    return server


@pytest.mark.parametrize("failure", [errno.EIO, errno.ENOSPC, "short", "bug"])
def test_a_rewrite_fails_at_each_operation(failure):
    probe = made()
    before = probe.disk.operations
    probe.rewrite()
    probe.cron()
    operations = probe.disk.operations - before
    assert operations > 15
    for at in range(1, operations + 1):
        server = made()
        seen = server.seen()
        server.disk.fail_at, server.disk.failure = server.disk.operations + at, failure
        with suppress(RuntimeError):
            server.rewrite()
            server.cron()
        assert server.disk.failed
        assert server.seen() == seen
        if server.dead is None:
            assert server.restart().seen() == seen
            server.clock.advance(3_700_000)
            server.rewrite()
            server.cron()
            assert len(server.segments()) == 2
        again = server.restart()
        assert again.seen() == seen
        assert len(again.segments()) == 2
