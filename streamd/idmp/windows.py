"""The windows of a stream's producers, each in the form that suits it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from sys import getsizeof
from typing import Final
from weakref import ref

from streamd.base.form import is_compiled
from streamd.base.referable import referable
from streamd.idmp import few
from streamd.idmp.footprint import window_bytes
from streamd.idmp.indexed import IndexedWindow
from streamd.idmp.ring import RingWindow
from streamd.idmp.timed import TimedWindow

NO_FEW: Final[dict[bytes, bytes]] = {}
NO_LARGER: Final[dict[bytes, IndexedWindow | RingWindow]] = {}
NO_TIMED: Final[dict[bytes, TimedWindow]] = {}
# Compiled, all larger windows whose iids fit are rings. In the pure form a dict takes half of the time, and a ring a
# quarter of the memory: the dicts of a table that has more larger windows than this become rings as they grow.
try:
    if not is_compiled():
        raise ImportError
    from streamd.idmp.native_ring import NativeRingWindow
except ImportError:
    ring_of: Callable[[list[tuple[bytes, int]], int], RingWindow] = RingWindow
    DICTS_MAX = 1_000
else:  # pragma: no cover - the tests over the wire run compiled
    ring_of = NativeRingWindow
    DICTS_MAX = 0
# A larger window that the sweeper finds this short becomes bytes again: far enough below to not go back and forth.
FEW_AGAIN_MAX: Final = 2
_NO_TIMES: Final[dict[bytes, int]] = {}


@referable
class Windows:
    """The windows of a stream's producers.

    Shape: few, larger and timed map pid -> the producer's window: bytes with few iids; a ring, or a dict where that is
    quicker or an iid does not fit; a dict with the times of iids that were recorded ahead of the clock. Objects without
    producers share empty dicts. _lent: the snapshots that share windows; while one of them lives, a window is copied
    before it is changed.
    """

    __slots__ = ("__weakref__", "_few", "_larger", "_lent", "_timed", "maxsize")

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize  # the most iids of a producer
        self._few = NO_FEW
        self._larger = NO_LARGER
        self._timed = NO_TIMED
        self._lent: list[ref[Windows]] | None = None

    @property
    def pids_tracked(self) -> int:
        """The number of producers in memory."""
        return len(self._few) + len(self._larger) + len(self._timed)

    def pids(self) -> list[bytes]:
        """Return the producers in memory."""
        return [*self._few, *self._larger, *self._timed]

    def iids(self, pid: bytes) -> list[tuple[bytes, int]]:
        """Return (iid, entry ID) of one producer, oldest first; empty if the table has no such producer (any more)."""
        if (window := self._few.get(pid)) is not None:
            return few.items(window)
        larger = self._larger.get(pid) or self._timed.get(pid)
        return [] if larger is None else larger.items()

    def held(self, pid: bytes, iid: bytes) -> int | None:
        """Return the ID of the entry that (pid, iid) made while memory has it, expired or not."""
        if (window := self._few.get(pid)) is not None:
            return few.find(window, iid)
        if (larger := self._larger.get(pid)) is not None:
            return larger.find(iid)
        timed = self._timed.get(pid)
        return None if timed is None else timed.entries.get(iid)

    def recorded_ms(self, pid: bytes) -> Mapping[bytes, int]:
        """Return when iids of one producer were recorded, for those iids alone that expire by that time (Unix ms)."""
        timed = self._timed.get(pid)
        return _NO_TIMES if timed is None else timed.recorded_ms

    def __iter__(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield (pid, iid, entry ID), each producer's oldest first; to record them in this order, with the times of
        `recorded_ms`, makes the same table.

        The table may change between two steps. The producers are those at the first step, the iids of a producer those
        at the step that comes to it.
        """
        for pid in self.pids():
            for iid, entry_id in self.iids(pid):
                yield pid, iid, entry_id

    def memory_bytes(self) -> int:
        """Return about how many bytes the table takes, from a sample of its producers."""
        return getsizeof(self) + window_bytes(self._few) + window_bytes(self._larger) + window_bytes(self._timed)

    def _own(self, pid: bytes) -> None:
        """Put a copy in the place of a producer's window if a snapshot shares it."""
        assert self._lent is not None
        twins = [twin for lent in self._lent if (twin := lent()) is not None]
        if not twins:
            self._lent = None
            return
        twin = twins[-1]  # a window that only an earlier snapshot has was changed in between
        if (larger := self._larger.get(pid)) is not None and twin._larger.get(pid) is larger:
            self._larger[pid] = larger.copy()
        if (timed := self._timed.get(pid)) is not None and twin._timed.get(pid) is timed:
            self._timed[pid] = timed.copy()

    def _add_larger(self, pid: bytes, items: list[tuple[bytes, int]]) -> IndexedWindow | RingWindow:
        """Give a producer a window of another form than bytes."""
        if self._larger is NO_LARGER:
            self._larger = {}
        is_odd = not few.all_fit(items)
        is_ring = len(self._larger) >= DICTS_MAX and not is_odd
        window = ring_of(items, self.maxsize) if is_ring else IndexedWindow(items, is_odd)
        self._larger[pid] = window
        return window

    def _leave_times(self, pid: bytes, timed: TimedWindow) -> None:
        """Bring a timed window into another form if no iid in it is timed any more."""
        if not timed.recorded_ms:
            del self._timed[pid]
            self._shorten(pid, self._add_larger(pid, timed.items()))

    def _shorten(self, pid: bytes, window: IndexedWindow | RingWindow) -> None:
        """Bring a window with few iids, at least one, into bytes, if they fit in."""
        made = few.of_items(window.items()) if window.count <= FEW_AGAIN_MAX else None
        if made is not None:
            del self._larger[pid]
            if self._few is NO_FEW:
                self._few = {}
            self._few[pid] = made
