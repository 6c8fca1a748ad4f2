"""Pending entries: the entries that a consumer group delivered and no consumer has acknowledged yet."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from sys import maxsize
from typing import Final
from weakref import ref

from streamd.stream.entry_id import ID_MAX, SEQ_MAX
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
from streamd.stream.groups.pending_oldest import PendingByAge
from streamd.stream.log.runs import NodeRun
from streamd.stream.log.segment import Segment

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

# What a chunk takes beside its columns: its rows in lists, in that of its consumer, too, and in a heap.
_CHUNK_BYTES: Final = 200
# So many chunks, or twice as many, are looked at to estimate the memory of all.
_SAMPLE: Final = 16

# For less entries ints are as quick as runs.
RUNS_MIN: Final = 16

# The empty columns that groups without pending entries share; most groups are.
_NO_LOWS: Final[list[int]] = []
_NO_CHUNKS: Final[list[Chunk]] = []
_NO_NACKED: Final[dict[int, None]] = {}


class PendingEntries(PendingByAge):
    """The pending entries of one group, in the order of their IDs.

    Shape: chunks of at most CHUNK_ENTRIES_MAX entries with disjoint ranges of IDs. A delivered batch becomes a chunk as
    it is, so reading costs no work per entry, and acknowledging a batch removes a slice; entries that were claimed one
    by one cost a chunk its uniform columns. IDs are packed: at once if they come from segments, else when the next
    chunk begins.

    nacked: the entries that were released and have no owner, in the order of their release.
    _lent: chunks that a snapshot may share; while the snapshot lives, they are copied before they are changed.
    """

    __slots__ = ()

    def __init__(self) -> None:
        self._lows: list[int] = _NO_LOWS
        self._chunks: list[Chunk] = _NO_CHUNKS
        self._length = 0
        self._lent: Lent | None = None
        self.nacked = _NO_NACKED
        self._oldest = self._released = None

    def memory_bytes(self) -> int:
        """Return about how many bytes the entries take, from a sample of the chunks."""
        chunks = self._chunks
        some = chunks[:: max(1, len(chunks) // _SAMPLE)]
        each = sum([chunk.memory_bytes() for chunk in some])
        return len(chunks) * _CHUNK_BYTES + (each * len(chunks) // len(some) if some else 0)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return self._length

    def __contains__(self, entry_id: int) -> bool:
        return self._find(entry_id) is not None

    @property
    def first_id(self) -> int | None:
        """The least pending ID, or None."""
        return self._chunks[0].id_at(0) if self._chunks else None

    @property
    def last_id(self) -> int | None:
        """The greatest pending ID, or None."""
        return self._chunks[-1].id_at(-1) if self._chunks else None

    # -- changing ---------------------------------------------------------------------------------------------------

    def deliver(self, ids: list[int], owner: Consumer, time_ms: int, count: int = 1) -> None:
        """Give entries (ascending IDs) to a consumer; entries that are pending already change hands.

        The pending entries keep the list `ids` itself: the caller must not change it later.
        """
        if not ids:
            return
        if self._chunks and ids[0] <= self._chunks[-1].id_at(-1):
            for entry_id in ids:
                self.set(entry_id, owner, time_ms, count)
        elif (last := self._with_room(len(ids), owner, time_ms, count)) is not None:
            last.add_ids(ids)
        else:
            for at in range(0, len(ids), CHUNK_ENTRIES_MAX):
                part = ids if len(ids) <= CHUNK_ENTRIES_MAX else ids[at : at + CHUNK_ENTRIES_MAX]
                self._append(Chunk(part, owner, time_ms, count))

    def deliver_runs(self, runs: Iterable[NodeRun], first_id: int, owner: Consumer, time_ms: int) -> None:
        """Give runs of the log's entries to a consumer, as `deliver` does. first_id: that of all."""
        are_last = not self._chunks or first_id > self._chunks[-1].id_at(-1)
        for source, low, high in runs:
            if not are_last or not isinstance(source, Segment) or high - low > CHUNK_ENTRIES_MAX:
                self.deliver([*source.ids(low, high)], owner, time_ms)
            elif (last := self._with_room(high - low, owner, time_ms, 1)) is not None:
                last.pack()
                last.add_run(source, low, high)
            else:
                chunk = Chunk([], owner, time_ms, 1)
                chunk.add_run(source, low, high)
                chunk.low = chunk.id_at(0)
                self._append(chunk)

    def _with_room(self, entries: int, owner: Consumer, time_ms: int, count: int) -> Chunk | None:
        """Return the last chunk, with owners and times for so many more entries, whose IDs the caller adds; None if it
        has no room for them.
        """
        if not self._chunks or len(self._chunks[-1].stamps) + entries > CHUNK_ENTRIES_MAX:
            return None
        self._length += entries
        last = self._own(self._chunks[-1])
        last.extend(entries, owner, time_ms, count)
        self._note_time(time_ms, last)
        return last

    def _append(self, chunk: Chunk) -> None:
        """Put a new chunk behind the last one, which is packed."""
        self._length += len(chunk.stamps)
        if self._chunks:
            self._chunks[-1].pack()
        self._put(len(self._chunks), chunk)

    def _put(self, at: int, chunk: Chunk) -> None:
        """Make a new chunk, of one consumer and one time, the number `at`."""
        chunk.welcome()
        if self._chunks:
            self._lows.insert(at, chunk.low)
            self._chunks.insert(at, chunk)
        else:
            self._lows, self._chunks = [chunk.low], [chunk]
        if chunk.owners is not None and isinstance(chunk.times, int):
            self._note_time(chunk.times, chunk)

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
            self._not_released((entry_id,))
        if owner is None:
            if self._released is not None:
                self._released[entry_id] = None
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
        ascending = sorted(ids)
        for chunk, index, run, at in self._runs(ascending):
            removed += ascending[at : at + run]
            self._remove(chunk, index, index + run)
        return removed

    def remove_leading(self, ms: int, stamps: list[int], seqs: list[int] | int) -> int:
        """Remove the first ones of entries that are given by columns, if they are packed and pending one behind the
        other; return how many. ms: is to be added to each stamp.
        """
        done, wanted = 0, len(stamps)
        while done < wanted:
            entry_id = (ms + stamps[done] << 64) + (seqs if isinstance(seqs, int) else seqs[done])
            found = self._find(entry_id)
            if found is None:
                break
            chunk, index = found
            upto = min(wanted, done + len(chunk.stamps) - index)
            if not chunk.have(index, ms, stamps[done:upto], seqs if isinstance(seqs, int) else seqs[done:upto]):
                break
            self._remove(chunk, index, index + upto - done)
            done = upto
        return done

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
            stamps, seqs, number = chunk.stamps, chunk.seqs, entry_id
            if isinstance(seqs, int):
                number = (entry_id >> 64) - chunk.base if entry_id & SEQ_MAX == seqs else -1
            index = bisect_left(stamps, number) if number >= 0 else 0
            if seqs is not None and not isinstance(seqs, int):
                index = chunk.place(entry_id)
                number = stamps[index] if index < len(stamps) and chunk.id_at(index) == entry_id else -1
            if index == len(stamps) or stamps[index] != number:
                results.append(False)
                continue
            results.append(True)
            owner = chunk.owners
            if self._lent or len(stamps) == 1 or type(owner) is not Consumer:
                self._remove(chunk, index, index + 1)
                continue
            owner.pending -= 1
            self._length -= 1
            del stamps[index]
            if seqs is not None and not isinstance(seqs, int):
                del seqs[index]
            if type(chunk.times) is list:
                del chunk.times[index]
            if type(chunk.counts) is list:
                del chunk.counts[index]
        return results

    def take_over(self, ids: list[int], owner: Consumer, time_ms: int, counts_up: bool) -> None:
        """Give pending entries (ascending IDs) to a consumer; if `counts_up`, count one more delivery of each."""
        for chunk, index, run, _ in self._runs(ids):
            if self.nacked:
                self._not_released(chunk.ids(index, index + run))
            chunk = self._own(chunk)
            chunk.take_over(index, index + run, owner, time_ms, counts_up)
            self._note_time(time_ms, chunk)

    def renew(self, owner: Consumer, start: int, time_ms: int) -> None:
        """Deliver all entries of a consumer from ID `start` on once more; their chunks must have no other owner."""
        for chunk in list(self.chunks_of(owner, start)):
            first, size = chunk.place(start), len(chunk.stamps)
            if first < size:
                chunk = self._own(chunk)
                chunk.take_over(first, size, owner, time_ms, counts_up=True)
                self._note_time(time_ms, chunk)

    def _runs(self, ids: list[int]) -> Iterator[tuple[Chunk, int, int, int]]:
        """Yield (chunk, index, number of entries, index in `ids`) for each run of `ids` (ascending) that is pending.

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
            index = chunk.find(entry_id)
            if index < 0:
                at += 1
                continue
            run = min(len(chunk.stamps) - index, wanted - at)
            if run > 1 and (
                chunk.id_at(index + run - 1) != ids[at + run - 1] or chunk.ids(index, index + run) != ids[at : at + run]
            ):
                run = 1
            yield chunk, index, run, at
            at += run

    def _insert(self, entry_id: int, owner: Consumer | None, time_ms: int, count: int) -> None:
        self._length += 1
        at = bisect_right(self._lows, entry_id) - 1
        if at < 0:
            first = Chunk([entry_id], owner, time_ms, count)
            first.low = 0  # whatever comes from below joins it
            self._put(0, first)
            return
        chunk = self._chunks[at]
        if len(chunk.stamps) >= CHUNK_ENTRIES_MAX:
            if entry_id > chunk.id_at(-1):
                self._put(at + 1, Chunk([entry_id], owner, time_ms, count))
                return
            self._split(at)
            if entry_id >= self._lows[at + 1]:
                at += 1
            chunk = self._chunks[at]
        chunk = self._own(chunk)
        chunk.insert(chunk.place(entry_id), entry_id, owner, time_ms, count)
        if owner is not None:
            self._note_time(time_ms, chunk)

    def _split(self, at: int) -> None:
        """Cut the chunk number `at` in the middle."""
        chunk = self._own(self._chunks[at])
        upper = chunk.split(len(chunk.stamps) // 2)
        self._lows.insert(at + 1, upper.low)
        self._chunks.insert(at + 1, upper)
        oldest_ms = upper.oldest_ms()
        if oldest_ms is not None:
            self._note_time(oldest_ms, upper)

    def _remove(self, chunk: Chunk, start: int, stop: int) -> None:
        if self.nacked:
            self._not_released(chunk.ids(start, stop))
        chunk = self._own(chunk)
        self._length -= stop - start
        chunk.remove(start, stop)
        if not chunk.stamps:
            at = bisect_left(self._lows, chunk.low)
            del self._lows[at], self._chunks[at]

    # -- looking ----------------------------------------------------------------------------------------------------

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
        for chunk, index, run, _ in self._runs(ids):
            some = chunk.counts
            counts += some[index : index + run] if isinstance(some, list) else [some] * run
        return counts

    def ids_of(self, owner: Consumer, start: int, count: int | None = None) -> list[int]:
        """Return the IDs of the first `count` entries of one consumer from ID `start` on."""
        ids: list[int] = []
        for chunk in self.chunks_of(owner, start):
            if count is not None and len(ids) >= count:
                break
            first, owners = chunk.place(start), chunk.owners
            some = chunk.ids(first, len(chunk.stamps))
            ids += compress(some, [one is owner for one in owners[first:]]) if isinstance(owners, list) else some
        return ids if count is None else ids[:count]

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
