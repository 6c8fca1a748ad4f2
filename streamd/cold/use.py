"""What streams still have of each segment file, by a survey of their lists, and which files are to be merged."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from streamd.cold.cold_list import ColdList
from streamd.cold.files import MOVER, SegmentFile
from streamd.cold.jobs import Steps
from streamd.cold.tombstones import Tombstones

# The lists of all streams; None where a slice of looking for them ends.
Lists = Callable[[], Iterable[ColdList | None]]

# A file is merged when less than half of it is alive, or when this part of its entries was deleted one by one.
_GONE_PART: Final = 10
# One merge makes a file of about this size, or a larger one of a single file.
_MERGED_BYTES: Final = 16 * 1024 * 1024
# Files of which less is alive are merged when there are so many.
_SMALL_BYTES: Final = 1024 * 1024
_SMALL_FILES: Final = 16
# So many stretches are looked at in a step.
_LOOKED_AT_ONCE: Final = 100


class Use:
    """What streams have of one file. rows: for each row 0: no stream has it, 1: one has it, 2: copies of one have it.
    gone: how many tombstones there are. lists: the lists that have some of the rows.
    """

    def __init__(self, file: SegmentFile) -> None:
        self.file = file
        self.rows = bytearray(file.index.rows)
        self.gone = 0
        self.lists: list[ColdList] = []

    def note(self, low: int, high: int) -> None:
        """Note that a stream has the rows from `low` to before `high`."""
        rows = self.rows
        if rows.count(0, low, high) == high - low:
            rows[low:high] = b"\1" * (high - low)
        else:
            rows[low:high] = bytes([min(one + 1, 2) for one in rows[low:high]])

    def rows_in_use(self) -> Iterator[int]:
        """Yield the rows that a stream has."""
        return (row for row, streams in enumerate(self.rows) if streams)

    def alive(self) -> tuple[int, int]:
        """Return (bytes, entries) of the rows that a stream has."""
        rows, index = self.rows, self.file.index
        size = entries = high = 0
        while True:
            low = next((row for row in range(high, len(rows)) if rows[row]), -1)
            if low < 0:
                return size, entries
            high = rows.find(0, low)
            if high < 0:
                high = len(rows)
            size += index.stored_bytes(low, high)
            entries += index.entries(low, high)

    def tombstones(self) -> dict[int, Tombstones]:
        """Return the tombstones of each row that one stream alone has."""
        return {
            row: gone
            for one in self.lists
            for stretch in one.rows.stretches
            if stretch.file is self.file
            for row, gone in stretch.gone.items()
            if self.rows[row] == 1
        }


def survey(lists: Lists, found: dict[SegmentFile, Use]) -> Steps:
    """Fill `found` with the use of each file that a list has rows of."""
    looked = 0
    for one in lists():
        if one is None:
            yield True
            continue
        for stretch in one.rows.stretches:
            use = found.get(stretch.file)
            if use is None:
                use = found[stretch.file] = Use(stretch.file)
            use.note(stretch.low, stretch.high)
            use.gone += stretch.gone_count
            if not use.lists or use.lists[-1] is not one:
                use.lists.append(one)
        looked += 1 + len(one.rows.stretches)
        if looked >= _LOOKED_AT_ONCE:
            looked = 0
            yield True


def choose(found: list[Use]) -> list[Use]:
    """Return the files that are to be merged into one, in order; empty if none needs it."""
    wanted: list[tuple[int, Use]] = []
    small: list[tuple[int, Use]] = []
    for use in found:
        size, entries = use.alive()
        if use.file.holders[MOVER]:
            continue  # streams are about to switch to it
        if 2 * size < use.file.index.stored_bytes(0, use.file.index.rows) or (
            use.gone * _GONE_PART > entries and 2 not in use.rows
        ):
            wanted.append((size, use))
        elif size < _SMALL_BYTES:
            small.append((size, use))
    if len(small) >= _SMALL_FILES:
        wanted += small
    chosen: list[Use] = []
    total = 0
    for size, use in sorted(wanted, key=lambda one: (one[0], one[1].file.number)):
        if chosen and total + size > _MERGED_BYTES:
            break
        chosen.append(use)
        total += size
    return sorted(chosen, key=lambda use: use.file.number)
