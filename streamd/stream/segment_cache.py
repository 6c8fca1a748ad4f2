"""The RESP of segments that are read often, within a bound of bytes for all logs of the process."""

from collections import deque
from typing import TYPE_CHECKING
from weakref import ref

from streamd.limits import SEGMENT_CACHE_BYTES_MAX

if TYPE_CHECKING:
    from streamd.stream.segment import Segment


class SegmentCache:
    """Which segments hold their RESP (`segment.encoded`), at most `bytes_max` bytes of it.

    Shape: a ring in the order of encoding (a clock: a segment that was read since the hand passed it, `segment.hot`,
    gets another round). The ring does not keep segments alive: those of a trimmed or deleted stream are gone with it,
    and counted until the hand comes by.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._ring: deque[tuple[ref[Segment], int]] = deque()
        # The RESP of the tail that was read last: many readers that wait for a stream read the same entries.
        self._tail_ids: list[int] | None = None
        self._tail_run = (0, 0, False)
        self._tail_encoded = b""

    def keep(self, segment: "Segment", encoded: bytes) -> None:
        """Let a segment hold its RESP, and take that of others away when there is too much."""
        size = len(encoded)
        if size > self.bytes_max // 4:
            return
        segment.encoded = encoded
        segment.hot = False
        self._ring.append((ref(segment), size))
        self.bytes += size
        if self.bytes > self.bytes_max:
            self.shrink()

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
            segment = entry[0]()
            if segment is not None and segment.hot and segment.encoded is not None:
                segment.hot = False
                ring.append(entry)
                continue
            if segment is not None:
                segment.encoded = None
            self.bytes -= entry[1]


CACHE = SegmentCache(SEGMENT_CACHE_BYTES_MAX)
