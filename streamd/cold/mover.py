"""The mover: decides when segments are written to files, when files are merged and unlinked, and when to try again."""

import sys
from collections.abc import Callable
from itertools import chain
from typing import Final

from streamd.base.clock import Clock
from streamd.base.log import log
from streamd.cold.codec import AS_SEALED
from streamd.cold.files import SegmentFile
from streamd.cold.jobs import Steps, Submit
from streamd.cold.merging import Unmergeable, merge
from streamd.cold.moving import move
from streamd.cold.output import Output, Pace
from streamd.cold.queues import reaches, sweep, take_queued, take_small
from streamd.cold.store import ColdStore
from streamd.cold.use import Lists, Use, choose, survey
from streamd.cold.work import Work

# A file begins when so much can be moved, or this part of the limit; it takes up to so much.
_MOVED_BYTES: Final = 16 * 1024 * 1024
_MOVED_PART: Final = 4
_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
# Before a rewrite of the journal, which clients may wait for, so much is written without pacing.
_AT_ONCE_BYTES_MAX: Final = 16 * 1024 * 1024
# When memory is short small lists are moved, too, if there is this part of the limit to be moved at least.
_SHORT_PART: Final = 16
# Then so long passes until the lists are looked at again.
_LOOK_MS: Final = 1_000
# So long, at least, after all lists were looked at for files to merge, and so many times as long as that took.
_SURVEY_MS: Final = 5_000
_SURVEY_PART: Final = 20
# The journal is rewritten when its base alone holds this part of all files, and so much; no more often than that.
_STALE_PART: Final = 10
_STALE_BYTES_MIN: Final = 1024 * 1024
_REWRITE_MS: Final = 60_000


