"""A chunk of pending entries that follow each other, and the consumers that have them."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import compress, repeat
from sys import getsizeof
from typing import Final

from streamd.stream.groups.chunk_ids import ChunkIds

# A batch longer than this is cut: removing one entry from a chunk moves all behind it.
CHUNK_ENTRIES_MAX: Final = 256

# The delivery count of an entry that cannot be processed (XNACK FATAL); it counts no further.
COUNT_MAX: Final = 2**63 - 1

# No delivery was before it.
TIME_MIN: Final = -(2**63)

# One pending entry: its ID, who has it (None: nobody, after XNACK), when it was delivered last and how often.
PendingEntry = tuple[int, "Consumer | None", int, int]

# Several pending entries as columns: a list with a value for each, or, except for IDs, the one value of all.
PendingColumns = tuple[ChunkIds, "list[Consumer | None] | Consumer | None", list[int] | int, list[int] | int]

# Of an ID and of a time, as objects.
_ID_BYTES: Final = 48
_INT_BYTES: Final = 32

# The empty list that consumers without pending entries share.
_NO_CHUNKS: Final[list[int]] = []


def again(count: int) -> int:
    """Return the delivery count after one more delivery."""
    return count + 1 if count < COUNT_MAX else count


class Consumer:
    """One consumer of a group.

    seen_ms: when it was last named in a command; active_ms: when it last got an entry, None if it never did.
    noted_ms: the last seen_ms that was given to the journal; -1 before the first.
    pending: how many entries it has not acknowledged.
    chunks: the `low` of every chunk that holds some of these entries, ascending.
    is_lent: a snapshot may share the list `chunks`, so it is copied before it is changed.
    """

    __slots__ = ("active_ms", "chunks", "is_lent", "name", "noted_ms", "pending", "seen_ms")

    def __init__(self, name: bytes, seen_ms: int) -> None:
        self.name = name
        self.seen_ms = seen_ms
        self.active_ms: int | None = None
        self.noted_ms = -1
        self.pending = 0
        self.chunks: list[int] = _NO_CHUNKS
        self.is_lent = False

    def enter(self, low: int) -> None:
        """Note that the chunk `low` holds entries of this consumer now."""
        if self.is_lent:
            self.chunks, self.is_lent = self.chunks[:], False
        chunks = self.chunks
        if not chunks:
            self.chunks = [low]
        elif low > chunks[-1]:
            chunks.append(low)
        else:
            insort(chunks, low)

    def leave(self, low: int) -> None:
        """Note that the chunk `low` holds no entries of this consumer any more."""
        if self.is_lent:
            self.chunks, self.is_lent = self.chunks[:], False
        chunks = self.chunks
        if len(chunks) == 1:
            self.chunks = _NO_CHUNKS
        else:
            del chunks[bisect_left(chunks, low)]


class PastConsumer(Consumer):
    """A consumer at the time of a snapshot. original: the living consumer, which the snapshot's entries name."""

    __slots__ = ("original",)

    def __init__(self, original: Consumer) -> None:
        self.original = original
        self.name = original.name
        self.seen_ms = original.seen_ms
        self.active_ms = original.active_ms
        self.noted_ms = original.noted_ms
        self.pending = original.pending
        self.chunks = original.chunks
        original.is_lent = True


