"""Notes on segment files: what searches do not read thanks to them, and files of them that fail or are damaged."""

import errno
import random
from collections.abc import Callable
from typing import Any

import pytest

from streamd.cold.files import BASE, SegmentFile, SegmentFiles
from streamd.cold.notes import READ, FileNotes, decode
from streamd.cold.store import ColdStore
from streamd.stream.entry_id import ID_MAX
from streamd.stream.log.absent import Absent
from streamd.stream.log.entry_log import Log
from streamd.stream.search.patterns import EntryFilter, entry_filter
from streamd.stream.search.searching import search
from tests.cold.cold_world import move, waiting
from tests.cold.jobs_at_hand import JobsAtHand
from tests.cold.sealed import entry_id
from tests.crash.simulated_disk import SimulatedDisk

PLACE = 40  # of the entries of one topic, which follow each other
ENTRIES = 4_000
LIMIT = 1 << 26


class Bench:
    """A log of entries with topics `t/0`, `t/1`, ..., in one segment file of 40 rows, one or two topics each.

    read: the rows that were read from the file.
    """

    def __init__(self, disk: SimulatedDisk | None = None, notes: bool = True) -> None:
        self.disk = disk or SimulatedDisk()
        self.disk.is_cached = False
        self.store = self._store()
        self.log = Log(10, self.store)
        self.jobs = JobsAtHand()
        if notes:
            self.store.notebook.submit = self.store.notebook.submit_read = self.jobs.submit
        for n in range(ENTRIES):
            self.log.append(entry_id(n + 1), self.fields(n))
        move(self.store, self.log, 390, 10)
        self.file: SegmentFile = self.log.sealed.rows.stretches[0].file  # type: ignore[union-attr]
        self.read: list[int] = []
        self._watch()

    def fields(self, n: int) -> list[bytes]:
        return [b"topic", b"t/%d" % (n // PLACE), b"n", b"%d" % n]

    def _store(self) -> ColdStore:
        files = SegmentFiles(self.disk, "dir", "appendonly.aof")  # type: ignore[arg-type]
        return ColdStore(files, LIMIT)

    def _watch(self) -> None:
        read = self.store.files.read

        def watched(one: SegmentFile, place: Any) -> bytes:
            rows = [row for row in range(one.index.rows) if one.index.place(row) == place]
            self.read += rows
            return read(one, place)

        self.store.files.read = watched  # type: ignore[method-assign]

    def evict(self) -> None:
        for key in [*self.store.cache._blocks]:
            self.store.cache.discard(key)
        self.store._held = {}
        self.read.clear()

    def restart(self) -> None:
        """Begin with a store that has nothing in memory."""
        self.store.files.hold(self.file, BASE)
        old = self.store
        self.store = self._store()
        self.store.notebook.submit = self.store.notebook.submit_read = self.jobs.submit
        self.file = self.store.files.load(self.file.number, self.file.size, self.file.checksum)
        self.store.files.hold(self.file, BASE)
        self._watch()
        log = Log(10, self.store)
        for n, (one, fields) in enumerate(waiting(lambda: [*self.log.iterate()])):
            if n >= 3_900:
                log.append(one, fields)
        log._sealed = sealed = self.store.list_of(log._sealed)  # type: ignore[arg-type]
        sealed.rows.add(self.file, 0, 39)
        sealed.live_count += 3_900
        self.log = log
        old.notebook.submit = None
        self.read.clear()

    def find(self, wanted: EntryFilter, start: int = 0) -> list[int]:
        """Return the IDs that a search finds."""
        return waiting(lambda: search(self.log, None, wanted, start, ID_MAX, 100_000, _never, with_ids=True)).ids

    def run_jobs(self) -> None:
        while self.jobs.run_one():
            pass

    @property
    def notes_files(self) -> list[str]:
        return [name for name in self.disk.names if ".notes-" in name]


def _never() -> bool:
    return False


def topic(number: int) -> EntryFilter:
    return entry_filter(b"topic", b"EQ", b"t/%d" % number)


def ids_of(number: int) -> list[int]:
    return [entry_id(n + 1) for n in range(number * PLACE, (number + 1) * PLACE)]


def noted() -> Bench:
    """Return a bench with notes in a file, and no block in memory."""
    bench = Bench()
    bench.evict()
    assert bench.find(topic(3)) == ids_of(3)
    assert len(set(bench.read)) == 39
    bench.run_jobs()
    assert len(bench.notes_files) == 1
    bench.evict()
    return bench


def test_a_second_search_reads_only_the_rows_that_may_match() -> None:
    bench = noted()
    assert bench.find(topic(50)) == ids_of(50)
    assert sorted(set(bench.read)) == [20]
    assert bench.store.notebook.rows_passed >= 38
    bench.evict()
    assert bench.find(topic(7)) == ids_of(7)
    assert sorted(set(bench.read)) == [2, 3]
    bench.evict()
    assert bench.find(entry_filter(b"topic", b"MQTT", b"+/52")) == ids_of(52)
    assert sorted(set(bench.read)) == [20, 21]
    bench.evict()
    assert bench.find(entry_filter(b"topic", b"GLOB", b"t/9?")) == [one for n in range(90, 100) for one in ids_of(n)]
    assert sorted(set(bench.read)) == [36, 37, 38]
    bench.evict()
    assert bench.find(topic(1_000)) == []
    assert bench.find(entry_filter(b"topic", b"MQTT", b"x/#")) == []
    assert bench.read == []


def test_a_filter_that_takes_all_reads_all_and_needs_no_notes() -> None:
    bench = Bench()
    bench.evict()
    assert len(bench.find(entry_filter(b"topic", b"GLOB", b"*"))) == ENTRIES
    assert bench.store.notebook.bytes == 0
    assert bench.jobs.count == 0


def test_another_field_has_notes_of_its_own() -> None:
    bench = noted()
    wanted = entry_filter(b"missing", b"EQ", b"1")
    assert bench.find(wanted) == []
    assert len(set(bench.read)) == 39
    bench.run_jobs()
    assert len(bench.notes_files) == 2
    bench.evict()
    assert bench.find(wanted) == []
    assert bench.read == []


def test_one_wait_asks_for_the_rows_that_may_match_alone() -> None:
    bench = noted()
    with pytest.raises(Absent) as caught:
        search(bench.log, None, entry_filter(b"topic", b"GLOB", b"t/[39]1"), 0, ID_MAX, 1_000, _never)
    assert [row for _, row in caught.value.rows] == [12, 36]


def test_a_search_can_stop_among_rows_that_are_passed_over() -> None:
    bench = noted()
    found = search(bench.log, None, topic(1_000), 0, ID_MAX, 10, lambda: True)
    assert (found.entries, found.is_done) == (0, False)
    assert found.passed_id in (entry_id(3_200), entry_id(3_900))
    assert bench.read == []


def test_notes_outlive_the_process() -> None:
    bench = noted()
    bench.restart()
    assert bench.store.notebook.bytes == 0
    assert bench.find(topic(50)) == ids_of(50)
    # The first row is read while the thread reads the notes.
    bench.run_jobs()
    assert len(set(bench.read)) <= 39
    bench.evict()
    assert bench.find(topic(50)) == ids_of(50)
    assert sorted(set(bench.read)) == [20]


def test_notes_are_read_at_once_where_that_needs_no_wait() -> None:
    bench = noted()
    bench.restart()
    bench.disk.is_cached = True
    bench.store.files.read_cached = lambda one, place: None  # type: ignore[method-assign]
    assert bench.find(topic(50)) == ids_of(50)
    assert sorted(set(bench.read)) == [20]
    assert bench.jobs.count == 1


def test_what_must_not_wait_reads_notes_in_place() -> None:
    bench = noted()
    bench.restart()
    with bench.store.at_once():
        assert bench.find(topic(50)) == ids_of(50)
    assert sorted(set(bench.read)) == [20]


def _cut(data: bytearray) -> None:
    del data[-7:]


def _empty(data: bytearray) -> None:
    data.clear()


def _flip(at: int) -> Callable[[bytearray], None]:
    def damage(data: bytearray) -> None:
        data[at % len(data)] ^= 0x10

    return damage


@pytest.mark.parametrize("damage", [_cut, _empty, _flip(3), _flip(9), _flip(20), _flip(60), _flip(-5)])
def test_damaged_notes_are_made_again(damage: Callable[[bytearray], None]) -> None:
    bench = noted()
    damage(bench.disk.names[bench.notes_files[0]].data)
    bench.restart()
    with bench.store.at_once():
        assert bench.find(topic(50)) == ids_of(50)
    assert len(set(bench.read)) == 39
    bench.run_jobs()
    bench.evict()
    assert bench.find(topic(50)) == ids_of(50)
    assert sorted(set(bench.read)) == [20]
    bench.restart()
    with bench.store.at_once():
        assert bench.find(topic(51)) == ids_of(51)
    assert sorted(set(bench.read)) == [20]


def test_damage_that_the_thread_finds() -> None:
    bench = noted()
    _cut(bench.disk.names[bench.notes_files[0]].data)
    bench.restart()
    bench.jobs.at_once = True
    assert bench.find(topic(50)) == ids_of(50)
    bench.evict()
    assert bench.find(topic(50)) == ids_of(50)
    assert sorted(set(bench.read)) == [20]


def test_missing_notes_are_made_again() -> None:
    bench = noted()
    bench.restart()
    del bench.disk.names[bench.notes_files[0]]
    assert bench.find(topic(50)) == ids_of(50)
    bench.run_jobs()
    assert bench.find(topic(51)) == ids_of(51)
    bench.run_jobs()
    assert len(bench.notes_files) == 1
    bench.evict()
    assert bench.find(topic(50)) == ids_of(50)
    assert sorted(set(bench.read)) == [20]


def test_notes_of_another_file_are_of_no_use() -> None:
    bench = noted()
    notes = bench.store.notebook._notes[1, b"topic"].written().encode()
    assert b"t/0" in decode(notes, bench.file, b"topic", LIMIT).values
    with pytest.raises(ValueError, match="another file or field"):
        decode(notes, bench.file, b"n", LIMIT)
    bench.file.checksum += 1
    with pytest.raises(ValueError, match="another file or field"):
        decode(notes, bench.file, b"topic", LIMIT)
    bench.file.salt += 1
    with pytest.raises(ValueError, match="checksum"):
        decode(notes, bench.file, b"topic", LIMIT)
    with pytest.raises(ValueError, match="no notes"):
        decode(b"", bench.file, b"topic", LIMIT)


def test_notes_that_are_larger_than_allowed_now_are_made_anew() -> None:
    bench = noted()
    notes = bench.store.notebook._notes[1, b"topic"].written().encode()
    with pytest.raises(ValueError, match="larger"):
        decode(notes, bench.file, b"topic", 1_000)


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EIO, "short"])
@pytest.mark.parametrize("step", range(1, 4))
def test_notes_that_cannot_be_written_are_given_up(failure: int | str, step: int) -> None:
    bench = Bench()
    bench.evict()
    assert bench.find(topic(3)) == ids_of(3)
    bench.disk.fail_at, bench.disk.failure, bench.disk.fails_for = bench.disk.operations + step, failure, 100
    bench.run_jobs()
    bench.disk.fail_at = 0
    bench.evict()
    assert bench.find(topic(50)) == ids_of(50)
    assert sorted(set(bench.read)) == [20]
    bench.restart()
    for number in (50, 51):  # what is left of the file may have to be read first
        assert bench.find(topic(number)) == ids_of(number)
        bench.run_jobs()
    bench.evict()
    assert bench.find(topic(52)) == ids_of(52)
    assert sorted(set(bench.read)) == [20, 21]


