"""When the memory of expired iids is freed."""

from collections.abc import Callable
from weakref import ref

from sortedcontainers import SortedList

from streamd.idmp.table import IdmpTable


class Sweeper:
    """The tables of a server, in the order in which they have something to free.

    Holds no table alive: one that died with its key is passed over.
    """

    def __init__(self) -> None:
        self._order: SortedList[tuple[int, int]] = SortedList()  # (due in Unix ms, serial)
        self._tables: dict[int, ref[IdmpTable]] = {}
        self._serial = 0

    def enroll(self, table: IdmpTable, due_ms: int) -> None:
        """Look at `table` when the clock reaches `due_ms`."""
        self._serial += 1
        self._tables[self._serial] = ref(table)
        self._order.add((due_ms, self._serial))

    @property
    def next_due_ms(self) -> int | None:
        """When `run` will find something to do (Unix ms), or None if there is nothing."""
        return self._order[0][0] if self._order else None

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> bool:
        """Free what has expired until `should_stop` says so; return whether something is left to do now."""
        order = self._order
        while order and order[0][0] <= now_ms:
            _, serial = order.pop(0)
            table = self._tables.pop(serial)()
            if table is not None:
                due_ms = table.expire(now_ms, should_stop)
                if due_ms is not None:
                    self.enroll(table, due_ms)
            if should_stop():
                break
        return bool(order) and order[0][0] <= now_ms
