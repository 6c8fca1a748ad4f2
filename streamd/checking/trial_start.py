"""Trial starts: a journal is loaded into a state that is thrown away."""

from collections.abc import Sequence
from typing import Final

from streamd.base import collector
from streamd.base.filesystem import FileSystem
from streamd.cold.files import SegmentFiles
from streamd.cold.store import ColdStore
from streamd.configuration.server_options import Config
from streamd.data.keyspace import Keyspace
from streamd.durability.replay import Replay
from streamd.durability.segment_check import TrialSegments
from streamd.engine.engine import Engine
from streamd.journal.cold_loading import ColdLoading
from streamd.journal.cold_records import COLD
from streamd.journal.loader import Loader
from streamd.journal.recovery import DamagedError
from streamd.resp.template import Column

# `check` knows no --databases: beyond these it looks at bytes only.
_DATABASES: Final = 1_024
# The memory for blocks of segment files that are read one after the other.
_BLOCKS_BYTES: Final = 16 * 1024 * 1024


class Trials:
    """Makes states for trial starts of one journal.

    keyspace: of the last trial. segments: what these trials know of segment files, whose blocks are read in place.
    """

    def __init__(self, files: FileSystem, directory: str, filename: str) -> None:
        self._files, self._directory, self._filename = files, directory, filename
        self.segments = TrialSegments()
        self.keyspace: Keyspace

    def loader(self) -> Loader:
        """Return a loader into a new state."""
        collector.keep_out()
        state = Engine(config=Config(databases=_DATABASES)).state

        def open_store(limit_bytes: int, number: int) -> ColdStore:
            store = ColdStore(SegmentFiles(self._files, self._directory, self._filename, number), _BLOCKS_BYTES)
            store.in_place += 1
            state.cold = store
            return store

        loading = ColdLoading(open_store)
        self.segments.needed = lambda: set(loading.needed(state.keyspace))
        replay = Replay(state, loading)
        replay.borrow()
        self.keyspace = state.keyspace
        return Loader(state.keyspace, _Target(replay, self.segments.refused))


class _Target:
    """Applies records, and says of a segment file that cannot be read what is wrong with it."""

    def __init__(self, replay: Replay, refused: dict[int, str]) -> None:
        self._replay = replay
        self._refused = refused

    def apply(self, db_index: int, words: list[bytes]) -> str | None:
        """Apply a command or a note; return its fault, or None."""
        if words[0] == COLD and words[1:2] == [b"FILE"] and words[2:3]:
            reason = self._refused.get(int(words[2])) if words[2].isdigit() else None
            if reason is not None:
                return reason
        try:
            return self._replay.apply(db_index, words)
        except DamagedError as error:
            return f"{error.path} is damaged at offset {error.offset}: {error.detail}"

    def take_columns(self, db_index: int, places: Sequence[Column], count: int) -> bool:
        """Apply records by their columns, if that can be; return whether that is so."""
        return self._replay.take_columns(db_index, places, count)
