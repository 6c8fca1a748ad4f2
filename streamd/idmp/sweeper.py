"""The sweeper, which frees the memory of expired iids in the order of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from weakref import ref

from sortedcontainers import SortedList

from streamd.base.heap import packed
from streamd.idmp.table import IdmpTable

# A table whose sweep has met an exception is looked at again so much later.
_RETRY_MS: Final = 1_000


class _Place(ref[IdmpTable]):
    """A weak reference to a table, with its place in the sweeper's order."""

    __slots__ = ("due_ms", "serial")
    due_ms: int
    serial: int


class Sweeper:
    """The tables of a server, in the order of the times when they have iids to free.

    Shape: order holds (due in Unix ms, serial) of every table that has iids, once; places maps serial -> the table,
    weakly. A table knows its place, so no key is named here; a table that died with its key is passed over.
    """

    def __init__(self) -> None:
        self._order: SortedList[tuple[int, int]] = SortedList()
        self._places: dict[int, _Place] = {}
        self._dead: list[_Place] = []
        self._serial = 0

    def __len__(self) -> int:
        """Return the number of enrolled tables."""
        return len(self._order)

    def enroll(self, table: IdmpTable, due_ms: int) -> None:
        """Have `run` visit a table when the clock reaches `due_ms`, or earlier if enrolled for an earlier time."""
        place = table.place
        if isinstance(place, _Place) and self._places.get(place.serial) is place:
            if place.due_ms <= due_ms:
                return
            self._remove(place)
        self._serial += 1
        place = _Place(table, self._dead.append)
        place.due_ms = due_ms
        place.serial = self._serial
        table.place = place
        self._places[place.serial] = place
        self._order.add((due_ms, place.serial))

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> bool:
        """Free expired iids until `should_stop` returns True; return whether more is due now.

        Called about once a second, and soon again while the answer is True; one call does at least one step.
        """
        while self._dead:
            self._remove(self._dead.pop())
            if should_stop():
                return True
        order = self._order
        while order and order[0][0] <= now_ms:
            place = self._places[order[0][1]]
            self._remove(place)
            table = place()
            if table is not None:
                due_ms: int | None = now_ms + _RETRY_MS
                try:
                    due_ms = table.expire(now_ms, should_stop)
                finally:  # a table that has met an exception comes again behind the others
                    if due_ms is not None:
                        self.enroll(table, due_ms)
            if should_stop():
                break
        return bool(order) and order[0][0] <= now_ms

    def pack(self) -> None:
        """Shrink the dict of places to the present tables."""
        self._places = packed(self._places)

    def _remove(self, place: _Place) -> None:
        if self._places.pop(place.serial, None) is not None:
            self._order.remove((place.due_ms, place.serial))
