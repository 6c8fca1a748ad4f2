"""Engines whose streams are in segment files on a simulated disk, moved there when a test says so."""

import random
from collections.abc import Callable
from typing import Any

from streamd.base.clock import ManualClock
from streamd.cold.block import Block, grouped
from streamd.cold.cold_list import ColdList
from streamd.cold.files import MOVER, SegmentFile, SegmentFiles
from streamd.cold.store import ColdStore
from streamd.configuration.server_options import Config
from streamd.engine.engine import Engine
from streamd.journal.jobs import Done
from streamd.stream.stream import Stream
from tests.connected import Host
from tests.crash.simulated_disk import SimulatedDisk
from tests.session import Session

MIB = 1024 * 1024


def cold_store(limit_bytes: int = 16 * MIB, disk: SimulatedDisk | None = None) -> ColdStore:
    """Return a store on a disk from which nothing can be read without waiting."""
    if disk is None:
        disk = SimulatedDisk()
        disk.is_cached = False
    return ColdStore(SegmentFiles(disk, "dir", "appendonly.aof"), limit_bytes)  # type: ignore[arg-type]


def list_of(engine: Engine, key: bytes, db: int = 0) -> ColdList:
    """Return the sealed segments of a stream."""
    stream = engine.state.keyspace[db].values[key]
    assert isinstance(stream, Stream)
    sealed = stream.log.sealed
    assert isinstance(sealed, ColdList)
    return sealed


def make_cold(engine: Engine, *keys: bytes, db: int = 0) -> SegmentFile:
    """Move all sealed segments of streams but the last ones of each to one new file, at once, and return that."""
    store = engine.state.cold
    assert store is not None
    writing, parts, rows = store.files.create(engine.clock.now_ms()), [], 0
    for key in keys:
        sealed = list_of(engine, key, db)
        groups = list(grouped(sealed.oldest_unwritten(1 << 62)))
        writing.write([Block(group, has_holes=sealed.has_gap(group)) for group in groups])
        parts.append((sealed, rows, groups))
        rows += len(groups)
    file = writing.finish()
    store.files.sync(file)
    for sealed, low, groups in parts:
        sealed.switch(file, low, low + len(groups), groups)
    store.files.release(file, MOVER)
    return file


def evict(engine: Engine) -> None:
    """Have no block in memory that is not pinned."""
    store = engine.state.cold
    assert store is not None
    for key in [key for key, one in store.cache._blocks.items() if not one.pins]:
        store.cache.discard(key)
    store._held = {}


class Job:
    """A job that the thread would do. ended: its `done` was called."""

    def __init__(self, job: Callable[[], None], done: Done) -> None:
        self.ended = False
        self._job = job
        self._done = done

    def wait(self) -> None:
        """Do the job, if that was not done."""
        if self.ended:
            return
        self.ended = True
        failure: BaseException | None = None
        try:
            self._job()
        except BaseException as error:
            failure = error
        self._done(failure)


class SlowReader:
    """Stands for the thread that reads: a job waits until the test says so. jobs: those that wait."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.count = 0

    def submit(self, job: Callable[[], None], done: Done) -> Job:
        """Keep a job."""
        self.count += 1
        self.jobs.append(Job(job, done))
        return self.jobs[-1]


class ColdSession(Session):
    """A session whose streams can be cold, and a slow reader.

    The engine has a turn when it wants one: `read` does the waiting jobs, and the turns that follow.
    """

    def __init__(self, limit_bytes: int = 16 * MIB, clock: ManualClock | None = None, **options: Any) -> None:
        super().__init__(clock, Config(**options))
        self.store = self.state.cold = cold_store(limit_bytes)
        self.reader = SlowReader()
        self.engine.absences.submit = self.reader.submit
        self.wants_turn = False
        self.engine.want_turn = self._want_turn

    def _want_turn(self) -> None:
        self.wants_turn = True

    def fill(self, key: bytes, entries: int = 1_000, size: int = 100) -> None:
        """Add entries 1-0, 2-0 ... of one field of `size` random bytes to a stream."""
        chance = random.Random(5)
        self.send(*[[b"XADD", key, b"%d-0" % number, b"f", chance.randbytes(size)] for number in range(1, entries + 1)])
        assert len(self.replies()) == entries

    def cool(self, key: bytes, entries: int = 1_000, size: int = 100) -> SegmentFile:
        """Fill a stream, and leave only its end in memory."""
        self.fill(key, entries, size)
        file = make_cold(self.engine, key)
        evict(self.engine)
        return file

    def turn(self) -> None:
        """Let the engine have the turns that it wants."""
        while self.wants_turn:
            self.wants_turn = False
            self.engine.tick()

    def read(self, jobs: int = 1 << 30) -> int:
        """Do waiting jobs, also those that come meanwhile, and the turns that follow; return how many there were."""
        done = 0
        while self.reader.jobs and done < jobs:
            self.reader.jobs.pop(0).wait()
            done += 1
            self.turn()
        return done


class ColdHost(Host):
    """Connections around a server whose streams can be cold, and a slow reader; see ColdSession."""

    def __init__(self, limit_bytes: int = 16 * MIB, **options: Any) -> None:
        super().__init__(**options)
        self.disk = SimulatedDisk()
        self.disk.is_cached = False
        self.store = self.engine.state.cold = cold_store(limit_bytes, self.disk)
        self.reader = SlowReader()
        self.engine.absences.submit = self.reader.submit
        self.wants_turn = False
        self.engine.want_turn = self._want_turn

    def _want_turn(self) -> None:
        self.wants_turn = True

    def cool(self, key: bytes, entries: int, size: int = 100) -> SegmentFile:
        """Add entries 1-0, 2-0 ... to a stream, and leave only its end in memory."""
        chance = random.Random(5)
        connection = self.open()
        for number in range(1, entries + 1):
            self.receive(connection, [[b"XADD", key, b"%d-0" % number, b"f", chance.randbytes(size)]])
        self.turns()
        file = make_cold(self.engine, key)
        evict(self.engine)
        return file

    def settle(self, jobs: int = 1 << 30) -> int:
        """Run turns and waiting jobs until nothing goes on; return how many jobs there were."""
        done = 0
        self.turns()
        while self.reader.jobs and done < jobs:
            self.reader.jobs.pop(0).wait()
            done += 1
            while self.wants_turn:
                self.wants_turn = False
                self.engine.tick()
            self.turns()
        return done
