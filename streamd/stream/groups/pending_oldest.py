"""The oldest deliveries of pending entries."""

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from streamd.stream.entry_id import ID_MAX
from streamd.stream.groups.pending_chunk import TIME_MIN, Chunk, PendingEntry
from streamd.stream.groups.pending_slices import PendingInSlices

# So many more than half of the rows in the heap of the oldest deliveries may be of removed chunks.
STALE_ROWS_MAX: Final = 64


class PendingByAge(PendingInSlices):
    """The part of PendingEntries that finds the oldest ones.

    _oldest: a heap of (delivery time, low of chunk), built at the first request for the oldest entries. A chunk's
    entries from before its time here are known to be missing in the stream, and all of a chunk that has no time here
    (apart from entries without an owner).
    _released: `nacked` without the entries that are known to be missing; None before that request.
    """

    __slots__ = ("_oldest", "_released", "nacked")

    _oldest: list[tuple[int, int]] | None
    _released: dict[int, None] | None
    nacked: dict[int, None]

    def _not_released(self, ids: Iterable[int]) -> None:
        """Take entries out of those without an owner, if they are among them."""
        released = self._released
        for entry_id in ids:
            self.nacked.pop(entry_id, None)
            if released is not None:
                released.pop(entry_id, None)

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
            oldest_ms = chunk.oldest_ms(time_ms)
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
        """Return the earliest delivery time after `after_ms`, or None; entries that are known to be missing may be left
        out.
        """
        chunk = self._oldest_chunk(())
        if chunk is None or chunk.noted_ms is None or chunk.noted_ms > after_ms:
            return None if chunk is None else chunk.noted_ms
        return min((row[2] for row in self.iterate() if row[1] is not None and row[2] > after_ms), default=None)

    def forget_missing(self) -> None:
        """Look at all entries anew: some that were missing may be there again."""
        self._oldest = self._released = None
        for chunk in self._chunks:
            chunk.noted_ms = None

    def oldest(
        self,
        until_ms: int,
        count: int | None,
        is_there: Callable[[int], bool],
        first_id: int = 0,
        last_id: int = ID_MAX,
    ) -> list[PendingEntry]:
        """Return up to `count` entries delivered at `until_ms` or before: released ones first, then by (time, ID).

        Entries that are missing in the stream are left out, and are not looked at again. is_there: says of an ID
        whether its entry is not missing; what it raises changes nothing here. first_id: all before it are missing.
        last_id: those behind it may come.
        """
        wanted = self._length if count is None else count
        chosen = self._oldest_released(wanted, is_there, first_id, last_id) if self.nacked else []
        opened: dict[int, Chunk] = {}
        kept_ms: dict[int, int] = {}  # by chunk: the earliest time of an entry that is there
        candidates: list[tuple[int, int, int]] = []
        reached_ms = TIME_MIN
        try:
            while len(chosen) < wanted:
                self._open_oldest(opened, candidates, until_ms, first_id)
                if not candidates:
                    break
                time_ms, entry_id, low = heappop(candidates)
                if is_there(entry_id):
                    chosen.append(entry_id)
                    kept_ms.setdefault(low, time_ms)
            # What was delivered before that, and has an owner, is in `kept_ms` or missing.
            reached_ms = until_ms + 1 if len(chosen) < wanted else candidates[0][0] if candidates else until_ms + 1
        finally:
            for low, chunk in opened.items():
                noted_ms, chunk.noted_ms = chunk.noted_ms, None
                assert noted_ms is not None
                if chunk.id_at(-1) <= last_id:
                    noted_ms = max(noted_ms, min(reached_ms, kept_ms.get(low, reached_ms)))
                next_ms = chunk.oldest_ms(noted_ms)
                if next_ms is not None:
                    self._note_time(next_ms, chunk)
        entries = [self.get(entry_id) for entry_id in chosen]
        return [entry for entry in entries if entry is not None]

    def _oldest_released(self, wanted: int, is_there: Callable[[int], bool], first_id: int, last_id: int) -> list[int]:
        """Return the first entries without an owner that are not missing."""
        if self._released is None:
            self._released = self.nacked.copy()
        released = self._released
        chosen: list[int] = []
        missing: list[int] = []
        for entry_id in released:
            if len(chosen) >= wanted:
                break
            if entry_id >= first_id and is_there(entry_id):
                chosen.append(entry_id)
            elif entry_id <= last_id:
                missing.append(entry_id)
        if 2 * len(missing) > len(released):  # a dict keeps the places of what was taken out one by one
            gone = frozenset(missing)
            self._released = {entry_id: None for entry_id in released if entry_id not in gone}
        else:
            for entry_id in missing:
                del released[entry_id]
        return chosen

    def _open_oldest(
        self, opened: dict[int, Chunk], candidates: list[tuple[int, int, int]], until_ms: int, first_id: int
    ) -> None:
        """Add the entries of the chunks that may have something older than the oldest candidate."""
        while (chunk := self._oldest_chunk(opened.keys())) is not None:
            low, noted_ms = chunk.low, chunk.noted_ms
            assert noted_ms is not None
            if noted_ms > until_ms or (candidates and (noted_ms, low) > candidates[0][:2]):
                break
            if chunk.id_at(-1) < first_id:
                assert self._oldest is not None
                heappop(self._oldest)
                chunk.noted_ms = None
                continue
            opened[low] = chunk
            first, size = chunk.place(first_id), len(chunk.stamps)
            for index, entry_id in enumerate(chunk.ids(first, size), first):
                time_ms = chunk.time_at(index)
                if noted_ms <= time_ms <= until_ms and chunk.owner_at(index) is not None:
                    heappush(candidates, (time_ms, entry_id, low))
