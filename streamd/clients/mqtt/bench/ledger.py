"""Which messages of one publisher have come: once, twice, out of order, or not."""

from enum import IntEnum


class Arrival(IntEnum):
    """What a sequence number was when it came."""

    NEXT = 0  # the next one, or one behind a gap
    LATE = 1  # one of a gap: the order was not kept
    AGAIN = 2


class Ledger:
    """The sequence numbers of one publisher as one subscriber has received them; they begin with 0."""

    __slots__ = ("_missing", "_next")

    def __init__(self) -> None:
        self._next = 0
        self._missing: set[int] = set()

    def note(self, number: int) -> Arrival:
        """Enter a number that has come."""
        if number == self._next:
            self._next = number + 1
            return Arrival.NEXT
        if number > self._next:
            self._missing.update(range(self._next, number))
            self._next = number + 1
            return Arrival.NEXT
        if number in self._missing:
            self._missing.remove(number)
            return Arrival.LATE
        return Arrival.AGAIN
