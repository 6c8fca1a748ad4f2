"""The windows of a stream's producers, each in the form that suits it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from sys import getsizeof
from typing import Final
from weakref import ref

from streamd.base.referable import referable
from streamd.idmp import packed
from streamd.idmp.footprint import window_bytes
from streamd.idmp.indexed import IndexedWindow
from streamd.idmp.timed import TimedWindow

NO_PACKED: Final[dict[bytes, packed.Window]] = {}
NO_INDEXED: Final[dict[bytes, IndexedWindow]] = {}
NO_TIMED: Final[dict[bytes, TimedWindow]] = {}
_NO_TIMES: Final[dict[bytes, int]] = {}


@referable
class Windows:
    """The windows of a stream's producers.

    Shape: packed, indexed and timed map pid -> the producer's window, in one of three forms: small, quick, and with the
    times of iids that were recorded ahead of the clock. Objects without producers share empty dicts. _lent: the
    snapshots that share windows; while one of them lives, a window is copied before it is changed.
    """

    __slots__ = ("__weakref__", "_indexed", "_lent", "_packed", "_timed")

    def __init__(self) -> None:
        self._packed = NO_PACKED
        self._indexed = NO_INDEXED
        self._timed = NO_TIMED
        self._lent: list[ref[Windows]] | None = None

    @property
    def pids_tracked(self) -> int:
        """The number of producers in memory."""
        return len(self._packed) + len(self._indexed) + len(self._timed)

    def pids(self) -> list[bytes]:
        """Return the producers in memory."""
        return [*self._packed, *self._indexed, *self._timed]

    def iids(self, pid: bytes) -> list[tuple[bytes, int]]:
        """Return (iid, entry ID) of one producer, oldest first; empty if the table has no such producer (any more)."""
        if (window := self._packed.get(pid)) is not None:
            return packed.items(window)
        indexed = self._indexed.get(pid) or self._timed.get(pid)
        return [] if indexed is None else indexed.items()

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
        return getsizeof(self) + window_bytes(self._packed) + window_bytes(self._indexed) + window_bytes(self._timed)

    def _own(self, pid: bytes) -> None:
        """Put a copy in the place of a producer's window if a snapshot shares it."""
        assert self._lent is not None
        twins = [twin for lent in self._lent if (twin := lent()) is not None]
        if not twins:
            self._lent = None
            return
        twin = twins[-1]  # a window that only an earlier snapshot has was changed in between
        if (window := self._packed.get(pid)) is not None and twin._packed.get(pid) is window:
            self._packed[pid] = packed.copied(window)
        if (indexed := self._indexed.get(pid)) is not None and twin._indexed.get(pid) is indexed:
            self._indexed[pid] = indexed.copy()
        if (timed := self._timed.get(pid)) is not None and twin._timed.get(pid) is timed:
            self._timed[pid] = timed.copy()

    def _add_indexed(self, pid: bytes, indexed: IndexedWindow) -> IndexedWindow:
        if self._indexed is NO_INDEXED:
            self._indexed = {}
        self._indexed[pid] = indexed
        return indexed

    def _leave_times(self, pid: bytes, timed: TimedWindow) -> None:
        """Bring a timed window into another form if no iid in it is timed any more."""
        if not timed.recorded_ms:
            del self._timed[pid]
            self._pack(pid, self._add_indexed(pid, IndexedWindow(timed.items())))

    def _pack(self, pid: bytes, indexed: IndexedWindow) -> bool:
        """Pack a window that is not empty, if its iids fit in; return whether they do."""
        if len(indexed.order) > packed.IIDS_MAX or max(map(len, indexed.order)) > packed.IID_BYTES_MAX:
            return False
        if self._packed is NO_PACKED:
            self._packed = {}
        self._packed[pid] = packed.of_items(indexed.items())
        del self._indexed[pid]
        return True
