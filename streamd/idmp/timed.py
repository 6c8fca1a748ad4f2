"""The window of one producer with iids that were recorded while the IDs of their entries were ahead of the clock."""

from collections.abc import Iterable

from streamd.idmp.indexed import IndexedWindow


class TimedWindow(IndexedWindow):
    """The iids of one producer; some of them expire by the time at which they were recorded.

    Shape: as IndexedWindow; recorded_ms maps those iids -> that time (Unix ms), which is before their entry IDs'. The
    age of all others is the age of their entry ID.
    """

    __slots__ = ("recorded_ms",)

    def __init__(self, items: Iterable[tuple[bytes, int]] = ()) -> None:
        super().__init__(items)
        self.recorded_ms: dict[bytes, int] = {}

    def record_at(self, iid: bytes, entry_id: int, at_ms: int | None, maxsize: int) -> int:
        """Make an iid the youngest, and drop the oldest if there are more than `maxsize`; return by how many iids the
        window has grown.

        at_ms: when it was recorded; None where its age is the age of its entry ID.
        """
        if iid in self.entries:
            self.order.remove(iid)
        before = len(self.entries)
        self.entries[iid] = entry_id
        self.order.append(iid)
        if at_ms is None:
            self.recorded_ms.pop(iid, None)
        else:
            self.recorded_ms[iid] = at_ms
        if len(self.order) > maxsize:
            self._drop_oldest()
        return len(self.entries) - before

    def lookup(self, iid: bytes, until_ms: int) -> int | None:
        """Return the ID of the entry that an iid made; None if it is not there, or of a time up to `until_ms`."""
        return self.entries[iid] if iid in self.entries and self._ms(iid) > until_ms else None

    def drop_expired(self, until_ms: int, limit: int) -> int:
        """Drop iids of times up to `until_ms`, as IndexedWindow does."""
        dropped = 0
        while self.order and dropped < limit and self._ms(self.order[0]) <= until_ms:
            self._drop_oldest()
            dropped += 1
        return dropped

    def oldest_ms(self) -> int:
        """Return the time from which the age of the oldest iid counts; the window is not empty."""
        return self._ms(self.order[0])

    def copy(self) -> "TimedWindow":
        """Return an independent copy."""
        twin = TimedWindow()
        twin.entries, twin.order = self.entries.copy(), self.order.copy()
        twin.recorded_ms = self.recorded_ms.copy()
        return twin

    def _ms(self, iid: bytes) -> int:
        at_ms = self.recorded_ms.get(iid)
        return self.entries[iid] >> 64 if at_ms is None else at_ms

    def _drop_oldest(self) -> None:
        iid = self.order.popleft()
        del self.entries[iid]
        self.recorded_ms.pop(iid, None)
