"""The entries of one log that are in segment files: rows of these, and what the log has deleted of them."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from streamd.cold.blocks import Blocks
from streamd.cold.files import SegmentFile
from streamd.cold.node_replies import read_nodes
from streamd.cold.seen_nodes import first_id_of, is_in, without
from streamd.cold.stretch import Stretch
from streamd.stream.log.runs import NodeRun
from streamd.stream.log.segment import Segment


class Rows:
    """The oldest entries of a log, in rows of segment files.

    Whatever looks at entries raises Absent if their block is not in memory. Trimming never does: it needs a block only
    where nodes or IDs are to be told apart, and reads that in place.

    stretches: the rows, in order. live: how many entries are there. skipped: how many entries of the first row were
    trimmed, deleted ones not counted: so a trim to a length needs no block. end: the last ID of the rows; -1 without.
    is_loaded: a journal has told the rows, and the last node takes no more entries. _first_id: the first entry's ID if
    a block had to tell it, else -1. _front_least: the entries of the first node if they are known, else -1.
    """

    __slots__ = ("_first_id", "_front_least", "blocks", "emptied", "end", "is_loaded", "live", "skipped", "stretches")

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.stretches: list[Stretch] = []
        self.live = 0
        self.skipped = 0
        self.end = -1
        self.is_loaded = False
        self._first_id = self._front_least = -1
        self.emptied: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return bool(self.stretches)

    def add(self, file: SegmentFile, low: int, high: int) -> None:
        """Add the rows of a file behind all others."""
        last = self.stretches[-1] if self.stretches else None
        if last is not None and last.file is file and last.high == low:
            last.extend(high)
        else:
            hold = last.hold if last is not None and last.file is file else self.blocks.hold(file)
            last = Stretch(file, hold, low, high)
            self.stretches.append(last)
        self.end = last.last_id
        self.live += file.index.entries(low, high)

    @property
    def stored_bytes(self) -> int:
        """The bytes that the rows take in their files."""
        return sum([one.stored_bytes for one in self.stretches])

    # Nodes.

    def nodes(self, stretch: Stretch, row: int) -> list[Segment]:
        """Return the nodes of a row that have entries, with its deletions. Raises: Absent."""
        block = self.blocks.block(stretch.file, row)
        gone = stretch.gone.get(row)
        skip = self.skipped if self._is_cut(stretch, row) else 0
        if gone is None and not skip:
            return block.segments
        if not skip and block.seen_for is gone:
            return block.seen
        nodes = without(block.segments, [] if gone is None else gone.ids(), skip)
        if skip:
            self._first_id = first_id_of(nodes)
        elif gone is not None:
            gone.emptied = len(block.segments) - len(nodes)
            block.seen_for, block.seen = gone, nodes
        return nodes

    def count_nodes(self) -> int:
        """Return how many nodes have entries. Raises: Absent."""
        nodes = 0
        unknown: list[tuple[Stretch, int]] = []
        for stretch in self.stretches:
            nodes += stretch.nodes
            for row, gone in stretch.gone.items():
                if self._is_cut(stretch, row):
                    continue
                if gone.emptied < 0:
                    unknown.append((stretch, row))
                else:
                    nodes -= gone.emptied
        if self.skipped:
            unknown.append((self.stretches[0], self.stretches[0].low))
        self.blocks.require([(stretch.file, row) for stretch, row in unknown])
        for stretch, row in unknown:
            nodes -= stretch.file.index.nodes(row, row + 1) - len(self.nodes(stretch, row))
        return nodes

    def _is_cut(self, stretch: Stretch, row: int) -> bool:
        """Whether entries of a row were trimmed."""
        return self.skipped > 0 and row == stretch.low and stretch is self.stretches[0]

    def _live_in(self, stretch: Stretch, row: int) -> int:
        return stretch.live_count(row) - (self.skipped if self._is_cut(stretch, row) else 0)

    def find(self, entry_id: int) -> tuple[int, int]:
        """Return (the index of a stretch, a row) whose IDs an ID is among; (-1, -1) without one."""
        at = bisect_right(self.stretches, entry_id, key=_first_id_of) - 1
        if at < 0 or entry_id > self.end:
            return -1, -1
        row = self.stretches[at].find(entry_id)
        return (at, row) if row >= 0 else (-1, -1)

    def between(self, start: int, end: int, reverse: bool = False) -> Iterator[tuple[Stretch, int]]:
        """Yield the rows with entries that may be among those from ID `start` to `end`."""
        stretches = self.stretches
        first = max(bisect_right(stretches, start, key=_first_id_of) - 1, 0)
        behind = bisect_right(stretches, min(end, self.end), key=_first_id_of)
        for at in range(behind - 1, first - 1, -1) if reverse else range(first, behind):
            stretch = stretches[at]
            low, high = stretch.file.index.between(start, end, stretch.low, stretch.high)
            for row in range(high - 1, low - 1, -1) if reverse else range(low, high):
                if not stretch.gone or self._live_in(stretch, row):
                    yield stretch, row

    def last_nodes(self) -> list[Segment]:
        """Return the nodes of the last row, read in place."""
        return self._nodes_in_place(self.stretches[-1], self.stretches[-1].high - 1)

    def _nodes_in_place(self, stretch: Stretch, row: int) -> list[Segment]:
        self.blocks.in_place += 1
        try:
            return self.nodes(stretch, row)
        finally:
            self.blocks.in_place -= 1

    def take_last_row(self) -> list[Segment]:
        """Remove the last row and return its nodes, which others may have as well. Raises: Absent."""
        stretch = self.stretches[-1]
        row = stretch.high - 1
        nodes = self.nodes(stretch, row)
        self.live -= self._live_in(stretch, row)
        self.blocks.forget(stretch.file, row)
        self._first_id = self._front_least = -1
        if stretch.high - stretch.low > 1:
            stretch.drop_last()
        else:
            self.stretches.pop()
        if self.stretches:
            self.end = min(self.end, self.stretches[-1].last_id)
        else:
            self.end, self.skipped = -1, 0
        self.is_loaded = False
        self._drop_dead_ends()
        return nodes

    # Deleting.

    def delete(self, ids: list[int]) -> list[int]:
        """Delete entries by ascending IDs; return those that were there. Raises: Absent, before anything is changed."""
        self.require_ids(ids)
        deleted: list[int] = []
        at = 0
        while at < len(ids):
            number, row = self.find(ids[at])
            if number < 0:
                at += 1
                continue
            stretch = self.stretches[number]
            behind = bisect_right(ids, stretch.file.index.last_id(row), at)
            nodes = self._nodes_in_place(stretch, row)
            there = [one for one in dict.fromkeys(ids[at:behind]) if is_in(nodes, one)]
            if there:
                self._bury(number, row, there)
                deleted += there
            at = behind
        return deleted

    def delete_recorded(self, ids: list[int]) -> None:
        """Delete entries by ascending IDs that are known to be there; no block is read."""
        at = 0
        while at < len(ids):
            number, row = self.find(ids[at])
            if number < 0:
                at += 1
                continue
            behind = bisect_right(ids, self.stretches[number].file.index.last_id(row), at)
            self._bury(number, row, ids[at:behind])
            at = behind

    def _bury(self, number: int, row: int, ids: list[int]) -> None:
        """Delete entries of a row, by ascending IDs."""
        self.live -= self.stretches[number].bury(row, ids)
        self.blocks.changes += 1
        self._first_id = self._front_least = -1
        self._drop_dead_ends()

    def _drop_dead_ends(self) -> None:
        """Leave out the first and the last rows without entries."""
        while self.stretches and not self._live_in(self.stretches[0], self.stretches[0].low):
            self._drop_first_row()
        while self.stretches and not self._live_in(self.stretches[-1], self.stretches[-1].high - 1):
            stretch = self.stretches[-1]
            self.blocks.forget(stretch.file, stretch.high - 1)
            if stretch.high - stretch.low == 1:
                self.stretches.pop()
            else:
                stretch.drop_last()
        if not self.stretches:
            self.end = -1

    def _drop_first_row(self) -> None:
        """Leave out the first row, with what it still has."""
        stretch = self.stretches[0]
        self.live -= self._live_in(stretch, stretch.low)
        self.blocks.forget(stretch.file, stretch.low)
        self.skipped = 0
        self._first_id = self._front_least = -1
        if stretch.high - stretch.low == 1:
            del self.stretches[0]
        else:
            stretch.drop_first()

    def _skip(self, entries: int) -> None:
        """Delete the first entries, no more than the first row has."""
        self.skipped += entries
        self.live -= entries
        self._first_id = self._front_least = -1
        self._drop_dead_ends()

    def trim_first(self, over: int, approximate: bool, limit: int) -> int:
        """Delete the first entries; see SegmentList. A block is read if only some nodes of it are to be deleted, and it
        has tombstones.
        """
        removed = 0
        if approximate and not limit and over < self._front_least:
            return ~0  # as mostly
        while self.stretches and removed < over:
            live = self._live_in(self.stretches[0], self.stretches[0].low)
            if removed + live <= over and (not limit or removed + live <= limit):
                self._drop_first_row()
                self._drop_dead_ends()
                removed += live
                continue
            if not approximate and not limit:
                self._skip(over - removed)
                return ~over
            for entries in self._front_counts():
                if limit and removed + entries > limit:
                    return ~removed
                if removed + entries > over:
                    self._front_least = entries
                    if not approximate:
                        self._skip(over - removed)
                        removed = over
                    return ~removed
                self._skip(entries)
                removed += entries
        return removed

    def _front_counts(self) -> list[int]:
        """Return how many entries each node of the first row has."""
        stretch = self.stretches[0]
        if stretch.low in stretch.gone:
            return [node.live_count for node in self._nodes_in_place(stretch, stretch.low)]
        counts, skip = [], self.skipped
        for entries in stretch.file.index.counts_of(stretch.low, stretch.nodes_before):
            if entries > skip:
                counts.append(entries - skip)
            skip = max(skip - entries, 0)
        return counts

    def trim_before(self, min_id: int, approximate: bool, limit: int) -> int:
        """Delete the entries whose ID is less than `min_id`; see SegmentList. The block that has that ID is read."""
        self.emptied = None
        removed = 0
        while self.stretches:
            stretch = self.stretches[0]
            row, index = stretch.low, stretch.file.index
            live = self._live_in(stretch, row)
            if index.last_id(row) < min_id and (not limit or removed + live <= limit):
                self._drop_first_row()
                self._drop_dead_ends()
                removed += live
                continue
            if index.first_id(row) >= min_id:
                return ~removed
            for node in self._nodes_in_place(stretch, row):
                if limit and removed + node.live_count > limit:
                    return ~removed
                if node.last_id < min_id:
                    self._skip(node.live_count)
                    removed += node.live_count
                    continue
                emptied = None
                if not approximate and (low := node.count_live(0, node.position(min_id))):
                    self._skip(low)
                    removed += low
                    if low == node.live_count:
                        emptied = node.used, node.last_id
                self.emptied = emptied
                return ~removed
        return removed

    # Waiting.

    def require(
        self, start: int, end: int, count: int, reverse: bool, among: Iterable[tuple[Stretch, int]] | None = None
    ) -> None:
        """Return if the first `count` entries from `start` to `end` can be read without waiting. Raises: Absent.

        among: the rows that are needed, if not all of the range are.
        """
        rows: list[tuple[SegmentFile, int]] = []
        for stretch, row in self.between(start, end, reverse) if among is None else among:
            rows.append((stretch.file, row))
            index = stretch.file.index
            if start <= index.first_id(row) and index.last_id(row) <= end:
                count -= self._live_in(stretch, row)
            elif self.blocks.is_there(stretch.file, row):
                count -= self._count_in(stretch, row, start, end)
            if count <= 0:
                break
        self.blocks.require(rows)

    def require_ids(self, ids: Iterable[int]) -> None:
        """Return if these entries can be looked up and read without waiting. Raises: Absent."""
        places = {self.find(entry_id) for entry_id in ids}
        places.discard((-1, -1))
        self.blocks.require([(self.stretches[number].file, row) for number, row in sorted(places)])

    def require_trim(self, by: str, threshold: int) -> None:
        """Return if a trim to a length, or before an ID, needs not wait. Raises: Absent."""
        if by == "minid":
            number, row = self.find(threshold)
            if number >= 0 and threshold > self.stretches[number].file.index.first_id(row):
                self.blocks.require([(self.stretches[number].file, row)])
            return
        over = self.live - threshold
        for stretch in self.stretches if over > 0 else ():
            live = stretch.entries - stretch.gone_count - (self.skipped if stretch is self.stretches[0] else 0)
            if live <= over:
                over -= live
                continue
            for row in range(stretch.low, stretch.high):
                over -= self._live_in(stretch, row)
                if over < 0:
                    if row in stretch.gone:
                        self.blocks.require([(stretch.file, row)])
                    return

    # Reading.

    def read_first(self, start: int, end: int, left: int, parts: list[bytes], found: list[NodeRun] | None) -> int:
        """Append the RESP of the first `left` entries from ID `start` to `end`, and their runs; return how many are
        still to be read. Raises: Absent.

        The RESP of blocks that pass by is not kept.
        """
        stretches = self.stretches
        at = max(bisect_right(stretches, start, key=_first_id_of) - 1, 0)
        while at < len(stretches):
            stretch = stretches[at]
            row, high, index = stretch.low, stretch.high, stretch.file.index
            if start > stretch.first_id:
                row = index.find(start, row, high)
                row += index.last_id(row) < start
            while row < high and (end >= stretch.last_id or index.first_id(row) <= end):
                if stretch.gone or self.skipped:
                    nodes, keeps = self.nodes(stretch, row) if self._live_in(stretch, row) else [], True
                else:
                    block = self.blocks.block(stretch.file, row)
                    nodes, keeps = block.segments, block.in_main
                first = 0
                while first < len(nodes) and nodes[first].last_id < start:
                    first += 1
                left = read_nodes(nodes, first, start, end, left, parts, found, keeps)
                if left <= 0:
                    return 0
                row += 1
            if stretch.last_id >= end:
                break
            at += 1
        return left

    # Looking up and counting.

    def first_id(self) -> int:
        """Return the ID of the first entry. Raises: Absent."""
        stretch = self.stretches[0]
        gone = stretch.gone.get(stretch.low)
        if not self.skipped and (gone is None or stretch.first_id not in gone):
            return stretch.first_id
        if self._first_id < 0:
            self._first_id = first_id_of(self.nodes(stretch, stretch.low))
        return self._first_id

    def begins_behind(self, entry_id: int) -> bool:
        """Return whether the first entry is behind an ID. Raises: Absent, for an ID of the first row if a block has to
        tell that.
        """
        stretch = self.stretches[0]
        if not stretch.first_id <= entry_id < stretch.file.index.last_id(stretch.low):
            return entry_id < stretch.first_id
        return self.first_id() > entry_id

    def has(self, entry_id: int) -> bool:
        """Return whether there is an entry with that ID. Raises: Absent."""
        number, row = self.find(entry_id)
        return number >= 0 and is_in(self.nodes(self.stretches[number], row), entry_id)

    def holds_pending(self, entry_id: int) -> bool:
        """Return whether an entry that was once there still is. Raises: Absent, for an ID of the first row after a
        trim, or of a row that was written when entries of it were deleted already.
        """
        number, row = self.find(entry_id)
        if number < 0:
            return False
        stretch = self.stretches[number]
        gone = stretch.gone.get(row)
        if gone is not None and entry_id in gone:
            return False
        if self._is_cut(stretch, row) and entry_id < self.first_id():
            return False
        return not stretch.file.index.has_holes(row) or self.has(entry_id)

    def held(self, ids: list[int]) -> list[int]:
        """Return which of some entries that were once there still are. Raises: Absent, with all blocks needed."""
        places = [self.find(one) for one in ids]
        files = [(self.stretches[at], row) for at, row in dict.fromkeys(places) if at >= 0]
        self.blocks.require([(one.file, row) for one, row in files if one.file.index.has_holes(row)])
        return [one for one in ids if self.holds_pending(one)]

    def _count_in(self, stretch: Stretch, row: int, start: int, end: int) -> int:
        """Return how many entries of a row there are from one ID to another. Raises: Absent."""
        nodes = self.nodes(stretch, row)
        return sum([node.count_live(node.position(start), node.position(end + 1)) for node in nodes])

    def count_before(self, entry_id: int) -> int:
        """Return how many entries have a smaller ID. Raises: Absent."""
        if entry_id > self.end:
            return self.live
        count = 0
        for stretch in self.stretches:
            skipped = self.skipped if stretch is self.stretches[0] else 0
            if stretch.last_id < entry_id:
                count += stretch.entries - stretch.gone_count - skipped
                continue
            index = stretch.file.index
            row = index.find(entry_id, stretch.low, stretch.high)
            if row < stretch.low:
                break
            count += stretch.live_before(row) - (skipped if row > stretch.low else 0)
            if index.last_id(row) < entry_id:
                count += self._live_in(stretch, row)
            elif index.first_id(row) < entry_id:
                count += self._count_in(stretch, row, 0, entry_id - 1)
            break
        return count

    def ids_at(self, ranks: list[int]) -> list[int]:
        """Return the IDs of the entries number `ranks`, ascending. Raises: Absent."""
        places: list[tuple[Stretch, int, int]] = []
        before = at = 0
        for stretch in self.stretches:
            live = stretch.entries - stretch.gone_count - (self.skipped if stretch is self.stretches[0] else 0)
            if at < len(ranks) and ranks[at] < before + live:
                # In the first row the ranks count from the first entry that was not trimmed.
                skipped = stretch.entries - stretch.gone_count - live
                lives = stretch.lives_before()
                while at < len(ranks) and ranks[at] < before + live:
                    rank = ranks[at] - before + skipped
                    number = bisect_right(lives, rank) - 1
                    rank -= lives[number] if number else skipped
                    places.append((stretch, stretch.low + number, rank))
                    at += 1
            before += live
        self.blocks.require([(stretch.file, row) for stretch, row, _ in places])
        found: list[int] = []
        for stretch, row, rank in places:
            for node in self.nodes(stretch, row):
                if rank < node.live_count:
                    position = node.nth_position(rank)
                    found.append(node.ids(position, position + 1)[0])
                    break
                rank -= node.live_count
        return found

    def copy(self) -> "Rows":
        """Return the same rows for another log."""
        other = Rows(self.blocks)
        other.stretches = [stretch.copy() for stretch in self.stretches]
        other.live, other.skipped, other.end = self.live, self.skipped, self.end
        other.is_loaded, other._first_id = self.is_loaded, self._first_id  # (_front_least is found again)
        return other


def _first_id_of(stretch: Stretch) -> int:
    return stretch.first_id