def test_a_bug_is_not_taken_for_a_failing_disk() -> None:
    bench = Bench()
    bench.evict()
    bench.find(topic(3))
    bench.disk.fail_at, bench.disk.failure = bench.disk.operations + 1, "bug"
    with pytest.raises(RuntimeError, match="a bug in"):
        bench.run_jobs()


def test_notes_go_with_their_file() -> None:
    bench = noted()
    key = (1, b"topic")
    assert key in bench.store.notebook._notes
    bench.log.trim_to_length(10)
    bench.store.settle()
    assert key not in bench.store.notebook._notes
    assert bench.store.notebook.bytes == 0
    bench.store.files.unlink_dead()
    assert [*bench.disk.names] == []


def test_a_file_that_dies_while_its_notes_are_written() -> None:
    bench = Bench()
    bench.evict()
    bench.find(topic(3))
    bench.log.trim_to_length(10)
    bench.store.settle()
    bench.store.files.unlink_dead()
    bench.run_jobs()
    assert [*bench.disk.names] == []


def test_a_start_removes_notes_of_files_that_are_not_there() -> None:
    bench = noted()
    for name in ("9.notes-0123456789abcdef", "1.notes-0123456789abcdef", "9.notes-0123", "9.notes-0123456789abcdefa"):
        bench.disk.create(f"dir/appendonly.aof.{name}").close()
    bench.restart()
    assert bench.store.files.number == 1
    assert bench.store.files.orphans() == []
    assert bench.store.files.unlink_orphans() == []
    left = sorted(name.partition(".aof.")[2][:11] for name in bench.disk.names)
    assert left == ["1.notes-012", "1.notes-" + bench.notes_files[0][-16:-13], "1.seg", "9.notes-012", "9.notes-012"]


