"""Searches in a log with segment files and notes find what they find in a plain log, after any history."""

from random import Random
from typing import cast

import pytest

from streamd.base.clock import ManualClock
from streamd.cold.cold_list import ColdList
from streamd.cold.files import SegmentFile
from streamd.cold.jobs import Jobs
from streamd.cold.merging import merge
from streamd.cold.output import Output, Pace
from streamd.cold.use import Use, choose, survey
from streamd.stream.entry_id import ID_MAX
from streamd.stream.log.entry_log import Log
from streamd.stream.search.field_index import FieldIndex
from streamd.stream.search.patterns import EntryFilter, entry_filter
from streamd.stream.search.searching import Found, search
from tests.cold.cold_world import waiting
from tests.cold.jobs_at_hand import JobsAtHand
from tests.cold.test_cold_log import Pair

FILTERS = [
    *[entry_filter(b"f", b"EQ", b"%d" % n) for n in (0, 7, 30, 999)],
    *[entry_filter(b"f", b"GLOB", text) for text in (b"1*", b"*", b"?", b"3?")],
    *[entry_filter(b"g", b"MQTT", text) for text in (b"a/+", b"#", b"+/2", b"b/1", b"$x/#")],
    entry_filter(b"nobody", b"EQ", b"1"),
]


def never() -> bool:
    return False


class Searched(Pair):
    """The two logs, whose entries come in runs with few values each."""

    def __init__(self, seed: int, directory: str) -> None:
        super().__init__(seed, directory)
        self.jobs = JobsAtHand()
        self.store.notebook.submit = self.store.notebook.submit_read = self.jobs.submit
        self.store.notebook.set_limit(self.random.choice([1 << 24, 1 << 24, 500_000, 200_000]))
        self.merged = 0
        self.indexes: dict[tuple[int, bytes], FieldIndex] = {}

    def append(self) -> None:
        common = self.random.randint(0, 40)
        for _ in range(self.random.randint(1, 60)):
            ms = self.last >> 64
            self.last = self.last + 1 if self.random.random() < 0.3 else (ms + self.random.randint(1, 3)) << 64
            fields = [b"f", b"%d" % (common if self.random.random() < 0.95 else self.random.randint(0, 40))]
            if self.random.random() < 0.5:
                fields += [
                    b"g",
                    self.random.choice([b"a/1", b"b/1", b"$x/2", b"a/2/3", b"v" * 300]),
                    b"f",
                    b"%d" % common,
                ]
            self.plain.append(self.last, fields)
            self.cold.append(self.last, fields)
            self.ever.append(self.last)

    def index_of(self, log: Log, wanted: EntryFilter) -> FieldIndex | None:
        if self.random.random() < 0.3:
            return None
        key = id(log), wanted.field
        return self.indexes.setdefault(key, FieldIndex(wanted.field, log.memory_bytes, log.last_id or 0))

    def run_jobs(self) -> None:
        for _ in range(self.random.choice([0, 1, 5])):
            self.jobs.run_one()

    def merge(self) -> None:
        """Merge files that have many deletions."""
        sealed = self.cold.sealed
        if sealed is None or self.random.random() < 0.5:
            return
        found: dict[SegmentFile, Use] = {}
        for _ in survey(lambda: [cast(ColdList, sealed)], found):
            pass
        jobs = Jobs(JobsAtHand(at_once=True).submit)
        output = Output(self.store.files, jobs, ManualClock())
        pace = Pace(ManualClock())
        pace.is_lifted = True
        for _ in merge(self.store, choose([*found.values()]), jobs, output, pace, 0):
            pass
        self.merged += output.rows
        self.store.settle()
        self.store.files.unlink_dead()

    def check(self) -> None:
        assert len(self.plain) == len(self.cold)
        self.run_jobs()
        self.merge()
        for _ in range(3):
            self.search()

    def search(self) -> None:
        random, wanted = self.random, self.random.choice(FILTERS)
        start, end = sorted([random.choice(self.ever or [0]) + random.choice([0, 0, 1]) for _ in range(2)])
        start, end = random.choice([(start, end), (0, end), (start, ID_MAX), (0, ID_MAX), (0, ID_MAX)])
        count = random.choice([1, 5, 1000])

        def found(log: Log) -> tuple[object, ...]:
            index = self.index_of(log, wanted)
            return told(search(log, index, wanted, start, end, count, never, with_ids=True))

        assert found(self.plain) == waiting(lambda: found(self.cold))
        self.search_in_slices(wanted, start, end)

    def search_in_slices(self, wanted: EntryFilter, start: int, end: int) -> None:
        """A search that is stopped at any time goes on where it was, and then has found the same."""
        whole = told(search(self.plain, None, wanted, start, end, 1 << 30, never, with_ids=True))
        ids: list[int] = []
        data = b""
        chance = Random(self.random.random())
        for _ in range(10_000):

            def found() -> Found:
                index = self.index_of(self.cold, wanted)
                return search(self.cold, index, wanted, start, end, 3, lambda: chance.random() < 0.3, with_ids=True)  # noqa: B023

            one = waiting(found)
            ids += one.ids
            data += b"".join(one.parts)
            if one.is_done:
                break
            assert one.passed_id is not None
            assert one.passed_id in self.plain
            assert start <= one.passed_id <= end
            start = one.passed_id + 1
        assert (len(ids), ids, data) == whole[:3]


def told(found: Found) -> tuple[object, ...]:
    return found.entries, found.ids, b"".join(found.parts), found.passed_id, found.is_done


@pytest.mark.parametrize("seed", range(20))
def test_searches_find_the_same_in_any_history(seed: int, tmp_path: object) -> None:
    one = Searched(seed, str(tmp_path))
    for _ in range(60):
        one.step()
        one.check()
    while one.jobs.run_one():
        one.check()


def test_the_histories_have_rows_that_are_passed_over(tmp_path_factory: pytest.TempPathFactory) -> None:
    passed = written = merged = 0
    for seed in range(6):
        directory = tmp_path_factory.mktemp("d")
        one = Searched(seed, str(directory))
        for _ in range(40):
            one.step()
            one.check()
        passed += one.store.notebook.rows_passed
        written += one.jobs.count
        merged += one.merged
    assert passed > 200
    assert written > 5
    assert merged > 5
