"""The oldest deliveries of pending entries."""

from bisect import bisect_left
from collections.abc import Callable, Container
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final

from streamd.stream.groups.pending_chunk import Chunk, PendingEntry
from streamd.stream.groups.pending_slices import PendingInSlices

# So many more than half of the rows in the heap of the oldest deliveries may be of removed chunks.
STALE_ROWS_MAX: Final = 64


class PendingByAge(PendingInSlices):
    """The part of PendingEntries that finds the oldest ones.

    _oldest: a heap of (delivery time, low of chunk), built at the first request for the oldest entries. A chunk's
    earliest delivery is never before its least time here.
    """

    __slots__ = ("_oldest", "nacked")

    _oldest: list[tuple[int, int]] | None
    nacked: dict[int, None]

    def _note_time(self, time_ms: int, chunk: Chunk) -> None:
        heap = self._oldest
        if heap is None or (chunk.noted_ms is not None and time_ms >= chunk.noted_ms):
            return
        chunk.noted_ms = time_ms
        heappush(heap, (time_ms, chunk.low))
        if len(heap) > 2 * len(self._chunks) + STALE_ROWS_MAX:  # most rows are of chunks that are gone
            heap[:] = [(one.noted_ms, one.low) for one in self._chunks if one.noted_ms is not None]
            heapify(heap)

    def _oldest_chunk(self, passed_over: Container[int]) -> Chunk | None:
        """Return the chunk with the earliest delivery, or None; the head of the heap is its row then.

        passed_over: the `low` of each chunk to leave out.
        """
        if self._oldest is None:
            self._oldest = []
            for chunk in self._chunks:
                oldest_ms = chunk.oldest_ms()
                if oldest_ms is not None:
                    self._note_time(oldest_ms, chunk)
        heap = self._oldest
        while heap:
            time_ms, low = heap[0]
            at = bisect_left(self._lows, low)
            is_there = at < len(self._lows) and self._lows[at] == low and low not in passed_over
            if not is_there or self._chunks[at].noted_ms != time_ms:
                heappop(heap)
                continue
            chunk = self._chunks[at]
            oldest_ms = chunk.oldest_ms()
            if oldest_ms == time_ms:
                return chunk
            heappop(heap)
            chunk.noted_ms = None
            if oldest_ms is not None:
                self._note_time(oldest_ms, chunk)
        return None

    def oldest_ms(self) -> int | None:
        """Return the earliest delivery time of all entries, or None; 0 if an entry was released."""
        if self.nacked:
            return 0
        chunk = self._oldest_chunk(())
        return None if chunk is None else chunk.noted_ms

    def first_ms_behind(self, after_ms: int) -> int | None:
        """Return the earliest delivery time after `after_ms`, or None."""
        oldest_ms = None if self.nacked else self.oldest_ms()
        if oldest_ms is not None and oldest_ms > after_ms:
            return oldest_ms
        return min((row[2] for row in self.iterate() if row[1] is not None and row[2] > after_ms), default=None)

    def oldest(self, until_ms: int, count: int | None, is_wanted: Callable[[int], bool]) -> list[PendingEntry]:
        """Return up to `count` entries delivered at `until_ms` or before: released ones first, then by (time, ID).

        is_wanted: says of an ID whether its entry may be among them; what it raises changes nothing here.
        """
        wanted = self._length if count is None else count
        chosen = list(islice(filter(is_wanted, self.nacked), wanted))
        opened: dict[int, Chunk] = {}
        candidates: list[tuple[int, int]] = []
        try:
            while len(chosen) < wanted:
                # Open the chunks that may have something older than the oldest candidate.
                while (chunk := self._oldest_chunk(opened.keys())) is not None:
                    assert chunk.noted_ms is not None
                    if chunk.noted_ms > until_ms or (candidates and (chunk.noted_ms, chunk.low) > candidates[0]):
                        break
                    opened[chunk.low] = chunk
                    for index, entry_id in enumerate(chunk.ids(0, len(chunk.stamps))):
                        if chunk.owner_at(index) is not None and chunk.time_at(index) <= until_ms:
                            heappush(candidates, (chunk.time_at(index), entry_id))
                if not candidates:
                    break
                entry_id = heappop(candidates)[1]
                if is_wanted(entry_id):
                    chosen.append(entry_id)
        finally:
            for chunk in opened.values():
                noted_ms, chunk.noted_ms = chunk.noted_ms, None
                assert noted_ms is not None
                self._note_time(noted_ms, chunk)
        entries = [self.get(entry_id) for entry_id in chosen]
        return [entry for entry in entries if entry is not None]
