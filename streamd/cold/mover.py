"""The mover: decides when segments are written to files, when files are merged and unlinked, and when to try again."""

from collections.abc import Callable
from typing import Final

from streamd.base.clock import Clock
from streamd.cold.codec import AS_SEALED
from streamd.cold.cold_list import ColdList
from streamd.cold.jobs import Submit
from streamd.cold.moving import move
from streamd.cold.output import Output, Pace
from streamd.cold.store import ColdStore
from streamd.cold.work import Work

# A file begins when so much can be moved, or a quarter of the limit; it takes up to so much.
_MOVED_BYTES: Final = 16 * 1024 * 1024
_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
# Before a rewrite of the journal, which clients may wait for, so much is written without pacing.
_AT_ONCE_BYTES_MAX: Final = 16 * 1024 * 1024
# When memory is short: lists with so much are moved, too, and this part of the limit at least makes a file of them.
_LIST_BYTES_MIN: Final = 4 * 1024
_SHORT_PART: Final = 16
# Then so long passes until the lists are looked at again.
_LOOK_MS: Final = 1_000


class Mover:
    """Writes sealed segments to files, early; merges files of which little is left; unlinks those that nothing holds.

    `tick` is called by the cron, and soon after each job's end. Work goes on in steps of the loop, and all that waits
    for the disk in jobs. Moves, merges and unlinking wait for each other in the thread alone, and fail apart.

    codec: how blocks are stored from now on.
    """

    def __init__(self, store: ColdStore, clock: Clock, submit: Submit, on_bug: Callable[[BaseException], None]) -> None:
        """submit: runs jobs on the mover's thread; tick() is wanted after each."""
        self._store = store
        self._clock = clock
        self._pace = Pace(clock)
        self._moving = Work("moving entries to segment files", submit, clock, on_bug)
        self._unlinking = Work("removing segment files", submit, clock, on_bug)
        self._look_ms = 0
        self._waiting: list[Callable[[], None]] = []
        self._served: list[Callable[[], None]] = []
        self.codec = AS_SEALED

    def tick(self, stop: Callable[[], bool]) -> bool:
        """Do the work that is due, until `stop` returns True; return whether more can be done at once."""
        store = self._store
        store.fit()
        more = store.cache.shrink()
        self._pace.is_lifted = 4 * store.hot_bytes > 3 * store.limit_bytes
        more = self._move(stop) or more
        if store.files.has_dead and self._unlinking.may_begin:
            self._unlinking.begin(self._unlinking.jobs.run(store.files.unlink_dead))
        return self._unlinking.go_on(stop) or more

    # Moves.

    def move_all(self, then: Callable[[], None]) -> None:
        """Move what lists have to be moved, then call `then`; at once if there is nothing, or while moving fails."""
        if self._moving.failure or not (self._moving.is_running or self._store.unwritten):
            then()
        else:
            self._waiting.append(then)

    def _move(self, stop: Callable[[], bool]) -> bool:
        """Do what is due of moves; return whether more can be done at once."""
        moving, store = self._moving, self._store
        while True:
            if not moving.is_running:
                self._serve()
                self._begin_move()
                if not moving.is_running:
                    return False
            if moving.go_on(stop):
                return True
            if moving.is_running:
                return False
            store.move_failed = moving.failure

    def _serve(self) -> None:
        """Call those that waited for the move that has ended, and all others if none can begin."""
        served, self._served = self._served, []
        if self._waiting and not (self._moving.may_begin and self._store.unwritten):
            served += self._waiting
            self._waiting = []
        for then in served:
            then()

    def _begin_move(self) -> None:
        """Begin a move if one is due."""
        store = self._store
        limit, hot = store.limit_bytes, store.hot_bytes
        if not (limit and self._moving.may_begin):
            return
        bytes_max, pace = _FILE_BYTES_MAX, self._pace
        lists = [*store.unwritten]
        if self._waiting:
            bytes_max = max(bytes_max, sum([one.unwritten_bytes for one in lists]))
        elif not _reaches(lists, min(_MOVED_BYTES, limit // 4)):
            now_ms = self._clock.monotonic_ms()
            if 2 * hot <= limit or now_ms < self._look_ms:
                return
            self._look_ms = now_ms + _LOOK_MS
            lists = [one for one in [*store.lists] if one.unwritten_bytes >= _LIST_BYTES_MIN]
            if not _reaches(lists, limit // _SHORT_PART):
                return
        self._served, self._waiting = self._waiting, []
        is_paced = not (self._served and not _reaches(lists, _AT_ONCE_BYTES_MAX))
        output = Output(store.files, self._moving.jobs, self._clock)
        self._moving.begin(move(store, lists, output, pace if is_paced else None, self.codec, bytes_max), output)

    # The end.

    def close(self) -> None:
        """Wait for the jobs that are under way, abandon unfinished files, and unlink what nothing holds."""
        self._waiting, self._served = [], []
        for work in (self._moving, self._unlinking):
            work.close()
        try:
            self._store.files.unlink_dead()
        except OSError:
            pass  # the next start unlinks them: no base names them


def _reaches(lists: list[ColdList], size: int) -> bool:
    """Return whether the lists have so many bytes to move together."""
    total = 0
    for one in lists:
        total += one.unwritten_bytes
        if total >= size:
            return True
    return False
