"""How much of several streams one reply may hold."""

from streamd.stream.entry_id import ID_MAX
from streamd.stream.log import Log


class ReadBudget:
    """What is left of a reply's limits: COUNT for each stream, MAXCOUNT and MAXSIZE for all together; 0 for no limit.

    The size of an entry is the sum of its fields and values in bytes. The first entry comes whatever its size.
    """

    __slots__ = ("_bytes_left", "_count", "_count_left", "_taken")

    def __init__(self, count: int, count_max: int, bytes_max: int) -> None:
        self._count = count or None
        self._count_left = count_max or None
        self._bytes_left = bytes_max or None
        self._taken = False

    def count(self, log: Log, start: int) -> int | None:
        """Return how many entries from `start` on may come next; None for all of them."""
        count = self._count
        if self._count_left is not None:
            count = self._count_left if count is None else min(count, self._count_left)
        if self._bytes_left is None:
            return count
        fitting = 0
        for _, fields in log.iterate(start, ID_MAX):
            if fitting == count:
                break
            self._bytes_left -= sum(map(len, fields))
            if self._bytes_left < 0 and self._taken:
                self._bytes_left = 0
                break
            self._bytes_left = max(0, self._bytes_left)
            self._taken = True
            fitting += 1
        return fitting

    def spend(self, entries: int) -> None:
        """Note that so many entries came."""
        if self._count_left is not None:
            self._count_left -= entries
        if entries:
            self._taken = True

    @property
    def exhausted(self) -> bool:
        """Whether nothing more may come."""
        return self._taken and (self._count_left == 0 or self._bytes_left == 0)
