"""The RESP of segments that are read often, within a bound of bytes for all logs of the process."""

from collections import deque
from collections.abc import Sequence
from typing import Final
from weakref import ref

from streamd.base.limits import SEGMENT_CACHE_BYTES_MAX
from streamd.base.referable import referable

try:
    from lz4.block import compress
except ImportError:  # pragma: no cover - not on CPython, where lz4 is a dependency
    compress = None

# To read an entry means to decompress all.
_COMPRESSED_BYTES_MAX: Final = 32 * 1024
# More than the positions in a node that is kept when parts of it are read.
_PLACES: Final = 1024
# What one Encoded takes beside its data: itself, where its entries end, and its place in the ring.
_ENCODED_BYTES: Final = 700


@referable
class Encoded:
    """The RESP of all entries of a segment, for as long as the cache lets it be kept.

    data: the RESP, None once the cache has taken it away. raw_bytes: its size when `data` is compressed, else 0.
    entry_bytes: the size of an entry's RESP if all have the same, else 0. ends: where each entry ends, once somebody
    wanted to know. hot: it was read since the cache's hand passed it.
    """

    __slots__ = ("__weakref__", "data", "ends", "entry_bytes", "hot", "raw_bytes")

    def __init__(self, data: bytes, raw_bytes: int, entry_bytes: int) -> None:
        self.data: bytes | None = data
        self.raw_bytes = raw_bytes
        self.entry_bytes = entry_bytes
        self.ends: Sequence[int] | None = None
        self.hot = False


class SegmentCache:
    """Which segments hold their RESP, at most `bytes_max` bytes of it.

    What is read whole is kept as it is sent. What is read in part is kept compressed, when it shrinks to three
    quarters: to read from it is quicker than to encode, and several times as many fit in.

    Shape: a ring in the order of encoding (a clock: what was read since the hand passed it, gets another round). The
    ring keeps nothing alive: the RESP of a trimmed or deleted stream is gone with it, and counted until the hand comes
    by.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._ring: deque[tuple[ref[Encoded], int]] = deque()
        # The RESP of the tail that was read last: many readers that wait for a stream read the same entries.
        self._tail_ids: list[int] | None = None
        self._tail_run = (0, 0, False)
        self._tail_encoded = b""

    def keep(self, data: bytes, entry_bytes: int, compressed: bool) -> Encoded | None:
        """Return what holds the RESP of a segment, None if it is too large; others lose theirs when it is too much."""
        raw_bytes = 0
        if compressed and len(data) <= _COMPRESSED_BYTES_MAX and compress is not None:
            packed = compress(data, store_size=False)
            if len(packed) <= len(data) * 3 // 4:
                data, raw_bytes = packed, len(data)
        size = len(data) + _ENCODED_BYTES
        if size > self.bytes_max // 4:
            return None
        encoded = Encoded(data, raw_bytes, entry_bytes)
        self._ring.append((ref(encoded), size))
        self.bytes += size
        if self.bytes > self.bytes_max:
            self.shrink()
        return encoded

    @property
    def is_full(self) -> bool:
        """Whether what is kept next is likely to take another's place."""
        return self.bytes > self.bytes_max - self.bytes_max // 16

    def parts_read(
        self, touched: int, count: int, low: int, high: int, reverse: bool, is_compressed: bool
    ) -> int | None:
        """Return what is to be remembered of a segment of `count` entries that was read in parts, now from position
        `low` to before `high`; None if all of its RESP should be kept.

        touched: what was to be remembered before, 0 at first: how many entries were read, times _PLACES, and where the
        last part ended. is_compressed: its values are.

        All should be kept for a client that reads on from where a part ended, or the same part again, and when all
        entries were read twice: parts of many segments, read at random places, would drive each other out, and all cost
        more to encode and compress than those parts. While the cache has room, the second part is enough if values are
        compressed: then all of it costs as much as three parts, otherwise as much as thirty.
        """
        read, last = divmod(touched, _PLACES)
        if touched and last in (low, high):
            return None
        read += high - low
        if touched and (read > 2 * count or (is_compressed and not self.is_full)):
            return None
        return read * _PLACES + (low if reverse else high)

    def tail(self, ids: list[int], low: int, high: int, reverse: bool) -> bytes | None:
        """Return the RESP of a run of a tail if it was kept; the list of its IDs says which tail it is."""
        if ids is self._tail_ids and (low, high, reverse) == self._tail_run:
            return self._tail_encoded
        return None

    def keep_tail(self, ids: list[int], low: int, high: int, reverse: bool, encoded: bytes) -> None:
        """Keep the RESP of a run of a tail until another comes."""
        if len(encoded) <= self.bytes_max // 4:
            self._tail_ids, self._tail_run, self._tail_encoded = ids, (low, high, reverse), encoded

    def forget_tail(self, ids: list[int]) -> None:
        """To be called when entries are deleted from a tail: other entries have their positions now."""
        if ids is self._tail_ids:
            self._tail_ids, self._tail_encoded = None, b""

    def shrink(self) -> None:
        """Take RESP away until the bound is kept; needed by itself only after `bytes_max` was changed."""
        ring = self._ring
        while self.bytes > self.bytes_max:
            entry = ring.popleft()
            encoded = entry[0]()
            if encoded is not None:
                if encoded.hot:
                    encoded.hot = False
                    ring.append(entry)
                    continue
                encoded.data = encoded.ends = None
            self.bytes -= entry[1]


CACHE: Final = SegmentCache(SEGMENT_CACHE_BYTES_MAX)
