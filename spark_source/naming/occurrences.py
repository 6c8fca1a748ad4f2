"""Counts earlier occurrences of each row of a task, in little memory.

Rows are told apart by 64 bits of their digest. Up to `EXACT_ROWS` they are kept in a set; beyond, in a table of bytes
that doubles when it is two thirds full: 13 to 27 bytes a row (a set takes 90), at the cost of 0.3 us a row. Should two
different rows ever share their 64 bits, they are only numbered in the order in which they come; their iids differ.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat

EXACT_ROWS = 250_000
COUNT_MAX = 255  # what fits into the byte beside a hash; rows that come more often stand in a dict


class Occurrences:
    """Counts 64-bit hashes, given in chunks of a task's rows in their order."""

    def __init__(self, exact_rows: int = EXACT_ROWS) -> None:
        self.exact_rows = exact_rows
        self.seen: set[int] = set()
        self.counts: dict[int, int] = {}  # of hashes that came more than once
        self.table: _Table | None = None

    def count(self, hashes: Sequence[int]) -> list[int] | None:
        """Return the number of earlier occurrences of each hash; None if none has any, which is usual and quick."""
        if self.table is not None:
            counted = self.table.count(hashes)
            return counted if any(counted) else None
        earlier: list[int] | None = None
        seen = self.seen
        before = len(seen)
        if seen.isdisjoint(hashes):
            seen.update(hashes)
        if len(seen) < before + len(hashes):
            if len(seen) > before:
                seen.difference_update(hashes)
            earlier = [self._one(number) for number in hashes]
        if len(self.seen) > self.exact_rows:
            self.table = _Table(self.seen, self.counts)
            self.seen, self.counts = set(), {}
        return earlier

    def _one(self, number: int) -> int:
        if number not in self.seen:
            self.seen.add(number)
            return 0
        before = self.counts.get(number, 1)
        self.counts[number] = before + 1
        return before


class _Table:
    """An open-addressed table: 8 bytes for a hash, one for its count. 0 is a free slot."""

    def __init__(self, hashes: Collection[int], counts: dict[int, int]) -> None:
        self.used = len(hashes)
        self._make((2 * self.used).bit_length())
        self._take(zip(hashes, repeat(1), strict=False))
        self.often: dict[int, int] = {}
        for number, count in counts.items():
            self._put(number or 1, count)

    def _make(self, bits: int) -> None:
        self.bits = bits
        self.mask = (1 << bits) - 1
        self.limit = (1 << bits) * 2 // 3
        self.hashes = memoryview(bytearray(8 << bits)).cast("Q")
        self.counted = bytearray(1 << bits)

    def count(self, numbers: Sequence[int]) -> list[int]:
        """Return the number of earlier occurrences of each hash."""
        earlier = []
        for number in numbers:
            number = number or 1
            hashes, mask = self.hashes, self.mask
            slot = number & mask
            while found := hashes[slot]:
                if found == number:
                    earlier.append(self._again(slot, number))
                    break
                slot = slot + 1 & mask
            else:
                earlier.append(0)
                hashes[slot] = number
                self.counted[slot] = 1
                self.used += 1
                if self.used > self.limit:
                    self._double()
        return earlier

    def _again(self, slot: int, number: int) -> int:
        before = self.counted[slot]
        if before < COUNT_MAX:
            self.counted[slot] = before + 1
            return before
        before = self.often.get(number, COUNT_MAX)
        self.often[number] = before + 1
        return before

    def _put(self, number: int, count: int) -> None:
        """Correct the count of a hash that is there."""
        slot = number & self.mask
        while self.hashes[slot] != number:
            slot = slot + 1 & self.mask
        self.counted[slot] = min(count, COUNT_MAX)
        if count > COUNT_MAX:
            self.often[number] = count

    def _double(self) -> None:
        hashes, counted = self.hashes, self.counted
        self._make(self.bits + 1)
        self._take(zip(hashes, counted, strict=True))

    def _take(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Fill the table, which is empty and large enough, with hashes and counts; free slots (0, 0) are left out."""
        hashes, counted, mask = self.hashes, self.counted, self.mask
        for number, count in pairs:
            if count:
                number = number or 1
                slot = number & mask
                while hashes[slot]:
                    slot = slot + 1 & mask
                hashes[slot] = number
                counted[slot] = count