def test_an_orphan_and_its_notes_go_together() -> None:
    bench = noted()
    store = bench._store()
    assert store.files.unlink_orphans() == ["appendonly.aof.1.seg"]
    assert [*bench.disk.names] == []


def test_memory_is_bounded_and_what_is_pushed_out_is_written() -> None:
    bench = Bench()
    bench.evict()
    book = bench.store.notebook
    for n in range(30):
        bench.find(entry_filter(b"f%d" % n, b"EQ", b"1"))
        assert book.bytes == sum(notes.memory_bytes for notes in book._notes.values())
    bench.run_jobs()
    assert len(bench.notes_files) == 4  # others waited in vain
    one = next(iter(book._notes.values())).memory_bytes
    book.set_limit(16 * 3 * one)
    assert len(book._notes) <= 3
    assert book.bytes <= 3 * one


def test_deleted_entries_do_not_make_a_row_be_read_but_the_last_one_does() -> None:
    bench = noted()
    bench.log.delete_recorded([entry_id(150), entry_id(300)])
    assert bench.find(topic(60)) == ids_of(60)
    assert sorted(set(bench.read)) == [2, 24]


def test_rows_with_too_many_or_too_long_values_are_read() -> None:
    bench = Bench()
    notes = FileNotes(bench.file, b"f", 1 << 20)
    notes.note(0, {b"%d" % n for n in range(2_049)}, bench.file.index.last_id(0))
    notes.note(1, {b"v" * 257}, bench.file.index.last_id(1))
    notes.note(2, {b"v" * 256, None}, bench.file.index.last_id(2))
    notes.note(3, {None}, 7)
    assert notes.sets[:5] == [READ, READ, b"\0\0", b"", None]
    assert notes.last_ids == {3: 7}
    again = decode(notes.written().encode(), bench.file, b"f", 1 << 20)
    assert (again.sets, again.values, again.last_ids) == (notes.sets, notes.values, notes.last_ids)
    assert again.sets[0] is READ
    assert again.memory_bytes == notes.memory_bytes
    wanted = entry_filter(b"f", b"EQ", b"v")
    assert [again.passes(row, wanted, again.judge(wanted)) for row in range(5)] == [False, False, True, True, False]


