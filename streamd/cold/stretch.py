"""Consecutive rows of one segment file, as one stream has them: with its deletions."""

from itertools import accumulate

from streamd.cold.files import SegmentFile
from streamd.cold.tokens import Hold
from streamd.cold.tombstones import Tombstones


class Stretch:
    """The rows from `low` to before `high` of a segment file, and what one stream has deleted of them.

    hold: keeps the file. gone: the tombstones of each row that has some. gone_count: how many there are in all.
    nodes_before: how many nodes the rows of the file before `low` have. entries, nodes, stored_bytes: of the rows, with
    what is deleted, and their bytes in the file: sums that take long. first_id, last_id: of the rows.
    """

    __slots__ = (
        "_is_shared",
        "entries",
        "file",
        "first_id",
        "gone",
        "gone_count",
        "high",
        "hold",
        "last_id",
        "low",
        "nodes",
        "nodes_before",
        "stored_bytes",
    )

    def __init__(self, file: SegmentFile, hold: Hold, low: int, high: int, like: "Stretch | None" = None) -> None:
        """like: a stretch of the same rows, whose sums are taken."""
        self.file = file
        self.hold = hold
        self.low = low
        self.high = high
        self.gone: dict[int, Tombstones] = {}
        self.gone_count = 0
        self._is_shared = False
        if like is None:
            index = file.index
            self.nodes_before, self.nodes = index.nodes(0, low), index.nodes(low, high)
            self.entries, self.stored_bytes = index.entries(low, high), index.stored_bytes(low, high)
            self.first_id = file.index.first_id(low)
            self.last_id = file.index.last_id(high - 1)
        else:
            self.nodes_before, self.nodes, self.stored_bytes = like.nodes_before, like.nodes, like.stored_bytes
            self.entries, self.first_id, self.last_id = like.entries, like.first_id, like.last_id

    def live_count(self, row: int) -> int:
        """Return how many entries of a row are not deleted."""
        gone = self.gone.get(row)
        return self.file.index.entries(row, row + 1) - (0 if gone is None else len(gone))

    def live_before(self, row: int) -> int:
        """Return how many entries of the rows before a row are not deleted."""
        gone = self.gone
        deleted = 0
        if gone:
            if 4 * (row - self.low) < len(gone):
                deleted = sum([len(gone[one]) for one in range(self.low, row) if one in gone])
            else:
                deleted = sum([len(one) for at, one in gone.items() if at < row])
        return self.file.index.entries(self.low, row) - deleted

    def lives_before(self) -> list[int]:
        """Return how many entries of the rows before each row are not deleted, and of all rows at the end."""
        if not self.gone:
            return self.file.index.entries_before(self.low, self.high)
        return [*accumulate([self.live_count(row) for row in range(self.low, self.high)], initial=0)]

    def find(self, entry_id: int) -> int:
        """Return the row whose IDs an ID is among; -1 without one."""
        row = self.file.index.find(entry_id, self.low, self.high)
        return row if row >= self.low and entry_id <= self.file.index.last_id(row) else -1

    def bury(self, row: int, ids: list[int]) -> int:
        """Note that entries of a row are deleted, by ascending IDs; return how many were not yet."""
        self._own()
        before = self.gone.get(row)
        after = Tombstones(ids) if before is None else before.with_ids(ids)
        self.gone[row] = after
        more = len(after) - (0 if before is None else len(before))
        self.gone_count += more
        return more

    def extend(self, high: int) -> None:
        """Take the following rows as well."""
        index = self.file.index
        self.nodes += index.nodes(self.high, high)
        self.entries += index.entries(self.high, high)
        self.stored_bytes += index.stored_bytes(self.high, high)
        self.high = high
        self.last_id = index.last_id(high - 1)

    def drop_first(self) -> None:
        """Leave out the first row; it must not be the only one."""
        self.nodes_before += self._drop(self.low)
        self.low += 1
        self.first_id = self.file.index.first_id(self.low)

    def drop_last(self) -> None:
        """Leave out the last row; it must not be the only one."""
        self.high -= 1
        self._drop(self.high)
        self.last_id = self.file.index.last_id(self.high - 1)

    def _drop(self, row: int) -> int:
        """Leave a row out of the sums; return how many nodes it has."""
        index = self.file.index
        nodes = index.nodes(row, row + 1)
        self.nodes -= nodes
        self.entries -= index.entries(row, row + 1)
        self.stored_bytes -= index.stored_bytes(row, row + 1)
        if row in self.gone:
            self._own()
            self.gone_count -= len(self.gone.pop(row))
        return nodes

    def _own(self) -> None:
        if self._is_shared:
            self.gone = dict(self.gone)
            self._is_shared = False

    def copy(self) -> "Stretch":
        """Return a copy for another stream, which shares the tombstones until one of them has more."""
        other = Stretch(self.file, self.hold, self.low, self.high, self)
        other.gone, other.gone_count = self.gone, self.gone_count
        self._is_shared = other._is_shared = True
        return other
