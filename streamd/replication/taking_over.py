"""The state of a primary, loaded beside a replica's own, which it then replaces whole."""

from collections.abc import Callable, Generator

from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import Config
from streamd.connected.state import State
from streamd.durability.cold_segments import ColdSegments
from streamd.durability.incoming import Incoming
from streamd.durability.replay import Replay
from streamd.idmp.sweeper import Sweeper
from streamd.journal.journal import Journal
from streamd.journal.loader import Loader
from streamd.journal.recovery import Loading, read_parts
from streamd.lua.libraries import never


class TornState(Exception):
    """A received journal whose end is not whole; the message says where."""


class TakingOver:
    """Loads a received journal beside the present state, in slices, and puts it in its place."""

    def __init__(self, state: State, journal: Journal, incoming: Incoming, cold: ColdSegments) -> None:
        """cold: the segment files of this server, among which those of the received journal are."""
        self._state, self._journal, self._incoming, self._cold = state, journal, incoming, cold
        config = Config()
        config.values.update(state.config.values)
        self._other = State(state.clock, config, state.users)
        self._other.cold = state.cold
        self._segments = cold.loading(self._other)
        self._replay = Replay(self._other, self._segments)
        self._loader = Loader(self._other.keyspace, self._replay)
        self._loading = Loading()
        self._steps = self._load()

    def _load(self) -> Generator[None, None, None]:
        journal = self._journal
        parts = read_parts(
            journal.files, journal.directory, self._incoming.manifest, self._loading, self._loader.begin_file
        )
        for piece in parts:
            yield from self._loader.take(piece)

    def step(self, stop: Callable[[], bool]) -> bool:
        """Load for a slice; return whether all is loaded. Raises: DamagedError, LoadError, OSError, TornState."""
        while True:
            self._replay.borrow()
            try:
                ended = next(self._steps, True) is True
            finally:
                self._replay.finish()
            if ended:
                if self._loading.cut is not None:
                    raise TornState(f"the state that was sent is not whole: {self._loading.cut.detail}")
                if self._segments.is_begun:
                    self._check_segments()
                return True
            if stop():
                return False

    def _check_segments(self) -> None:
        """Return if the segment files have all that they should, and there is room for that. Raises: DamagedError,
        TornState.
        """
        self._segments.check(self._other.keyspace)
        if self._cold.is_off:
            try:
                self._cold.check_memory(self._other.keyspace)
            except ConfigError as error:
                raise TornState(str(error))

    def finish(self, note: list[bytes]) -> Callable[[], None]:
        """Make the loaded state that of the server, and the received files its journal, which the note ends.

        Returns the job that removes the files of before. Raises: OSError; then the state is the one before.
        """
        state, other = self._state, self._other
        names_databases, holds = self._loader.names_databases, self._segments.holds
        job = self._journal.adopt(self._incoming.manifest, self._loading, names_databases, note, holds)
        self._incoming.close()
        state.keyspace.take(other.keyspace)
        state.sweeper, other.sweeper = other.sweeper, Sweeper()
        state.cold, other.cold = other.cold, None
        self._cold.taken(self._segments)
        state.libraries.flush()
        for code in other.libraries.codes():
            state.libraries.load(code, True, never)
        state.tracking.flushed()
        state.stream_defaults = self._replay.defaults
        self._let_go()
        return job

    def abandon(self) -> None:
        """Let go of what was loaded."""
        self._cold.given_up(self._other)
        trash = self._state.keyspace.trash
        for db in self._other.keyspace:
            db.trash = trash
            db.clear()
        self._other.sweeper = Sweeper()
        self._let_go()

    def _let_go(self) -> None:
        """Leave nothing large, and no segment file, to the cycles of references around what was loaded."""
        self._other.libraries.flush()
        self._steps.close()
        self._segments.forget()
