"""The sealed segments of one log, in order."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, islice
from operator import attrgetter

from streamd.stream.segment import Segment

_live_count = attrgetter("live_count")


class SegmentList:
    """The sealed segments of one log, in order; they are looked up by ID, and dropped at the front at no cost.

    Shape: `segments` from `head` on (in front of it stand dropped ones, cut off when they are half of the list), and
    the same for `first_ids`, where a segment begins at the latest. live_count: how many entries are not deleted in all.
    _own: None, or, once the list was copied, the segments that no other list has: only these may be changed.
    """

    __slots__ = ("_own", "first_ids", "head", "live_count", "memory_bytes", "segments")

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.first_ids: list[int] = []
        self.head = 0
        self.live_count = 0
        self.memory_bytes = 0
        self._own: set[Segment] | None = None

    def __len__(self) -> int:
        return len(self.segments) - self.head

    def append(self, segment: Segment) -> None:
        self.segments.append(segment)
        self.first_ids.append(segment.first_id)
        self.live_count += segment.live_count
        self.memory_bytes += segment.memory_bytes

    def index(self, entry_id: int) -> int:
        """Return the index of the segment that an entry is in if it is in any.

        It is less than `head` if it is in none.
        """
        return bisect_right(self.first_ids, entry_id, self.head) - 1

    def remove(self, index: int) -> None:
        """Take a segment out."""
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
        """Delete the entries of a segment at positions from `low` to before `high`; return how many there were."""
        segment = self.segments[index]
        if self._own is not None and segment not in self._own:
            segment = self.segments[index] = segment.copy()
            self._own.add(segment)
        removed = segment.delete(low, high)
        self.live_count -= removed
        return removed

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

    def count_before(self, index: int) -> int:
        """Return how many entries are in the segments in front of one, deleted ones aside."""
        segments, head = self.segments, self.head
        if index - head <= len(segments) - index:
            return sum(map(_live_count, islice(segments, head, index)))
        return self.live_count - sum(map(_live_count, islice(segments, index, None)))

    def count_range(self, start: int, end: int) -> int:
        """Return how many entries there are from ID `start` to `end`, both included, deleted ones aside."""
        first, last = max(self.index(start), self.head), self.index(end)
        if first > last:
            return 0
        segments = self.segments
        before = segments[first].count_live(0, segments[first].position(start))
        behind = segments[last].count_live(0, segments[last].position(end + 1))
        return max(sum(map(_live_count, segments[first:last])) + behind - before, 0)

    def ids_at(self, ranks: Iterable[int]) -> list[int]:
        """Return the IDs of entries by their number (from 0, ascending, deleted ones aside)."""
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

    def copy(self) -> "SegmentList":
        """Return a list of the same segments; each list copies a segment before it changes it.

        A million entries take 0.1 ms, where copying their segments takes 20: the journal copies while it serves.
        """
        other = SegmentList()
        other.segments = self.segments[self.head :]
        self._own, other._own = set(), set()
        other.first_ids = self.first_ids[self.head :]
        other.live_count = self.live_count
        other.memory_bytes = self.memory_bytes
        return other
