"""Persistence: one engine's journal from start to stop: loading, turns, and its fields of INFO."""

from collections.abc import Callable, Iterator

from streamd.base.errors import CommandError
from streamd.base.filesystem import FileSystem
from streamd.base.log import log
from streamd.connected.blocking import Waiter
from streamd.connected.client import Client
from streamd.connected.state import State
from streamd.durability.backups import Backups
from streamd.durability.barrier import Barrier
from streamd.durability.cold_segments import ColdSegments
from streamd.durability.replay import Replay
from streamd.durability.rewriting import Rewriting
from streamd.journal.jobs import Submit, Syncs
from streamd.journal.journal import Journal
from streamd.journal.loader import Loader, LoadError
from streamd.journal.notes import DEFAULTS
from streamd.journal.recovery import Cut, DamagedError


class Persistence:
    """The link between an engine and its journal.

    open() -> load() to its end -> begin() -> append_unit, end_turn, tick ... -> close(). While the server runs:
    begin_anew() in place of the first three.

    history: the last note of the journal, as far as it is loaded, about where it stands in a replication history.
    submit_beside: takes jobs for the disk that no reply waits for. on_synced: called behind each sync.
    """

    def __init__(
        self,
        state: State,
        files: FileSystem,
        directory: str,
        syncs: Syncs,
        submit_beside: Submit,
        on_fatal: Callable[[str], None],
        serve: Callable[[list[Waiter[Client]]], None],
    ) -> None:
        """Jobs that output may wait for go to `syncs`, others to `submit_beside`; after one of these, tick() is wanted.
        `serve` tries the commands of blocked clients again.
        """
        self._state = state
        self._serve = serve
        config = state.config
        self.journal = Journal(files, directory, config.text("appenddirname"), config.text("appendfilename"))
        self.barrier = Barrier(state, self.journal, syncs, on_fatal)
        self.barrier.on_synced = self._serve_waiters
        self.writers = self.barrier.writers
        self.rewriting = Rewriting(state, self.journal, self.barrier, submit_beside)
        self.start_rewrite, self.save, self.doubt = self.rewriting.start, self.rewriting.save, self.rewriting.doubt
        self.cold = ColdSegments(state, self.journal, submit_beside, self.rewriting.plan)
        self.set_stream_memory = self.cold.set_limit
        # Take the effects of one command or one transaction; write the turn's units and let its output leave, or hold
        # it. (On the hot path: no call between.)
        self.append_unit = self.journal.append_unit
        self.end_turn = self.barrier.end_turn
        self.wait_for = self.barrier.wait_for
        self.cut: Cut | None = None
        self._load_started_ms = self._load_began_ms = 0  # as a wall time, and as a monotonic one
        self._waiters: list[Waiter[Client]] = []
        self.submit_beside = submit_beside
        self.on_synced: Callable[[], None] = lambda: None
        self.history: list[bytes] | None = None
        self._loaded_defaults: tuple[int, int] | None = None
        self.backups = Backups(state, self.journal, self.rewriting)
        for name in ("stream-idmp-duration", "stream-idmp-maxsize"):
            config.on_change(name, self._note_defaults)

    # -- start and stop -------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Lock and open the directory. Raises: LockedError, DamagedError, OSError."""
        self.journal.open()
        self.cold.open()
        self._state.set_loading(True)
        self._state.persistence = self.fields
        self._load_started_ms = self._state.clock.now_ms()
        self._load_began_ms = self._state.clock.monotonic_ms()

    def load(self) -> Iterator[None]:
        """Load the state, a few milliseconds of work at each call.

        Raises: DamagedError, LoadError, OSError; ConfigError if entries in segment files are to be in memory, and do
        not fit.
        """
        cold = self.cold.loading(self._state)
        replay = Replay(self._state, cold)
        steps = self.journal.load(Loader(self._state.keyspace, replay))
        while True:
            replay.borrow()
            try:
                ended = next(steps, True) is True
            finally:
                replay.finish()
            self.history = replay.history
            if ended:
                yield from self.cold.loaded(cold)
                self._loaded_defaults = replay.defaults
                if self._state.read_only is not None or self.history is not None:
                    self._state.stream_defaults = replay.defaults
                return
            yield

    def begin(self) -> None:
        """Open the journal for writing. Raises: OSError."""
        self.cut = self.journal.start(self._state.clock.now_ms())
        if self.cut is not None:
            log.warning("journal-cut", "%s", self.cut)
        if self.journal.loading.earlier is not None:
            text = "an earlier version wrote %s: holes in its middle may go unnoticed until a rewrite (BGREWRITEAOF)"
            log.info("journal-earlier", text, self.journal.loading.earlier)
        self._log_moved()
        self.cold.begin()
        self._state.records = []
        self._state.journal = self
        self._state.set_loading(False)
        if self.history is None:
            self._note_defaults()  # else see note_new_defaults
        self._hand_over()
        self.journal.write()
        self.journal.sync()

    def begin_anew(self) -> None:
        """Start a journal of the running server: a rewrite replaces the directory's contents by the present state.

        Files that this process has neither loaded nor written are moved aside then. Raises: LockedError, DamagedError,
        OSError.
        """
        try:
            self.journal.open()
            self.journal.start_anew(self._state.own_files, self._state.clock.now_ms())
            self._log_moved()
            if self.journal.old_directory is not None:
                text = "%s holds a journal that was not loaded: it goes to %s when the rewrite that begins has ended"
                log.warning("journal-moved", text, self.journal.directory, self.journal.old_directory)
            self.start_rewrite()
        except BaseException:
            self.journal.close()
            raise
        self._state.records = []
        self._state.journal = self
        self._state.persistence = self.fields

    def _log_moved(self) -> None:
        for path in self.journal.moved_aside:
            log.warning(
                "journal-leftover", "%s: what a crash has left of a rewrite; the journal is whole without it", path
            )

    def close(self) -> str | None:
        """Write and sync all notes, let held replies leave, and close; return the reason if that failed, else None."""
        self.backups.close()
        failure: str | None = None
        if self.journal.writer is not None and not self.barrier.is_dead:
            self._hand_over()
            self.barrier.drain()
            try:
                self._write_end()
                self.barrier.release_all()
                self._serve_waiters()
            except Exception as error:
                if not isinstance(error, OSError | CommandError):
                    self._state.note_bug("the end of the journal", may_have_changed=False)
                failure = f"the journal could not be written at the end: {error}"
                log.warning("journal-failed", "%s", failure)
        self.journal.close()
        self.cold.close()
        self._state.own_files = self.journal.own
        self._state.journal = None
        self._state.records = None
        self._state.persistence = dict
        return failure

    def _write_end(self) -> None:
        """Write and sync all; if that may have failed, rewrite. Raises: OSError, CommandError."""
        journal = self.journal
        assert journal.writer is not None
        if journal.is_unsaved or self.rewriting.is_doubtful or self.barrier.sync_failed is not None:
            self.save()
        try:
            journal.write()
            journal.sync()
        except OSError:
            if self._state.config.values["appendfsync"] == "always":
                raise
            self.save()
            journal.write()
            journal.sync()
        journal.writer.note_synced()

    # -- turns ----------------------------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """Record the effects of the running unit so far as a unit of their own."""
        records = self._state.records
        if records:
            self._state.records = []
            self.journal.append_unit(records)

    def write_now(self) -> None:
        """Write what the running turn has recorded so far. Raises: OSError; the end of the turn tries again."""
        self._hand_over()
        self.journal.write()

    def tick(self) -> bool:
        """Do the work that is due, and a slice of a rewrite; return whether more is to be done at once."""
        self.barrier.tick()
        if self.barrier.is_dead:
            return False
        if self.backups.tick():
            self._serve_waiters()
        return self.cold.tick() | self.rewriting.tick()

    def reload(self, rewrite: bool) -> None:
        """Empty the keyspace and load the journal, after a rewrite if wanted (DEBUG RELOAD, DEBUG LOADAOF).

        If loading fails the server ends, as in Redis: the next rewrite would replace the whole journal by the loaded
        part.
        Raises: CommandError.
        """
        state = self._state
        self._hand_over()
        if rewrite:
            self.save()
        self.barrier.drain()
        if self.journal.is_unsaved or (self.journal.rewrite is not None and self.journal.rewrite.is_named):
            raise CommandError("ERR Error trying to load the AOF files: they do not have all yet, try again later")
        try:
            self.journal.write()
        except OSError as error:
            raise CommandError(f"ERR Error trying to load the AOF files: {error.strerror}")
        try:
            if self.journal.rewrite is not None:
                self.journal.abandon_rewrite()
            state.records = None
            state.set_loading(True)
            for db in state.keyspace:
                db.clear()
            state.libraries.flush()
            for _ in self.load():
                pass
            self.rewriting.note_saved()
        except Exception as error:
            if not isinstance(error, OSError | DamagedError | LoadError):
                state.note_bug("loading the journal", may_have_changed=False)
            self.barrier.die(f"Error trying to load the AOF files: {error}")
            raise CommandError(f"ERR Error trying to load the AOF files: {error}")
        finally:
            state.set_loading(False)
            state.records = []

    # -- what commands ask ----------------------------------------------------------------------------------------

    def sync_goal(self) -> int:
        """Return the goal for is_synced() that covers all records so far."""
        assert self.journal.writer is not None
        return self.journal.writes + self.journal.writer.has_units

    def is_synced(self, goal: int) -> bool:
        """Return whether all records up to a goal are synced."""
        return self.journal.synced_writes >= goal and not self.journal.is_unsaved

    def serve_when_synced(self, waiter: Waiter[Client]) -> None:
        """Have a waiter try again after each sync; the next one begins at the end of this turn."""
        self._waiters.append(waiter)
        self.barrier.want_sync_soon()

    def _serve_waiters(self) -> None:
        self.on_synced()
        waiters, self._waiters = self._waiters, []
        if waiters:
            try:
                self._serve(waiters)
            finally:
                self._waiters += [waiter for waiter in waiters if waiter.client.waiter is waiter]

    def _note_defaults(self) -> None:
        """Record the settings of new streams: a stream's first record does not have them."""
        if self._state.records is not None and self._state.journal is self and self._state.read_only is None:
            self._state.record(0, [DEFAULTS, *(b"%d" % number for number in self._defaults())], changes=0)

    def _defaults(self) -> tuple[int, int]:
        config = self._state.config
        return config.integer("stream-idmp-duration"), config.integer("stream-idmp-maxsize")

    def note_new_defaults(self) -> None:
        """Record the settings of new streams if the loaded journal has others, as an effect that replicas get, too.

        (Replicas that go on where they were have those of before the start.)
        """
        if self._defaults() != self._loaded_defaults:
            self._note_defaults()

    def lead(self) -> None:
        """Make the notes of a new primary durable, before it answers the first write. Raises: OSError."""
        self._note_defaults()
        self.write_now()
        self.journal.sync()

    @property
    def may_change_files(self) -> bool:
        """Whether no job works on the journal's files, nor is to be tried again."""
        journal = self.journal
        is_switching = journal.rewrite is not None and journal.rewrite.is_switching
        return not (self.barrier.is_busy or self.rewriting.has_job or journal.is_unsaved or is_switching)

    @property
    def loading_ms(self) -> int:
        """How long ago loading began."""
        return self._state.clock.monotonic_ms() - self._load_began_ms

    @property
    def is_rewriting(self) -> bool:
        """Whether a rewrite is running."""
        return self.journal.rewrite is not None

    @property
    def saved_s(self) -> int:
        """The Unix time of the last successful rewrite, or of the start, in seconds."""
        return self.rewriting.saved_ms // 1000

    def fields(self) -> dict[str, object]:
        """Return the fields of INFO's section Persistence that a journal has."""
        journal, barrier, rewriting = self.journal, self.barrier, self.rewriting
        status = "err" if rewriting.last_error else "ok"
        fields: dict[str, object] = {
            "loading": int(self._state.is_loading),
            "rdb_changes_since_last_save": rewriting.unsaved_changes,
            "rdb_bgsave_in_progress": 0,
            "rdb_last_save_time": self.saved_s,
            "rdb_last_bgsave_status": status,
            "rdb_saves": rewriting.count,
            "aof_enabled": 1,
            "aof_rewrite_in_progress": int(self.is_rewriting),
            "aof_rewrite_scheduled": int(rewriting.is_planned),
            "aof_last_rewrite_time_sec": rewriting.last_took_s,
            "aof_current_rewrite_time_sec": rewriting.takes_s,
            "aof_last_bgrewrite_status": status,
            "aof_last_bgrewrite_error": rewriting.last_error,
            "aof_rewrites": rewriting.count,
            "aof_last_write_status": "err" if barrier.write_failed or barrier.sync_failed else "ok",
            "aof_current_size": journal.size,
            "aof_base_size": journal.base_bytes,
            "aof_pending_rewrite": 0,
            "aof_buffer_length": 0,
            "aof_pending_bio_fsync": int(barrier.is_busy),
            "aof_delayed_fsync": barrier.delayed_syncs,
        }
        if self._state.is_loading:
            loading = journal.loading
            total, done = loading.bytes_total, loading.bytes_done
            fields |= {
                "loading_start_time": self._load_started_ms // 1000,
                "loading_total_bytes": total,
                "loading_loaded_bytes": done,
                "loading_loaded_perc": f"{100 * done / total if total else 0:.2f}",
                "loading_eta_seconds": self._eta_s(done, total),
            }
        return fields

    def _eta_s(self, done: int, total: int) -> int:
        took_ms = self.loading_ms
        return took_ms * (total - done) // done // 1000 if done else 1
