"""Pending entries by chunks: looking, pieces for long replies, and removing all of a consumer."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from streamd.stream.entry_id import ID_MAX
from streamd.stream.groups.lent_chunks import Lent
from streamd.stream.groups.pending_chunk import CHUNK_ENTRIES_MAX, Chunk, Consumer, PastConsumer, PendingEntry

# So many chunks are taken out one by one; more of them by making the list anew.
_FEW_CHUNKS: Final = 16


class PendingInSlices:
    """The part of PendingEntries that makes no list of all entries.

    Shape: see PendingEntries.
    """

    __slots__ = ("_chunks", "_length", "_lent", "_lows")

    _chunks: list[Chunk]
    _lows: list[int]
    _length: int
    _lent: Lent | None

    def _find(self, entry_id: int) -> tuple[Chunk, int] | None:
        at = bisect_right(self._lows, entry_id) - 1
        if at < 0:
            return None
        chunk = self._chunks[at]
        index = chunk.find(entry_id)
        return None if index < 0 else (chunk, index)

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

    def pieces(
        self, start: int, end: int, until_ms: int | None, owner: Consumer | None
    ) -> Iterator[list[PendingEntry]]:
        """Yield the entries from ID `start` to `end`, of `owner` alone if it is given, a list for each chunk."""
        for chunk in self._chunks_from(start):
            if chunk.low > end:
                return
            yield list(chunk.chosen(start, end, until_ms, owner))

    def _chunks_from(self, start: int) -> Iterator[Chunk]:
        """Yield the chunks in which there may be entries from ID `start` on; they must not change meanwhile."""
        chunks = self._chunks
        for at in range(max(0, bisect_right(self._lows, start) - 1), len(chunks)):
            yield chunks[at]

    def by_owner(self, held: dict[Consumer, list[Chunk]]) -> Iterator[None]:
        """Fill `held` with the chunks in which each consumer has entries, a chunk with each step."""
        for chunk in self._chunks:
            owners = chunk.owners
            for owner in dict.fromkeys(owners) if isinstance(owners, list) else (owners,):
                if owner is not None:
                    held.setdefault(owner, []).append(chunk)
            yield

    def may_exceed(self, entries: int, start: int, end: int) -> bool:
        """Return whether there may be more than so many entries from ID `start` to `end`; O(log N)."""
        chunks = bisect_right(self._lows, end) - bisect_right(self._lows, start) + 1
        return self._length > entries and chunks * CHUNK_ENTRIES_MAX > entries

    def span_of(self, owner: Consumer, start: int) -> tuple[int, int, int] | None:
        """Return (first ID, last ID, number) of the entries of one consumer from ID `start` on; None if the consumer
        has none, or shares a chunk with others.
        """
        first_id, last_id, entries = -1, -1, 0
        for chunk in self.chunks_of(owner, start):
            if chunk.owners is not owner:
                return None
            first, size = chunk.place(start), len(chunk.stamps)
            if first < size:
                first_id = chunk.id_at(first) if first_id < 0 else first_id
                last_id = chunk.id_at(-1)
                entries += size - first
        return (first_id, last_id, entries) if entries else None

    def chunks_of(self, owner: Consumer, start: int) -> Iterator[Chunk]:
        """Yield the chunks in which a consumer may have entries from ID `start` on; they may be changed meanwhile."""
        lows, held = self._lows, owner.chunks
        at = -1
        for place in range(max(0, bisect_right(held, start) - 1), len(held)):
            low = held[place]
            at += 1  # most stand one behind the other
            if at >= len(lows) or lows[at] != low:
                at = bisect_left(lows, low)
            yield self._chunks[at]

    def remove_owner(self, owner: Consumer, dropped: list[object]) -> int:
        """Remove all entries of a consumer that is being removed; return how many they were.

        dropped: gets the objects that only wait to be freed. A chunk of this consumer alone is dropped whole, without a
        step for each entry.
        """
        removed, lows = owner.pending, set[int]()
        for chunk in list(self.chunks_of(owner, 0)):
            held = chunk.held
            if held is None or held[owner] == len(chunk.stamps):
                lows.add(chunk.low)
                dropped.append(chunk)
            else:
                dropped.append(self._own(chunk).remove_owner(owner))
        if len(lows) > _FEW_CHUNKS:
            self._chunks = [chunk for chunk in self._chunks if chunk.low not in lows]
            self._lows = [low for low in self._lows if low not in lows]
        else:
            for low in lows:
                at = bisect_left(self._lows, low)
                del self._lows[at], self._chunks[at]
        self._length -= removed
        owner.pending, owner.chunks = 0, []
        return removed

    def _own(self, chunk: Chunk) -> Chunk:
        """Return the chunk to change: this one, or a copy in its place if a snapshot shares it."""
        if not self._lent or chunk not in self._lent:
            return chunk
        if not self._lent.still_held():
            self._lent = None
            return chunk
        self._lent.discard(chunk)
        own = self._chunks[bisect_left(self._lows, chunk.low)] = chunk.copy()
        return own
