"""The sealed segments of one log, in order."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from operator import attrgetter
from typing import Final

from streamd.stream.log.runs import NodeRun, Passed
from streamd.stream.log.segment import Segment

_live_count: Final = attrgetter("live_count")

# More than any node takes.
FULL: Final = 1 << 32


class SegmentList:
    """The sealed segments of one log, in order; they are looked up by ID, and dropped at the front at no cost.

    A class derived from it (streamd/cold) has older segments that are not in memory in front of these.

    Shape: the segments are `segments` from `head` on. In front of `head` are the places of dropped segments, which are
    cut off when they are half of the list. `first_ids` is as long; it has the first ID of each segment, or an earlier
    one. live_count: how many entries are not deleted in all. _own: None until the list is copied, then the segments
    that no other list has; only these may be changed. emptied: see trim_before.
    """

    __slots__ = ("_own", "emptied", "first_ids", "head", "live_count", "memory_bytes", "segments")

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.first_ids: list[int] = []
        self.head = 0
        self.live_count = 0
        self.memory_bytes = 0
        self._own: set[Segment] | None = None
        self.emptied: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return len(self.segments) - self.head

    def append(self, segment: Segment) -> None:
        """Add a segment behind all others."""
        self.segments.append(segment)
        self.first_ids.append(segment.first_id)
        self.live_count += segment.live_count
        self.memory_bytes += segment.memory_bytes

    def index(self, entry_id: int) -> int:
        """Return the index of the only segment that may hold an entry; less than `head` if no segment may."""
        return bisect_right(self.first_ids, entry_id, self.head) - 1

    # The last node.

    def newest(self) -> Segment | None:
        """Return the last segment if it is in memory."""
        return self.segments[-1] if len(self.segments) > self.head else None

    def last_used(self) -> int:
        """Return how many entries were ever put into the last node; FULL without a node."""
        return self.segments[-1].used if len(self.segments) > self.head else FULL

    def take_last(self) -> Segment:
        """Remove the last node and return it; there must be one."""
        segment = self.segments[-1]
        self.remove(len(self.segments) - 1)
        return segment

    def note_gap(self) -> None:
        """Note that a node behind the last segment was deleted before it was sealed."""

    def note_missing(self, entry_id: int) -> None:
        """Note that an ID that no entry has may be thought to have been one's, and is asked for."""

    # Deleting.

    def remove(self, index: int) -> None:
        """Remove a segment from the list."""
        segment = self.segments[index]
        self.live_count -= segment.live_count
        self.memory_bytes -= segment.memory_bytes
        if self._own is not None:
            self._own.discard(segment)
        if index != self.head:
            del self.segments[index], self.first_ids[index]
            return
        self.segments[index] = None  # type: ignore[call-overload]
        self.head += 1
        if self.head >= 32 and 2 * self.head >= len(self.segments):
            del self.segments[: self.head], self.first_ids[: self.head]
            self.head = 0

    def delete(self, index: int, low: int, high: int) -> int:
        """Delete the entries of a segment at positions from `low` to before `high`; return how many were undeleted."""
        removed = self._to_change(index).delete(low, high)
        self.live_count -= removed
        return removed

    def delete_at(self, index: int, position: int) -> int:
        """Delete one undeleted entry of a segment; return how many are left."""
        segment = self.segments[index] if self._own is None else self._to_change(index)
        self.live_count -= 1
        return segment.delete_at(position)

    def _to_change(self, index: int) -> Segment:
        segment = self.segments[index]
        if self._own is not None and segment not in self._own:
            segment = self.segments[index] = segment.copy()
            self._own.add(segment)
        return segment

    def own(self, segment: Segment) -> Segment:
        """Return a segment of this list for changing: itself, or a copy in its place if another list shares it."""
        return self._to_change(self.index(segment.last_id))

    def delete_id(self, entry_id: int) -> bool:
        """Delete an entry by its ID; return whether it was there."""
        index = bisect_right(self.first_ids, entry_id, self.head) - 1
        position = self.segments[index].find(entry_id) if index >= self.head else -1
        if position < 0:
            return False
        if 2 * self.delete_at(index, position) < self.segments[index].count:
            self.shrink(index)
        return True

    def delete_ids(self, ids: list[int]) -> list[int]:
        """Delete entries by ascending IDs; return the IDs that were there.

        A segment is looked up once; entries that follow each other in it are deleted in one step.
        """
        deleted: list[int] = []
        first_ids, segments = self.first_ids, self.segments
        at, wanted = 0, len(ids)
        while at < wanted:
            entry_id = ids[at]
            index = bisect_right(first_ids, entry_id, self.head) - 1
            if index < self.head:
                at += 1
                continue
            segment = segments[index]
            last_id = segment.last_id
            if at + 1 == wanted or ids[at + 1] > last_id:
                # Of IDs at random places each has a segment of its own: what `delete_id` does, without its call.
                at += 1
                position = segment.find(entry_id)
                if position >= 0:
                    deleted.append(entry_id)
                    if 2 * self.delete_at(index, position) < segment.count:
                        self.shrink(index)
                continue
            behind = bisect_right(ids, last_id, at, min(at + segment.count, wanted))
            if there := self._delete_in(index, ids[at:behind]):
                deleted += there
                self.shrink(index)
            at = behind
        return deleted

    def _delete_in(self, index: int, ids: list[int]) -> list[int]:
        """Delete entries of one segment without shrinking it; return the IDs, of `ids` ascending, that were there."""
        segment = self.segments[index]
        if segment.live is None:
            low = segment.position(ids[0])
            high = low + len(ids)
            if segment.position(ids[-1]) == high - 1 and [*segment.ids(low, high)] == ids:
                self.delete(index, low, high)
                return ids
        segment = self._to_change(index)
        deleted = segment.delete_ids(ids)
        self.live_count -= len(deleted)
        return deleted

    def shrink(self, index: int) -> None:
        """Remove a segment that is empty, and rewrite one that is mostly dead; to be called after deletions."""
        segment = self.segments[index]
        if not segment.live_count:
            self.remove(index)
        elif segment.count >= 16 and 2 * segment.live_count < segment.count:
            self.memory_bytes -= segment.memory_bytes
            if self._own is not None:
                self._own.discard(segment)
            self.segments[index] = segment.rewritten()
            self.memory_bytes += self.segments[index].memory_bytes

    def delete_recorded(self, ids: list[int]) -> None:
        """Delete entries by ascending IDs that are known to be there."""
        self.delete_ids(ids)

    def trim_first(self, over: int, approximate: bool, limit: int, removed: int = 0) -> int:
        """Delete the first entries until `over` are removed, `removed` of which already are; see Log.trim_to_length.

        Returns how many are removed now; ~ of that (a negative number) if the tail is to stay as it is.
        """
        while removed < over and len(self.segments) > self.head:
            segment = self.segments[self.head]
            entries = segment.live_count
            if limit and removed + entries > limit:
                return ~removed
            if removed + entries <= over:
                self.remove(self.head)
                removed += entries
                continue
            if not approximate:
                self.delete(self.head, 0, segment.nth_position(over - removed))
                removed = over
            return ~removed
        return removed

    def trim_before(self, min_id: int, approximate: bool, limit: int, removed: int = 0) -> int:
        """Delete the entries whose ID is less than `min_id`, after `removed` others; see Log.trim_before.

        Returns what `trim_first` returns. `emptied` is set to (number of entries, last ID) of a node that it has
        emptied, but not passed; else to None.
        """
        self.emptied = None
        while len(self.segments) > self.head:
            segment = self.segments[self.head]
            if limit and removed + segment.live_count > limit:
                return ~removed
            if segment.last_id < min_id:
                removed += segment.live_count
                self.remove(self.head)
                continue
            emptied = None
            if not approximate and (position := segment.position(min_id)):
                removed += self.delete(self.head, 0, position)
                if not self.segments[self.head].live_count:
                    self.remove(self.head)
                    emptied = segment.used, segment.last_id
            self.emptied = emptied
            return ~removed
        return removed

    # Reading.

    def require(self, start: int, end: int, count: int | None, reverse: bool, wanted: object = None) -> None:
        """Return if the first `count` entries from `start` to `end` can be read without waiting. Raises: Absent.

        wanted: what `runs_for` is told; only entries that it does not pass over are needed.
        """

    def require_ids(self, ids: Iterable[int]) -> None:
        """Return if these entries can be looked up and read without waiting. Raises: Absent."""

    def require_trim(self, by: str, threshold: int) -> None:
        """Return if a trim to a length, or before an ID, needs not wait. Raises: Absent."""

    @property
    def content_bytes(self) -> int:
        """About the memory that all entries would take, those included that are not in memory."""
        return self.memory_bytes

    @property
    def average_bytes(self) -> int:
        """About the memory that an entry takes, those included that are not in memory."""
        return self.memory_bytes // max(1, self.live_count)

    def first_id(self) -> int | None:
        """Return the ID of the first entry, or None."""
        if len(self.segments) > self.head and self.segments[self.head].live is None:
            return self.segments[self.head].first_id
        for segment in islice(self.segments, self.head, None):
            for low, _ in segment.runs(0, segment.count):
                return segment.ids(low, low + 1)[0]
        return None

    def begins_behind(self, entry_id: int) -> bool:
        """Return whether the first entry is behind an ID; there must be an entry."""
        segment = self.segments[self.head]
        if segment.live is None:
            return segment.first_id > entry_id
        first_id = self.first_id()
        return first_id is not None and first_id > entry_id

    def has(self, entry_id: int) -> bool:
        """Return whether there is an entry with that ID."""
        index = bisect_right(self.first_ids, entry_id, self.head) - 1
        return index >= self.head and self.segments[index].find(entry_id) >= 0

    def holds_pending(self, entry_id: int) -> bool:
        """Return whether an entry that was once there still is."""
        return self.has(entry_id)

    def held(self, ids: list[int]) -> list[int]:
        """Return which of some entries that were once there still are, by ascending IDs."""
        return [entry_id for entry_id in ids if self.has(entry_id)]

    def node_from(self, start: int) -> tuple[int, int] | None:
        """Return (number of entries, last ID) of the first node that reaches beyond ID `start`; None without one."""
        if len(self.segments) <= self.head:
            return None
        index = max(self.index(start), self.head)
        for segment in islice(self.segments, index, index + 2):
            if segment.last_id >= start:
                return segment.live_count, segment.last_id
        return None

    def runs(self, start: int, end: int, reverse: bool) -> Iterator[tuple[Segment, int, int]]:
        """Yield `(segment, from, to)` for each run of undeleted entries from ID `start` to `end`, with positions."""
        segments = self.segments
        first = max(self.index(start), self.head)
        last = len(segments) - 1
        if end < segments[last].last_id:
            last = self.index(end)
        for index in range(last, first - 1, -1) if reverse else range(first, last + 1):
            segment = segments[index]
            lowest = segment.position(start) if index == first else 0
            highest = segment.count if index < last or end >= segment.last_id else segment.position(end + 1)
            if segment.live is not None:
                for low, high in segment.runs(lowest, highest, reverse):
                    yield segment, low, high
            elif lowest < highest:
                yield segment, lowest, highest

    def runs_for(self, start: int, end: int, wanted: object) -> Iterator[tuple[Segment | Passed, int, int]]:
        """Yield the runs in which a search may find something, and, in order, what it need not look at.

        wanted: a filter (EntryFilter), which only a list that is not all in memory looks at.
        """
        return self.runs(start, end, False)

    def read_first(self, start: int, end: int, count: int, parts: list[bytes], found: list[NodeRun] | None) -> int:
        """Append the RESP of the first `count` entries from ID `start` to `end` to `parts`, and their runs to `found`;
        return the number of these entries.

        The entries are those of `runs`, in order. (To run a generator takes as long as to read a few entries.)
        """
        segments, left = self.segments, count
        index = max(bisect_right(self.first_ids, start, self.head) - 1, self.head)
        while index < len(segments):
            segment = segments[index]
            low, high = segment.position(start), segment.count
            is_last = end < segment.last_id
            if is_last:
                high = segment.position(end + 1)
            for run_low, run_high in segment.runs(low, high) if segment.live is not None else ((low, high),):
                if run_high - run_low > left:
                    run_high = run_low + left
                if run_low < run_high:
                    parts.append(segment.read(run_low, run_high))
                    if found is not None:
                        found.append((segment, run_low, run_high))
                    left -= run_high - run_low
            if is_last or left <= 0:
                break
            index += 1
        return count - left

    def count_range(self, start: int, end: int) -> int:
        """Return how many entries there are from ID `start` to `end`, both included, deleted ones aside."""
        first, last = max(self.index(start), self.head), self.index(end)
        if first > last:
            return 0
        segments = self.segments
        if 2 * (last - first) <= len(segments) - self.head:
            between = sum(map(_live_count, segments[first:last]))
        else:
            others = segments[self.head : first] + segments[last:]
            between = self._in_memory() - sum(map(_live_count, others))
        before = segments[first].count_live(0, segments[first].position(start))
        behind = segments[last].count_live(0, segments[last].position(end + 1))
        return max(between + behind - before, 0)

    def _in_memory(self) -> int:
        """How many of the entries are in `segments`."""
        return self.live_count

    def ids_at(self, ranks: Iterable[int]) -> list[int]:
        """Return the IDs of the entries number `ranks` (from 0, ascending, deleted ones not counted)."""
        segments, head = self.segments, self.head
        before = list(accumulate(map(_live_count, islice(segments, head, None)), initial=0))
        ids = []
        index = 0
        for rank in ranks:
            index = bisect_right(before, rank, index) - 1
            segment = segments[head + index]
            position = segment.nth_position(rank - before[index])
            ids.append(segment.ids(position, position + 1)[0])
        return ids

    def in_memory(self) -> "SegmentList":
        """Return a list of the same segments which keeps them in memory; this one must not be used any more."""
        if type(self) is SegmentList:
            return self
        other = SegmentList()
        other.segments, other.first_ids, other.head = self.segments, self.first_ids, self.head
        other.live_count, other.memory_bytes, other._own = self.live_count, self.memory_bytes, self._own
        return other

    def copy(self) -> "SegmentList":
        """Return a list of the same segments; each list copies a segment before it changes it.

        The segments are shared, since the journal copies while the server serves.
        """
        other = SegmentList()
        other.segments = self.segments[self.head :]
        self._own, other._own = set(), set()
        other.first_ids = self.first_ids[self.head :]
        other.live_count = self.live_count
        other.memory_bytes = self.memory_bytes
        return other
