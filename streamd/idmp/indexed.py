"""The window of one producer as a dict, which is quick in the pure form, and takes iids of any length."""

from collections import deque
from collections.abc import Iterable, Sequence


class IndexedWindow:
    """The iids of one producer.

    Shape: entries maps iid -> entry ID; order holds the same iids, oldest first. (A plain dict finds its oldest key
    in O(n) once keys were deleted.) has_odd: some did not fit into a ring when it was made.
    """

    __slots__ = ("entries", "has_odd", "order")

    def __init__(self, items: Iterable[tuple[bytes, int]] = (), has_odd: bool = False) -> None:
        self.has_odd = has_odd
        self.entries: dict[bytes, int] = dict(items)
        self.order: deque[bytes] = deque(self.entries)

    @property
    def count(self) -> int:
        """The number of iids."""
        return len(self.entries)

    def find(self, iid: bytes) -> int | None:
        """Return the ID of the entry that an iid made, or None."""
        return self.entries.get(iid)

    def record(self, iid: bytes, entry_id: int, maxsize: int) -> None:
        """Make an iid the youngest, in place of the oldest if there are `maxsize`; it may be there already."""
        entries, order = self.entries, self.order
        entries[iid] = entry_id
        if len(entries) == len(order):
            order.remove(iid)
        order.append(iid)
        if len(order) > maxsize:
            del entries[order.popleft()]

    def record_run(self, iids: Sequence[bytes], ids: Sequence[int], maxsize: int) -> bool:
        """Record the iids of a run of entries if all iids are different and none is there; return whether it was done.
        With False nothing has changed.
        """
        entries, order, count = self.entries, self.order, len(iids)
        if iids[0] in entries or iids[-1] in entries:  # (as where a batch is sent again)
            return False
        fresh = set(iids)
        if len(fresh) != count or not (
            fresh.isdisjoint(entries) if len(entries) < count else entries.keys().isdisjoint(fresh)
        ):
            return False
        if count >= maxsize:  # the last ones push out all others
            entries.clear()
            order.clear()
            iids, ids = iids[count - maxsize :], ids[count - maxsize :]
        entries.update(zip(iids, ids))  # noqa: B905 (equally long)
        order.extend(iids)
        for _ in range(len(order) - maxsize):
            del entries[order.popleft()]
        return True

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
        twin = IndexedWindow(has_odd=self.has_odd)
        twin.entries = self.entries.copy()
        twin.order = self.order.copy()
        return twin
