"""The window of one stream: which (pid, iid) made which entry."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol


class Schedule(Protocol):
    """Who wants to know when a table has something to free (the sweeper)."""

    def enroll(self, table: IdmpTable, due_ms: int) -> None:
        """Call `table.expire` when the clock reaches `due_ms`."""


class _Producer:
    """The iids of one producer.

    Shape: entries maps iid -> entry ID; order holds the same iids, oldest first. (A plain dict finds its oldest key
    in O(n) once keys were deleted: 1.8 us at 10,000 iids instead of 0.1.)
    """

    __slots__ = ("entries", "order")

    def __init__(self) -> None:
        self.entries: dict[bytes, int] = {}
        self.order: deque[bytes] = deque()

    def expire(self, until_ms: int, limit: int) -> int:
        """Drop up to `limit` iids of entries up to `until_ms`, from the head to the first that stays; return how many."""
        freed = 0
        while self.order and freed < limit and self.entries[self.order[0]] >> 64 <= until_ms:
            del self.entries[self.order.popleft()]
            freed += 1
        return freed


def _never() -> bool:
    return False


class IdmpTable:
    """The window of one stream.

    An iid is remembered until `duration_s` has passed since its entry ID's milliseconds, or until `maxsize` newer iids
    of the same producer pushed it out, whichever comes first. Removing the *entry* does not forget its iid.
    """

    __slots__ = (
        "__weakref__",
        "_due",
        "_producers",
        "_sweeper",
        "duration_s",
        "iids_added",
        "iids_duplicates",
        "iids_tracked",
        "maxsize",
    )

    def __init__(self, duration_s: int, maxsize: int, sweeper: Schedule | None = None) -> None:
        self.duration_s = duration_s
        self.maxsize = maxsize
        self.iids_added = 0
        self.iids_duplicates = 0
        self.iids_tracked = 0
        self._producers: dict[bytes, _Producer] | None = None
        self._due: dict[int, list[bytes]] | None = None
        self._sweeper = sweeper

    @property
    def pids_tracked(self) -> int:
        """The number of producers in memory."""
        return len(self._producers) if self._producers else 0

    @property
    def sweeper(self) -> Schedule | None:
        """Who is told when there is something to free."""
        return self._sweeper

    @sweeper.setter
    def sweeper(self, sweeper: Schedule | None) -> None:
        self._sweeper = sweeper
        if self._due and sweeper is not None:
            sweeper.enroll(self, min(self._due) * 1000)

    def lookup(self, pid: bytes, iid: bytes, now_ms: int) -> int | None:
        """Return the ID of the entry that (pid, iid) made, or None if that is not remembered (any more)."""
        producers = self._producers
        if producers is None:
            return None
        producer = producers.get(pid)
        if producer is None:
            return None
        entry_id = producer.entries.get(iid)
        if entry_id is None:
            return None
        until_ms = now_ms - self.duration_s * 1000
        if entry_id >> 64 > until_ms:
            return entry_id
        # It will be recorded again in a moment: by then its expired elders, and mostly itself, are out of the way.
        self.iids_tracked -= producer.expire(until_ms, self.maxsize)
        return None

    def record(self, pid: bytes, iid: bytes, entry_id: int) -> None:
        """Remember (pid, iid) as the youngest of its producer, and forget the producer's oldest if it has too many.

        Asks no clock and no look-up, so that loading a journal takes the same way.
        """
        producers = self._producers
        if producers is None:
            producers = self._producers = {}
        producer = producers.get(pid)
        if producer is None:
            producer = producers[pid] = _Producer()
            self._schedule(pid, entry_id)
        self.iids_added += 1
        entries = producer.entries
        if iid in entries:
            producer.order.remove(iid)
        else:
            self.iids_tracked += 1
        entries[iid] = entry_id
        producer.order.append(iid)
        if len(entries) > self.maxsize:
            del entries[producer.order.popleft()]
            self.iids_tracked -= 1

    def record_once(self, pid: bytes, iid: bytes, entry_id: int, now_ms: int) -> bool:
        """Remember (pid, iid) unless it is remembered already; return whether it stands for `entry_id` now.

        Source: XIDMPRECORD of Redis 8.6.2: known with the same ID is fine and counts nothing.
        """
        known = self.lookup(pid, iid, now_ms)
        if known is None:
            self.record(pid, iid, entry_id)
            return True
        return known == entry_id

    def configure(self, duration_s: int | None = None, maxsize: int | None = None) -> bool:
        """Set what is given (XCFGSET); return whether that changed anything, in which case all iids are forgotten."""
        duration_s = self.duration_s if duration_s is None else duration_s
        maxsize = self.maxsize if maxsize is None else maxsize
        if duration_s == self.duration_s and maxsize == self.maxsize:
            return False
        self.reconfigure(duration_s, maxsize)
        return True

    def reconfigure(self, duration_s: int | None = None, maxsize: int | None = None) -> None:
        """Set what is given (XIDMP CFGSET), and forget all iids even if it was so before."""
        self.duration_s = self.duration_s if duration_s is None else duration_s
        self.maxsize = self.maxsize if maxsize is None else maxsize
        self.clear()

    def clear(self) -> None:
        """Forget all iids; settings, iids_added and iids_duplicates stay."""
        self._producers = None
        self._due = None
        self.iids_tracked = 0

    def copy(self) -> IdmpTable:
        """Return a table of its own with the same iids, settings and counters."""
        twin = IdmpTable(self.duration_s, self.maxsize)
        for pid, iid, entry_id in self:
            twin.record(pid, iid, entry_id)
        twin.iids_added = self.iids_added
        twin.iids_duplicates = self.iids_duplicates
        twin.sweeper = self._sweeper
        return twin

    def pids(self) -> list[bytes]:
        """Return the producers that have iids in memory."""
        return list(self._producers) if self._producers else []

    def iids(self, pid: bytes) -> list[tuple[bytes, int]]:
        """Return (iid, entry ID) of one producer, oldest first; empty if it is gone."""
        producer = self._producers.get(pid) if self._producers else None
        return [] if producer is None else [(iid, producer.entries[iid]) for iid in producer.order]

    def __iter__(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield (pid, iid, entry ID), each producer's oldest first: recorded in this order they make the same table.

        The table may change between two steps: what a step finds of a producer is then as of that step.
        """
        for pid in self.pids():
            for iid, entry_id in self.iids(pid):
                yield pid, iid, entry_id

    def expire(self, now_ms: int, should_stop: Callable[[], bool] = _never) -> int | None:
        """Free what has expired; return when there will be more (Unix ms), or None if never.

        `should_stop` is asked after every few iids. When it stops the work, the answer is a time not after `now_ms`.
        """
        due = self._due
        until_ms = now_ms - self.duration_s * 1000
        while due:
            second = min(due)
            if second * 1000 > now_ms:
                return second * 1000
            pids = due.pop(second)
            while pids:
                pid = pids.pop()
                assert self._producers is not None
                producer = self._producers[pid]
                freed = producer.expire(until_ms, 100)
                self.iids_tracked -= freed
                if freed == 100:
                    pids.append(pid)
                elif not producer.order:
                    del self._producers[pid]
                else:
                    again = (producer.entries[producer.order[0]] >> 64) // 1000 + self.duration_s
                    due.setdefault(max(again, second + 1), []).append(pid)
                if should_stop() and pids:
                    due[second] = pids
                    return second * 1000
        self._producers = None
        self._due = None
        return None

    def _schedule(self, pid: bytes, entry_id: int) -> None:
        second = (entry_id >> 64) // 1000 + self.duration_s
        due = self._due
        if due is None:
            due = self._due = {}
        pids = due.get(second)
        if pids is not None:
            pids.append(pid)
            return
        due[second] = [pid]
        if self._sweeper is not None and len(due) == 1:
            self._sweeper.enroll(self, second * 1000)
