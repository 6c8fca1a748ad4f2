"""The segment files of a directory, on a disk that fails at every step and loses its power after every step."""

import errno
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from streamd.base.filesystem import FileSystem
from streamd.cold import files as files_module
from streamd.cold.block import Block, decode
from streamd.cold.files import BACKUP, BASE, MOVER, REPLY, STREAM, SegmentFiles
from streamd.cold.format import Damaged
from streamd.cold.index import Place
from tests.cold.sealed import MS, every_kind, stored
from tests.crash.simulated_disk import SimulatedDisk

KINDS = dict(every_kind())
FIRST, SECOND = KINDS["alike, one ms"], KINDS["compressed, both"]
NAME = "appendonly.aof"


def open_files(disk):
    return SegmentFiles(disk, "dir", NAME)


def write(files, *blocks):
    """Write a file of one block for each group of segments; return it, with a stream that holds it."""
    writing = files.create(MS)
    for segments in blocks or (FIRST, SECOND):
        writing.write([Block(segments)])
    one = writing.finish()
    files.hold(one, STREAM)
    files.release(one, MOVER)
    return one


def write_durable(files, *blocks):
    found = write(files, *blocks)
    files.sync(found)
    return found


def contents(files, one):
    """Return what is stored of all segments of a file."""
    rows = [one.index.place(row) for row in range(one.index.rows)]
    return [stored(found) for at in rows for found in decode(files.read(one, at), at.offset, one.path)]


WHOLE = [stored(one) for one in (*FIRST, *SECOND)]


def names(disk):
    return sorted(path.removeprefix(f"dir/{NAME}.") for path in disk.names)


class PowerCut(Exception):
    """The end of a process: nothing runs behind it."""


class CutDisk(SimulatedDisk):
    """Ends the process at the step `fail_at`, and cannot be used from then on."""

    def step(self, name, length=0):
        if self.fail_at and self.operations + 1 >= self.fail_at:
            raise PowerCut
        return super().step(name, length)


def history(disk, named):
    """Write two files and unlink the first; `named` has what a base may name meanwhile."""
    files = open_files(disk)
    for _ in range(2):
        one = write(files)
        files.sync(one)
        files.hold(one, BASE)
        named.append((one.number, one.size, one.checksum))
    assert contents(files, one) == WHOLE
    # The base that names the second file alone is there from now on.
    del named[0]
    return files


def steps_of(history):
    disk = SimulatedDisk()
    history(disk, [])
    return disk.operations


@pytest.mark.parametrize("step", range(1, steps_of(history) + 2))
def test_a_file_that_may_be_named_is_whole_wherever_the_power_is_cut(step):
    for seed in range(12):
        disk, named = CutDisk(), []
        disk.fail_at = step
        with suppress(PowerCut):
            history(disk, named)
        after = disk.cut_power(seed)
        files = SegmentFiles(after, "dir", NAME, max([number for number, *_ in named], default=0))
        for one in named:
            assert contents(files, files.load(*one)) == WHOLE
        files.unlink_orphans()
        assert names(after) == [f"{number}.seg" for number, *_ in named]
        further = write_durable(files)
        assert further.number > max([number for number, *_ in named], default=0)
        assert contents(files, further) == WHOLE


def test_the_disk_of_these_tests_loses_names_and_contents():
    """Each half of being durable is needed: the tests above see both missing."""
    kinds = set()
    for seed in range(60):
        disk = SimulatedDisk()
        files = open_files(disk)
        one = write(files)
        after = disk.cut_power(seed)
        if one.path not in after.names:
            kinds.add("no name")
            continue
        try:
            found = open_files(after)
            contents(found, found.load(one.number, one.size, one.checksum))
            kinds.add("whole")
        except Damaged:
            kinds.add("not whole")
    assert kinds == {"no name", "not whole", "whole"}


@pytest.mark.parametrize("failure", [errno.EIO, errno.ENOSPC, errno.EINTR, "short", "bug"])
@pytest.mark.parametrize("step", range(2, steps_of(history) + 2))
def test_a_step_that_fails_leaves_a_whole_file_or_none(step, failure):
    disk = SimulatedDisk()
    files = open_files(disk)
    disk.forgets = True
    disk.fail_at, disk.failure = step, failure
    made = []
    try:
        for _ in range(2):
            one = write(files)
            made.append(one)
            files.sync(one)
    except (OSError, RuntimeError):
        assert disk.failed
    disk.fail_at = 0
    durable = [one for one in made if one.is_durable]
    for one in made:
        assert contents(files, one) == WHOLE  # through its descriptor, where it has no name any more
    assert names(disk) == [f"{one.number}.seg" for one in durable]
    for one in made:
        files.release(one, STREAM)
    files.unlink_dead()
    assert names(disk) == []
    assert disk.open_files == 0
    assert write_durable(files).number > max([one.number for one in made], default=0)


