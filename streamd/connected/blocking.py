"""Blocked clients in the order of their coming, with the keys that they wait for and their deadlines."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, Protocol, TypeVar

from sortedcontainers import SortedList

from streamd.base.clock import Clock
from streamd.connected.filter_table import Filtering, FilterTable
from streamd.data.keyspace import Database
from streamd.resp.types import Reply
from streamd.stream.stream import Stream


class _Blocked:
    def __repr__(self) -> str:
        return "BLOCKED"


# What a handler returns after `Context.block`: the reply comes later.
BLOCKED: Final = _Blocked()


class Owner(Protocol):
    """A client that waits."""

    waiter: Any  # its Waiter, or None; the waiter names a subclass of this class, which is not known here

    @property
    def last_command(self) -> str:
        """The name of the blocking command."""


Who = TypeVar("Who", bound=Owner)
Line = tuple[bytes, bool]


class Waiter(Generic[Who]):
    """One blocked client.

    attempt: tries the command again; returns its reply, or BLOCKED to go on waiting.
    command: the name of the blocking command, for which failures are counted.
    request: the client's request, once that is known.
    deadline_ms: the monotonic time of its timeout, with the reply `on_timeout`; None without a timeout.
    retry_ms: the wall time of another attempt even if no key becomes ready; None for no such attempt.
    line: the name shared by waiters that take entries from each other: if one gets nothing, all behind it get nothing.
        None for other waiters.
    least_id: the least ID of an entry that may serve it, 0 or AT_END; see Database.waiting.
    filtering: the filter of a waiter for some of a stream's entries; None for other waiters.
    is_reading: its request runs again once blocks of segment files were read; for others the client is not blocked.
    """

    __slots__ = (
        "attempt",
        "client",
        "command",
        "db",
        "deadline_ms",
        "filtering",
        "is_reading",
        "keys",
        "late",
        "least_id",
        "line",
        "number",
        "on_timeout",
        "request",
        "retry_ms",
    )

    def __init__(
        self,
        number: int,
        client: Who,
        db: Database,
        keys: tuple[bytes, ...],
        deadline_ms: int | None,
        attempt: Callable[[], Reply],
        on_timeout: Reply,
        line: Line | None = None,
        filtering: Filtering | None = None,
        least_id: int = 0,
    ) -> None:
        self.number = number
        self.client = client
        self.command = client.last_command
        self.db = db
        self.keys = keys
        self.deadline_ms = deadline_ms
        self.attempt = attempt
        self.on_timeout = on_timeout
        self.retry_ms: int | None = None
        self.request: list[bytes] = []
        self.line = line
        self.filtering = filtering
        self.least_id = least_id
        self.is_reading = False
        self.late: Callable[[], Reply] | None = None


class BlockedClients(Generic[Who]):
    """All waiters, by key and by deadline; and the ready keys that were not yet served.

    count: how many wait; reading: how many more wait for blocks of segment files.
    shared: while waiters of ready keys are served, request -> the reply made for one waiter, for others with the same
    request; None at other times. serving: the ready key whose waiters are served; None at other times.
    """

    def __init__(self) -> None:
        # The waiters of a key without a filter, by line, first come first.
        self._by_key: dict[tuple[int, bytes], dict[Line | None, dict[Waiter[Who], None]]] = {}
        # The waiters of a key with a filter.
        self._filtered: dict[tuple[int, bytes], FilterTable] = {}
        self._deadlines: SortedList[tuple[int, int, Waiter[Who]]] = SortedList(key=lambda row: (row[0], row[1]))
        self._retries: SortedList[tuple[int, int, Waiter[Who]]] = SortedList(key=lambda row: (row[0], row[1]))
        self._numbers = 0
        self.count = 0
        self.reading = 0
        self.ready: dict[tuple[int, bytes], Database] = {}
        self.shared: dict[tuple[object, ...], Reply] | None = None
        self.serving: bytes | None = None

    def add(
        self,
        client: Who,
        db: Database,
        keys: tuple[bytes, ...],
        deadline_ms: int | None,
        attempt: Callable[[], Reply],
        on_timeout: Reply,
        line: Line | None = None,
        filtering: Filtering | None = None,
        least_id: int = 0,
    ) -> None:
        """Park a client until one of `keys` serves it or the monotonic time `deadline_ms` comes.

        line: see Waiter; only for clients that wait for one key. filtering, least_id: see Waiter.
        """
        self._numbers += 1
        keys = tuple(dict.fromkeys(keys))
        waiter = Waiter(self._numbers, client, db, keys, deadline_ms, attempt, on_timeout, line, filtering, least_id)
        assert line is None or len(waiter.keys) == 1
        client.waiter = waiter
        self.count += 1
        for key in waiter.keys:
            place = (db.index, key)
            if filtering is None:
                self._by_key.setdefault(place, {}).setdefault(line, {})[waiter] = None
            else:
                if place not in self._filtered:
                    self._filtered[place] = FilterTable(_stream(db, key))
                self._filtered[place].add(waiter, filtering, filtering.start_of(key))
            db.waiting[key] = _least({least_id, db.waiting.get(key, least_id)})
        if deadline_ms is not None:
            self._deadlines.add((deadline_ms, waiter.number, waiter))

    def add_reading(self, client: Who, db: Database) -> Waiter[Who]:
        """Park a client until blocks of segment files were read; return its waiter."""
        self._numbers += 1
        waiter = client.waiter = Waiter(self._numbers, client, db, (), None, lambda: BLOCKED, None)
        waiter.is_reading = True
        self.reading += 1
        return waiter

    def set_retry(self, waiter: Waiter[Who], retry_ms: int | None) -> None:
        """Set the wall time of a waiter's next attempt without a ready key; 0: soon; None: no such attempt.

        (XREADGROUP CLAIM: pending entries have been idle since a time that is stored.)
        """
        if waiter.retry_ms is not None:
            self._retries.discard((waiter.retry_ms, waiter.number, waiter))
        waiter.retry_ms = retry_ms
        if retry_ms is not None:
            self._retries.add((retry_ms, waiter.number, waiter))

    def remove(self, waiter: Waiter[Who]) -> None:
        """Forget a waiter that was served, timed out, or whose client is gone."""
        waiter.client.waiter = None
        if waiter.is_reading:
            self.reading -= 1
            return
        self.count -= 1
        for key in waiter.keys:
            place = (waiter.db.index, key)
            self._remove_from(place, waiter)
            if place not in self._by_key and place not in self._filtered:
                del waiter.db.waiting[key]
        if waiter.deadline_ms is not None:
            self._deadlines.discard((waiter.deadline_ms, waiter.number, waiter))
        if waiter.retry_ms is not None:
            self.set_retry(waiter, None)

    def _remove_from(self, place: tuple[int, bytes], waiter: Waiter[Who]) -> None:
        if waiter.filtering is not None:
            table = self._filtered[place]
            table.remove(waiter, waiter.filtering)
            if not table.count:
                del self._filtered[place]
            return
        lines = self._by_key[place]
        waiters = lines[waiter.line]
        del waiters[waiter]
        if not waiters:
            del lines[waiter.line]
            if not lines:
                del self._by_key[place]

    def late_reply(self, waiter: Waiter[Who]) -> Reply:
        """Return the reply to a client at its timeout."""
        filtering = waiter.filtering
        if waiter.late is not None:
            return waiter.late()
        if filtering is None:
            return waiter.on_timeout
        for key in waiter.keys:
            filtering.passed(key, self._filtered[waiter.db.index, key].seen_id)
        return filtering.on_timeout()

    def mark_ready(self, db: Database, key: bytes) -> None:
        """Note that `key` may serve its waiters; they are served when the running command has ended."""
        self.ready[(db.index, key)] = db

    def try_at_any_change(self, waiter: Waiter[Who]) -> None:
        """Have a waiter tried at the next change of its keys, whatever it waits for."""
        for key in waiter.keys:
            waiter.db.waiting[key] = 0

    def serve(self, db: Database, key: bytes, attempt: Callable[[Waiter[Who]], None]) -> None:
        """Try the waiters of a key, first come first; in a line, stop behind the first waiter that goes on waiting.

        attempt: removes a waiter that it serves. (If 500 consumers of a group wait and an entry comes, two are tried,
        not 500.)
        """
        self._serve(db, key, attempt)
        lines = self._by_key.get((db.index, key))
        if lines is not None and (db.index, key) not in self._filtered:
            least_ids = {waiter.least_id for waiter in lines.get(None, ())}
            least_ids.update([next(iter(line)).least_id for name, line in lines.items() if name is not None])
            db.waiting[key] = _least(least_ids)

    def _serve(self, db: Database, key: bytes, attempt: Callable[[Waiter[Who]], None]) -> None:
        lines, table = self._by_key.get((db.index, key), {}), self._filtered.get((db.index, key))
        # All waiters without a line, which take nothing from each other; of each line the first waiter.
        next_ones = [(waiter.number, waiter) for waiter in lines.get(None, ())]
        if table is not None:
            next_ones += [(waiter.number, waiter) for waiter in table.due(key, _stream(db, key))]
            if not next_ones and not lines:
                return
        for name, line in lines.items():
            if name is not None:
                first = next(iter(line))
                next_ones.append((first.number, first))
        if len(lines) <= (None in lines):
            # (No waiter stands in a line. A heap would take an eighth of the time of serving a waiter.)
            for _, waiter in sorted(next_ones):
                if waiter.client.waiter is waiter:
                    attempt(waiter)
            return
        heapify(next_ones)
        while next_ones:
            _, waiter = heappop(next_ones)
            if waiter.client.waiter is waiter:
                attempt(waiter)
            if waiter.line is not None and waiter.client.waiter is not waiter and waiter.line in lines:
                first = next(iter(lines[waiter.line]))
                heappush(next_ones, (first.number, first))

    def with_deadline(self) -> int:
        """Return the number of clients that wait until a deadline."""
        return len(self._deadlines)

    def next_due_ms(self, clock: Clock) -> int | None:
        """Return the monotonic time of the earliest deadline or retry, by the present clocks, or None."""
        heads = [self._deadlines[0][0]] if self._deadlines else []
        if self._retries:
            heads.append(clock.monotonic_ms() + max(0, self._retries[0][0] - clock.now_ms()))
        return min(heads) if heads else None

    def due_retries(self, now_ms: int) -> list[Waiter[Who]]:
        """Return the waiters due for another attempt at the wall time `now_ms`, earliest first."""
        return [row[2] for row in self._retries.irange_key(None, (now_ms, 2**63))]

    def due(self, monotonic_ms: int) -> list[Waiter[Who]]:
        """Return the waiters whose deadline has come, earliest first."""
        return [row[2] for row in self._deadlines.irange_key(None, (monotonic_ms, 2**63))]


def _least(ids: set[int]) -> int:
    """Return the least ID of an entry that may serve one of several waiters, by theirs."""
    return max(0, min(ids)) if len(ids) > 1 else ids.pop()


def _stream(db: Database, key: bytes) -> Stream | None:
    value = db.peek(key)
    return value if isinstance(value, Stream) else None
