"""The window of one stream: the entry that each (pid, iid) made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol
from weakref import ref

from streamd.base.referable import referable
from streamd.idmp import few
from streamd.idmp.columns import add, find, order_added
from streamd.idmp.indexed import IndexedWindow
from streamd.idmp.ring import RingWindow
from streamd.idmp.schedule import Schedule
from streamd.idmp.timed import TimedWindow
from streamd.idmp.windows import DICTS_MAX, NO_FEW, NO_LARGER, NO_TIMED, Windows

# Up to here a producer's window is bytes: arrays, or a dict and a deque, for a few iids are mostly air.
FEW_MAX: Final = 4
# So many iids if a table has many producers with larger windows: then memory is what matters, and few of them are busy.
FEW_IN_A_CROWD_MAX: Final = 40
CROWD: Final = 1_000

# Where of the first 16 requests fewer are of different producers, columns gain nothing over row by row.
_LOOKED_AT: Final = 16
_DISTINCT_MIN: Final = 12

# A batch turns dicts into rings until so many iids have moved: nobody waits for a thousand windows.
_MOVED_PER_TURN_MAX: Final = 2_000

# One visit of the sweeper frees at most so many iids of a larger window.
_DROPPED_PER_VISIT_MAX: Final = 100


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
        "_schedule",
        "_sweeper",
        "duration_s",
        "iids_added",
        "iids_duplicates",
        "iids_tracked",
        "place",
    )

    def __init__(self, duration_s: int, maxsize: int, sweeper: Sweeping | None = None) -> None:
        super().__init__(maxsize)
        self.duration_s = duration_s
        self.iids_added = 0  # recorded, ever
        self.iids_duplicates = 0  # duplicates, ever; counted by the code that replies to one
        self.iids_tracked = 0  # in memory, expired ones that were not freed yet included
        self.place: object = None  # the sweeper's own note
        self._schedule: Schedule | None = None
        self._sweeper = sweeper

    def leave_to(self, sweeper: Sweeping | None) -> None:
        """Leave the freeing of expired iids to a sweeper."""
        self._sweeper = sweeper
        if self._schedule is not None and sweeper is not None:
            sweeper.enroll(self, self._schedule.seconds[0] * 1000)

    def lookup(self, pid: bytes, iid: bytes, now_ms: int) -> int | None:
        """Return the ID of the entry that (pid, iid) made, or None if the iid is not remembered (any more)."""
        larger = self._larger.get(pid)
        if larger is not None:
            entry_id = larger.find(iid)
        else:
            window = self._few.get(pid)
            if window is None:
                return self._lookup_timed(pid, iid, now_ms) if pid in self._timed else None
            entry_id = few.find(window, iid)
        if entry_id is None:
            return None
        until_ms = now_ms - self.duration_s * 1000
        if entry_id >> 64 > until_ms:
            return entry_id
        # It will be recorded again in a moment. By then its expired elders are gone, and with IDs in order it is too:
        # to take it out from the middle costs more.
        if self._lent is not None:
            self._own(pid)
            larger = self._larger.get(pid)
        if larger is not None:
            self.iids_tracked -= larger.drop_expired(until_ms, self.maxsize)
        else:
            self._free_few(pid, self._few[pid], until_ms)
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
            self.iids_tracked += timed.record_at(iid, entry_id, at_ms, self.maxsize)
            return
        window = self._larger.get(pid)
        if window is None:
            window = self._record_few(pid, self._few.get(pid), iid, entry_id)
            if window is None:
                return
        before = window.count
        if not isinstance(window, IndexedWindow):
            number = few.number_if_fits(iid, entry_id)
            if number >= 0:
                window.record(iid, number, self.maxsize)
                self.iids_tracked += window.count - before
                return
            window = self._larger[pid] = IndexedWindow(window.items(), has_odd=True)
        window.record(iid, entry_id, self.maxsize)
        self._has_grown(pid, window, before)

    def _has_grown(self, pid: bytes, window: IndexedWindow | RingWindow, before: int) -> None:
        """Note that a producer's window held `before` iids before some were recorded."""
        after = window.count
        self.iids_tracked += after - before
        if (
            before < after
            and len(self._larger) > DICTS_MAX
            and isinstance(window, IndexedWindow)
            and not window.has_odd
        ):
            self._add_larger(pid, window.items())

    def lookup_or_record(self, pid: bytes, iid: bytes, entry_id: int, now_ms: int) -> int | None:
        """Call `lookup`, and `record` if that returns None; a new iid takes one step."""
        larger = self._larger.get(pid)
        if larger is not None and self._lent is None:
            if isinstance(larger, IndexedWindow):
                entries, before = larger.entries, len(larger.order)
                known_id = entries.setdefault(iid, entry_id)
                if known_id is entry_id:
                    larger.order.append(iid)
                    self.iids_added += 1
                    if before >= self.maxsize:
                        del entries[larger.order.popleft()]
                    else:
                        self._has_grown(pid, larger, before)
                    return None
                if known_id >> 64 > now_ms - self.duration_s * 1000:
                    return known_id
            elif (number := few.number_if_fits(iid, entry_id)) >= 0:
                count = larger.count
                number = larger.put(iid, number, self.maxsize)
                if number < 0:
                    self.iids_added += 1
                    self.iids_tracked += larger.count - count
                    return None
                known_id = few.entry_id_of(number)
                if known_id >> 64 > now_ms - self.duration_s * 1000:
                    return known_id
        elif larger is None and self._lent is None:
            window = self._few.get(pid)
            is_new = pid not in self._timed if window is None else few.find(window, iid) is None
            if is_new and self._record_few(pid, window, iid, entry_id) is None:
                self.iids_added += 1
                return None  # else it has a larger one now, which takes it
        remembered_id = self.lookup(pid, iid, now_ms)
        if remembered_id is None:
            self.record(pid, iid, entry_id)
        return remembered_id

    def record_run(self, pid: bytes, iids: Sequence[bytes], ids: Sequence[int]) -> int:
        """Record the iids of a run of entries, at least up to the first one that is known; return how many were
        recorded: none unless a larger window, which no snapshot may share, takes a run.

        ids: ascending.
        """
        window = self._larger.get(pid)
        if window is None or self._lent is not None:
            return 0
        before = window.count
        if isinstance(window, IndexedWindow):
            done = len(iids) if window.record_run(iids, ids, self.maxsize) else 0
        elif few.are_consecutive(ids):
            done = window.put_run(iids, few.number_of(ids[0]), self.maxsize)
        else:
            done = 0
        self.iids_added += done
        if window.count != before:
            self._has_grown(pid, window, before)
        return done

    def known_columns(self, pids: Sequence[bytes], iids: Sequence[bytes], now_ms: int) -> list[int] | None:
        """Return the IDs of the entries that some (pid, iid) made, as `lookup` does; None unless all are remembered, as
        for a batch that is sent again: in larger windows, or few iids of one producer in any.
        """
        pid = pids[0]
        if iids[0] in iids[1:_LOOKED_AT] and pids.count(pid) == len(pids):
            known = {iid: self.lookup(pid, iid, now_ms) for iid in {*iids}}
            return [*map(known.__getitem__, iids)] if all(known.values()) else None  # type: ignore[list-item]
        return find(self._larger, pids, iids, now_ms - self.duration_s * 1000)

    def lookup_or_record_columns(
        self, pids: Sequence[bytes], iids: Sequence[bytes], ids: Sequence[int], now_ms: int
    ) -> list[int | None]:
        """Do `lookup_or_record` for each of some requests, given by a column of producers and one of iids. Return for
        each the ID of the entry that it made before, or None if it is new and was recorded with the next one of `ids`.

        ids: as many as there are requests; new requests use up the first ones. C code does it when all iids are new. A
        property test compares this with `lookup_or_record`.
        """
        if pids.count(pids[0]) == len(pids):
            done = self.record_run(pids[0], iids, ids)
        else:
            done = len(pids) if self._record_new(pids, iids, ids) else 0
        answers: list[int | None] = [None] * done
        if done == len(pids):
            return answers
        larger, maxsize, until_ms, new = self._larger, self.maxsize, now_ms - self.duration_s * 1000, done
        first = few.number_of(ids[0]) if self._lent is None and few.are_consecutive(ids) else -1
        for pid, iid in zip(pids[done:], iids[done:]):  # noqa: B905 (equally long)
            window = larger.get(pid) if first >= 0 and len(iid) <= few.IID_BYTES_MAX else None
            if window is None or isinstance(window, IndexedWindow):
                known_id = self.lookup_or_record(pid, iid, ids[new], now_ms)
            else:
                before = window.count
                number = window.put(iid, first + new, maxsize)
                known_id = None if number < 0 else few.entry_id_of(number)
                if known_id is None:
                    self.iids_added += 1
                    self.iids_tracked += window.count - before
                elif known_id >> 64 <= until_ms:
                    known_id = self.lookup_or_record(pid, iid, ids[new], now_ms)
            answers.append(known_id)
            if known_id is None:
                new += 1
        return answers

    def _record_new(self, pids: Sequence[bytes], iids: Sequence[bytes], ids: Sequence[int]) -> bool:
        """Record iids of several producers if none is in memory and all windows are dicts; return whether it was done.
        Some of the dicts may become rings. With False nothing has changed.
        """
        if self._lent is not None or not isinstance(self._larger.get(pids[0]), IndexedWindow):
            return False  # at once: compiled, most windows are rings
        if len(set(pids[:_LOOKED_AT])) < _DISTINCT_MIN:
            return False
        windows = [window for window in map(self._larger.get, pids) if isinstance(window, IndexedWindow)]
        if len(windows) < len(pids) or not add(windows, iids, ids):
            return False
        self.iids_added += len(ids)
        self.iids_tracked += len(ids) - order_added(windows, iids, self.maxsize)
        if len(self._larger) > DICTS_MAX:
            moved = 0
            for pid, window in dict(zip(pids, windows)).items():  # noqa: B905 (equally long)
                if not window.has_odd and moved < _MOVED_PER_TURN_MAX:
                    moved += window.count
                    self._add_larger(pid, window.items())
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
        forgotten._few, forgotten._larger, forgotten._schedule = self._few, self._larger, self._schedule
        forgotten._timed = self._timed
        forgotten.iids_tracked = self.iids_tracked
        self._few = NO_FEW
        self._larger = NO_LARGER
        self._timed = NO_TIMED
        self._schedule = None
        self.iids_tracked = 0
        return forgotten

    def copy(self) -> IdmpTable:
        """Return an independent table with the same iids, settings, counters and sweeper."""
        twin = IdmpTable(self.duration_s, self.maxsize)
        twin.iids_added = self.iids_added
        twin.iids_duplicates = self.iids_duplicates
        twin.iids_tracked = self.iids_tracked
        if self._schedule is not None:
            twin._few = self._few.copy()
            twin._larger = {pid: window.copy() for pid, window in self._larger.items()}
            twin._timed = {pid: timed.copy() for pid, timed in self._timed.items()}
            twin._schedule = self._schedule.copy()
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
            twin._few, twin._larger, twin._timed = self._few.copy(), self._larger.copy(), self._timed.copy()
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
        window = self._few.get(pid)
        if window is not None:
            window = self._free_few(pid, window, until_ms)
            if not window:
                del self._few[pid]
                return
            oldest_ms = few.oldest_ms(window)
        else:
            larger = self._larger.get(pid) or self._timed[pid]
            dropped = larger.drop_expired(until_ms, _DROPPED_PER_VISIT_MAX)
            self.iids_tracked -= dropped
            if dropped == _DROPPED_PER_VISIT_MAX:
                schedule.pids[second].append(pid)
                return
            if not larger.count:
                self._larger.pop(pid, None) or self._timed.pop(pid)
                return
            oldest_ms = larger.oldest_ms()
            if isinstance(larger, TimedWindow):
                self._leave_times(pid, larger)
            else:
                self._shorten(pid, larger)
        # Within its own second a producer may come too early: then it is next looked at when that second is over.
        schedule.add(max(oldest_ms // 1000 + self.duration_s, second + 1), pid)

    def _free_few(self, pid: bytes, window: bytes, until_ms: int) -> bytes:
        """Free the expired iids of a window of bytes; return the window that is left."""
        left = self._few[pid] = few.without_expired(window, until_ms)
        self.iids_tracked += few.count(left) - few.count(window)
        return left

    def _record_few(
        self, pid: bytes, window: bytes | None, iid: bytes, entry_id: int
    ) -> IndexedWindow | RingWindow | None:
        """Record an iid in a window of bytes, or a new one; or return the larger one that takes it now, unrecorded."""
        if window is None:
            self._schedule_first(pid, entry_id >> 64)
            window = b""
        before = few.count(window)
        if before < (FEW_MAX if len(self._larger) < CROWD else FEW_IN_A_CROWD_MAX):
            made = few.record(window, iid, entry_id, self.maxsize)
            if made is not None:
                if self._few is NO_FEW:
                    self._few = {}
                self._few[pid] = made
                self.iids_tracked += few.count(made) - before
                return None
        self._few.pop(pid, None)
        return self._add_larger(pid, few.items(window))

    def _timed_window(self, pid: bytes, oldest_ms: int) -> TimedWindow:
        """Return a producer's window in the timed form. oldest_ms: the time of its first iid, if it has no window."""
        timed = self._timed.get(pid)
        if timed is None:
            timed = TimedWindow(self.iids(pid))
            if self._few.pop(pid, None) is None and self._larger.pop(pid, None) is None:
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