class Chunk(ChunkIds):
    """Some pending entries that follow each other, in the order of their IDs.

    low: all entries here have IDs from `low` on, all entries of the chunks before have IDs below it.
    owners, times, counts: one value while it is the same for all entries, as after the delivery of a
    whole batch to one consumer; else a list with a value for each entry.
    held: how many entries each consumer has; None while `owners` is one value.
    noted_ms: the time of the chunk's valid row in the heap of the oldest deliveries; None if it has none.

    A method that changes owners also updates the consumers.
    """

    __slots__ = ("counts", "held", "low", "noted_ms", "owners", "times")

    def __init__(self, ids: list[int], owner: Consumer | None, time_ms: int, count: int) -> None:
        super().__init__(ids)
        self.low = ids[0] if ids else 0
        self.owners: Consumer | list[Consumer | None] | None = owner
        self.held: dict[Consumer, int] | None = None
        self.times: int | list[int] = time_ms
        self.counts: int | list[int] = count
        self.noted_ms: int | None = None

    def memory_bytes(self) -> int:
        """Return about how many bytes the chunk takes."""
        size = getsizeof(self) + getsizeof(self.stamps)
        if isinstance(self.stamps, list):
            size += _ID_BYTES * len(self.stamps)
        seqs = self.seqs
        if seqs is not None and not isinstance(seqs, int):
            size += getsizeof(seqs)
        if isinstance(self.owners, list):
            size += getsizeof(self.owners)
        if isinstance(self.times, list):
            size += getsizeof(self.times) + _INT_BYTES * len({*map(id, self.times)})
        if isinstance(self.counts, list):
            size += getsizeof(self.counts)
        return size if self.held is None else size + getsizeof(self.held)

    def copy(self) -> "Chunk":
        """Return a copy to change in place of this chunk; the consumers are not updated."""
        other = Chunk([], None, 0, 0)
        other.take_ids(self, 0, len(self.stamps))
        other.low, other.noted_ms = self.low, self.noted_ms
        other.owners = self.owners[:] if isinstance(self.owners, list) else self.owners
        other.held = None if self.held is None else self.held.copy()
        other.times = self.times[:] if isinstance(self.times, list) else self.times
        other.counts = self.counts[:] if isinstance(self.counts, list) else self.counts
        return other

    def copy_for(self, consumers: dict[bytes, Consumer]) -> "Chunk":
        """Return a copy owned by the consumers of the same names in `consumers`, and update these consumers."""
        other = self.copy()
        other.noted_ms = None
        owners = self.owners
        if isinstance(owners, list):
            assert self.held is not None
            twins = {owner: consumers[owner.name] for owner in self.held}
            other.owners = [*map(twins.get, owners)]  # type: ignore[arg-type]  # None, nobody, gives None
            other.held = {}
            for owner, entries in self.held.items():
                other._gain(twins[owner], entries)
        elif owners is not None:
            other.owners = consumers[owners.name]
            other.welcome()
        return other

    def owner_at(self, index: int) -> Consumer | None:
        owners = self.owners
        return owners[index] if isinstance(owners, list) else owners

    def time_at(self, index: int) -> int:
        times = self.times
        return times[index] if isinstance(times, list) else times

    def count_at(self, index: int) -> int:
        counts = self.counts
        return counts[index] if isinstance(counts, list) else counts

    def between(self, start: int, end: int) -> tuple[int, int]:
        """Return the index of the first entry from ID `start` on, and the index of the first entry behind ID `end`."""
        return 0 if start <= self.low else self.place(start), self.place(end + 1)

    def rows(self, start: int, stop: int) -> Iterator[PendingEntry]:
        """Return the entries from index `start` to before `stop`."""
        owners, times, counts = self.owners, self.times, self.counts
        return zip(
            self.ids(start, stop),
            owners[start:stop] if isinstance(owners, list) else repeat(owners),
            times[start:stop] if isinstance(times, list) else repeat(times),
            counts[start:stop] if isinstance(counts, list) else repeat(counts),
            strict=False,
        )

    def columns(self, start: int, stop: int) -> PendingColumns:
        """Return the entries from index `start` to before `stop` as columns."""
        owners, times, counts = self.owners, self.times, self.counts
        return (
            self.part(start, stop),
            owners[start:stop] if isinstance(owners, list) else owners,
            times[start:stop] if isinstance(times, list) else times,
            counts[start:stop] if isinstance(counts, list) else counts,
        )

    def chosen(self, start: int, end: int, until_ms: int | None, owner: Consumer | None) -> Iterable[PendingEntry]:
        """Return the entries from ID `start` to `end` that were delivered up to `until_ms`, of `owner` alone if it is
        given.
        """
        owners, times = self.owners, self.times
        if (owner is not None and owners is not owner and not isinstance(owners, list)) or (
            until_ms is not None and not isinstance(times, list) and times > until_ms
        ):
            return ()
        rows = self.rows(*self.between(start, end))
        if (owner is None or owners is owner) and (until_ms is None or not isinstance(times, list)):
            return rows
        return [row for row in rows if (owner is None or row[1] is owner) and (until_ms is None or row[2] <= until_ms)]

    def rows_of(self, owner: Consumer) -> list[PendingEntry]:
        """Return the entries of one consumer."""
        return [row for row in self.rows(0, len(self.stamps)) if row[1] is owner]

    def oldest_ms(self, from_ms: int = TIME_MIN) -> int | None:
        """Return the earliest delivery time of the entries that have an owner, from a time on, or None."""
        owners, times = self.owners, self.times
        if not isinstance(times, list):
            is_owned = bool(self.held) if isinstance(owners, list) else owners is not None and bool(self.stamps)
            return times if is_owned and times >= from_ms else None
        if isinstance(owners, list):
            some = [time for owner, time in zip(owners, times, strict=True) if owner is not None and time >= from_ms]
        else:
            some = [] if owners is None else [time for time in times if time >= from_ms]
        return min(some, default=None)

    # -- changing ---------------------------------------------------------------------------------------------------

    def welcome(self) -> None:
        """Count the entries of this new chunk for its one consumer."""
        owner = self.owners
        if isinstance(owner, Consumer):
            owner.pending += len(self.stamps)
            owner.enter(self.low)

    def extend(self, added: int, owner: Consumer, time_ms: int, count: int) -> None:
        """Make room for so many entries behind the last one, whose IDs the caller adds."""
        size = len(self.stamps)
        if self.owners is not owner or self.held is not None:
            self._several_owners().extend([owner] * added)
            self._gain(owner, added)
        else:
            owner.pending += added
        if isinstance(self.times, list):
            last_ms = self.times[-1]
            self.times += [last_ms if last_ms == time_ms else time_ms] * added  # equal ones as one int
        elif self.times != time_ms:
            self.times = [self.times] * size + [time_ms] * added
        if isinstance(self.counts, list):
            self.counts += [count] * added
        elif self.counts != count:
            self.counts = [self.counts] * size + [count] * added

    def insert(self, index: int, entry_id: int, owner: Consumer | None, time_ms: int, count: int) -> None:
        """Add an entry in front of the entry at an index."""
        self._several_owners().insert(index, owner)
        self._several_times().insert(index, time_ms)
        self._several_counts().insert(index, count)
        self.unpack().insert(index, entry_id)
        self._gain(owner, 1)

    def set(self, index: int, owner: Consumer | None, time_ms: int, count: int) -> None:
        """Change one entry."""
        before = self.owner_at(index)
        if before is not owner:
            self._several_owners()[index] = owner
            self._gain(owner, 1)
            self._lose(before, 1)
        if self.time_at(index) != time_ms:
            self._several_times()[index] = time_ms
        if self.count_at(index) != count:
            self._several_counts()[index] = count

    def take_over(self, start: int, stop: int, owner: Consumer, time_ms: int, counts_up: bool) -> None:
        """Give the entries from index `start` to before `stop` to a consumer, as one more delivery if `counts_up`."""
        is_whole = stop - start == len(self.stamps)
        if self.owners is not owner:
            before = self._holders(start, stop)
            if is_whole:
                if self.held is None or owner not in self.held:
                    owner.enter(self.low)
                self.owners, self.held = owner, None
                for one, held in before:
                    one.pending -= held
                    if one is not owner:
                        one.leave(self.low)
                owner.pending += stop - start
            else:
                self._several_owners()[start:stop] = [owner] * (stop - start)
                self._gain(owner, stop - start)
                for one, held in before:
                    self._lose(one, held)
        if is_whole:
            self.times = time_ms
        elif self.times != time_ms:
            self._several_times()[start:stop] = [time_ms] * (stop - start)
        if not counts_up:
            return
        if is_whole and not isinstance(self.counts, list):
            self.counts = again(self.counts)
            return
        counts = self._several_counts()
        some = counts[start:stop]
        counts[start:stop] = [count + 1 for count in some] if max(some) < COUNT_MAX else [*map(again, some)]

    def remove(self, start: int, stop: int) -> None:
        """Remove the entries from index `start` to before `stop`."""
        owners = self.owners
        if isinstance(owners, list):
            for owner, held in self._holders(start, stop):
                self._lose(owner, held)
            del owners[start:stop]
        elif owners is not None:
            owners.pending -= stop - start
            if stop - start == len(self.stamps):
                owners.leave(self.low)
        self.drop_ids(start, stop)
        if isinstance(self.times, list):
            del self.times[start:stop]
        if isinstance(self.counts, list):
            del self.counts[start:stop]

    def remove_owner(self, owner: Consumer) -> list[int]:
        """Remove the entries of one of several consumers, which is being removed; return all IDs from before."""
        owners, before = self.owners, self.unpack()
        assert isinstance(owners, list)
        assert self.held is not None
        stays = [one is not owner for one in owners]
        del self.held[owner]
        self.stamps = [*compress(before, stays)]
        others = list(self.held.items())
        if len(others) == 1 and others[0][1] == len(self.stamps):
            self.owners, self.held = others[0][0], None
        else:
            self.owners = [*compress(owners, stays)]
        if isinstance(self.times, list):
            self.times = [*compress(self.times, stays)]
        if isinstance(self.counts, list):
            self.counts = [*compress(self.counts, stays)]
        return before

    def split(self, index: int) -> "Chunk":
        """Move the entries from an index on to a new chunk; return it."""
        upper, size = Chunk([], None, 0, 0), len(self.stamps)
        upper.take_ids(self, index, size)
        upper.low = upper.id_at(0)
        moved = self._holders(index, size)
        if isinstance(self.owners, list):
            upper.owners, upper.held = self.owners[index:], dict(moved)
        else:
            upper.owners = self.owners
        upper.times = self.times[index:] if isinstance(self.times, list) else self.times
        upper.counts = self.counts[index:] if isinstance(self.counts, list) else self.counts
        self.remove(index, size)
        for owner, held in moved:
            owner.pending += held
            owner.enter(upper.low)
        return upper

    def _holders(self, start: int, stop: int) -> list[tuple[Consumer, int]]:
        """Return (consumer, number of its entries) for the entries from index `start` to before `stop`."""
        owners = self.owners
        if not isinstance(owners, list):
            return [] if owners is None else [(owners, stop - start)]
        some = owners[start:stop]
        first = some[0]
        if some.count(first) == stop - start:
            return [] if first is None else [(first, stop - start)]
        held: dict[Consumer, int] = {}
        for owner in some:
            if owner is not None:
                held[owner] = held.get(owner, 0) + 1
        return list(held.items())

    def _gain(self, owner: Consumer | None, entries: int) -> None:
        if owner is None:
            return
        assert self.held is not None
        owner.pending += entries
        before = self.held.get(owner)
        if before is None:
            self.held[owner] = entries
            owner.enter(self.low)
        else:
            self.held[owner] = before + entries

    def _lose(self, owner: Consumer | None, entries: int) -> None:
        if owner is None:
            return
        assert self.held is not None
        owner.pending -= entries
        left = self.held[owner] - entries
        if left:
            self.held[owner] = left
        else:
            del self.held[owner]
            owner.leave(self.low)

    def _several_owners(self) -> "list[Consumer | None]":
        """Give every entry an owner of its own."""
        owners = self.owners
        if not isinstance(owners, list):
            self.held = {} if owners is None else {owners: len(self.stamps)}
            self.owners = owners = [owners] * len(self.stamps)
        return owners

    def _several_times(self) -> list[int]:
        times = self.times
        if not isinstance(times, list):
            self.times = times = [times] * len(self.stamps)
        return times

    def _several_counts(self) -> list[int]:
        counts = self.counts
        if not isinstance(counts, list):
            self.counts = counts = [counts] * len(self.stamps)
        return counts