def test_a_file_whose_sync_failed_is_not_synced_again_and_its_number_not_used_again():
    disk = SimulatedDisk()
    disk.forgets = True
    files = open_files(disk)
    one = write(files)
    disk.fail_at = disk.operations + 1
    with pytest.raises(OSError):
        files.sync(one)
    assert disk.failed == ["sync"]
    assert not one.is_durable
    assert one.path not in disk.names
    with pytest.raises(AssertionError):
        files.hold(one, BASE)
    assert contents(files, one) == WHOLE
    assert write_durable(files).number == 2
    files.release(one, STREAM)
    files.unlink_dead()
    assert names(disk) == ["2.seg"]
    assert disk.open_files == 1


def test_a_file_that_cannot_be_unlinked_is_tried_again():
    disk = SimulatedDisk()
    files = open_files(disk)
    one, other = write_durable(files), write_durable(files)
    for file in (one, other):
        files.release(file, STREAM)
    disk.fail_at, disk.failure = disk.operations + 1, errno.EPERM
    with pytest.raises(OSError):
        files.unlink_dead()
    assert names(disk) == ["1.seg"]
    assert files.unlink_dead() == 1
    assert names(disk) == []
    assert files.unlink_dead() == 0


def test_a_file_stays_until_its_last_holder_is_gone():
    disk = SimulatedDisk()
    files = open_files(disk)
    one = write_durable(files)
    for holder in (BASE, BACKUP, BACKUP, REPLY):
        files.hold(one, holder)
    for holder in (BACKUP, STREAM, BASE, REPLY, BACKUP):
        assert files.unlink_dead() == 0
        assert contents(files, one) == WHOLE
        files.release(one, holder)
    with pytest.raises(AssertionError):
        files.hold(one, STREAM)
    with pytest.raises(AssertionError):
        files.release(one, REPLY)
    assert files.unlink_dead() == 1
    assert names(disk) == []
    assert disk.open_files == 0


def test_a_file_that_somebody_else_has_unlinked_is_no_error():
    disk = SimulatedDisk()
    files = open_files(disk)
    one = write_durable(files)
    disk.unlink(one.path)
    files.release(one, STREAM)
    assert files.unlink_dead() == 1


def test_a_file_whose_entries_are_deleted_before_its_sync_is_the_movers_until_then():
    disk = SimulatedDisk()
    files = open_files(disk)
    writing = files.create(MS)
    writing.write([Block(FIRST)])
    one = writing.finish()
    files.hold(one, STREAM)
    files.release(one, STREAM)
    assert files.unlink_dead() == 0
    files.sync(one)
    files.release(one, MOVER)
    assert files.unlink_dead() == 1


def test_numbers_go_on_behind_all_that_were_ever_there():
    disk = SimulatedDisk()
    for name in (f"{NAME}.7.seg", f"{NAME}.99.incr.aof", f"{NAME}x.50.seg", f"{NAME}.8.segx", "other.aof.60.seg"):
        disk.create(f"dir/{name}").close()
    files = open_files(disk)
    disk.create(f"dir/{NAME}.8.seg").close()  # since then
    assert write(files).number == 9
    assert write(SegmentFiles(disk, "dir", NAME, 30)).number == 31
    assert files.unlink_orphans() == [f"{NAME}.31.seg", f"{NAME}.7.seg", f"{NAME}.8.seg"]
    assert len(disk.names) == 5


def test_what_is_being_written_is_no_orphan_and_what_was_given_up_is_gone():
    disk = SimulatedDisk()
    files = open_files(disk)
    writing = files.create(MS)
    writing.write([Block(FIRST)])
    assert files.unlink_orphans() == []
    writing.abandon()
    assert disk.names == {}
    assert disk.open_files == 0


def test_a_file_of_the_same_name_is_not_the_one_that_was_written():
    disk = SimulatedDisk()
    one = write_durable(open_files(disk))
    other = SimulatedDisk()
    other.next_salt = 1 << 50
    twin = write_durable(open_files(other))
    assert (one.number, one.size) == (twin.number, twin.size)
    files = open_files(other)
    for wanted in ((1, one.size, one.checksum), (1, twin.size + 1, twin.checksum)):
        with pytest.raises(Damaged, match=r"^dir/appendonly\.aof\.1\.seg is damaged at offset 0: it is another file"):
            files.load(*wanted)
    other.rename(twin.path, files.path(2))
    with pytest.raises(Damaged, match="another file"):
        files.load(2, twin.size, twin.checksum)
    with pytest.raises(FileNotFoundError):
        files.load(1, twin.size, twin.checksum)


