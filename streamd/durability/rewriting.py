"""Decides when the journal is rewritten, and does it in slices, with retries."""

from collections.abc import Callable

from streamd.base.errors import CommandError, reason_of
from streamd.base.limits import SLICE_US
from streamd.base.log import log
from streamd.connected.durability_ports import Mover
from streamd.connected.state import State
from streamd.durability.barrier import Barrier
from streamd.journal.jobs import Done, Submit
from streamd.journal.journal import Journal
from streamd.journal.rewrite import Rewrite, UnwritableKey

# Before the next try by itself: while the disk refuses writes, which clients wait for, and after a bug in a command,
# which may be met again and again.
_SOON_MS = 1_000
# After any other failure, twice as long each time, as in Redis: a rewrite takes CPU, and the disk space of the data.
_RETRY_MS_MIN = 60_000
_RETRY_MS_MAX = 3_600_000
# So often a rewrite may begin again instead of writing entries of segment files into an increment.
_RESTARTS_MAX = 3
# How often a rewrite in the foreground tries to sync the directory.
_TRIES_MAX = 3


class Rewriting:
    """Rewrites one engine's journal: on request, when it has grown, or when it may differ from the keyspace.

    After an exception the whole rewrite is abandoned, the present files stay, and it is repeated from the beginning:
    after 1, 2, 4 ... 60 minutes, or on request.

    count: successful rewrites; failures: failed ones. is_planned: one begins as soon as it can. last_error: the reason
    of the last failure, with the key, "" after a success. last_took_s: of the last one; -1 before the first.
    saved_ms: the Unix time of the last success, or of the start.
    """

    def __init__(self, state: State, journal: Journal, barrier: Barrier, submit_beside: Submit) -> None:
        """submit_beside: takes jobs that hold no output; tick() is wanted after each."""
        self._state = state
        self._journal = journal
        self._barrier = barrier
        self._submit_beside = submit_beside
        barrier.on_sync_failed = self.begin_or_plan
        self.is_planned = False
        self._is_syncing = False
        # The mover that was asked to write what should be in files before a rewrite begins, and whether it has.
        self._asked: Mover | None = None
        self._has_moved = False
        self._restarts = 0
        # How often there was a doubt; up to which one the running rewrite, and the last one, has what is there.
        self._doubts = self._doubts_seen = self._doubts_settled = 0
        self._started_ms = 0
        self._said_s = 0  # so long after that it was last said how far a rewrite has come
        self._next_try_ms = 0
        self.last_took_s = -1
        self.last_error = ""
        self.count = self.failures = 0
        self._failures_in_a_row = 0
        self.saved_ms = state.started_ms
        self._saved_dirty = 0
        self._saved_dirty_next = 0

    # -- when -----------------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """Begin a rewrite if one is wanted, and do a slice of one; return whether more is to be done at once."""
        journal, now_ms = self._journal, self._state.clock.monotonic_ms()
        if journal.rewrite is None:
            wanted = self._is_urgent or self.is_doubtful or self.is_planned or self._has_grown()
            if wanted and now_ms >= self._next_try_ms and (self._is_urgent or self._have_moved()):
                self.begin_or_plan()
        rewrite = journal.rewrite
        if rewrite is not None and not self._is_syncing and (now_ms >= self._next_try_ms or not rewrite.is_named):
            return self._step()
        return False

    def doubt(self) -> None:
        """Have the journal rewritten soon: it may differ from the keyspace (a command has ended with a bug)."""
        self._doubts += 1

    @property
    def is_doubtful(self) -> bool:
        """Whether a doubt is not yet settled by a rewrite."""
        return self._doubts != self._doubts_settled

    def _has_grown(self) -> bool:
        values = self._state.config.values
        percentage, minimum = values["auto-aof-rewrite-percentage"], values["auto-aof-rewrite-min-size"]
        assert isinstance(percentage, int)
        assert isinstance(minimum, int)
        size = self._journal.size
        base = self._journal.base_bytes or 1
        return percentage > 0 and size > minimum and (size - base) * 100 >= base * percentage

    def _have_moved(self) -> bool:
        """Return whether what can be in segment files is there, or could not be moved; else have it moved."""
        mover = self._state.mover
        if mover is None or self._has_moved:
            return True
        if mover is not self._asked:
            self._asked, self.is_planned = mover, True
            try:
                mover.move_all(self._moved)
            except Exception as error:
                self._state.note_bug("moving entries before a rewrite", may_have_changed=False, error=error)
                self._moved()
        return self._has_moved

    def _moved(self) -> None:
        self._asked, self._has_moved = None, True

    def plan(self) -> None:
        """Have a rewrite begin as soon as it can."""
        self.is_planned = True

    def start(self) -> None:
        """Begin a rewrite; within a transaction, or while segments are to be moved, have it begin after that.

        Raises: CommandError if one is running; OSError.
        """
        if self._journal.rewrite is not None:
            raise CommandError("ERR Background append only file rewriting already in progress")
        state = self._state
        self._next_try_ms = 0
        if state.records:
            # The rewrite would see the state with them, and then take them for what was done to it: a SWAPDB twice.
            self.is_planned = True
            return
        if not self._is_urgent and not self._have_moved():
            return
        self._has_moved = False
        defaults = state.stream_defaults or (
            state.config.integer("stream-idmp-duration"),
            state.config.integer("stream-idmp-maxsize"),
        )
        self.is_planned = False
        self._doubts_seen = self._doubts
        self._started_ms = state.clock.monotonic_ms()
        self._said_s = 0
        self._saved_dirty_next = state.dirty
        history = state.replication.note_of_rewrite()
        self._journal.begin_rewrite(
            state.keyspace,
            defaults,
            state.libraries.codes(),
            self._submit_beside,
            history,
            state.cold,
            self._restarts < _RESTARTS_MAX,
        )

    @property
    def _is_urgent(self) -> bool:
        """Whether the files that are there do not have all, so that nothing else is done before."""
        return self._barrier.sync_failed is not None or self._journal.is_unsaved

    def begin_or_plan(self) -> None:
        """Begin a rewrite, or plan one if one is running; failures are logged and retried."""
        if self._journal.rewrite is not None:
            self.is_planned = True
            return
        try:
            self.start()
        except Exception as error:
            self._fail(error)

    def _step(self) -> bool:
        """Work on the rewrite for a slice; return whether to go on at once."""
        rewrite = self._journal.rewrite
        assert rewrite is not None
        clock = self._state.clock
        deadline_us = clock.monotonic_us() + SLICE_US
        try:
            rewrite.step(lambda: clock.monotonic_us() >= deadline_us)
            if rewrite.must_restart:
                self._journal.abandon_rewrite()
                self._restarts += 1
                self.is_planned = self._has_moved = True
                return True
            if not rewrite.is_complete:
                self._say_how_far(rewrite)
                return not rewrite.must_wait
            job, synced = rewrite.start_sync()
        except Exception as error:
            self._fail(error)
            return False

        def done(error: BaseException | None) -> None:
            if error is None:
                synced()
                self._switch()
            else:
                self._fail(error)

        self._run_job(job, done)
        return False

    def _run_job(self, job: Callable[[], None], done: Done) -> None:
        """Run only a job until it has ended."""

        def ended(error: BaseException | None) -> None:
            self._is_syncing = False
            done(error)

        self._is_syncing = True
        try:
            self._barrier.run_job(job, ended)
        except Exception as error:
            self._is_syncing = False
            self._fail(error)

    def _say_how_far(self, rewrite: Rewrite) -> None:
        """Show the progress once a second."""
        seconds = (self._state.clock.monotonic_ms() - self._started_ms) // 1000
        if seconds > self._said_s:
            self._said_s = seconds
            text, written_mb = "rewriting the journal: %d of %d keys, %d MB", rewrite.base_bytes >> 20
            log.info("journal-rewriting", text, rewrite.keys_done, rewrite.keys_total, written_mb)

    def _switch(self) -> None:
        try:
            job, done = self._journal.start_switch()
        except Exception as error:
            self._fail(error)
            return

        def ended(error: BaseException | None) -> None:
            if error is None:
                self._finish(done())
                return
            rewrite = self._journal.rewrite
            assert rewrite is not None
            if not rewrite.is_named:
                self._fail(error)
            elif self._state.config.values["appendfsync"] == "always":
                self._barrier.die(f"cannot sync {self._journal.directory}: {reason_of(error)}")
            else:
                self._next_try_ms = self._state.clock.monotonic_ms() + _SOON_MS  # the job is repeated by the next step

        self._run_job(job, ended)

    def _finish(self, remove: Callable[[], None]) -> None:
        clock = self._state.clock
        self.last_took_s = (clock.monotonic_ms() - self._started_ms) // 1000
        self.last_error = ""
        self._failures_in_a_row = self._restarts = 0
        self.count += 1
        if self.is_doubtful:
            self._next_try_ms = clock.monotonic_ms() + _SOON_MS
        self._doubts_settled = self._doubts_seen
        self.saved_ms = clock.now_ms()
        self._saved_dirty = self._saved_dirty_next
        self._barrier.note_rewritten()
        log.info("journal-rewritten", "the journal is rewritten: %d bytes", self._journal.base_bytes)
        # Nobody waits for it: to free a disk takes milliseconds. What fails is left for a start.
        self._submit_beside(remove, lambda error: None)

    def _fail(self, error: BaseException) -> None:
        """Abandon the rewrite, and plan the next one. One whose files a manifest may name goes on instead."""
        is_bug = not isinstance(error, OSError)
        if is_bug:
            self._state.note_bug("rewriting the journal", may_have_changed=False, error=error)
        self.last_error = str(error) if isinstance(error, OSError | UnwritableKey) else reason_of(error)
        self.failures += 1
        wait_ms = min(_RETRY_MS_MIN << min(self._failures_in_a_row, 6), _RETRY_MS_MAX)
        self._failures_in_a_row += 1
        rewrite = self._journal.rewrite
        is_named = rewrite is not None and rewrite.is_named
        if is_named or (self._is_urgent and not is_bug):
            wait_ms = _SOON_MS
        text = "rewriting the journal failed: %s; the files that are there stay, the next try is in %d s"
        log.warning("journal-rewrite-failed", text, self.last_error, wait_ms // 1000)
        self._next_try_ms = self._state.clock.monotonic_ms() + wait_ms
        if not is_named:
            self.is_planned = True
            if rewrite is not None:
                self._journal.abandon_rewrite()

    def save(self) -> None:
        """Rewrite in the foreground (SAVE). Raises: CommandError if that fails."""
        self._barrier.drain()
        before = self.count
        if self._journal.rewrite is None:
            self._has_moved = True  # there is no time for that
            self.begin_or_plan()
        tries = 0
        while self._journal.rewrite is not None and not self._barrier.is_dead and tries < _TRIES_MAX:
            tries += self._journal.rewrite.is_named  # by then all is done but a sync that does not succeed
            if not self._is_syncing:
                self._step()
            if self._journal.rewrite is not None:
                self._journal.rewrite.wait()
            self._barrier.drain()
        if self.count == before:
            raise self.failure()

    def failure(self) -> CommandError:
        """Return the error for a client whose request needed a rewrite that failed."""
        why = f": {self.last_error}" if self.last_error else "; the log of the server says why"
        return CommandError(f"ERR the journal could not be rewritten{why}")

    # -- what is said of it ---------------------------------------------------------------------------------------

    def note_saved(self) -> None:
        """Note that the journal holds the present state."""
        self._saved_dirty = self._state.dirty

    @property
    def unsaved_changes(self) -> int:
        """The number of changes since the last rewrite began."""
        return self._state.dirty - self._saved_dirty

    @property
    def takes_s(self) -> int:
        """The seconds that the running rewrite has taken so far; -1 without one."""
        return -1 if self._journal.rewrite is None else (self._state.clock.monotonic_ms() - self._started_ms) // 1000

    @property
    def progress(self) -> tuple[int, bool]:
        """The number of successful rewrites, and whether one is under way or due."""
        return self.count, self.is_running or self.is_planned

    @property
    def has_job(self) -> bool:
        """Whether a job of the rewrite is under way, which must not be abandoned then."""
        return self._is_syncing

    @property
    def is_running(self) -> bool:
        """Whether a rewrite is under way."""
        return self._journal.rewrite is not None