def test_notes_of_many_values_stay_within_their_bound() -> None:
    bench = Bench()
    notes = FileNotes(bench.file, b"f", 1 << 20)
    for row in range(39):
        notes.note(row, {b"%d-%d" % (row, n) for n in range(500)}, bench.file.index.last_id(row))
    assert READ in notes.sets
    assert notes.memory_bytes <= notes.bytes_max


@pytest.mark.parametrize("seed", range(5))
def test_a_row_is_passed_over_only_if_none_of_its_values_matches(seed: int) -> None:
    bench = Bench()
    chance = random.Random(seed)
    notes = FileNotes(bench.file, b"f", 1 << 20)
    notes.bytes_max = 1 << 20
    values = {row: {b"%d" % chance.randrange(700) for _ in range(chance.randrange(30))} for row in range(39)}
    filters = [entry_filter(b"f", b"EQ", b"%d" % n) for n in range(0, 700, 13)]
    filters += [entry_filter(b"f", b"GLOB", text) for text in (b"1*", b"?", b"??5", b"6?6")]
    for row in chance.sample(range(39), 39):
        notes.note(row, {*values[row]}, bench.file.index.last_id(row))
        for wanted in chance.sample(filters, 10):
            judged = notes.judge(wanted)
            for one, there in values.items():
                passes = notes.passes(one, wanted, judged)
                assert passes == (notes.sets[one] is not None and not any(map(wanted.pattern.matches, there)))
