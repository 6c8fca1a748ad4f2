"""The window of one producer as a dict, which is quick rather than small."""

from collections import deque
from collections.abc import Iterable


class IndexedWindow:
    """The iids of one producer.

    Shape: entries maps iid -> entry ID; order holds the same iids, oldest first. (A plain dict finds its oldest key
    in O(n) once keys were deleted.)
    """

    __slots__ = ("entries", "order")

    def __init__(self, items: Iterable[tuple[bytes, int]] = ()) -> None:
        self.entries: dict[bytes, int] = dict(items)
        self.order: deque[bytes] = deque(self.entries)

    def drop_expired(self, until_ms: int, limit: int) -> int:
        """Drop iids of entries up to `until_ms`, from the oldest to the first that stays; return how many.

        limit: the most to drop; at the limit, more expired iids may be left.
        """
        entries = self.entries
        order = self.order
        first_that_stays = (until_ms + 1) << 64
        dropped = 0
        while order and dropped < limit and entries[order[0]] < first_that_stays:
            del entries[order.popleft()]
            dropped += 1
        return dropped

    def oldest_ms(self) -> int:
        """Return the milliseconds of the oldest iid's entry ID; the window is not empty."""
        return self.entries[self.order[0]] >> 64

    def items(self) -> list[tuple[bytes, int]]:
        """Return (iid, entry ID) of all iids, oldest first."""
        entries = self.entries
        return [(iid, entries[iid]) for iid in self.order]

    def copy(self) -> "IndexedWindow":
        """Return an independent copy."""
        twin = IndexedWindow()
        twin.entries = self.entries.copy()
        twin.order = self.order.copy()
        return twin
