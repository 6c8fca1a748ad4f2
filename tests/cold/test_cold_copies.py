"""Segment files that another server has written, beside a server's own."""

import pytest

from streamd.cold.block import Block, decode
from streamd.cold.files import MOVER, STREAM, SegmentFiles
from streamd.cold.format import Damaged
from tests.cold.sealed import MS, every_kind, stored
from tests.crash.simulated_disk import SimulatedDisk

KINDS = dict(every_kind())
FIRST, SECOND = KINDS["alike, one ms"], KINDS["compressed, both"]
NAME = "appendonly.aof"


def written(disk, segments=FIRST):
    """Return the files of a directory, and one that was just written there."""
    files = SegmentFiles(disk, "dir", NAME)
    writing = files.create(MS)
    writing.write([Block(segments)])
    one = writing.finish()
    files.sync(one)
    files.hold(one, STREAM)
    files.release(one, MOVER)
    return files, one


def bytes_of(disk, one):
    return bytes(disk.names[one.path].data)


def receive(files, data):
    """Take a copy as a replica does; return its number and its path."""
    file, number, _ = files.create_copy()
    file.write_at(0, data)
    file.sync()
    file.close()
    return number, files.name_copy(number)


def contents(files, one):
    places = [one.index.place(row) for row in range(one.index.rows)]
    return [stored(found) for at in places for found in decode(files.read(one, at), at.offset, one.path)]


def other_server():
    disk = SimulatedDisk()
    disk.next_salt = 1 << 50
    return disk


def test_a_copy_stands_beside_the_own_file_of_its_number():
    there, here = other_server(), SimulatedDisk()
    theirs = written(there, SECOND)[1]
    files, own = written(here)
    assert theirs.number == own.number == 1
    number, path = receive(files, bytes_of(there, theirs))
    assert path == f"dir/{NAME}.{number}-{theirs.checksum:016x}.seg"
    found = files.load(1, theirs.size, theirs.checksum)
    assert (found.number, found.path) == (number, path)
    assert contents(files, found) == [*map(stored, SECOND)]
    assert files.load(1, own.size, own.checksum) is own


def test_a_start_finds_a_copy_by_its_checksum_under_both_numbers():
    there, here = other_server(), SimulatedDisk()
    theirs = written(there, SECOND)[1]
    number, path = receive(written(here)[0], bytes_of(there, theirs))
    for named in (1, number):
        files = SegmentFiles(here, "dir", NAME)
        found = files.load(named, theirs.size, theirs.checksum)
        assert (found.number, found.path) == (number, path)
        assert files.load(named, theirs.size, theirs.checksum) is found
        assert files.number == number
    assert files.unlink_orphans() == [f"{NAME}.1.seg"]


def test_the_newest_copy_counts_until_it_is_forgotten():
    there, here = other_server(), SimulatedDisk()
    theirs = written(there)[1]
    files = SegmentFiles(here, "dir", NAME)
    first = receive(files, bytes_of(there, theirs))[0]
    before = files.load(1, theirs.size, theirs.checksum)
    second, path = receive(files, bytes_of(there, theirs))
    assert files.load(1, theirs.size, theirs.checksum).number == second
    files.forget_copy(second, path)
    assert path not in here.names
    assert files.load(1, theirs.size, theirs.checksum) is before
    assert before.number == first


def test_a_copy_that_is_not_whole_gets_no_name_and_is_an_orphan_after_a_crash():
    there, here = other_server(), SimulatedDisk()
    theirs = written(there)[1]
    files = SegmentFiles(here, "dir", NAME)
    with pytest.raises(Damaged):
        receive(files, bytes_of(there, theirs)[:-1])
    assert SegmentFiles(here, "dir", NAME).unlink_orphans() == [f"{NAME}.1.seg"]
    assert here.names == {}


def test_a_copy_with_another_name_is_not_what_a_base_means():
    there, here = other_server(), SimulatedDisk()
    theirs = written(there)[1]
    files = SegmentFiles(here, "dir", NAME)
    _, path = receive(files, bytes_of(there, theirs))
    here.rename(path, files.path(9, theirs.checksum ^ 1))
    files = SegmentFiles(here, "dir", NAME)
    with pytest.raises(Damaged, match="another file"):
        files.load(1, theirs.size, theirs.checksum ^ 1)
    with pytest.raises(FileNotFoundError):
        files.load(1, theirs.size, theirs.checksum)
