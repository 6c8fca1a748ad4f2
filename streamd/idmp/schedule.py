"""Which producers of a table are to be looked at, and when."""

from heapq import heappop, heappush
from typing import Final

# So much later: what fails may fail each time, and the others have their turn before.
_PUT_OFF_S: Final = 60


class Schedule:
    """The producers of a table by the second in which their oldest iid expires.

    Shape: pids maps a due second -> producers; seconds is a heap of the same seconds. Every tracked producer stands in
    it exactly once. Its oldest iid may have been pushed out since: then it is looked at early, and put in again.

    Buckets and not one sorted list of (due, pid): a place costs a fifteenth of the memory and a fifth of the time.
    (Which table is next is a sorted list: the sweeper's.)
    """

    __slots__ = ("pids", "seconds")

    def __init__(self) -> None:
        self.pids: dict[int, list[bytes]] = {}
        self.seconds: list[int] = []

    def add(self, second: int, pid: bytes) -> bool:
        """Look at a producer at `second`; return whether nobody else was to be looked at then."""
        pids = self.pids.get(second)
        if pids is not None:
            pids.append(pid)
            return False
        self.pids[second] = [pid]
        heappush(self.seconds, second)
        return True

    def put_off(self, pid: bytes) -> None:
        """Look at a producer later than planned: the look at it has met an exception."""
        self.add(self.seconds[0] + _PUT_OFF_S, pid)

    def drop_first(self) -> None:
        """Forget the earliest second."""
        del self.pids[heappop(self.seconds)]

    def copy(self) -> "Schedule":
        """Return a schedule of its own with the same places."""
        twin = Schedule()
        twin.pids = {second: pids.copy() for second, pids in self.pids.items()}
        twin.seconds = self.seconds.copy()
        return twin
