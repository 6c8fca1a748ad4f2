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
    entry_bytes: the size of an entry's RESP if all have the same size, else 0. ends: the offset of each entry's end,
    None until it is asked for. hot: whether the RESP was read since the cache's hand passed it.
    """

    __slots__ = ("__weakref__", "data", "ends", "entry_bytes", "hot", "raw_bytes")

    def __init__(self, data: bytes, raw_bytes: int, entry_bytes: int) -> None:
        self.data: bytes | None = data
        self.raw_bytes = raw_bytes
        self.entry_bytes = entry_bytes
        self.ends: Sequence[int] | None = None
        self.hot = False


class SegmentCache:
    """A cache of the RESP of segments, at most `bytes_max` bytes.

    The RESP of a segment that is read whole is kept as it is sent. The RESP of a segment that is read in parts is kept
    compressed if it shrinks to three quarters: to read from it is quicker than to encode, and several times as many
    fit in.

    Shape: a ring in the order of encoding (a clock: an Encoded that was read since the hand passed it gets another
    round). The ring has weak references: the RESP of a trimmed or deleted stream is freed with it, but counted until
    the hand comes by.
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
        """Keep the RESP of a segment and return its Encoded, None if it is too large; others may lose theirs for it."""
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
        """Whether the next RESP to be kept is likely to displace another."""
        return self.bytes > self.bytes_max - self.bytes_max // 16

    def parts_read(
        self, touched: int, count: int, low: int, high: int, reverse: bool, is_compressed: bool
    ) -> int | None:
        """Return the new `touched` of a segment of `count` entries that is read in parts, now from position `low` to
        before `high`; None if the cache should keep all of its RESP.

        touched: the number of entries read so far, times _PLACES, plus the position at which the last part ended; 0 at
        first. is_compressed: whether the segment's values are compressed.

        The cache should keep all for a client that reads on from the end of a part or reads the same part again, and
        after all entries were read twice. It should not keep all sooner: parts of many segments, read at random places,
        would drive each other out, and all cost more to encode and compress than those parts. While the cache has room,
        the second part is enough if values are compressed: then all cost as much as three parts, else as thirty.
        """
        read, last = divmod(touched, _PLACES)
        if touched and last in (low, high):
            return None
        read += high - low
        if touched and (read > 2 * count or (is_compressed and not self.is_full)):
            return None
        return read * _PLACES + (low if reverse else high)

    def tail(self, ids: list[int], low: int, high: int, reverse: bool) -> bytes | None:
        """Return the RESP of a run of a tail if it was kept; the list `ids` itself identifies the tail."""
        if ids is self._tail_ids and (low, high, reverse) == self._tail_run:
            return self._tail_encoded
        return None

    def keep_tail(self, ids: list[int], low: int, high: int, reverse: bool, encoded: bytes) -> None:
        """Keep the RESP of a run of a tail, in place of the one before."""
        if len(encoded) <= self.bytes_max // 4:
            self._tail_ids, self._tail_run, self._tail_encoded = ids, (low, high, reverse), encoded

    def forget_tail(self, ids: list[int]) -> None:
        """Forget the RESP of a tail; to be called when entries are deleted from it, since positions change then."""
        if ids is self._tail_ids:
            self._tail_ids, self._tail_encoded = None, b""

    def shrink(self) -> None:
        """Drop RESP until the bound is kept; other modules call it only after a change of `bytes_max`."""
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
