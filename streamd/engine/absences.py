"""Requests and replies that need blocks of segment files which are not in memory: a thread reads these meanwhile."""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from streamd.base.clock import Clock
from streamd.base.errors import CommandError
from streamd.base.limits import BLOCK_JOBS_MAX, READ_AHEAD_BLOCKS
from streamd.catalog import Command, Context
from streamd.cold.blocks import Blocks
from streamd.cold.cache import key_of
from streamd.cold.files import REPLY, SegmentFile
from streamd.cold.format import Damaged
from streamd.connected.blocking import BLOCKED, Waiter
from streamd.connected.client import Client, Unfinished
from streamd.connected.state import State
from streamd.data.records import ColumnsRecord, Record
from streamd.engine.calls import Calls
from streamd.engine.slices import end_of_slice
from streamd.journal.jobs import Pending, Submit
from streamd.resp.types import NO_REPLY, Pause, Reply
from streamd.stream.log.absent import Absent

# A request that needs more than this part of the cache would push out what others wait for.
_LARGE_PART: Final = 8
# A request that has waited so often reads what is still missing itself.
_WAITS_MAX: Final = 2
# So does an attempt of a blocked command; searches may wait for several blocks one after the other.
_WAITS_OF_ATTEMPTS_MAX: Final = 8
# So many clients' last blocks are remembered.
_READERS_MAX: Final = 1_024

Rows = Sequence[tuple[SegmentFile, int]]


class Wait:
    """The blocks that one client waits for.

    waiter: that of its request, or of a blocked command whose attempt needs them. unfinished: the long reply that needs
    them. request: that runs again. times: how often it has waited, this time included. ahead: rows that the client will
    probably need next. pending: the job, once it was handed out. data: the blocks that were read; taken: how many of
    them are in the cache, pinned. is_large: they are too many for the cache; the job has the system's cache take them,
    so that the request reads them in place without a wait for the disk. failed: whether not all could be read. is_done:
    it has ended. behind: blocked commands that are tried again when it has ended, since both may take the same pending
    entries; takes: whether there may be such commands.
    """

    __slots__ = (
        "ahead",
        "behind",
        "client",
        "data",
        "failed",
        "holds",
        "is_done",
        "is_large",
        "pending",
        "request",
        "rows",
        "store",
        "taken",
        "takes",
        "times",
        "unfinished",
        "waiter",
    )

    def __init__(self, store: Blocks, client: Client, rows: Rows) -> None:
        self.store = store
        self.client = client
        self.rows = rows
        self.holds: list[object] = [store.hold(file, REPLY) for file in dict.fromkeys([file for file, _ in rows])]
        self.waiter: Waiter[Client] | None = None
        self.unfinished: Unfinished | None = None
        self.request: list[bytes] | None = None
        self.times = 1
        self.ahead: Rows = ()
        self.pending: Pending | None = None
        self.data: list[bytes] = []
        self.taken = 0
        self.failed = self.is_done = self.is_large = self.takes = False
        self.behind: dict[Waiter[Client], None] = {}

    @property
    def is_wanted(self) -> bool:
        """Whether the client still waits for the blocks."""
        if self.unfinished is not None:
            return self.client.unfinished is self.unfinished and not self.client.closed
        return self.client.waiter is self.waiter and not self.client.closed

    def read(self) -> None:
        """Read the blocks, on the thread. Raises: Damaged, OSError."""
        if len(self.rows) > 1:
            self._read_ahead(self.rows)
        for file, row in self.rows:
            data = self.store.read(file, row)
            if not self.is_large:
                self.data.append(data)
        if self.ahead:
            self._read_ahead(self.ahead)

    def _read_ahead(self, rows: Rows) -> None:
        """Have the system begin to read blocks, those of a file together."""
        places: dict[SegmentFile, list[int]] = {}
        for file, row in rows:
            places.setdefault(file, []).append(row)
        try:
            for file, some in places.items():
                self.store.files.read_ahead(file, [file.index.place(row) for row in some])
        except OSError:
            pass  # the read itself says so

    def take(self) -> None:
        """Put the next block that was read into the cache, and keep it there."""
        at = self.taken
        file, row = self.rows[at]
        data, self.data[at] = self.data[at], b""
        cache, key = self.store.cache, key_of(file.number, row)
        if cache.has(key):  # another client has waited for it
            cache.pin(key)
            self.taken = at + 1
            return
        try:
            self.store.take(file, row, data, True)
        except (Damaged, CommandError):
            self.failed = True
            self.data = self.data[:at]
        else:
            self.taken = at + 1

    def let_go(self) -> None:
        """Let the cache evict the blocks again."""
        for file, row in self.rows[: self.taken]:
            self.store.unpin(file, row)
        self.taken = 0
        self.data, self.holds = [], []


