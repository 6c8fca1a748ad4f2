"""The window of one stream: the entry that each (pid, iid) made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol
from weakref import ref

from streamd.base.referable import referable
from streamd.idmp import packed
from streamd.idmp.columns import add, find, order_added
from streamd.idmp.indexed import IndexedWindow
from streamd.idmp.schedule import Schedule
from streamd.idmp.timed import TimedWindow
from streamd.idmp.windows import NO_INDEXED, NO_PACKED, NO_TIMED, Windows

# Up to here a producer's window is always packed: a dict and a deque for a few iids are mostly air.
PACKED_ALWAYS_MAX: Final = 4
# So many producers of a table may have the quick form beyond that; at 100 iids each they take 17 MB. It is quicker
# while it fits the caches; among 20,000 producers at random they are level: the packed form touches half as many cache
# lines.
INDEXED_WINDOWS_MAX: Final = 1_000
# Once there were more, a table is crowded: whoever would get the quick form has another one packed, down to so many.
# With thousands of producers memory is what matters, and few of them are busy.
INDEXED_IN_A_CROWD_MAX: Final = 50
# An indexed window that the sweeper finds this short is packed again: far enough below to not go back and forth.
REPACK_MAX: Final = 2

# One visit of the sweeper frees at most so many iids of an indexed window.
_DROPPED_PER_VISIT_MAX: Final = 100
# Where of the first 16 requests fewer are of different producers, columns gain nothing over row by row.
_LOOKED_AT: Final = 16
_DISTINCT_MIN: Final = 12


class Sweeping(Protocol):
    """The sweeper, which frees memory of tables."""

    def enroll(self, table: IdmpTable, due_ms: int) -> None:
        """Call `table.expire` when the clock reaches `due_ms`, or earlier if enrolled for an earlier time."""


def _never() -> bool:
    return False


@referable
class IdmpTable(Windows):
    """The window of one stream.

    An iid is remembered until `duration_s` has passed since its entry ID's milliseconds (since it was recorded, where
    the ID was ahead of the clock), or until `maxsize` newer iids of the same producer pushed it out, whichever comes
    first. Removing the *entry* does not forget its iid.

    The clock decides at look-up; `expire` only frees memory, and the time when it runs makes no difference to any
    answer (while the clock does not go back). It frees a producer's expired iids from the oldest to the first that
    stays, so the memory always has the whole list less a first part that has expired. An iid of that part is never
    found, and pushes no other out, since it is older than all iids that could be pushed out.

    Shape: windows as Windows says; schedule has the time of each producer's next visit.
    """

    __slots__ = (
        "_is_crowded",
        "_schedule",
        "_sweeper",
        "duration_s",
        "iids_added",
        "iids_duplicates",
        "iids_tracked",
        "maxsize",
        "place",
    )

    def __init__(self, duration_s: int, maxsize: int, sweeper: Sweeping | None = None) -> None:
        super().__init__()
        self.duration_s = duration_s
        self.maxsize = maxsize
        self.iids_added = 0  # recorded, ever
        self.iids_duplicates = 0  # duplicates, ever; counted by the code that replies to one
        self.iids_tracked = 0  # in memory, expired ones that were not freed yet included
        self.place: object = None  # the sweeper's own note
        self._is_crowded = False
        self._schedule: Schedule | None = None
        self._sweeper = sweeper

    def leave_to(self, sweeper: Sweeping | None) -> None:
        """Leave the freeing of expired iids to a sweeper."""
        self._sweeper = sweeper
        if self._schedule is not None and sweeper is not None:
            sweeper.enroll(self, self._schedule.seconds[0] * 1000)

    def lookup(self, pid: bytes, iid: bytes, now_ms: int) -> int | None:
        """Return the ID of the entry that (pid, iid) made, or None if the iid is not remembered (any more)."""
        indexed = self._indexed.get(pid)
        if indexed is not None:
            entry_id = indexed.entries.get(iid)
        else:
            window = self._packed.get(pid)
            if window is None:
                return self._lookup_timed(pid, iid, now_ms) if pid in self._timed else None
            entry_id = packed.lookup(window, iid)
        if entry_id is None:
            return None
        until_ms = now_ms - self.duration_s * 1000
        if entry_id >> 64 > until_ms:
            return entry_id
        # It will be recorded again in a moment. By then its expired elders are gone, and with IDs in order it is too:
        # to take it out from the middle costs more.
        if self._lent is not None:
            self._own(pid)
            indexed = self._indexed.get(pid)
        if indexed is not None:
            self.iids_tracked -= indexed.drop_expired(until_ms, self.maxsize)
        else:
            self._free_packed(pid, self._packed[pid], until_ms)
        return None

    def _lookup_timed(self, pid: bytes, iid: bytes, now_ms: int) -> int | None:
        until_ms = now_ms - self.duration_s * 1000
        entry_id = self._timed[pid].lookup(iid, until_ms)
        if entry_id is None and iid in self._timed[pid].entries:
            if self._lent is not None:
                self._own(pid)
            self.iids_tracked -= self._timed[pid].drop_expired(until_ms, self.maxsize)
        return entry_id

    def record(self, pid: bytes, iid: bytes, entry_id: int, at_ms: int | None = None) -> None:
        """Remember (pid, iid) as the youngest of its producer, and forget the producer's oldest if it has too many.

        pid, iid: not empty. at_ms: the present time, given only if the entry ID is ahead of it; the iid expires by it
        then. It reads no clock and looks up no iid, since loading a journal calls it, too. An iid that is still in
        memory (because it expired) is kept once, as the youngest.
        """
        self.iids_added += 1
        if self._lent is not None:
            self._own(pid)
        if at_ms is not None or pid in self._timed:
            timed = self._timed_window(pid, entry_id >> 64 if at_ms is None else at_ms)
            self.iids_tracked += timed.record(iid, entry_id, at_ms, self.maxsize)
            return
        indexed = self._indexed.get(pid)
        if indexed is None:
            indexed = self._record_packed(pid, self._packed.get(pid), iid, entry_id)
            if indexed is None:
                return
        entries, order = indexed.entries, indexed.order
        entries[iid] = entry_id
        if len(entries) == len(order):  # it was there
            order.remove(iid)
            self.iids_tracked -= 1
        order.append(iid)
        if len(order) > self.maxsize:
            del entries[order.popleft()]
        else:
            self.iids_tracked += 1

    def lookup_or_record(self, pid: bytes, iid: bytes, entry_id: int, now_ms: int) -> int | None:
        """Call `lookup`, and `record` if that returns None; a new iid of an indexed window takes one step."""
        indexed = self._indexed.get(pid)
        if indexed is not None and self._lent is None:
            entries = indexed.entries
            known_id = entries.setdefault(iid, entry_id)
            if known_id is entry_id:
                order = indexed.order
                order.append(iid)
                self.iids_added += 1
                if len(order) > self.maxsize:
                    del entries[order.popleft()]
                else:
                    self.iids_tracked += 1
                return None
            if known_id >> 64 > now_ms - self.duration_s * 1000:
                return known_id
        elif indexed is None and self._lent is None:
            window = self._packed.get(pid)
            is_new = pid not in self._timed if window is None else packed.lookup(window, iid) is None
            if is_new and self._record_packed(pid, window, iid, entry_id) is None:
                self.iids_added += 1
                return None  # else it has an indexed one now, which takes it
        remembered_id = self.lookup(pid, iid, now_ms)
        if remembered_id is None:
            self.record(pid, iid, entry_id)
        return remembered_id

    def record_run(self, pid: bytes, iids: Sequence[bytes], ids: Sequence[int]) -> bool:
        """Record the iids of a run of entries if all iids are different and none is in memory; return whether it was
        done. With False nothing has changed (only an indexed window that no snapshot may share takes a run).
        """
        indexed = self._indexed.get(pid)
        if indexed is None or self._lent is not None:
            return False
        entries, order, count = indexed.entries, indexed.order, len(iids)
        if iids[0] in entries or iids[-1] in entries:  # (as where a batch is sent again)
            return False
        fresh = set(iids)
        if len(fresh) != count or not (
            fresh.isdisjoint(entries) if len(entries) < count else entries.keys().isdisjoint(fresh)
        ):
            return False
        self.iids_added += count
        self.iids_tracked -= len(order)
        if count >= self.maxsize:  # the last ones push out all others
            entries.clear()
            order.clear()
            iids, ids = iids[count - self.maxsize :], ids[count - self.maxsize :]
        entries.update(zip(iids, ids))  # noqa: B905 (equally long)
        order.extend(iids)
        for _ in range(len(order) - self.maxsize):
            del entries[order.popleft()]
        self.iids_tracked += len(order)
        return True

    def known_columns(self, pids: Sequence[bytes], iids: Sequence[bytes], now_ms: int) -> list[int] | None:
        """Return the IDs of the entries that some (pid, iid) made, as `lookup` does; None unless all are remembered, as
        for a batch that is sent again: in indexed windows, or few iids of one producer in any.
        """
        pid = pids[0]
        if iids[0] in iids[1:_LOOKED_AT] and pids.count(pid) == len(pids):
            known = {iid: self.lookup(pid, iid, now_ms) for iid in {*iids}}
            return [*map(known.__getitem__, iids)] if all(known.values()) else None  # type: ignore[list-item]
        return find(self._indexed, pids, iids, now_ms - self.duration_s * 1000)

    def lookup_or_record_columns(
        self, pids: Sequence[bytes], iids: Sequence[bytes], ids: Sequence[int], now_ms: int
    ) -> list[int | None]:
        """Do `lookup_or_record` for each of some requests, given by a column of producers and one of iids. Return for
        each the ID of the entry that it made before, or None if it is new and was recorded with the next one of `ids`.

        ids: as many as there are requests; new requests use up the first ones. C code does it when all iids are new. A
        property test compares this with `lookup_or_record`.
        """
        first_pid, count = pids[0], len(pids)
        if pids.count(first_pid) == count:
            if self.record_run(first_pid, iids, ids):
                return [None] * count
        elif self._record_new(pids, iids, ids):
            return [None] * count
        answers: list[int | None] = []
        left = iter(ids)
        next_id = next(left)
        for pid, iid in zip(pids, iids):  # noqa: B905 (equally long)
            known_id = self.lookup_or_record(pid, iid, next_id, now_ms)
            answers.append(known_id)
            if known_id is None:
                next_id = next(left, 0)
        return answers

    def _record_new(self, pids: Sequence[bytes], iids: Sequence[bytes], ids: Sequence[int]) -> bool:
        """Record iids of several producers if none is in memory and all windows are indexed; return whether it was
        done. With False nothing has changed.
        """
        if self._lent is not None or len(set(pids[:_LOOKED_AT])) < _DISTINCT_MIN:
            return False
        windows = [window for window in map(self._indexed.get, pids) if window is not None]
        if len(windows) < len(pids) or not add(windows, iids, ids):
            return False
        self.iids_added += len(ids)
        self.iids_tracked += len(ids) - order_added(windows, iids, self.maxsize)
        return True

    def configure(self, duration_s: int | None = None, maxsize: int | None = None) -> IdmpTable | None:
        """Set the given settings (XCFGSET). If one changes, forget all iids as `clear` does; if not, return None."""
        if duration_s in (None, self.duration_s) and maxsize in (None, self.maxsize):
            return None
        return self.reconfigure(duration_s, maxsize)

    def reconfigure(self, duration_s: int | None = None, maxsize: int | None = None) -> IdmpTable:
        """Set the given settings (XIDMP CFGSET), and forget all iids as `clear` does, even if no setting changes."""
        if duration_s is not None:
            self.duration_s = duration_s
        if maxsize is not None:
            self.maxsize = maxsize
        return self.clear()

    def clear(self) -> IdmpTable:
        """Forget all iids; settings, iids_added and iids_duplicates stay.

        Returns: a disused table with the iids, for the caller to free: a million at once take a while.
        """
        forgotten = IdmpTable(self.duration_s, self.maxsize)
        forgotten._packed, forgotten._indexed, forgotten._schedule = self._packed, self._indexed, self._schedule
        forgotten._timed = self._timed
        forgotten.iids_tracked = self.iids_tracked
        self._packed = NO_PACKED
        self._indexed = NO_INDEXED
        self._timed = NO_TIMED
        self._schedule = None
        self._is_crowded = False
        self.iids_tracked = 0
        return forgotten

    def copy(self) -> IdmpTable:
        """Return an independent table with the same iids, settings, counters and sweeper."""
        twin = IdmpTable(self.duration_s, self.maxsize)
        twin.iids_added = self.iids_added
        twin.iids_duplicates = self.iids_duplicates
        twin.iids_tracked = self.iids_tracked
        if self._schedule is not None:
            twin._packed = {pid: packed.copied(window) for pid, window in self._packed.items()}
            twin._indexed = {pid: window.copy() for pid, window in self._indexed.items()}
            twin._timed = {pid: timed.copy() for pid, timed in self._timed.items()}
            twin._schedule = self._schedule.copy()
            twin._is_crowded = self._is_crowded
        twin.leave_to(self._sweeper)
        return twin

    def snapshot(self) -> IdmpTable:
        """Return a read-only table with the same iids, settings and counters, which later changes here do not reach.

        O(1) in the iids: they are shared until they change, since the journal takes snapshots while the server serves.
        """
        twin = IdmpTable(self.duration_s, self.maxsize)
        twin.iids_added = self.iids_added
        twin.iids_duplicates = self.iids_duplicates
        twin.iids_tracked = self.iids_tracked
        if self.pids_tracked:
            twin._packed, twin._indexed, twin._timed = self._packed.copy(), self._indexed.copy(), self._timed.copy()
            self._lent = [lent for lent in self._lent or () if lent() is not None]
            self._lent.append(ref(twin))
        return twin

    def remembered(self, now_ms: int) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield (pid, iid, entry ID) of the iids that have not expired, in the order of the table itself."""
        until_ms = now_ms - self.duration_s * 1000
        for pid in self.pids():
            recorded_ms = self.recorded_ms(pid)
            for iid, entry_id in self.iids(pid):
                if recorded_ms.get(iid, entry_id >> 64) > until_ms:
                    yield pid, iid, entry_id

    def expire(self, now_ms: int, should_stop: Callable[[], bool] = _never) -> int | None:
        """Free expired iids; return the time of the next visit (Unix ms), or None if no iids are left.

        `should_stop` is called after every producer. When it stops the work, the result is a time not after `now_ms`.
        """
        schedule = self._schedule
        until_ms = now_ms - self.duration_s * 1000
        while schedule is not None:
            second = schedule.seconds[0]
            if second * 1000 > now_ms:
                return second * 1000
            pids = schedule.pids[second]
            while pids:
                try:
                    self._visit(pids[-1], until_ms, second, schedule)
                except BaseException:
                    schedule.put_off(pids.pop())
                    raise
                pids.pop()
                if should_stop() and pids:
                    return second * 1000
            schedule.drop_first()
            if not schedule.seconds:
                assert not self.pids_tracked
                assert not self.iids_tracked
                self.clear()
                schedule = None
        return None

    def _visit(self, pid: bytes, until_ms: int, second: int, schedule: Schedule) -> None:
        """Free the expired iids of one producer; put the producer back on the schedule, or remove it without iids."""
        if self._lent is not None:
            self._own(pid)
        window = self._packed.get(pid)
        if window is not None:
            window = self._free_packed(pid, window, until_ms)
            if not packed.count(window):
                del self._packed[pid]
                return
            oldest_ms = packed.oldest_ms(window)
        else:
            indexed = self._indexed.get(pid) or self._timed[pid]
            dropped = indexed.drop_expired(until_ms, _DROPPED_PER_VISIT_MAX)
            self.iids_tracked -= dropped
            if dropped == _DROPPED_PER_VISIT_MAX:
                schedule.pids[second].append(pid)
                return
            if not indexed.order:
                self._indexed.pop(pid, None) or self._timed.pop(pid)
                return
            oldest_ms = indexed.oldest_ms()
            if isinstance(indexed, TimedWindow):
                self._leave_times(pid, indexed)
            elif len(indexed.order) <= REPACK_MAX:
                self._pack(pid, indexed)
        # Within its own second a producer may come too early: then it is next looked at when that second is over.
        schedule.add(max(oldest_ms // 1000 + self.duration_s, second + 1), pid)

    def _free_packed(self, pid: bytes, window: packed.Window, until_ms: int) -> packed.Window:
        """Free the expired iids of a packed window; return the window that is left."""
        before = packed.count(window)
        left = self._packed[pid] = packed.without_expired(window, until_ms)
        self.iids_tracked += packed.count(left) - before
        return left

    def _record_packed(
        self, pid: bytes, window: packed.Window | None, iid: bytes, entry_id: int
    ) -> IndexedWindow | None:
        """Record an iid in a packed or new window; or return the indexed window that takes it now, unrecorded."""
        short = len(iid) <= packed.IID_BYTES_MAX
        if window is None:
            self._schedule_first(pid, entry_id >> 64)
            if short:
                if self._packed is NO_PACKED:
                    self._packed = {}
                self._packed[pid] = packed.of_one(iid, entry_id)
                self.iids_tracked += 1
                return None
            return self._add_indexed(pid, IndexedWindow())
        size = window[packed.COUNT] if isinstance(window, bytearray) else packed.count(window)
        if short and (
            size < PACKED_ALWAYS_MAX
            or (
                (size < packed.IIDS_MAX or size == self.maxsize)
                and self._stays_packed(is_new=size == PACKED_ALWAYS_MAX)
            )
        ):
            made = packed.record(window, iid, entry_id, self.maxsize)
            if made is not window:
                self._packed[pid] = made
            self.iids_tracked += (made[packed.COUNT] if isinstance(made, bytearray) else packed.count(made)) - size
            return None
        del self._packed[pid]
        return self._add_indexed(pid, IndexedWindow(packed.items(window)))

    def _stays_packed(self, is_new: bool) -> bool:
        """Return whether a window long enough for the indexed form stays packed; is_new: it is long enough only now."""
        windows = len(self._indexed)
        if windows >= INDEXED_WINDOWS_MAX:
            self._is_crowded = True
        if not self._is_crowded or windows < min(INDEXED_IN_A_CROWD_MAX, INDEXED_WINDOWS_MAX):
            return False
        if is_new and windows > INDEXED_IN_A_CROWD_MAX:
            pid, indexed = next(iter(self._indexed.items()))
            if not self._pack(pid, indexed):
                del self._indexed[pid]
                self._indexed[pid] = indexed  # the next one's turn
        return True

    def _timed_window(self, pid: bytes, oldest_ms: int) -> TimedWindow:
        """Return a producer's window in the timed form. oldest_ms: the time of its first iid, if it has no window."""
        timed = self._timed.get(pid)
        if timed is None:
            timed = TimedWindow(self.iids(pid))
            if self._packed.pop(pid, None) is None and self._indexed.pop(pid, None) is None:
                self._schedule_first(pid, oldest_ms)
            if self._timed is NO_TIMED:
                self._timed = {}
            self._timed[pid] = timed
        return timed

    def _schedule_first(self, pid: bytes, oldest_ms: int) -> None:
        schedule = self._schedule
        if schedule is None:
            schedule = self._schedule = Schedule()
        second = oldest_ms // 1000 + self.duration_s
        if schedule.add(second, pid) and self._sweeper is not None:
            self._sweeper.enroll(self, second * 1000)
