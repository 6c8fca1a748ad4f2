"""Logs of a store on a simulated disk, with a mover whose jobs run when the test says so, and a plain log for each."""

import random
import traceback
from collections.abc import Iterable

from streamd.base.clock import ManualClock
from streamd.cold.cold_list import ColdList
from streamd.cold.files import SegmentFiles
from streamd.cold.mover import Mover
from streamd.cold.store import ColdStore
from streamd.stream.entry_id import ID_MAX
from streamd.stream.log.entry_log import Log
from tests.cold.jobs_at_hand import JobsAtHand
from tests.cold.sealed import MS, entry_id
from tests.crash.simulated_disk import SimulatedDisk

# Memory is short from half of it on, and a file begins with a sixteenth of it: at each tick after a second.
LIMIT = 16 * 1024


class Bench:
    """Streams by name: `logs` on the shelf, `plain` in memory, both with the same history.

    opened: how many operations of the disk opening the directory took. rewrites: how often the mover has asked for one.
    bugs: what it has reported.
    """

    def __init__(self, limit: int = LIMIT, at_once: bool = True, node: int = 4) -> None:
        self.disk = SimulatedDisk()
        self.disk.forgets = True
        self.clock = ManualClock(MS)
        self.thread = JobsAtHand(at_once)
        self.node = node
        self.bugs: list[str] = []
        self.rewrites = 0
        self.files = SegmentFiles(self.disk, "dir", "a")
        self.store = ColdStore(self.files, limit)
        self.mover = Mover(self.store, self.clock, self.thread.submit, self.lists, self.ask, self.note_bug)
        self.opened = self.disk.operations
        self.logs: dict[str, Log] = {}
        self.plain: dict[str, Log] = {}
        self.last = 0
        self.chance = random.Random(7)

    def note_bug(self, error: BaseException) -> None:
        self.bugs.append("".join(traceback.format_exception(error)))

    def ask(self) -> None:
        self.rewrites += 1

    def lists(self) -> Iterable[ColdList | None]:
        for name in [*self.logs]:  # which come and go meanwhile
            if name in self.logs and isinstance(self.logs[name].sealed, ColdList):
                yield self.logs[name].sealed
            yield None

    # What clients do.

    def add(self, name: str, entries: int, size: int = 100) -> None:
        """Append entries of about so many bytes that cannot be compressed."""
        if name not in self.logs:
            self.logs[name], self.plain[name] = Log(self.node, self.store), Log(self.node)
        for _ in range(entries):
            self.last += 1
            fields = [b"f", self.chance.randbytes(size)]
            for log in (self.logs[name], self.plain[name]):
                log.append(entry_id(MS + self.last), fields)

    def delete(self, name: str, ids: list[int]) -> None:
        self.store.in_place += 1
        assert self.logs[name].delete_many(ids) == self.plain[name].delete_many(ids)
        self.store.in_place -= 1

    def trim(self, name: str, length: int, approximate: bool = False) -> None:
        self.store.in_place += 1
        there = [one.trim_to_length(length, approximate) for one in (self.logs[name], self.plain[name])]
        assert there[0] == there[1]
        self.store.in_place -= 1

    def trim_before(self, name: str, min_id: int) -> None:
        self.store.in_place += 1
        there = [one.trim_before(min_id) for one in (self.logs[name], self.plain[name])]
        assert there[0] == there[1]
        self.store.in_place -= 1

    def copy(self, name: str, other: str) -> None:
        self.logs[other], self.plain[other] = self.logs[name].copy(), self.plain[name].copy()

    def rename(self, name: str, other: str) -> None:
        self.logs[other], self.plain[other] = self.logs.pop(name), self.plain.pop(name)

    def remove(self, name: str) -> None:
        del self.logs[name], self.plain[name]

    def ids(self, name: str) -> list[int]:
        return self.plain[name].ids_between()

    # What the mover does.

    def tick(self, milliseconds: int = 1_000) -> None:
        """Let time pass, and the mover work until it waits."""
        self.clock.advance(milliseconds)
        while self.mover.tick(lambda: False):
            pass

    def settle(self, ticks: int = 10) -> None:
        """Let the mover do all that is to be done."""
        for _ in range(ticks):
            self.tick()
            while self.thread.run_one():
                self.tick(0)

    # What is to be so.

    def cold_entries(self, name: str) -> int:
        sealed = self.logs[name].sealed
        return sealed.rows.live if isinstance(sealed, ColdList) else 0

    def files_there(self) -> set[str]:
        return {path for path in self.disk.names if path.endswith(".seg")}

    def files_of_lists(self) -> set[str]:
        return {stretch.file.path for one in self.lists() if one is not None for stretch in one.rows.stretches}

    def check(self) -> None:
        """Compare every log with its plain one, and look whether anything is left behind or missing."""
        assert not self.bugs, self.bugs[0]
        self.store.in_place += 1
        for name, log in self.logs.items():
            plain = self.plain[name]
            assert list(log.iterate()) == list(plain.iterate()), name
            assert len(log) == len(plain)
            assert log.segments == plain.segments
            assert (log.first_id, log.last_id) == (plain.first_id, plain.last_id)
            for low, high in ((0, ID_MAX), (entry_id(MS + self.last // 3), entry_id(MS + self.last // 2))):
                assert log.count_range(low, high) == plain.count_range(low, high)
                for reverse in (False, True):
                    one, other = (x.encode_parts(low, high, 7, reverse) for x in (log, plain))
                    assert (one[0], b"".join(one[1])) == (other[0], b"".join(other[1]))
        self.store.in_place -= 1
        assert self.files_of_lists() <= self.files_there()

    def check_settled(self) -> None:
        """Check, after the mover has done all."""
        for _ in range(5):  # a merge may follow another one
            self.settle()
            self.check()
            self.tick(0)  # what the check has held is let go of
            if self.files_there() == self.files_of_lists():
                return
        assert self.files_there() == self.files_of_lists()

    def close(self) -> None:
        """End the mover, and drop everything."""
        self.mover.close()
        self.logs.clear()
        self.plain.clear()
        self.store.unwritten.clear()
        self.store.small.clear()
        self.store.settle()
        self.files.unlink_dead()
        self.files.close()
        assert self.disk.names == {}
        assert self.disk.open_files == 0
        assert self.store.hot_bytes == 0
