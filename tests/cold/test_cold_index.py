"""The index of a segment file: rows are found as a list of IDs would have them, and only whole files are read."""

import random
import tracemalloc

import pytest

from streamd.cold import format
from streamd.cold.block import Block
from streamd.cold.files import SegmentFiles
from streamd.cold.format import Damaged, Unreadable
from streamd.cold.index import Footer, Index, Place, read_index
from tests.cold.sealed import MS, entry_id, every_kind, sealed
from tests.crash.simulated_disk import SimulatedDisk

PATH = "dir/appendonly.aof.1.seg"


def index_of(blocks):
    footer = Footer()
    at = 64
    for block in blocks:
        footer.add(block, Place(at, 100))
        at += 104
    return footer.index()


def streams(with_seqs):
    """Return the blocks of two streams, each of a few IDs that follow each other or have gaps."""
    chance = random.Random(7)
    blocks = []
    for _ in range(2):
        ids, at = [], entry_id(MS)
        for _ in range(120):
            at += chance.choice((1, 2, 1 << 64, 3 << 64 | 5)) if with_seqs else chance.choice((1 << 64, 3 << 64))
            ids.append(at)
        found = sealed([(one, [b"f", b"v"]) for one in ids], 4)
        blocks.append([Block(found[n : n + 3]) for n in range(0, 27, 3)])
    return blocks


def one_ms():
    """Return the blocks of two streams whose seqs begin again in another ms, and ascend through blocks in one."""
    ids = [entry_id(MS - 1, n) for n in range(900, 920)] + [entry_id(MS, n) for n in range(60)]
    ids += [entry_id(MS + 1, n) for n in range(5, 37)]
    found = sealed([(one, [b"f", b"v"]) for one in ids], 4)
    return [[Block(found[n : n + 3]) for n in range(0, 27, 3)]] * 2


@pytest.mark.parametrize("with_seqs", [False, True, None])
def test_the_row_of_an_id_is_found_within_the_rows_of_its_stream(with_seqs):
    first, second = one_ms() if with_seqs is None else streams(with_seqs)
    index = index_of([*first, *second])
    assert index.rows == 18
    assert (index._first_seqs is None) is (with_seqs is False)
    for low, high, blocks in ((0, 9, first), (9, 18, second), (2, 5, first[2:5]), (4, 4, [])):
        wanted = {one + step for block in first for one in (block.first_id, block.last_id) for step in (-1, 0, 1)}
        wanted |= {0, (1 << 128) - 1}
        for one in sorted(wanted):
            assert index.find(one, low, high) == low - 1 + sum(block.first_id <= one for block in blocks)
            for end in sorted(wanted):
                rows = [
                    low + n for n, block in enumerate(blocks) if block.first_id <= end and block.last_id >= one <= end
                ]
                start, behind = index.between(one, end, low, high)
                if rows:
                    assert (start, behind) == (rows[0], rows[-1] + 1)
                elif one <= end:
                    assert start == behind
        for row, block in enumerate(blocks, low):
            assert (index.first_id(row), index.last_id(row)) == (block.first_id, block.last_id)


def test_rows_are_summed():
    first, second = streams(True)
    index = index_of([*first, *second])
    assert index.entries(0, 18) == 18 * 12
    assert index.entries(3, 5) == 24
    assert index.stored_bytes(3, 5) == 200
    assert list(index.node_counts(1, 3)) == [4] * 6
    assert list(index.node_counts(3, 3)) == []
    kinds = [sealed([(entry_id(MS + n), [b"f", b"v"]) for n in range(50)], node) for node in (3, 7, 20)]
    index = index_of([Block(one) for one in kinds])
    assert [list(index.node_counts(row, row + 1)) for row in range(3)] == [[3] * 16, [7] * 7, [20] * 2]
    assert list(index.node_counts(1, 3)) == [*[7] * 7, *[20] * 2]
    assert index.place(2) == (64 + 208, 100)


@pytest.mark.parametrize("with_seqs", [False, True])
def test_a_million_rows_take_few_bytes_each(with_seqs):
    block = streams(with_seqs)[0][0]
    block.counts, block.entries = [100] * 4, 400
    footer = Footer()
    for _ in range(1_000):
        footer.add(block, Place(64, 32_000))
    a_row = footer.index().memory_bytes / 1_000
    assert a_row <= (56 if with_seqs else 40) + 2  # of 4 nodes each


