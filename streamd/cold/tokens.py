"""Objects that give something back when the last reference to them goes."""

from collections.abc import Callable

from streamd.cold.files import SegmentFile


class Hold:
    """Holds a segment file for as long as it is referred to; copies of what needs the file share it.

    let_go: called with the file and the kind of holder when nothing refers to this any more, in any thread.
    """

    __slots__ = ("_let_go", "file", "holder")

    def __init__(self, file: SegmentFile, holder: str, let_go: Callable[[SegmentFile, str], None]) -> None:
        self.file = file
        self.holder = holder
        self._let_go = let_go

    def __del__(self) -> None:
        self._let_go(self.file, self.holder)


class Account:
    """The bytes of one list of segments in memory, as part of a sum; they leave it with the list.

    total: a list with the sum alone.
    """

    __slots__ = ("_total", "bytes")

    def __init__(self, total: list[int]) -> None:
        self.bytes = 0
        self._total = total

    def settle(self, size: int) -> None:
        """Set the bytes."""
        self._total[0] += size - self.bytes
        self.bytes = size

    def __del__(self) -> None:
        self._total[0] -= self.bytes
