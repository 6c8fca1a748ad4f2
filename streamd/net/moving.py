"""The mover of a server, with its thread, as long as the server has a store of cold segments."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from streamd.cold.codec import AS_SEALED, ZSTD
from streamd.cold.cold_list import ColdList
from streamd.cold.store import ColdStore
from streamd.connected.state import State
from streamd.data.keyspace import Keyspace
from streamd.data.listing import streams_of
from streamd.journal.jobs import Done, Pending, Submit

if TYPE_CHECKING:
    from streamd.cold.mover import Mover


class MovingThread(Protocol):
    """What does the mover's jobs: see `JournalThread`."""

    def submit(self, job: Callable[[], None], done: Done) -> Pending:
        """Run `job` beside the loop, then `done` on it; the cron is to run after that."""

    def close(self) -> None:
        """Return when it has ended."""


class Moving:
    """Makes the mover when the server has a store, and ends it with the store."""

    def __init__(
        self,
        state: State,
        begin_thread: Callable[[], MovingThread],
        plan: Callable[[], None],
        read_beside: Submit | None = None,
    ) -> None:
        """plan: has the journal rewritten soon. read_beside: runs jobs that read; None: the mover's thread does."""
        self._state = state
        self._begin_thread = begin_thread
        self._plan = plan
        self._read_beside = read_beside
        self._store: ColdStore | None = None
        self._mover: Mover | None = None
        self._thread: MovingThread | None = None
        state.config.on_change("stream-segment-compression", self._set_codec)

    def look(self) -> None:
        """Begin or end, if the server has another store than before, or none."""
        state, store = self._state, self._state.cold
        if store is self._store or (self._mover is not None and self._mover.is_busy):
            return
        self.close()
        self._store = store
        if store is not None:
            from streamd.cold.mover import Mover  # most servers need none

            thread = self._thread = self._begin_thread()
            self._mover = state.mover = Mover(
                store,
                state.clock,
                thread.submit,
                lambda: lists_of(state.keyspace),
                self._plan,
                lambda error: state.note_bug("the mover", may_have_changed=False, error=error),
            )
            store.notebook.submit = thread.submit
            store.notebook.submit_read = self._read_beside or thread.submit
            self._set_codec()

    def _set_codec(self) -> None:
        if self._mover is not None:
            self._mover.codec = ZSTD if self._state.config["stream-segment-compression"] == "zstd" else AS_SEALED

    def close(self) -> None:
        """Wait for the jobs that are under way, and end the thread."""
        if self._mover is not None and self._thread is not None and self._store is not None:
            self._store.notebook.submit = self._store.notebook.submit_read = None
            self._mover.close()
            self._thread.close()
        self._state.mover = self._mover = self._thread = self._store = None


def lists_of(keyspace: Keyspace) -> Iterator[ColdList | None]:
    """Yield the sealed segments of each stream; None now and then between keys, which may come and go meanwhile."""
    for stream in streams_of(keyspace):
        if stream is None:
            yield None
        elif isinstance(sealed := stream.log.sealed, ColdList):
            yield sealed
