"""Times by name, and the names that are due."""

from heapq import heapify, heappop, heappush
from typing import Final

# So many rows of the heap may hold no more, and twice as many as do hold: moving a time is O(log n), and takes no
# memory for long.
_SPARE_ROWS: Final = 1_000


class DueTimes:
    """Names, and a time in milliseconds for each.

    Shape: due_ms: name -> time. rows: a heap of (time, name) that has every time, and some that hold no more.
    """

    __slots__ = ("_rows", "due_ms")

    def __init__(self, due_ms: dict[bytes, int] | None = None) -> None:
        self.due_ms: dict[bytes, int] = {} if due_ms is None else due_ms
        self._rows: list[tuple[int, bytes]] = []
        if due_ms:
            self._rebuild()

    def __bool__(self) -> bool:
        return bool(self.due_ms)

    def _rebuild(self) -> None:
        self._rows = [(time_ms, name) for name, time_ms in self.due_ms.items()]
        heapify(self._rows)

    def set(self, name: bytes, time_ms: int) -> None:
        """Give a name a time, in place of an earlier one."""
        self.due_ms[name] = time_ms
        heappush(self._rows, (time_ms, name))
        if len(self._rows) > 2 * len(self.due_ms) + _SPARE_ROWS:
            self._rebuild()

    def drop(self, name: bytes) -> bool:
        """Remove a name's time; return whether it had one."""
        return self.due_ms.pop(name, None) is not None

    def first_ms(self) -> int | None:
        """Return the earliest time, or None without any."""
        rows, due_ms = self._rows, self.due_ms
        while rows and due_ms.get(rows[0][1]) != rows[0][0]:
            heappop(rows)
        return rows[0][0] if rows else None

    def first_due(self, now_ms: int) -> bytes | None:
        """Return the name with the earliest time, if that has come. The time stays until it is set anew or dropped."""
        first_ms = self.first_ms()
        return None if first_ms is None or first_ms > now_ms else self._rows[0][1]

    def copy(self) -> "DueTimes":
        """Return an independent copy."""
        return DueTimes(self.due_ms.copy())
