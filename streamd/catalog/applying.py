"""The functions that apply a journal's records while it is loaded, and the databases that they change."""

from collections.abc import Callable
from typing import Final

from streamd.connected.state import State
from streamd.journal.cold_loading import ColdLoading
from streamd.stream.groups.group import Group
from streamd.stream.stream import Stream


class CannotApply(Exception):
    """A record that contradicts the records before it, or is malformed; the message gives the reason."""


class Applying:
    """The databases that a journal's records make.

    db: the database of the next records. libraries: the functions. duration_s, maxsize: the settings of streams that
    are created. history: the last note of that name. cold: finds segment files that a base names; None: it may name
    none. is_ours: whether streamd has written all that comes. _expected: the place and the entry ID of the next iid,
    and when it was recorded.
    """

    __slots__ = ("_expected", "_state", "cold", "db", "duration_s", "history", "is_ours", "libraries", "maxsize")

    def __init__(self, state: State, cold: ColdLoading | None = None, is_ours: bool = False) -> None:
        self._state = state
        self.cold = cold
        self.is_ours = is_ours
        self.db = state.keyspace[0]
        self.libraries = state.libraries
        self.duration_s = state.config.integer("stream-idmp-duration")
        self.maxsize = state.config.integer("stream-idmp-maxsize")
        self.history: list[bytes] | None = None
        self._expected: tuple[int, bytes, int, int] | None = None

    def select(self, db_index: int) -> None:
        """Apply the records that follow to this database."""
        self.db = self._state.keyspace[db_index]

    def stream(self, key: bytes) -> Stream:
        """Return the stream at `key`. Raises: CannotApply."""
        value = self.db.values.get(key)
        if type(value) is not Stream:
            raise CannotApply("there is no stream at its key")
        return value

    def stream_or_new(self, key: bytes) -> Stream:
        """Return the stream at `key`, created if the key is free. Raises: CannotApply."""
        value = self.db.values.get(key)
        if type(value) is Stream:
            return value
        if value is not None:
            raise CannotApply("its key holds another type")
        stream = self.new_stream()
        self.db.put(key, stream)
        return stream

    @property
    def names_entries(self) -> bool:
        """Whether records of deletions name only entries that are, or were, there: redis-server may name others."""
        return self.is_ours or (self.cold is not None and self.cold.is_begun)

    def new_stream(self) -> Stream:
        """Return a new stream, which no key holds yet."""
        node_max_entries = self._state.config.integer("stream-node-max-entries")
        stream = Stream(node_max_entries, self.duration_s, self.maxsize, self._state.cold)
        stream.idmp.leave_to(self._state.sweeper)
        return stream

    def expect_iid(self, key: bytes, entry_id: int, at_ms: int) -> None:
        """Keep the time at which the next iid was recorded, of this stream and for this entry ID ahead of the clock."""
        self._expected = (self.db.index, key, entry_id, at_ms)

    def recorded_ms(self, key: bytes, entry_id: int) -> int | None:
        """Return the time that is kept for the next iid, once; None without one, or if it is for another iid."""
        expected = self._expected
        if expected is None:
            return None
        self._expected = None
        return expected[3] if expected[:3] == (self.db.index, key, entry_id) else None

    def group(self, key: bytes, name: bytes) -> tuple[Stream, Group]:
        """Return the stream at `key` and its group. Raises: CannotApply."""
        stream = self.stream(key)
        group = (stream.groups or {}).get(name)
        if group is None:
            raise CannotApply("there is no such group")
        return stream, group


# Applies a record, given with all its words, to the databases: looks at no clock and for no duplicate, and decides
# nothing. Raises: CannotApply; for malformed words also other errors (CommandError, ValueError, IndexError ...).
Applier = Callable[[Applying, list[bytes]], None]

# By the first word of a record, or by container and subcommand, in upper case. Filled by importing streamd.commands.
APPLIERS: Final[dict[bytes, Applier]] = {}


def applies(*names: str) -> Callable[[Applier], Applier]:
    """Declare that the decorated function applies the records of these names (`XADD`, `XGROUP CREATE`), notes too."""

    def declare(applier: Applier) -> Applier:
        for name in names:
            assert name.encode() not in APPLIERS, name
            APPLIERS[name.encode()] = applier
        return applier

    return declare
