"""The last frames of a history, so that a replica that was away for a moment can go on where it was."""

from bisect import bisect_left
from collections import deque

from streamd.replication.frame import Frame


class FrameRing:
    """Frames that follow each other, up to a number of bytes. start, end: the offsets before the first and behind the
    last one.
    """

    def __init__(self, offset: int, last: int, bytes_max: int) -> None:
        """Begin at an offset; last: the hash of the frame before it, 0 without such a frame in this history."""
        self.start = self.end = offset
        self._before = last
        self.bytes_max = bytes_max
        self.size_bytes = 0
        self._frames: deque[Frame] = deque()

    def append(self, frame: Frame, keep_from: int | None = None) -> None:
        """Add the next frame, and drop the oldest that have no room.

        keep_from: an offset that somebody is still to read from.
        """
        assert frame.before == self.end
        self._frames.append(frame)
        self.end = frame.after
        self.size_bytes += len(frame.data)
        self.trim(keep_from)

    def trim(self, keep_from: int | None) -> None:
        """Drop the oldest frames that have no room; keep_from: as above."""
        while (
            self._frames
            and self.size_bytes > self.bytes_max
            and (keep_from is None or self._frames[0].after <= keep_from)
        ):
            dropped = self._frames.popleft()
            self.size_bytes -= len(dropped.data)
            self.start, self._before = dropped.after, dropped.hash

    def has(self, offset: int, last: int) -> bool:
        """Return whether a replica can go on that has all up to an offset; last: the hash of the frame that ends there,
        0 without such a frame.
        """
        return self.start <= offset <= self.end and self._hash_at(offset) == last

    def _hash_at(self, offset: int) -> int | None:
        """Return the hash of the frame that ends at an offset, 0 without one; None if a frame goes on there."""
        if offset == self.start:
            return self._before
        frame = self._frames[self._place(offset)]
        return frame.hash if frame.after == offset else None

    def next(self, offset: int) -> Frame | None:
        """Return the frame that begins at an offset; None at the end. Raises: LookupError if it was dropped."""
        if offset == self.end:
            return None
        if offset < self.start:
            raise LookupError(f"the frames behind {offset} were dropped")
        place = self._place(offset)
        frame = self._frames[place]
        if frame.after == offset:
            frame = self._frames[place + 1]
        if frame.before != offset:
            raise LookupError(f"no frame begins at {offset}")
        return frame

    def _place(self, offset: int) -> int:
        """Return the place of the first frame that ends at an offset, or behind it."""
        return bisect_left(self._frames, offset, key=lambda frame: frame.after)
