"""The blocks of segment files that are in memory, within a bound of bytes that one long scan does not flush."""

from collections import OrderedDict, deque
from typing import Final

from streamd.stream.log.segment import Segment

# A block that is larger than this part of the cache is not kept: it would drive out too many others.
_LARGE_PART: Final = 8
# The part of the cache that blocks pass through that were asked for once.
_SMALL_PART: Final = 10
# A reader's further asks for one of so many blocks count as one: several requests in a row, or one that runs again.
_RECENT: Final = 16
# What a block takes beside its segments: the object, and its places in the tables.
_CACHED_BYTES: Final = 400
# So many blocks are evicted in one step: a millisecond. Only a bound that was lowered asks for more.
_EVICTED_MAX: Final = 1_000


class Reader:
    """A reader as the cache knows it, one client or several: the blocks that were asked for last."""

    __slots__ = ("recent",)

    def __init__(self, blocks: int = _RECENT) -> None:
        self.recent: deque[int] = deque(maxlen=blocks)


class Cached:
    """A block in the cache, or one that was read and is too large for it.

    segments: as they were written, without deletions. in_main: whether main is its queue, also while it is pinned and
    in neither. seen, seen_for: the segments as one stream has them, with its deletions, and the tombstones of which
    that was made.
    """

    __slots__ = ("in_main", "key", "pins", "seen", "seen_for", "segments", "size")

    def __init__(self, key: int, segments: list[Segment], size: int, in_main: bool) -> None:
        self.key = key
        self.segments = segments
        self.size = size
        self.in_main = in_main
        self.pins = 0
        self.seen: list[Segment] = []
        self.seen_for: object = None


def key_of(number: int, row: int) -> int:
    """Return the key of a block: the number of its file, and its row."""
    return number << 32 | row


class BlockCache:
    """Blocks by their keys, at most `bytes_max` bytes; only pinned ones may be more.

    A block that was read comes into *small*, a queue of a tenth of the bytes, and leaves it at the end unless it is
    asked for again, which moves it to *main*. Main evicts the block that was asked for longest ago. *Ghosts* are the
    keys of as many blocks that left small: a block that is read again so soon comes into main. So do blocks that were
    just written, and all while there is room. So a scan passes through small, and a hot set stays in main.

    Pinned blocks are in neither queue. hits, misses: how many asks found their block, or not.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._blocks: dict[int, Cached] = {}
        self._small: OrderedDict[int, Cached] = OrderedDict()
        self._small_bytes = 0
        self._main: OrderedDict[int, Cached] = OrderedDict()
        self._ghosts: OrderedDict[int, None] = OrderedDict()

    def peek(self, key: int) -> Cached | None:
        """Return a block if it is there; this is no ask for it."""
        return self._blocks.get(key)

    def has(self, key: int) -> bool:
        """Return whether a block is there; this is no ask for it."""
        return key in self._blocks

    def get(self, key: int, reader: Reader | None = None) -> list[Segment] | None:
        """Return the segments of a block, None if it is not there; see `find`."""
        one = self.find(key, reader)
        return None if one is None else one.segments

    def find(self, key: int, reader: Reader | None = None) -> Cached | None:
        """Return a block, None if it is not there. What one reader asks for several times in a row counts once."""
        one = self._blocks.get(key)
        if one is None:
            self.misses += 1
        else:
            self.hits += 1
        if reader is not None:
            if key in reader.recent:
                return one
            reader.recent.append(key)
        if one is None:
            return None
        if not one.pins:
            if one.in_main:
                self._main.move_to_end(key)
            else:
                self._unqueue(one)
                self._main[key] = one
        one.in_main = True
        return one

    def put(self, key: int, segments: list[Segment], is_written: bool = False, is_pinned: bool = False) -> bool:
        """Take a block that was read, or written just now; return whether it is there now, with `is_pinned` pinned."""
        one = self._blocks.get(key)
        if one is not None:
            if is_pinned:
                self.pin(key)
            return True
        size = _CACHED_BYTES + sum([segment.memory_bytes for segment in segments])
        if size * _LARGE_PART > self.bytes_max and not is_pinned:
            return False
        in_main = is_written or key in self._ghosts or self.bytes + size <= self.bytes_max
        self._ghosts.pop(key, None)
        one = self._blocks[key] = Cached(key, segments, size, in_main)
        self.bytes += size
        if is_pinned:
            one.pins = 1
        else:
            self._queue(one)
        self.shrink()
        return key in self._blocks

    def pin(self, key: int) -> None:
        """Keep a block that is there until `unpin` is called as often."""
        one = self._blocks[key]
        if not one.pins:
            self._unqueue(one)
        one.pins += 1

    def unpin(self, key: int) -> None:
        """Let go of a block that was pinned."""
        one = self._blocks[key]
        one.pins -= 1
        if not one.pins:
            self._queue(one)
            self.shrink()

    def discard(self, key: int) -> None:
        """Forget a block that nobody will ask for again, unless it is pinned."""
        one = self._blocks.get(key)
        self._ghosts.pop(key, None)
        if one is not None and not one.pins:
            self._unqueue(one)
            self._forget(one)

    def shrink(self) -> bool:
        """Evict blocks until the bound is kept; return whether there are more than one step evicts."""
        for _ in range(_EVICTED_MAX):
            if self.bytes <= self.bytes_max or not (self._small or self._main):
                return False
            self._evict()
        return self.bytes > self.bytes_max

    def _evict(self) -> None:
        """Evict the next block."""
        if self._small and (self._small_bytes * _SMALL_PART > self.bytes_max or not self._main):
            key, one = self._small.popitem(last=False)
            self._small_bytes -= one.size
            self._forget(one)
            self._ghosts[key] = None
            while len(self._ghosts) > len(self._blocks):
                self._ghosts.popitem(last=False)
            return
        self._forget(self._main.popitem(last=False)[1])

    def _forget(self, one: Cached) -> None:
        del self._blocks[one.key]
        self.bytes -= one.size

    def _queue(self, one: Cached) -> None:
        if one.in_main:
            self._main[one.key] = one
        else:
            self._small[one.key] = one
            self._small_bytes += one.size

    def _unqueue(self, one: Cached) -> None:
        if one.in_main:
            del self._main[one.key]
        else:
            del self._small[one.key]
            self._small_bytes -= one.size
