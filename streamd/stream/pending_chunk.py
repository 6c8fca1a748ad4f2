"""Pending entries that follow each other, in one object; and the consumers that have them."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import repeat

# A batch longer than this is cut: removing one entry from a chunk moves all behind it.
CHUNK_ENTRIES_MAX = 256

# What the delivery count of an entry that cannot be processed is set to; it counts no further.
COUNT_MAX = 2**63 - 1

# One pending entry: its ID, who has it (None: nobody, after XNACK), when it was delivered last and how often.
PendingEntry = tuple[int, "Consumer | None", int, int]


def again(count: int) -> int:
    """Return the delivery count after one more delivery."""
    return count + 1 if count < COUNT_MAX else count


class Consumer:
    """One consumer of a group.

    seen_ms: when it was last named in a command; active_ms: when it last got an entry, None if it never did.
    noted_ms: the seen_ms that the journal was told last; -1 none.
    pending: how many entries it has not acknowledged.
    chunks: the `low` of every chunk that holds some of them, ascending; in_chunk: how many it holds of each.
    """

    __slots__ = ("active_ms", "chunks", "in_chunk", "name", "noted_ms", "pending", "seen_ms")

    def __init__(self, name: bytes, seen_ms: int) -> None:
        self.name = name
        self.seen_ms = seen_ms
        self.active_ms: int | None = None
        self.noted_ms = -1
        self.pending = 0
        self.chunks: list[int] = []
        self.in_chunk: dict[int, int] = {}

    def gain(self, low: int, entries: int) -> None:
        """Note that so many entries of the chunk `low` are its now."""
        self.pending += entries
        held = self.in_chunk.get(low)
        if held is None:
            self.in_chunk[low] = entries
            if self.chunks and low < self.chunks[-1]:
                insort(self.chunks, low)
            else:
                self.chunks.append(low)
        else:
            self.in_chunk[low] = held + entries

    def lose(self, low: int, entries: int) -> None:
        """Note that so many entries of the chunk `low` are no longer its."""
        self.pending -= entries
        left = self.in_chunk[low] - entries
        if left:
            self.in_chunk[low] = left
        else:
            del self.in_chunk[low]
            del self.chunks[bisect_left(self.chunks, low)]


class Chunk:
    """Some pending entries that follow each other.

    low: no entry here is below it, and no entry of the chunk before is not.
    ids: ascending. owners, times, counts: one value when it is the same for all entries, which it is as long as a whole
    batch was delivered to one consumer; else a list with one for each.
    noted_ms: the time of the chunk's valid row in the heap of the oldest deliveries; None if it has none.
    """

    __slots__ = ("counts", "ids", "low", "noted_ms", "owners", "times")

    def __init__(self, ids: list[int], owner: Consumer | None, time_ms: int, count: int) -> None:
        self.low = ids[0]
        self.ids = ids
        self.owners: Consumer | list[Consumer | None] | None = owner
        self.times: int | list[int] = time_ms
        self.counts: int | list[int] = count
        self.noted_ms: int | None = None

    def copy(self) -> "Chunk":
        """Return the same chunk, which can be changed apart from this one."""
        other = Chunk(self.ids[:], None, 0, 0)
        other.low, other.noted_ms = self.low, self.noted_ms
        other.owners = self.owners[:] if isinstance(self.owners, list) else self.owners
        other.times = self.times[:] if isinstance(self.times, list) else self.times
        other.counts = self.counts[:] if isinstance(self.counts, list) else self.counts
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
        """Return the index of the first entry from ID `start` on, and of the first one behind ID `end`."""
        ids = self.ids
        return (
            bisect_left(ids, start) if ids[0] < start else 0,
            bisect_right(ids, end) if ids[-1] > end else len(ids),
        )

    def rows(self, start: int, stop: int) -> Iterator[PendingEntry]:
        """Return the entries from index `start` to before `stop`."""
        owners, times, counts = self.owners, self.times, self.counts
        return zip(
            self.ids[start:stop],
            owners[start:stop] if isinstance(owners, list) else repeat(owners),
            times[start:stop] if isinstance(times, list) else repeat(times),
            counts[start:stop] if isinstance(counts, list) else repeat(counts),
            strict=False,
        )

    def rows_of(self, owner: Consumer) -> list[PendingEntry]:
        """Return the entries of one consumer."""
        return [row for row in self.rows(0, len(self.ids)) if row[1] is owner]

    def take_over(self, start: int, stop: int, owner: Consumer, time_ms: int, counts_up: bool) -> None:
        """Give the entries from index `start` to before `stop` to a consumer, as one more delivery if `counts_up`."""
        size, taken = len(self.ids), stop - start
        if taken == size and not isinstance(self.counts, list):
            self.owners, self.times = owner, time_ms
            if counts_up:
                self.counts = again(self.counts)
            return
        owners, times, counts = self.spread()
        owners[start:stop] = [owner] * taken
        times[start:stop] = [time_ms] * taken
        if counts_up:
            counts[start:stop] = [again(count) for count in counts[start:stop]]

    def spread(self) -> tuple[list[Consumer | None], list[int], list[int]]:
        """Give every entry an owner, a time and a count of its own."""
        size = len(self.ids)
        if not isinstance(self.owners, list):
            self.owners = [self.owners] * size
        if not isinstance(self.times, list):
            self.times = [self.times] * size
        if not isinstance(self.counts, list):
            self.counts = [self.counts] * size
        return self.owners, self.times, self.counts

    def extend(self, ids: list[int], owner: Consumer | None, time_ms: int, count: int) -> None:
        """Add entries behind the last one."""
        added = len(ids)
        size = len(self.ids)
        if isinstance(self.owners, list):
            self.owners += [owner] * added
        elif self.owners is not owner:
            self.owners = [self.owners] * size + [owner] * added
        if isinstance(self.times, list):
            self.times += [time_ms] * added
        elif self.times != time_ms:
            self.times = [self.times] * size + [time_ms] * added
        if isinstance(self.counts, list):
            self.counts += [count] * added
        elif self.counts != count:
            self.counts = [self.counts] * size + [count] * added
        self.ids += ids

    def set(self, index: int, owner: Consumer | None, time_ms: int, count: int) -> None:
        """Change one entry."""
        if self.owner_at(index) is not owner:
            if not isinstance(self.owners, list):
                self.owners = [self.owners] * len(self.ids)
            self.owners[index] = owner
        if self.time_at(index) != time_ms:
            if not isinstance(self.times, list):
                self.times = [self.times] * len(self.ids)
            self.times[index] = time_ms
        if self.count_at(index) != count:
            if not isinstance(self.counts, list):
                self.counts = [self.counts] * len(self.ids)
            self.counts[index] = count

    def remove(self, start: int, stop: int) -> None:
        """Remove the entries from index `start` to before `stop`."""
        del self.ids[start:stop]
        if isinstance(self.owners, list):
            del self.owners[start:stop]
        if isinstance(self.times, list):
            del self.times[start:stop]
        if isinstance(self.counts, list):
            del self.counts[start:stop]

    def oldest_ms(self) -> int | None:
        """Return the earliest delivery of the entries that somebody has, or None."""
        owners, times = self.owners, self.times
        if isinstance(owners, list):
            return min((self.time_at(i) for i, owner in enumerate(owners) if owner is not None), default=None)
        if owners is None or not self.ids:
            return None
        return min(times) if isinstance(times, list) else times
