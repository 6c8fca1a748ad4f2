"""The sealed nodes of one log, of which the older ones are in segment files."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from streamd.cold.blocks import Blocks
from streamd.cold.files import SegmentFile
from streamd.cold.rows import Rows
from streamd.cold.seen_nodes import ids_of
from streamd.cold.sieve import next_rows, runs_for
from streamd.stream.log.absent import Absent
from streamd.stream.log.runs import NodeRun, Passed
from streamd.stream.log.segment import Segment
from streamd.stream.log.segment_list import FULL, SegmentList
from streamd.stream.search.patterns import EntryFilter

# A list is written when it has so much in memory beside its last segment; when memory is short, with less, and whole.
WRITTEN_EARLY_BYTES: Final = 256 * 1024
WRITTEN_LATE_BYTES: Final = 512


class ColdList(SegmentList):
    """The sealed segments of one log: rows of segment files, and behind them segments in memory.

    What it inherits is the part in memory, but for `live_count`, which counts all entries. What looks at entries in
    files raises Absent if their block is not in memory; see Rows.

    rows: the part in files. is_queued, is_small: whether it is in `unwritten`, or `small`, of the store. _gaps: the
    first IDs of segments in memory in front of which, or in which, there may have been entries that were deleted and
    that nothing tells any more; _gap_follows: so it is with the next one; _gap_until: with those up to this ID.
    """

    __slots__ = ("_account", "_gap_follows", "_gap_until", "_gaps", "blocks", "is_queued", "is_small", "rows")

    def __init__(self, blocks: Blocks) -> None:
        super().__init__()
        self.blocks = blocks
        self.rows = Rows(blocks)
        self.is_queued = self.is_small = False
        self._gaps: set[int] = set()
        self._gap_follows = False
        self._gap_until = -1
        self._account = blocks.account()

    def take(self, other: SegmentList) -> None:
        """Take the segments of a list that is not used any more."""
        self.segments, self.first_ids, self.head = other.segments, other.first_ids, other.head
        self.live_count, self.memory_bytes = other.live_count, other.memory_bytes
        self._own = other._own
        self._gaps.update(self.first_ids[self.head :])  # nobody has noted them
        self._settle()

    def __bool__(self) -> bool:
        return bool(self.rows.stretches) or len(self.segments) > self.head

    def __len__(self) -> int:
        in_memory = len(self.segments) - self.head
        return in_memory + self.rows.count_nodes() if self.rows.stretches else in_memory

    # The part in memory.

    def _settle(self) -> None:
        """Note what the part in memory takes, which blocks make room for, and have it written if that is enough."""
        self._account.settle(self.memory_bytes)
        self.blocks.fit()
        if self.memory_bytes >= WRITTEN_LATE_BYTES and not self.is_small:
            self.is_small = True
            self.blocks.small.append(self)
        if self.memory_bytes >= WRITTEN_EARLY_BYTES and not self.is_queued:
            self.is_queued = True
            self.blocks.unwritten.append(self)

    def append(self, segment: Segment) -> None:
        """Add a segment behind all others."""
        before = self.segments[-1].last_id if len(self.segments) > self.head else self.rows.end
        super().append(segment)
        if self._gap_follows or before < self._gap_until:
            self._gaps.add(segment.first_id)
            self._gap_follows = False
        self._settle()

    def remove(self, index: int) -> None:
        """Remove a segment in memory."""
        if index + 1 == len(self.segments):
            self._gap_follows = True
        elif index != self.head:
            self._gaps.add(self.first_ids[index + 1])
        self._gaps.discard(self.first_ids[index])
        super().remove(index)
        self._account.settle(self.memory_bytes)

    def note_gap(self) -> None:
        """Note that a node behind the last segment was deleted before it was sealed."""
        self._gap_follows = True

    def note_missing(self, entry_id: int) -> None:
        """Note that an ID that no entry has may be thought to have been one's, and is asked for."""
        at = self.index(entry_id)
        if self.head <= at and entry_id > self.segments[at].last_id:
            at += 1  # between two segments, or behind all
        if self.head <= at < len(self.segments):
            self._gaps.add(self.segments[at].first_id)
        else:
            self._gap_until = max(self._gap_until, entry_id)

    @property
    def unwritten_bytes(self) -> int:
        """The memory of segments that are written early: all but the last one, which may be the tail again."""
        return self.memory_bytes - self.segments[-1].memory_bytes if len(self.segments) > self.head else 0

    def oldest_unwritten(self, size: int, also_last: bool = False) -> list[Segment]:
        """Return the oldest segments in memory, until they take so many bytes; the last one only if `also_last`."""
        found: list[Segment] = []
        end = len(self.segments) if also_last else len(self.segments) - 1
        for segment in islice(self.segments, self.head, max(end, self.head)):
            if size <= 0:
                break
            found.append(segment)
            size -= segment.memory_bytes
        return found

    def has_gap(self, group: list[Segment]) -> bool:
        """Return whether there may have been other entries between those of segments that follow each other now."""
        return bool(self._gaps) and not self._gaps.isdisjoint([segment.first_id for segment in group])

    def switch(self, file: SegmentFile, low: int, high: int, groups: list[list[Segment]]) -> None:
        """Take the oldest segments in memory as the rows from `low` to before `high` of a file, which has them.

        groups: the segments of each row, as they were when they were gathered. What was deleted since then has
        tombstones; rows without entries are left out. So are the last rows if their last segment is not there any more:
        it may be the tail again, and then nothing that comes may be among the IDs of a row.
        """
        taken, head = 0, self.head
        last_ids = {segment.last_id for segment in self.segments[head : head + sum(map(len, groups))]}
        while groups and groups[-1][-1].last_id not in last_ids:
            groups = groups[:-1]
        for row, group in enumerate(groups, low):
            gone: list[int] = []
            for segment in group:
                index = head + taken
                there = self.segments[index] if index < len(self.segments) else None
                if there is None or there.last_id != segment.last_id:
                    gone += segment.ids(0, segment.count)
                    continue
                taken += 1
                gone += _deleted(segment, there)
            if len(gone) < file.index.entries(row, row + 1):
                self.rows.add(file, row, row + 1)
                self.rows.is_loaded = False
                if gone:
                    self.rows.delete_recorded(gone)
                self.blocks.put_written(file, row, [_as_written(segment) for segment in group])
        for segment in self.segments[head : head + taken]:
            self.memory_bytes -= segment.memory_bytes
            self._gaps.discard(segment.first_id)
            if self._own is not None:
                self._own.discard(segment)
        del self.segments[: head + taken], self.first_ids[: head + taken]
        self.head = 0
        self._account.settle(self.memory_bytes)

    def add_rows(self, file: SegmentFile, low: int, high: int) -> None:
        """Add the rows that a journal tells, behind all others; no segment may be in memory."""
        self.rows.add(file, low, high)
        self.rows.is_loaded = True
        self.live_count += file.index.entries(low, high)

    def bring_back(self) -> None:
        """Have the last row in memory again, and no more in its file. Raises: Absent."""
        nodes = [node.copy() for node in self.rows.take_last_row()]
        first_ids = [node.first_id for node in nodes]
        for node in nodes:
            node.pack()  # a compressed block had them uncompressed
        self.segments[self.head : self.head] = nodes
        self.first_ids[self.head : self.head] = first_ids
        self.memory_bytes += sum([node.memory_bytes for node in nodes])
        self._gaps.update(first_ids)  # what was between them is not known
        if self._own is not None:
            self._own.update(nodes)
        self._settle()

    def in_memory(self) -> SegmentList:
        """Return a list of the same segments; this one has nothing from then on, whatever may still be told of it."""
        other = super().in_memory()
        self.segments, self.first_ids, self.head = [], [], 0
        self.live_count = self.memory_bytes = 0
        self._account.settle(0)
        return other

    # The last node.

    def last_used(self) -> int:
        """Return how many entries were ever put into the last node; FULL if none is there, or takes more."""
        if len(self.segments) > self.head or not self.rows.stretches:
            return super().last_used()
        return FULL if self.rows.is_loaded else self.rows.last_nodes()[-1].used

    def take_last(self) -> Segment:
        """Remove the last node and return it; there must be one."""
        if len(self.segments) == self.head:
            self.blocks.in_place += 1
            try:
                self.bring_back()
            finally:
                self.blocks.in_place -= 1
        return super().take_last()

    # Deleting.

    def delete_id(self, entry_id: int) -> bool:
        """Delete an entry by its ID; return whether it was there. Raises: Absent."""
        if entry_id > self.rows.end:
            return super().delete_id(entry_id)
        deleted = bool(self.rows.delete([entry_id]))
        self.live_count -= deleted
        return deleted

    def delete_ids(self, ids: list[int]) -> list[int]:
        """Delete entries by ascending IDs; return the IDs that were there. Raises: Absent."""
        cold = bisect_right(ids, self.rows.end)
        if not cold:
            return super().delete_ids(ids)
        deleted = self.rows.delete(ids[:cold])
        self.live_count -= len(deleted)
        return deleted + super().delete_ids(ids[cold:])

    def delete_recorded(self, ids: list[int]) -> None:
        """Delete entries by ascending IDs that are known to be there; no block is read."""
        cold = bisect_right(ids, self.rows.end)
        if cold:
            before = self.rows.live
            self.rows.delete_recorded(ids[:cold])
            self.live_count -= before - self.rows.live
        super().delete_recorded(ids[cold:])

    def trim_first(self, over: int, approximate: bool, limit: int, removed: int = 0) -> int:
        """Delete the first entries; see SegmentList. It never raises Absent."""
        if self.rows.stretches:
            removed = self.rows.trim_first(over, approximate, limit)
            self.live_count -= removed if removed >= 0 else ~removed
            if removed < 0:
                return removed
        return super().trim_first(over, approximate, limit, removed)

    def trim_before(self, min_id: int, approximate: bool, limit: int, removed: int = 0) -> int:
        """Delete the entries whose ID is less than `min_id`; see SegmentList. It never raises Absent."""
        if self.rows.stretches:
            removed = self.rows.trim_before(min_id, approximate, limit)
            self.live_count -= removed if removed >= 0 else ~removed
            self.emptied = self.rows.emptied
            if removed < 0:
                return removed
        return super().trim_before(min_id, approximate, limit, removed)

    # Waiting.

    def require(self, start: int, end: int, count: int | None, reverse: bool, wanted: object = None) -> None:
        """Return if entries can be read without waiting; see SegmentList. Raises: Absent."""
        rows = self.rows
        left = FULL if count is None else count
        if reverse and end > rows.end:
            left -= super().count_range(max(start, rows.end + 1), end)
        if rows.stretches and start <= rows.end and left > 0:
            among = next_rows(rows, start, end, wanted) if isinstance(wanted, EntryFilter) else None
            rows.require(start, end, left, reverse, among)

    def require_ids(self, ids: Iterable[int]) -> None:
        """Return if these entries can be looked up and read without waiting. Raises: Absent."""
        if self.rows.stretches:
            self.rows.require_ids(ids)

    def require_trim(self, by: str, threshold: int) -> None:
        """Return if a trim to a length, or before an ID, needs not wait. Raises: Absent."""
        if self.rows.stretches:
            self.rows.require_trim(by, max(threshold - self._in_memory(), 0) if by == "maxlen" else threshold)

    # Reading.

    @property
    def content_bytes(self) -> int:
        """About the memory that all entries would take."""
        return self.memory_bytes + self.rows.stored_bytes

    @property
    def average_bytes(self) -> int:
        """About the memory that an entry takes; of the last rows alone, as there may be many."""
        in_memory = self.memory_bytes // max(1, self._in_memory())
        if not self.rows.stretches:
            return in_memory
        last = self.rows.stretches[-1]
        return max(in_memory, last.stored_bytes // last.entries)

    def first_id(self) -> int | None:
        """Return the ID of the first entry, or None. Raises: Absent."""
        return self.rows.first_id() if self.rows.stretches else super().first_id()

    def begins_behind(self, entry_id: int) -> bool:
        """Return whether the first entry is behind an ID; there must be an entry. Raises: Absent."""
        return self.rows.begins_behind(entry_id) if self.rows.stretches else super().begins_behind(entry_id)

    def has(self, entry_id: int) -> bool:
        """Return whether there is an entry with that ID. Raises: Absent."""
        return super().has(entry_id) if entry_id > self.rows.end else self.rows.has(entry_id)

    def holds_pending(self, entry_id: int) -> bool:
        """Return whether an entry that was once there still is. Raises: Absent; see Rows."""
        return super().has(entry_id) if entry_id > self.rows.end else self.rows.holds_pending(entry_id)

    def held(self, ids: list[int]) -> list[int]:
        """Return which of some entries that were once there still are, by ascending IDs. Raises: Absent; see Rows."""
        cold = bisect_right(ids, self.rows.end)
        return self.rows.held(ids[:cold]) + super().held(ids[cold:])

    def node_from(self, start: int) -> tuple[int, int] | None:
        """Return (number of entries, last ID) of the first node that reaches beyond ID `start`. Raises: Absent."""
        rows = self.rows
        for stretch, row in rows.between(start, rows.end) if start <= rows.end else ():
            for node in rows.nodes(stretch, row):
                if node.last_id >= start:
                    return node.live_count, node.last_id
        return super().node_from(start)

    def runs(self, start: int, end: int, reverse: bool) -> Iterator[tuple[Segment, int, int]]:
        """Yield runs of entries; see SegmentList. Raises: Absent."""
        rows = self.rows
        in_memory = len(self.segments) > self.head and end > rows.end
        if in_memory and reverse:
            yield from SegmentList.runs(self, start, end, True)
        for stretch, row in rows.between(start, end, reverse) if start <= rows.end else ():
            nodes = rows.nodes(stretch, row)
            for node in nodes[::-1] if reverse else nodes:
                if node.last_id < start or node.first_id > end:
                    continue
                for low, high in node.runs(node.position(start), node.position(end + 1), reverse):
                    yield node, low, high
        if in_memory and not reverse:
            yield from SegmentList.runs(self, start, end, False)

    def runs_for(self, start: int, end: int, wanted: object) -> Iterator[tuple[Segment | Passed, int, int]]:
        """Yield runs of entries, and what is passed over; see SegmentList. Raises: Absent."""
        assert isinstance(wanted, EntryFilter)
        rows = self.rows
        if rows.stretches and start <= rows.end:
            yield from runs_for(rows, start, end, wanted)
        if len(self.segments) > self.head and end > rows.end:
            yield from SegmentList.runs(self, start, end, False)

    def read_first(self, start: int, end: int, count: int, parts: list[bytes], found: list[NodeRun] | None) -> int:
        """Append the RESP of the first entries; see SegmentList. Raises: Absent."""
        left, end_of_rows = count, self.rows.end
        if start <= end_of_rows:
            try:
                left = self.rows.read_first(start, end, left, parts, found)
            except Absent:
                self.rows.require(start, end, count, False)  # all that is needed, for one wait
                raise
            if left <= 0 or end <= end_of_rows:
                return count - left
        return count - left + super().read_first(start, end, left, parts, found)

    def own(self, segment: Segment) -> Segment:
        """Return a segment for changing; one of a block is as it is, since only notes of it are changed."""
        return segment if segment.last_id <= self.rows.end else super().own(segment)

    # Counting.

    def count_range(self, start: int, end: int) -> int:
        """Return how many entries there are from ID `start` to `end`. Raises: Absent."""
        rows = self.rows
        if not rows.stretches or start > rows.end:
            return super().count_range(start, end)
        rows.require_ids((start, end + 1))  # both of them, for one wait
        count = max(rows.count_before(end + 1) - rows.count_before(start), 0)
        return count + super().count_range(rows.end + 1, end) if end > rows.end else count

    def _in_memory(self) -> int:
        """How many of the entries are in `segments`."""
        return self.live_count - self.rows.live

    def ids_at(self, ranks: Iterable[int]) -> list[int]:
        """Return the IDs of the entries number `ranks`; see SegmentList. Raises: Absent."""
        wanted, live = [*ranks], self.rows.live
        cold = bisect_left(wanted, live)
        ids = self.rows.ids_at(wanted[:cold]) if cold else []
        return ids + super().ids_at([one - live for one in wanted[cold:]])

    def copy(self) -> "ColdList":
        """Return a list of the same segments and rows; each is changed apart from the other."""
        other = ColdList(self.blocks)
        other.segments = self.segments[self.head :]
        self._own, other._own = set(), set()
        other.first_ids = self.first_ids[self.head :]
        other.live_count = self.live_count
        other.memory_bytes = self.memory_bytes
        other.rows = self.rows.copy()
        other._gaps, other._gap_follows = set(self._gaps), self._gap_follows
        other._gap_until = self._gap_until
        return other


def _deleted(written: Segment, there: Segment) -> list[int]:
    """Return the IDs of entries that a segment had when it was gathered, and has no more."""
    if there.count == written.count and there.live is None:
        return []
    left = {*ids_of(there)}
    return [one for one in written.ids(0, written.count) if one not in left]


def _as_written(segment: Segment) -> Segment:
    """Return a segment with all of its entries, deleted or not: as its block has it."""
    if segment.live is None:
        return segment
    other = segment.copy()
    other.live, other.live_count = None, other.count
    return other
