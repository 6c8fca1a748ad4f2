"""Pending entries: the entries that a consumer group delivered and no consumer has acknowledged yet."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from sys import maxsize
from typing import Final
from weakref import ref

from streamd.stream.entry_id import ID_MAX
from streamd.stream.groups.lent_chunks import Lent
from streamd.stream.groups.pending_chunk import (
    CHUNK_ENTRIES_MAX,
    COUNT_MAX,
    Chunk,
    Consumer,
    PastConsumer,
    PendingColumns,
    PendingEntry,
    again,
)
from streamd.stream.groups.pending_slices import PendingInSlices

__all__ = [
    "CHUNK_ENTRIES_MAX",
    "COUNT_MAX",
    "Chunk",
    "Consumer",
    "PastConsumer",
    "PendingColumns",
    "PendingEntries",
    "PendingEntry",
    "again",
]

# About how much memory one entry takes.
PENDING_BYTES: Final = 50

# So many more than half of the rows in the heap of the oldest deliveries may be of removed chunks.
STALE_ROWS_MAX: Final = 64

# The empty columns that groups without pending entries share; most groups are.
_NO_LOWS: Final[list[int]] = []
_NO_CHUNKS: Final[list[Chunk]] = []
_NO_NACKED: Final[dict[int, None]] = {}


class PendingEntries(PendingInSlices):
    """The pending entries of one group, in the order of their IDs.

    Shape: chunks of at most CHUNK_ENTRIES_MAX entries with disjoint ranges of IDs. A delivered batch becomes a chunk as
    it is, so reading costs no work per entry, and acknowledging a batch removes a slice; entries that were claimed one
    by one cost a chunk its uniform columns. No object per entry but its ID, which the garbage collector does not track.

    nacked: the entries that were released and have no owner, in the order of their release.
    _lent: chunks that a snapshot may share; while the snapshot lives, they are copied before they are changed.
    """

    __slots__ = ("_oldest", "nacked")

    def __init__(self) -> None:
        self._lows: list[int] = _NO_LOWS
        self._chunks: list[Chunk] = _NO_CHUNKS
        self._length = 0
        self._lent: Lent | None = None
        self.nacked: dict[int, None] = _NO_NACKED
        # A heap of (delivery time, low of chunk), built at the first request for the oldest entries. A chunk's earliest
        # delivery is never before its least time here.
        self._oldest: list[tuple[int, int]] | None = None

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, entry_id: int) -> bool:
        return self._find(entry_id) is not None

    @property
    def first_id(self) -> int | None:
        """The least pending ID, or None."""
        return self._chunks[0].ids[0] if self._chunks else None

    @property
    def last_id(self) -> int | None:
        """The greatest pending ID, or None."""
        return self._chunks[-1].ids[-1] if self._chunks else None

    # -- changing ---------------------------------------------------------------------------------------------------

    def deliver(self, ids: list[int], owner: Consumer, time_ms: int, count: int = 1) -> None:
        """Give entries (ascending IDs) to a consumer; entries that are pending already change hands.

        The pending entries keep the list `ids` itself: the caller must not change it later.
        """
        if not ids:
            return
        if self._chunks and ids[0] <= self._chunks[-1].ids[-1]:
            for entry_id in ids:
                self.set(entry_id, owner, time_ms, count)
            return
        self._length += len(ids)
        if self._chunks:
            last = self._chunks[-1]
            if len(last.ids) + len(ids) <= CHUNK_ENTRIES_MAX:
                last = self._own(last)
                last.extend(ids, owner, time_ms, count)
                self._note_time(time_ms, last)
                return
        for at in range(0, len(ids), CHUNK_ENTRIES_MAX):
            part = ids if len(ids) <= CHUNK_ENTRIES_MAX else ids[at : at + CHUNK_ENTRIES_MAX]
            self._add(len(self._chunks), part, part[0], owner, time_ms, count)

    def _add(self, at: int, ids: list[int], low: int, owner: Consumer | None, time_ms: int, count: int) -> None:
        """Make entries the chunk number `at`."""
        chunk = Chunk(ids, owner, time_ms, count)
        chunk.low = low
        chunk.welcome(owner)
        if self._chunks:
            self._lows.insert(at, low)
            self._chunks.insert(at, chunk)
        else:
            self._lows, self._chunks = [low], [chunk]
        if owner is not None:
            self._note_time(time_ms, chunk)

    def set(self, entry_id: int, owner: Consumer | None, time_ms: int, count: int) -> None:
        """Make one entry pending, or change it. owner: None for a released entry, which stands last in `nacked`."""
        found = self._find(entry_id)
        if found is None:
            self._insert(entry_id, owner, time_ms, count)
        else:
            chunk = self._own(found[0])
            chunk.set(found[1], owner, time_ms, count)
            if owner is not None:
                self._note_time(time_ms, chunk)
        if self.nacked:
            self.nacked.pop(entry_id, None)
        if owner is None:
            if self.nacked:
                self.nacked[entry_id] = None
            else:
                self.nacked = {entry_id: None}

    def remove(self, entry_id: int) -> bool:
        """Remove an entry; return whether it was pending."""
        found = self._find(entry_id)
        if found is None:
            return False
        chunk, index = found
        self._remove(chunk, index, index + 1)
        return True

    def remove_many(self, ids: Sequence[int]) -> list[int]:
        """Remove entries; return which of `ids` were pending.

        An XACK of a whole delivery names the same IDs in the same order: they are removed as one slice.
        """
        removed: list[int] = []
        for chunk, index, run in self._runs(sorted(ids)):
            removed += chunk.ids[index : index + run]
            self._remove(chunk, index, index + run)
        return removed

    def remove_each(self, ids: Sequence[int]) -> list[bool]:
        """Remove entries one after the other; return for each whether it was pending.

        Hot path: the steps of `remove` without a call for each. A property test compares it with a dict.
        """
        lows, chunks = self._lows, self._chunks
        results: list[bool] = []
        for entry_id in ids:
            at = bisect_right(lows, entry_id) - 1
            if at < 0:
                results.append(False)
                continue
            chunk = chunks[at]
            there = chunk.ids
            index = bisect_left(there, entry_id)
            if index == len(there) or there[index] != entry_id:
                results.append(False)
                continue
            results.append(True)
            owner = chunk.owners
            if self._lent or len(there) == 1 or type(owner) is not Consumer:
                self._remove(chunk, index, index + 1)
                continue
            owner.pending -= 1
            self._length -= 1
            del there[index]
            if type(chunk.times) is list:
                del chunk.times[index]
            if type(chunk.counts) is list:
                del chunk.counts[index]
        return results

    def take_over(self, ids: list[int], owner: Consumer, time_ms: int, counts_up: bool) -> None:
        """Give pending entries (ascending IDs) to a consumer; if `counts_up`, count one more delivery of each."""
        for chunk, index, run in self._runs(ids):
            if self.nacked:
                for entry_id in chunk.ids[index : index + run]:
                    self.nacked.pop(entry_id, None)
            chunk = self._own(chunk)
            chunk.take_over(index, index + run, owner, time_ms, counts_up)
            self._note_time(time_ms, chunk)

    def renew(self, owner: Consumer, start: int, time_ms: int) -> None:
        """Deliver all entries of a consumer from ID `start` on once more; their chunks must have no other owner."""
        for chunk in list(self.chunks_of(owner, start)):
            first = 0 if chunk.low >= start else bisect_left(chunk.ids, start)
            if first < len(chunk.ids):
                chunk = self._own(chunk)
                chunk.take_over(first, len(chunk.ids), owner, time_ms, counts_up=True)
                self._note_time(time_ms, chunk)

    def _runs(self, ids: list[int]) -> Iterator[tuple[Chunk, int, int]]:
        """Yield (chunk, index, number of entries) for each run of `ids` (ascending) that is pending.

        A run is IDs that stand in a chunk one behind the other. The caller may remove each run at once.
        """
        lows, chunks = self._lows, self._chunks
        at, wanted = 0, len(ids)
        while at < wanted:
            entry_id = ids[at]
            place = bisect_right(lows, entry_id) - 1
            if place < 0:
                at += 1
                continue
            chunk = chunks[place]
            there = chunk.ids
            index = 0 if there[0] == entry_id else bisect_left(there, entry_id)
            left = len(there) - index
            if not left or there[index] != entry_id:
                at += 1
                continue
            run = min(left, wanted - at)
            if run > 1 and (
                there[index + run - 1] != ids[at + run - 1] or there[index : index + run] != ids[at : at + run]
            ):
                run = 1
            at += run
            yield chunk, index, run

    def _insert(self, entry_id: int, owner: Consumer | None, time_ms: int, count: int) -> None:
        self._length += 1
        at = bisect_right(self._lows, entry_id) - 1
        if at < 0:
            self._add(0, [entry_id], 0, owner, time_ms, count)  # whatever comes from below joins it
            return
        chunk = self._chunks[at]
        if len(chunk.ids) >= CHUNK_ENTRIES_MAX:
            if entry_id > chunk.ids[-1]:
                self._add(at + 1, [entry_id], entry_id, owner, time_ms, count)
                return
            self._split(at)
            if entry_id >= self._lows[at + 1]:
                at += 1
            chunk = self._chunks[at]
        chunk = self._own(chunk)
        chunk.insert(bisect_left(chunk.ids, entry_id), entry_id, owner, time_ms, count)
        if owner is not None:
            self._note_time(time_ms, chunk)

    def _split(self, at: int) -> None:
        """Cut the chunk number `at` in the middle."""
        chunk = self._own(self._chunks[at])
        upper = chunk.split(len(chunk.ids) // 2)
        self._lows.insert(at + 1, upper.low)
        self._chunks.insert(at + 1, upper)
        oldest_ms = upper.oldest_ms()
        if oldest_ms is not None:
            self._note_time(oldest_ms, upper)

    def _remove(self, chunk: Chunk, start: int, stop: int) -> None:
        if self.nacked:
            for entry_id in chunk.ids[start:stop]:
                self.nacked.pop(entry_id, None)
        chunk = self._own(chunk)
        self._length -= stop - start
        chunk.remove(start, stop)
        if not chunk.ids:
            at = bisect_left(self._lows, chunk.low)
            del self._lows[at], self._chunks[at]

    def _find(self, entry_id: int) -> tuple[Chunk, int] | None:
        at = bisect_right(self._lows, entry_id) - 1
        if at < 0:
            return None
        chunk = self._chunks[at]
        ids = chunk.ids
        index = 0 if ids[0] == entry_id else bisect_left(ids, entry_id)
        if index == len(ids) or ids[index] != entry_id:
            return None
        return chunk, index

    # -- looking ----------------------------------------------------------------------------------------------------

    def get(self, entry_id: int) -> PendingEntry | None:
        """Return a pending entry, or None."""
        found = self._find(entry_id)
        if found is None:
            return None
        chunk, index = found
        return entry_id, chunk.owner_at(index), chunk.time_at(index), chunk.count_at(index)

    def iterate(
        self, start: int = 0, end: int = ID_MAX, until_ms: int | None = None, owner: Consumer | None = None
    ) -> Iterator[PendingEntry]:
        """Yield the entries from ID `start` to `end`, both included, in order; they must not change meanwhile.

        until_ms: leave out entries that were delivered later. owner: yield the entries of this consumer alone.
        """
        chunks = self._chunks_from(start) if owner is None else self.chunks_of(owner, start)
        if isinstance(owner, PastConsumer):
            owner = owner.original
        for chunk in chunks:
            if chunk.low > end:
                return
            yield from chunk.chosen(start, end, until_ms, owner)

    def columns(self, start: int = 0, end: int = ID_MAX, count: int | None = None) -> Iterator[PendingColumns]:
        """Yield the first `count` entries of `iterate` as columns: IDs, owners, times and counts of entries that follow
        each other.
        """
        left = maxsize if count is None else count
        for chunk in self._chunks_from(start):
            if chunk.low > end or left <= 0:
                return
            first, behind = chunk.between(start, end)
            if first < behind:
                behind = min(behind, first + left)
                left -= behind - first
                yield chunk.columns(first, behind)

    def counts_of(self, ids: list[int]) -> list[int]:
        """Return how often entries, ascending and all pending, were delivered."""
        counts: list[int] = []
        for chunk, index, run in self._runs(ids):
            some = chunk.counts
            counts += some[index : index + run] if isinstance(some, list) else [some] * run
        return counts

    def ids_of(self, owner: Consumer, start: int, count: int | None = None) -> list[int]:
        """Return the IDs of the first `count` entries of one consumer from ID `start` on."""
        ids: list[int] = []
        for chunk in self.chunks_of(owner, start):
            if count is not None and len(ids) >= count:
                break
            first = bisect_left(chunk.ids, start)
            if chunk.owners is owner:
                ids += chunk.ids[first:]
            else:
                ids += [row[0] for row in chunk.rows(first, len(chunk.ids)) if row[1] is owner]
        return ids if count is None else ids[:count]

    # -- the oldest deliveries --------------------------------------------------------------------------------------

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
                    for index, entry_id in enumerate(chunk.ids):
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

    def snapshot(self) -> "PendingEntries":
        """Return a read-only copy of these entries, which later changes here do not reach.

        Chunks are shared until they change, since the journal takes snapshots while the server serves.
        """
        other = PendingEntries()
        other._lows, other._chunks = self._lows[:], self._chunks[:]
        other._length = self._length
        other.nacked = self.nacked.copy() if self.nacked else _NO_NACKED
        other._lent = Lent()
        held = [] if self._lent is None else self._lent.still_held()
        self._lent = Lent(self._chunks)
        self._lent.holders = [*held, ref(other._lent)]
        return other

    def copy(self, consumers: dict[bytes, Consumer]) -> "PendingEntries":
        """Return an independent copy whose owners are the consumers of the same names in `consumers`."""
        other = PendingEntries()
        if self._chunks:
            other._lows = self._lows[:]
            other._chunks = [chunk.copy_for(consumers) for chunk in self._chunks]
            other._length = self._length
        other.nacked = self.nacked.copy() if self.nacked else _NO_NACKED
        return other