class Mover:
    """Writes sealed segments to files, early; merges files of which little is left; unlinks those that nothing holds.

    `tick` is called by the cron, and soon after each job's end. Work goes on in steps of the loop, and all that waits
    for the disk in jobs. Moves, merges and unlinking wait for each other in the thread alone, and fail apart.

    codec: how blocks are stored from now on.
    """

    def __init__(
        self,
        store: ColdStore,
        clock: Clock,
        submit: Submit,
        lists: Lists,
        want_rewrite: Callable[[], None],
        on_bug: Callable[[BaseException], None],
    ) -> None:
        """submit: runs jobs on the mover's thread; tick() is wanted after each. lists: the lists of all streams.
        want_rewrite: has the journal rewritten soon, so that its base lets go of files. on_bug: is told of exceptions
        that are no failures of the disk.
        """
        self._lists = lists
        self._want_rewrite = want_rewrite
        self._store = store
        self._clock = clock
        self._pace = Pace(clock)
        self._moving = Work("moving entries to segment files", submit, clock, on_bug)
        self._merging = Work("merging segment files", submit, clock, on_bug)
        self._unlinking = Work("removing segment files", submit, clock, on_bug)
        self._output = Output(store.files, self._moving.jobs, clock)
        self._look_ms = self._rewrite_ms = 0
        self._was_failing = False
        self._surveyed = -1
        self._unmergeable: set[int] = set()
        self._waiting: list[Callable[[], None]] = []
        self._served: list[Callable[[], None]] = []
        self.codec = AS_SEALED

    def tick(self, stop: Callable[[], bool]) -> bool:
        """Do the work that is due, until `stop` returns True; return whether more can be done at once."""
        store = self._store
        store.settle()
        more = store.fit()
        sweep(store)
        self._pace.is_lifted = 4 * store.hot_bytes > 3 * store.limit_bytes or bool(self._waiting)
        more = self._move(stop) or more
        more = self._merge(stop) or more
        self._ask_for_rewrite()
        if store.files.has_dead and self._unlinking.may_begin():
            self._unlinking.begin(self._unlinking.jobs.run(self._unlink))
        return self._unlinking.go_on(stop) or more

    def _unlink(self) -> None:
        self._store.files.unlink_dead()

    # Moves.

    def move_all(self, then: Callable[[], None]) -> None:
        """Move what lists have to be moved, then call `then`; at once if there is nothing, or while moving fails."""
        if self._moving.failure or not (self._moving.is_running() or reaches(self._store, 1)):
            then()
        else:
            self._waiting.append(then)

    def _move(self, stop: Callable[[], bool]) -> bool:
        """Do what is due of moves; return whether more can be done at once."""
        moving = self._moving
        while moving.is_running() or self._begin_move():
            if moving.go_on(stop):
                return True
            if moving.is_running():
                return False
            self._store.move_failed = moving.failure
            if not (moving.failure or self._output.rows):
                moving.wait(_LOOK_MS)
            self._serve()
        return False

    def _serve(self) -> None:
        """Call what waited for the move that has ended; if no further one can begin, call all."""
        served, self._served = self._served, []
        store = self._store
        if self._waiting and not (store.limit_bytes and self._moving.may_begin() and reaches(store, 1)):
            served += self._waiting
            self._waiting = []
        for then in served:
            then()

    def _begin_move(self) -> bool:
        """Begin a move if one is due; return whether it is."""
        self._serve()
        store, moving = self._store, self._moving
        limit = store.limit_bytes
        if not (limit and moving.may_begin()):
            return False
        pace: Pace | None = self._pace
        lists, bytes_max, is_short = take_queued(store), _FILE_BYTES_MAX, False
        if self._waiting:
            bytes_max = sys.maxsize
            if not reaches(store, _AT_ONCE_BYTES_MAX):
                pace = None
        elif not reaches(store, min(_MOVED_BYTES, limit // _MOVED_PART)):
            now_ms = self._clock.monotonic_ms()
            if 2 * store.hot_bytes <= limit or now_ms < self._look_ms:
                return False
            self._look_ms = now_ms + _LOOK_MS
            if not reaches(store, limit // _SHORT_PART, is_short=True):
                return False
            lists, is_short = chain(lists, take_small(store)), True
        self._served, self._waiting = self._waiting, []
        output = self._output = Output(store.files, moving.jobs, self._clock)
        moving.begin(move(store, lists, output, pace, self.codec, bytes_max, is_short), output)
        return True

    # Merges.

    def _merge(self, stop: Callable[[], bool]) -> bool:
        """Look at what streams have of the files, after deletions, and merge; return whether more can be done at
        once.
        """
        merging, store = self._merging, self._store
        if merging.may_begin() and store.changes != self._surveyed and store.limit_bytes and not self._moving.failure:
            self._surveyed = store.changes
            output = Output(store.files, merging.jobs, self._clock)
            merging.begin(self._survey_and_merge(output), output)
        return merging.go_on(stop)

    def _survey_and_merge(self, output: Output) -> Steps:
        began_ms = self._clock.monotonic_ms()
        found: dict[SegmentFile, Use] = {}
        yield from survey(self._lists, found)
        uses = choose([use for use in found.values() if use.file.number not in self._unmergeable])
        del found
        took_ms = self._clock.monotonic_ms() - began_ms
        self._merging.wait(max(_SURVEY_MS, _SURVEY_PART * took_ms))
        if not uses:
            return
        self._surveyed = -1  # once it is done, or has failed, there may be more to merge
        try:
            yield from merge(self._store, uses, self._merging.jobs, output, self._pace, self.codec)
        except Unmergeable as error:
            log.warning("segments-damaged", "%s; the file is not merged", str(error))
            self._unmergeable.add(error.file.number)
            output.abandon()

    def _ask_for_rewrite(self) -> None:
        """Have the journal rewritten if its base holds much that nothing else has, or anything on a full disk; and when
        the disk begins to be full: the journal has entries that are in files as well.
        """
        files, now_ms = self._store.files, self._clock.monotonic_ms()
        stale, was_failing, self._was_failing = files.stale_size, self._was_failing, bool(self._moving.failure)
        begins = self._was_failing and not was_failing
        if now_ms < self._rewrite_ms or not (begins or stale):
            return
        if self._was_failing or (stale >= _STALE_BYTES_MIN and stale * _STALE_PART > sum(files.sizes.values())):
            self._rewrite_ms = now_ms + _REWRITE_MS
            self._want_rewrite()

    # The end.

    @property
    def is_busy(self) -> bool:
        """Whether a job is under way, which `close` would wait for."""
        return self._moving.jobs.is_busy or self._merging.jobs.is_busy or self._unlinking.jobs.is_busy

    def close(self) -> None:
        """Wait for the jobs that are under way, abandon unfinished files, and unlink what nothing holds."""
        for work in (self._moving, self._merging, self._unlinking):
            work.close()
        self._store.settle()
        try:
            self._store.files.unlink_dead()
        except OSError:
            pass  # the next start unlinks them: no base names them
        waiting, self._waiting, self._served = self._served + self._waiting, [], []
        for then in waiting:
            then()
