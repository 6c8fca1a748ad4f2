"""An order of a database's keys in which SCAN can stop and go on while keys come and go."""

import sys
from collections.abc import Collection
from typing import Final

from streamd.base.heap import settle

# So many bits of the hash make the cursor: clients exist that read it into a signed 64-bit integer.
_HASH_BITS: Final = 48 if sys.hash_info.width >= 64 else 30
_HASH_MASK: Final = (1 << _HASH_BITS) - 1
# Keys in a bucket when it is built: a page reads and sorts one or two buckets.
_KEYS_PER_BUCKET: Final = 16

# Keys that are given their place at once: that takes half a millisecond.
_PLACED_AT_ONCE: Final = 1_000

# What buckets without keys share: to make a list for each of a great many at once takes milliseconds.
_EMPTY: Final[list[bytes]] = []


def _hash(key: bytes) -> int:
    # Python's own hash: the key carries it since it was put into a dict, which makes it ten times as fast as another.
    # It differs from process to process, and so do Redis's cursors.
    return hash(key) & _HASH_MASK


class ScanOrder:
    """The keys of one database, ordered by their hashes.

    A cursor is the hash at which the next page starts, so it does not depend on which other keys exist nor on how
    they are stored: a key that is there from the start of an iteration to its end is met exactly once, whatever
    else is added, removed or rearranged meanwhile. Keys with equal hashes stand on one page.

    Shape: buckets[h >> shift] is the unordered list of the keys with hash h; the buckets follow one another in the
    order of the hashes and are sorted when read; once all keys have their place, a bucket is replaced and not changed:
    a snapshot may have it too. _unplaced: keys that are in no bucket yet, while the order is being
    built; _changed: those that were added or removed since that began, so that what _unplaced says of them is old.
    """

    __slots__ = ("_buckets", "_changed", "_shift", "_size", "_unplaced")

    def __init__(self, keys: Collection[bytes], *, at_once: bool = True) -> None:
        """at_once: place the keys; else `place` does, a part with each call."""
        bits = max(0, (len(keys) // _KEYS_PER_BUCKET).bit_length())
        self._shift = _HASH_BITS - bits
        self._buckets: list[list[bytes]] = [_EMPTY] * (1 << bits)
        self._size = len(keys)
        self._changed: set[bytes] = set()
        self._unplaced = list(keys)
        while at_once and self._unplaced:
            self.place()

    @property
    def is_built(self) -> bool:
        """Whether all keys have their place: before that nothing can be read."""
        return not self._unplaced

    def place(self) -> None:
        """Give some more keys their place."""
        buckets, shift, changed = self._buckets, self._shift, self._changed
        for key in self._unplaced[-_PLACED_AT_ONCE:]:
            if key in changed:
                continue
            at = _hash(key) >> shift
            bucket = buckets[at]
            if bucket:
                bucket.append(key)
            else:
                buckets[at] = [key]
        if len(self._unplaced) >= _PLACED_AT_ONCE:
            settle()
        del self._unplaced[-_PLACED_AT_ONCE:]
        if not self._unplaced:
            changed.clear()

    def add(self, key: bytes) -> None:
        """Add a key that is not there."""
        if self._unplaced:
            self._changed.add(key)
        at = _hash(key) >> self._shift
        self._buckets[at] = [*self._buckets[at], key]
        self._size += 1

    def remove(self, key: bytes) -> None:
        """Remove a key that is there."""
        at = _hash(key) >> self._shift
        bucket = self._buckets[at]
        if self._unplaced:
            self._changed.add(key)
        elif key not in bucket:
            raise KeyError(key)
        self._buckets[at] = [other for other in bucket if other != key]
        self._size -= 1

    def snapshot(self) -> "ScanOrder":
        """Return the order as it is now, for reading only."""
        other = ScanOrder(())
        other._buckets, other._shift, other._size = self._buckets[:], self._shift, self._size
        return other

    @property
    def fits(self) -> bool:
        """Whether the buckets still suit the number of keys; if not, the owner drops this order and makes a new one."""
        buckets = len(self._buckets)
        return self._size <= 4 * _KEYS_PER_BUCKET * buckets and (buckets == 1 or self._size * 4 >= buckets)

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the cursor of the next page, 0 when there is none, and the `count` keys from `cursor` on.

        A page holds more keys only when their hashes are equal, and fewer when too many empty buckets were passed.
        """
        found: list[bytes] = []
        buckets, shift = self._buckets, self._shift
        at = cursor >> shift
        last = min(len(buckets), at + 10 * count + 1)
        while at < last:
            rows = sorted((number, key) for key in buckets[at] if (number := _hash(key)) >= cursor)
            for index, (number, key) in enumerate(rows):
                if len(found) >= count and number != rows[index - 1][0]:
                    return number, found
                found.append(key)
            at += 1
            if len(found) >= count:
                while at < last and not buckets[at]:
                    at += 1
                break
        return (at << shift if at < len(buckets) else 0), found

    def some_key(self, number: float) -> bytes:
        """Return a key chosen by a random number from 0 up to, not including, 1; there must be keys."""
        at = int(number * len(self._buckets))
        while not self._buckets[at]:
            at = (at + 1) % len(self._buckets)
        bucket = self._buckets[at]
        return bucket[int(number * len(self._buckets) * len(bucket)) % len(bucket)]


def in_order(order: ScanOrder | None, keys: Collection[bytes]) -> ScanOrder:
    """Return an order of these keys that can be read: that one if it still fits."""
    if order is None or not order.fits:
        return ScanOrder(keys)
    while not order.is_built:
        order.place()
    return order


def further_in_order(order: ScanOrder | None, keys: Collection[bytes]) -> ScanOrder:
    """Return an order of these keys that is being built, with some more in their place."""
    if order is None or not order.fits:
        return ScanOrder(keys, at_once=False)
    order.place()
    return order
