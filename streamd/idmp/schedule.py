"""The schedule by which a table's producers are checked for expired iids."""

from heapq import heappop, heappush
from typing import Final

# So much later: a visit that fails may fail each time, and the others have their turn before.
_PUT_OFF_S: Final = 60


class Schedule:
    """The producers of a table by the second in which their oldest iid expires.

    Shape: pids maps a due second -> producers; seconds is a heap of the same seconds. Every tracked producer stands in
    it exactly once. If its oldest iid has been pushed out since, the producer is visited early and put in again.

    Buckets and not one sorted list of (due, pid): a place costs a fifteenth of the memory and a fifth of the time.
    (The order of the tables is a sorted list, the sweeper's.)
    """

    __slots__ = ("pids", "seconds")

    def __init__(self) -> None:
        self.pids: dict[int, list[bytes]] = {}
        self.seconds: list[int] = []

    def add(self, second: int, pid: bytes) -> bool:
        """Put a producer on the schedule at `second`; return whether it is the only one there."""
        pids = self.pids.get(second)
        if pids is not None:
            pids.append(pid)
            return False
        self.pids[second] = [pid]
        heappush(self.seconds, second)
        return True

    def put_off(self, pid: bytes) -> None:
        """Put a producer whose visit has met an exception on the schedule again, for later."""
        self.add(self.seconds[0] + _PUT_OFF_S, pid)

    def drop_first(self) -> None:
        """Forget the earliest second."""
        del self.pids[heappop(self.seconds)]

    def copy(self) -> "Schedule":
        """Return an independent copy."""
        twin = Schedule()
        twin.pids = {second: pids.copy() for second, pids in self.pids.items()}
        twin.seconds = self.seconds.copy()
        return twin