def test_a_damaged_block_is_refused_and_others_are_read():
    disk = SimulatedDisk()
    files = open_files(disk)
    one = write_durable(files)
    first, second = one.index.place(0), one.index.place(1)
    disk.names[one.path].data[second.offset + 9] ^= 1
    for read in (files.read, files.read_cached):
        assert len(read(one, first)) == first.size
        with pytest.raises(Damaged, match=f"^{one.path} is damaged at offset {second.offset}: "):
            read(one, second)
    del disk.names[one.path].data[second.offset + 20 :]
    with pytest.raises(Damaged, match="20 of the"):
        files.read(one, second)
    assert files.read_cached(one, second) is None


def test_a_read_that_would_wait_returns_nothing():
    disk = SimulatedDisk()
    files = open_files(disk)
    one = write_durable(files)
    disk.is_cached = False
    assert files.read_cached(one, one.index.place(0)) is None
    files.read_ahead(one, [one.index.place(0), one.index.place(1)])
    assert len(files.read(one, one.index.place(0))) == one.index.place(0).size


@pytest.mark.interpreted(reason="replaces a bound of the module")
def test_few_files_are_open_and_the_others_opened_again(monkeypatch):
    monkeypatch.setattr(files_module, "OPEN_FILES_MAX", 3)
    disk = SimulatedDisk()
    files = open_files(disk)
    made = [write_durable(files) for _ in range(6)]
    assert disk.open_files <= 3
    for one in (*made, *made[::-1], *made[::2]):
        assert contents(files, one) == WHOLE
        assert disk.open_files <= 3
    # Those in use stay open, however many they are.
    borrowed = [files._borrow(one) for one in made]
    assert disk.open_files == 6
    assert all(file.size() for file in borrowed)
    for one in made:
        files._give_back(one)
    assert contents(files, made[0]) == WHOLE
    assert disk.open_files <= 3
    files.close()
    assert disk.open_files == 0
    assert contents(files, made[0]) == WHOLE


def test_a_read_that_outlasts_its_holder_ends_before_the_file_is_closed():
    disk = SimulatedDisk()
    files = open_files(disk)
    one = write_durable(files)
    file = files._borrow(one)
    files.release(one, STREAM)
    files.unlink_dead()
    assert file.read_at(0, 8) == b"STRMSEG1"
    files._give_back(one)
    assert disk.open_files == 0


@pytest.mark.interpreted(reason="replaces a bound of the module")
def test_threads_read_files_that_are_closed_and_opened_meanwhile(tmp_path, monkeypatch):
    """A descriptor that is closed while a read uses it may be another file's by then: salts would tell."""
    monkeypatch.setattr(files_module, "OPEN_FILES_MAX", 2)
    files = SegmentFiles(FileSystem(), str(tmp_path), NAME)
    made = [write_durable(files) for _ in range(6)]

    def read_all(seed):
        chance = random.Random(seed)
        for _ in range(300):
            assert contents(files, chance.choice(made)) == WHOLE

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read_all, range(4)))
    assert len(files._open) <= 2
    files.close()


def test_a_real_file_has_large_and_small_blocks_at_multiples_of_eight(tmp_path):
    files = SegmentFiles(FileSystem(), str(tmp_path), NAME)
    kinds = [KINDS["large, a ms each"] * 12, FIRST, SECOND, KINDS["large and different, both"], KINDS["rewritten"]]
    one = write_durable(files, *kinds)
    assert contents(files, one) == [stored(segment) for kind in kinds for segment in kind]
    places = [one.index.place(row) for row in range(5)]
    assert [place.offset % 8 for place in places] == [0] * 5
    assert places[0].size > 2_000_000
    assert (tmp_path / f"{NAME}.1.seg").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / f"{NAME}.1.seg").stat().st_size == one.size
    again = SegmentFiles(FileSystem(), str(tmp_path), NAME)
    loaded = again.load(1, one.size, one.checksum)
    assert contents(again, loaded) == contents(files, one)
    assert again.read_cached(loaded, places[1]) in (None, again.read(loaded, places[1]))
    with pytest.raises(Damaged):
        again.read(loaded, Place(places[1].offset, places[1].size + 8))
    files.close()
    again.close()