class Absences:
    """Clients that wait for blocks.

    A handler that needs a block which can only be had by waiting raises Absent, before it has changed anything. Its
    client then waits as a paused one does; one job reads all blocks, the loop takes them into the cache, and the
    request runs again from its beginning. Requests that cannot wait are executed again at once, and read in place: in
    transactions and scripts, those that have waited twice, or that need a large part of the cache and have waited until
    the system's cache has it, and all while there is no thread.

    submit: hands a job to the thread that reads; None without one. want_turn: called when `go_on` has work.
    """

    def __init__(
        self,
        state: State,
        calls: Calls,
        unblock: Callable[[Waiter[Client], Reply], None],
        serve: Callable[[list[Waiter[Client]]], None],
        resume: Callable[[Client], None],
        want_turn: Callable[[], None],
    ) -> None:
        """unblock, serve: end a wait, or try waiters again. resume: goes on with a client's reply."""
        self.submit: Submit | None = None
        self._state = state
        self._calls = calls
        self._unblock = unblock
        self._serve = serve
        self._resume = resume
        self._want_turn = want_turn
        self._jobs = 0
        self._line: deque[Wait] = deque()  # for which there is no room in the thread's queue
        self._read: deque[Wait] = deque()  # whose jobs have ended
        self._served: list[Wait] = []  # whose blocks are pinned until the end of this turn
        self._last: dict[Client, Wait] = {}  # the last wait of a request or a reply that has not ended
        self._attempts: dict[Waiter[Client], Wait] = {}  # of blocked commands
        self._rows: dict[int, tuple[SegmentFile, int]] = {}  # the last block that a client, by its ID, has waited for

    # -- who needs blocks -----------------------------------------------------------------------------------------

    def answer(self, command: Command, client: Context, request: list[bytes], error: Exception, is_part: bool) -> Reply:
        """Return the reply for an exception that a handler has ended with: BLOCKED if the client waits for blocks.

        is_part: the request is part of a unit, which goes on behind it.
        """
        if not isinstance(error, Absent):
            return self._calls.failure(command, client.db, request, error)
        store = self._store_for(error, True)
        if is_part or store is None or client.in_unit or not self._may_change_nothing(request[0], error):
            return self._calls.answer(command, client, request, error)
        last = self._last.pop(client, None)
        if last is not None and last.request is not request:
            last = None
        times = 1 if last is None else last.times + 1
        if times > _WAITS_MAX or (last is not None and (last.failed or last.is_large)):
            return self._calls.answer(command, client, request, error)
        command.calls -= 1  # it comes again
        rows = _rows_of(error)
        wait = Wait(store, client, rows)
        wait.times, wait.request = times, request
        wait.is_large = self._store_for(error) is None
        wait.ahead = self._next_rows(client, rows)
        wait.waiter = self._state.blocked.add_reading(client, client.db)
        client.backlog.appendleft(request)
        self._last[client] = wait
        self._enter(wait)
        return BLOCKED

    def attempt(self, waiter: Waiter[Client], absent: Absent) -> Reply:
        """Return the reply of a blocked command whose attempt has ended so; BLOCKED if it waits on, now for blocks."""
        store, before = self._store_for(absent), self._attempts.get(waiter)
        if before is not None and not before.is_done:
            return BLOCKED  # it is tried again when they are there
        rows, times = _rows_of(absent), 1 if before is None else before.times + 1
        # (Blocks that it needs together may push each other out of the cache.)
        is_again = before is not None and (before.failed or before.rows == rows or times > _WAITS_OF_ATTEMPTS_MAX)
        if store is None or waiter.line is not None or is_again or not self._may_change_nothing(b"", absent):
            # (Those behind it in a line must not overtake it.)
            self._attempts.pop(waiter, None)
            return self._calls.attempt_in_place(waiter, absent)
        wait = self._attempts[waiter] = Wait(store, waiter.client, rows)
        wait.waiter, wait.times = waiter, times
        wait.takes = waiter.retry_ms is not None or (before is not None and before.takes)
        self._state.blocked.set_retry(waiter, None)
        self._enter(wait)
        return BLOCKED

    def waits_behind(self, waiter: Waiter[Client]) -> bool:
        """Return whether a blocked command that takes pending entries has to let another one go first, which was tried
        before and waits for their blocks; it is tried again then.
        """
        for other, wait in self._attempts.items():
            may_take = wait.takes and (waiter.retry_ms is not None or waiter in wait.behind)
            if may_take and other is not waiter and not wait.is_done and not {*other.keys}.isdisjoint(waiter.keys):
                wait.behind[waiter] = None
                self._state.blocked.set_retry(waiter, None)
                return True
        return False

    def pause(self, client: Client, unfinished: Unfinished, pause: Pause) -> bool:
        """Let a client wait for the blocks of the rest of its reply; return whether it does."""
        absent = pause.cause
        assert isinstance(absent, Absent)
        store = self._store_for(absent)
        if store is None:
            return False
        wait = Wait(store, client, _rows_of(absent))
        wait.unfinished = unfinished
        unfinished.is_waiting = True
        self._last[client] = wait
        self._enter(wait)
        return True

    def _store_for(self, absent: Absent, also_large: bool = False) -> Blocks | None:
        """Return the store if its thread may read the blocks; None if they are to be read in place, as those are that
        the cache has no room for.
        """
        store = absent.store
        if self.submit is None or not isinstance(store, Blocks):
            return None
        if also_large:
            return store
        size = sum([file.index.place(row).size for file, row in _rows_of(absent)])
        return store if size * _LARGE_PART <= store.cache.bytes_max else None

    def _may_change_nothing(self, word: bytes, absent: Absent) -> bool:
        """Note a bug if something was changed before blocks were found to be absent; return whether nothing was."""
        if not self._state.records or all(map(_is_of_time, self._state.records)):
            return True
        where = f"the handler of {word[:64]!r}, which had changed something before it needed blocks"
        self._state.note_bug(where, error=absent)
        return False

    def _next_rows(self, client: Client, rows: Rows) -> Rows:
        """Return the blocks that a client probably needs next: some if it goes through a file, otherwise none."""
        file, row = rows[-1]
        before = self._rows.pop(client.id, None)
        if len(self._rows) >= _READERS_MAX:
            del self._rows[next(iter(self._rows))]
        self._rows[client.id] = file, row
        if before is None or before[0] is not file or not 0 < row - before[1] <= READ_AHEAD_BLOCKS + len(rows):
            return ()
        end = min(row + 1 + READ_AHEAD_BLOCKS, file.index.rows)
        return [(file, number) for number in range(row + 1, end)]

    # -- reading --------------------------------------------------------------------------------------------------

    def _enter(self, wait: Wait) -> None:
        if self._jobs < BLOCK_JOBS_MAX:
            self._begin(wait)
        else:
            self._line.append(wait)

    def _begin(self, wait: Wait) -> None:
        assert self.submit is not None
        self._jobs += 1
        wait.pending = self.submit(wait.read, partial(self._end, wait))

    def _end(self, wait: Wait, failure: BaseException | None) -> None:
        """Take the end of a job, on the loop."""
        self._jobs -= 1
        while self._line and self._jobs < BLOCK_JOBS_MAX:
            following = self._line.popleft()
            if following.is_wanted:
                self._begin(following)
            else:
                self._drop(following)
        if failure is not None:
            wait.failed = True
            if not isinstance(failure, OSError | Damaged | CommandError):
                self._state.note_bug("the reading of blocks", may_have_changed=False, error=failure)
        self._read.append(wait)
        self._want_turn()

    def go_on(self, clock: Clock) -> None:
        """Take blocks that were read into the cache, for a slice, and end the waits that have all theirs."""
        if self._read:
            self._go_on(end_of_slice(clock))

    def _go_on(self, stop: Callable[[], bool]) -> None:
        while self._read:
            wait = self._read[0]
            if wait.is_wanted:
                while wait.taken < len(wait.data):
                    wait.take()
                    if stop() and wait.taken < len(wait.data):
                        self._want_turn()
                        return
            self._read.popleft()
            self._finish(wait)
            if self._read and stop():
                self._want_turn()
                return

    def _finish(self, wait: Wait) -> None:
        """Let a client go on, whose blocks stay in the cache until `let_go`."""
        if not wait.is_wanted:
            self._drop(wait)
            return
        wait.is_done = True
        self._served.append(wait)
        waiter, unfinished = wait.waiter, wait.unfinished
        if unfinished is not None:
            unfinished.is_waiting = False
            self._resume(wait.client)
        elif wait.request is not None:
            assert waiter is not None
            self._unblock(waiter, NO_REPLY)
        elif waiter is not None:
            self._serve([waiter])
            self._release(wait)

    def finish(self, client: Client) -> None:
        """Wait for the blocks that a client waits for, if any, so that it can go on at once."""
        wait = self._last.get(client)
        if wait is None or wait.is_done:
            return
        if wait.pending is None:
            self._line.remove(wait)
            self._begin(wait)
        assert wait.pending is not None
        wait.pending.wait()
        self._go_on(_never)

    def let_go(self) -> None:
        """Note that the clients whose waits have ended in this turn have gone on."""
        if self._served:
            served, self._served = self._served, []
            for wait in served:
                self._drop(wait)

    def _release(self, wait: Wait) -> None:
        """Have the commands behind one that waited tried again soon, first come first."""
        for waiter in wait.behind:
            if waiter.client.waiter is waiter:
                self._state.blocked.set_retry(waiter, 0)
                self._want_turn()
        wait.behind.clear()

    def _drop(self, wait: Wait) -> None:
        wait.let_go()
        self._release(wait)
        if self._last.get(wait.client) is wait:
            del self._last[wait.client]
        if wait.waiter is not None and self._attempts.get(wait.waiter) is wait:
            del self._attempts[wait.waiter]


def _never() -> bool:
    return False


def _is_of_time(record: Record | ColumnsRecord) -> bool:
    """Return whether a record is of a key or a field that had expired, which an access removes."""
    return not isinstance(record, ColumnsRecord) and record[1][0] in (b"DEL", b"HDEL")


def _rows_of(absent: Absent) -> Rows:
    """Return the blocks with the type that they have above the rooms of streams."""
    return [(file, row) for file, row in absent.rows if isinstance(file, SegmentFile)]
