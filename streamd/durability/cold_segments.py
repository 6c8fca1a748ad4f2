"""The segment files of a server's journal, from its start on: opened, unlinked, and read back into memory."""

from collections.abc import Callable, Iterator
from typing import Final

from streamd.base.errors import CommandError, reason_of
from streamd.base.limits import SLICE_US
from streamd.base.log import log
from streamd.base.process import read_process_facts
from streamd.cold.cold_list import ColdList
from streamd.cold.files import STREAM, SegmentFiles
from streamd.cold.store import ColdStore
from streamd.configuration.option import ConfigError
from streamd.connected.state import State
from streamd.data.keyspace import Keyspace
from streamd.data.listing import streams_of
from streamd.journal.cold_loading import ColdLoading, UnreadableError
from streamd.journal.jobs import Submit
from streamd.journal.journal import Journal
from streamd.stream.stream import Stream

OPTION: Final = "stream-memory"
# Before files are unlinked again that could not be, and before blocks are read again.
_RETRY_MS: Final = 60_000


class ColdSegments:
    """Makes the server's store of cold segments when it is needed, and ends it when it is not.

    With `stream-memory` the server has one (`State.cold`). Without, it has one if the base names segment files. An
    explicit 0 brings their entries back into memory; then the store goes, and the next rewrite lets go of the files.

    memory_bytes: returns the machine's memory.
    """

    def __init__(self, state: State, journal: Journal, submit_beside: Submit, plan_rewrite: Callable[[], None]) -> None:
        self._state = state
        self._journal = journal
        self._submit = submit_beside
        self._plan_rewrite = plan_rewrite
        self.memory_bytes = _memory_bytes
        self._ended: ColdStore | None = None  # its files are still named by the base
        self._work: Iterator[bool] | None = None
        self._is_unlinking = False
        self._next_try_ms = 0

    # The start.

    def open(self) -> None:
        """Make the store if the option says so. Raises: OSError."""
        limit_bytes = self._limit_bytes
        if limit_bytes:
            self._make(self._state, limit_bytes, 0)

    @property
    def _limit_bytes(self) -> int:
        return int(self._state.config.values.get(OPTION, 0))

    def _make(self, state: State, limit_bytes: int, number: int) -> ColdStore:
        """Return the store of a state; it has one from then on. Raises: OSError."""
        journal = self._journal
        store = state.cold
        if store is None and self._ended is not None:
            store, self._ended = self._ended, None
        if store is None:
            store = ColdStore(SegmentFiles(journal.files, journal.directory, journal.filename, number), limit_bytes)
        state.cold = store
        store.files.number = max(store.files.number, number)
        return store

    def loading(self, state: State) -> ColdLoading:
        """Return what applies the records of a base that is to be loaded into a state."""

        def open_store(limit_bytes: int, number: int) -> ColdStore:
            is_new = state.cold is None
            store = self._make(state, limit_bytes, number)
            if is_new:
                store.in_place += 1  # until the present slice of loading ends: see Replay
            return store

        return ColdLoading(open_store)

    def loaded(self, loading: ColdLoading) -> Iterator[None]:
        """Take what was loaded; with an explicit 0 all entries come into memory, a few milliseconds at each step.

        Raises: DamagedError, ConfigError.
        """
        self._journal.holds = loading.holds
        if not loading.is_begun:
            return
        loading.check(self._state.keyspace)
        if self._follow(loading):
            return
        self.check_memory(self._state.keyspace)
        try:
            for _ in self._bring_back(True):
                yield
        except CommandError as error:
            raise UnreadableError(self._journal.directory, str(error).removeprefix("ERR "))

    def taken(self, loading: ColdLoading) -> None:
        """Take what was loaded while the server ran; with an explicit 0 all entries come into memory later."""
        if loading.is_begun and not self._follow(loading):
            self._work = self._bring_back(False)

    def given_up(self, state: State) -> None:
        """Let go of a state that was loaded beside that of the server, and does not take its place."""
        store = state.cold
        if store is not None and store is not self._state.cold:
            self._ended = store
        state.cold = None

    def _follow(self, loading: ColdLoading) -> int:
        """Set the limit of the option; where that was not given, it takes the one of the base. Return the limit."""
        config = self._state.config
        limit_bytes = self._limit_bytes
        if not (limit_bytes or self.is_off):
            config.values[OPTION] = limit_bytes = loading.limit_bytes
        loading.store.set_limit(limit_bytes)
        return limit_bytes

    @property
    def is_off(self) -> bool:
        """Whether all entries are to be in memory, because somebody has said so."""
        config = self._state.config
        return not self._limit_bytes and (OPTION in config.given or OPTION in config.changed)

    def begin(self) -> None:
        """Unlink what a crash has left. Raises: nothing."""
        journal, store = self._journal, self._state.cold or self._ended
        try:
            files = SegmentFiles(journal.files, journal.directory, journal.filename) if store is None else store.files
            orphans = files.unlink_orphans()
        except OSError as error:
            log.warning("segments-left", "segment files that no base names could not be removed: %s", error)
            return
        if orphans:
            text = "%d segment files that a crash has left are removed: all that is in them is in the journal"
            log.warning("segments-orphaned", text, len(orphans))

    # While the server runs.

    def set_limit(self, limit_bytes: int) -> None:
        """Let streams take so much memory; 0: all of it. Raises: ConfigError; then nothing has changed."""
        store = self._state.cold
        if limit_bytes:
            if store is not None and store.limit_bytes:
                store.set_limit(limit_bytes)
                return
            try:
                store = self._make(self._state, limit_bytes, 0)
            except OSError as error:
                raise ConfigError(f"{self._journal.directory}: {reason_of(error)}")
            store.set_limit(limit_bytes)
            self._work = self._put_on_shelf(store)
        elif store is not None and store.limit_bytes:
            self.check_memory(self._state.keyspace)
            store.set_limit(0)
            self._work = self._bring_back(False)

    def check_memory(self, keyspace: Keyspace) -> None:
        """Return if all entries fit into memory. Raises: ConfigError."""
        values = [value for db in keyspace for value in db.values.values() if type(value) is Stream]
        wanted = sum([stream.log.content_bytes for stream in values])
        there, what = self.memory_bytes(), "this machine has"
        maxmemory = self._state.config.integer("maxmemory")
        if maxmemory and (maxmemory < there or not there):
            there, what = maxmemory, "maxmemory allows"
        if there and wanted > there:
            raise ConfigError(
                f"{OPTION} 0 would bring {wanted} bytes of entries into memory, and {what} {there}; trim the streams, "
                f"or leave {OPTION} on"
            )

    def _put_on_shelf(self, store: ColdStore) -> Iterator[bool]:
        """Have the sealed nodes of all streams written from now on; new ones are, anyway."""
        is_first = found = True
        while found:  # one that had another key when its key was looked up is found by the next look
            found = False
            for stream in streams_of(self._state.keyspace):
                if stream is None:
                    yield True
                elif is_first or not stream.log.may_wait:
                    stream.log.put_on(store)
                    found = True
            is_first = False

    def _bring_back(self, is_loading: bool) -> Iterator[bool]:
        """Read all blocks, and let the store end; yields whether there is more to do at once. Raises: CommandError."""
        store = self._state.cold
        assert store is not None
        while True:
            found = False
            for stream in streams_of(self._state.keyspace):
                if stream is None:
                    yield True
                    continue
                while isinstance(cold := stream.log.sealed, ColdList) and cold.rows:
                    found = True
                    store.in_place += 1
                    try:
                        cold.bring_back()
                    finally:
                        store.in_place -= 1
                    yield True
                stream.log.take_off()
            store.settle()
            if is_loading or not store.held[STREAM]:
                break
            # What holds files is a snapshot, a removed stream, or one that has changed its place meanwhile.
            if not found and not self._has_rows():
                break
            yield False
        store.unwritten.clear()
        store.small.clear()
        self._state.cold, self._ended = None, store
        self._plan_rewrite()

    def _has_rows(self) -> bool:
        """Return whether a stream has entries in files: one look at all, so that none changes its place meanwhile."""
        for db in self._state.keyspace:
            for value in db.values.values():
                if type(value) is Stream and isinstance(cold := value.log.sealed, ColdList) and cold.rows:
                    return True
        return False

    def close(self) -> None:
        """Close the files; one that is still read is opened again."""
        store = self._state.cold or self._ended
        if store is not None:
            store.files.close()

    def tick(self) -> bool:
        """Do the work that is due; return whether more is to be done at once."""
        store = self._state.cold or self._ended
        if store is None:
            return False
        store.settle()
        now_ms = self._state.clock.monotonic_ms()
        is_mine = self._state.mover is None or store is self._ended
        if is_mine and store.files.has_dead and not self._is_unlinking and now_ms >= self._next_try_ms:
            self._unlink(store.files)
        if store is self._ended and not (store.held.total() or store.files.has_dead):
            store.files.close()
            self._ended = None
        return self._work is not None and now_ms >= self._next_try_ms and self._go_on(self._work)

    def _go_on(self, work: Iterator[bool]) -> bool:
        """Work for a slice; return whether more is to be done at once."""
        clock = self._state.clock
        until_us = clock.monotonic_us() + SLICE_US
        try:
            for is_more in work:
                if not is_more or clock.monotonic_us() >= until_us:
                    return is_more
        except CommandError as error:
            text = "entries could not be read back into memory: %s; the next try is in %d s"
            log.warning("segments-not-returned", text, str(error).removeprefix("ERR "), _RETRY_MS // 1000)
            self._next_try_ms = clock.monotonic_ms() + _RETRY_MS
            self._work = self._bring_back(False)
            return False
        self._work = None
        return False

    def _unlink(self, files: SegmentFiles) -> None:
        """Unlink the files that nothing needs any more: only such that no base names which a start could find."""

        def done(error: BaseException | None) -> None:
            self._is_unlinking = False
            if error is not None:
                self._next_try_ms = self._state.clock.monotonic_ms() + _RETRY_MS
                log.warning("segments-left", "segment files could not be removed: %s", reason_of(error))

        self._is_unlinking = True
        self._submit(lambda: _unlink_dead(files), done)


def _unlink_dead(files: SegmentFiles) -> None:
    files.unlink_dead()


def _memory_bytes() -> int:
    return read_process_facts().system_memory_bytes
