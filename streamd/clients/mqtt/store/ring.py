"""The newest entries of a log, for sessions that are a little behind its tail."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final, Protocol

from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.stored import Stored

_ENTRY_BYTES: Final = 600  # of the objects of an entry, beside its topic, payload and properties


class Stopped(Protocol):
    """A reader whose next entry is in the ring, and that has no room for it."""

    def fell_out(self, position: Position) -> None:
        """Note that the ring has dropped the next entry; position: before that entry."""


class Chunk:
    """Entries that were read at once. start: the position before the first; first: its number.

    stopped: readers, and the numbers of their next entries, all in this chunk.
    """

    __slots__ = ("entries", "first", "size_bytes", "start", "stopped")

    def __init__(self, first: int, start: Position, entries: list[Stored]) -> None:
        self.first, self.start, self.entries = first, start, entries
        self.size_bytes = sum(map(_size_of, entries)) + _ENTRY_BYTES * len(entries)
        self.stopped: dict[Stopped, int] = {}

    def position_at(self, number: int) -> Position:
        """Return the position of a reader that has seen all before a number."""
        at = list(self.start.at)
        for entry in self.entries[: number - self.first]:
            at[entry.shard] = entry.entry_id
        return Position(self.start.generation, tuple(at))


def _size_of(entry: Stored) -> int:
    if entry.properties:
        return sum(map(len, entry.fields))
    return len(entry.payload) + len(entry.topic)


class Ring:
    """The entries from `start` to `end`, numbered from `first` to before `next`."""

    def __init__(self, position: Position, entries_max: int, bytes_max: int) -> None:
        self._entries_max, self._bytes_max = entries_max, bytes_max
        self._chunks: deque[Chunk] = deque()
        self._bytes = 0
        self.start = self.end = position
        self.first = self.next = 0

    def append(self, entries: list[Stored], end: Position) -> int:
        """Add entries, after which the position is `end`; drop the oldest chunks that have no room any more.

        Returns the bytes of the entries.
        """
        size_bytes = 0
        if entries:
            chunk = Chunk(self.next, self.end, entries)
            self._chunks.append(chunk)
            size_bytes = chunk.size_bytes
            self._bytes += size_bytes
            self.next += len(entries)
        self.end = end
        while len(self._chunks) > 1 and (
            self._bytes > self._bytes_max or self.next - self._chunks[1].first >= self._entries_max
        ):
            dropped = self._chunks.popleft()
            self._bytes -= dropped.size_bytes
            self.start, self.first = self._chunks[0].start, self._chunks[0].first
            for reader, number in dropped.stopped.items():
                reader.fell_out(dropped.position_at(number))
        if not self._chunks:
            self.start = end
        return size_bytes

    def stop(self, reader: Stopped, number: int) -> None:
        """Note that a reader waits before an entry, which has to be here."""
        self._chunk_of(number).stopped[reader] = number

    def go_on(self, reader: Stopped, number: int) -> None:
        """Forget that a reader waits before an entry."""
        self._chunk_of(number).stopped.pop(reader, None)

    def from_number(self, number: int) -> Iterator[Stored]:
        """Yield the entries from a number on, which has to be here."""
        assert self.first <= number <= self.next
        if number == self.next:
            return
        chunks = self._chunks
        at = bisect_right(chunks, number, key=lambda chunk: chunk.first) - 1
        skipped = number - chunks[at].first
        for chunk in islice(chunks, at, None):  # nothing comes into the ring while a reader walks it
            yield from chunk.entries[skipped:] if skipped else chunk.entries
            skipped = 0

    def entry(self, number: int) -> Stored:
        """Return the entry with a number, which has to be here."""
        chunk = self._chunk_of(number)
        return chunk.entries[number - chunk.first]

    def number_at(self, position: Position) -> int:
        """Return the number of an entry before which a reader has seen all; its position is in the ring, or beyond."""
        if position.has_reached(self.end):
            return self.next
        passed = bisect_left(self._chunks, True, key=lambda chunk: not position.has_reached(chunk.start))
        assert passed
        return self._chunks[passed - 1].first

    def position_at(self, number: int) -> Position:
        """Return the position of a reader that has seen all before a number, which has to be here."""
        return self.end if number == self.next else self._chunk_of(number).position_at(number)

    def _chunk_of(self, number: int) -> Chunk:
        assert self.first <= number < self.next
        return self._chunks[bisect_right(self._chunks, number, key=lambda chunk: chunk.first) - 1]
