"""The blocks of a whole segment file: what is damaged is named, and the rest is there."""

from streamd.cold.block import Block
from streamd.cold.files import SegmentFiles
from streamd.cold.format import Damaged
from streamd.cold.index import Footer
from streamd.cold.whole_file import blocks_of
from tests.cold.sealed import MS, every_kind, stored
from tests.crash.simulated_disk import SimulatedDisk

KINDS = [segments for _, segments in every_kind()][:12]


def written(disk):
    files = SegmentFiles(disk, "dir", "appendonly.aof")
    writing = files.create(MS)
    writing.write(map(Block, KINDS))
    return files, writing.finish()


def test_all_blocks_are_there_in_order():
    files, one = written(SimulatedDisk())
    found = [[stored(segment) for segment in segments] for segments in blocks_of(files, one)]
    assert found == [[stored(segment) for segment in segments] for segments in KINDS]


def test_a_damaged_block_is_named_and_the_others_are_there():
    disk = SimulatedDisk()
    files, one = written(disk)
    offset = one.index.place(3).offset
    disk.names[one.path].data[offset + 100] ^= 1
    found = list(blocks_of(files, one))
    assert [isinstance(segments, Damaged) for segments in found] == [row == 3 for row in range(12)]
    assert str(found[3]).startswith(f"{one.path} is damaged at offset {offset}: ")


def test_a_block_that_the_index_does_not_mean_is_named():
    disk = SimulatedDisk()
    files, one = written(disk)
    for change in ("first_id", "last_id", "counts"):
        footer = Footer()
        for row, segments in enumerate(KINDS):
            block = Block(segments)
            if row == 5:
                value = [*block.counts[::-1], 1] if change == "counts" else getattr(block, change) + 1
                block.entries += change == "counts"
                setattr(block, change, value)
            footer.add(block, one.index.place(row))
        one.index = footer.index()
        found = list(blocks_of(files, one))
        assert [isinstance(segments, Damaged) for segments in found] == [row == 5 for row in range(12)]
        assert "the file's index" in str(found[5])