def test_the_memory_of_an_index_is_what_it_says():
    block = streams(False)[0][0]
    block.counts, block.entries = [100], 100
    footer = Footer()
    for row in range(20_000):
        footer.add(block, Place(64 + 32_000 * row, 32_000))
    data = footer.encode(0, 0)[0]
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    index = Index(bytes(bytearray(data)), 20_000)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken <= index.memory_bytes + 2_000
    assert taken / 20_000 < 33


def test_an_index_that_does_not_add_up_is_refused():
    footer = Footer()
    for block in streams(True)[0]:
        footer.add(block, Place(64, 100))
    data = footer.encode(0, 0)[0]
    Index(data, 9)
    for bad, rows in ((data, 8), (data, 10), (data[:-2], 9), (data[:5], 9), (b"", 0), (data[:-1] + b"\1", 9)):
        with pytest.raises(ValueError):
            Index(bad, rows)


@pytest.fixture
def disk():
    """A disk with one file of two blocks."""
    disk = SimulatedDisk()
    files = SegmentFiles(disk, "dir", "appendonly.aof")
    writing = files.create(MS)
    kinds = dict(every_kind())
    writing.write([Block(kinds["alike, one ms"]), Block(kinds["alike, both"])])
    writing.finish()
    files.close()
    return disk


def test_an_index_is_read(disk):
    opened = read_index(disk, PATH)
    assert opened.header.number == 1
    assert opened.header.created_ms == MS
    assert opened.size == len(disk.names[PATH].data)
    assert opened.blocks.entries(0, 2) == 40
    assert disk.open_files == 0


def outside_blocks(disk):
    """Return the offsets of header, footer and trailer."""
    size = len(disk.names[PATH].data)
    index = read_index(disk, PATH).blocks
    last = index.place(index.rows - 1)
    end = last.offset + last.size
    return [*range(64), *range(end + -end % 8, size)]


def test_each_flipped_byte_around_the_blocks_is_refused_with_the_file_and_a_place(disk):
    data = disk.names[PATH].data
    for at in outside_blocks(disk):
        data[at] ^= 1 << at % 8
        with pytest.raises(Damaged, match=rf"^{PATH} is damaged at offset \d+: "):
            read_index(disk, PATH)
        data[at] ^= 1 << at % 8
    read_index(disk, PATH)
    assert disk.open_files == 0


def test_each_cut_is_refused(disk):
    data = bytes(disk.names[PATH].data)
    for length in range(len(data)):
        disk.names[PATH].data = bytearray(data[:length])
        with pytest.raises(Damaged, match=rf"^{PATH} is damaged at offset \d+: "):
            read_index(disk, PATH)


def test_parts_of_two_files_make_none(disk):
    files = SegmentFiles(disk, "dir", "appendonly.aof")
    writing = files.create(MS)
    writing.write([Block(one) for one in (dict(every_kind())["alike, one ms"], dict(every_kind())["alike, both"])])
    writing.finish()
    one, other = disk.names[PATH].data, disk.names[PATH.replace("1.seg", "2.seg")].data
    assert len(one) == len(other)
    for at in (64, len(one) - 60, len(one) - 32, len(one) - 16):
        disk.names["mixed"] = type(disk.names[PATH])()
        disk.names["mixed"].data = one[:at] + other[at:]
        with pytest.raises(Damaged):
            read_index(disk, "mixed")


@pytest.mark.interpreted(reason="replaces the version of the module")
def test_a_file_of_a_newer_version_or_of_another_machine_is_not_called_damaged(disk, monkeypatch):
    monkeypatch.setattr(format, "VERSION", 2)
    with pytest.raises(Unreadable, match=f"{PATH} was written by a newer streamd"):
        read_index(disk, PATH)
    monkeypatch.setattr(format, "VERSION", 1)
    monkeypatch.setattr(format, "FLAGS", 1)
    with pytest.raises(Unreadable, match="another order of bytes"):
        read_index(disk, PATH)
