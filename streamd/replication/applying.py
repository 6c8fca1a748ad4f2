"""Applies what a primary has shipped: to the state, to this server's own journal, and to clients that wait for it."""

from collections.abc import Sequence

from streamd.connected.state import State
from streamd.data.records import Record
from streamd.durability.replay import Replay
from streamd.journal.file_reader import Incomplete, Malformed, parse_one
from streamd.journal.notes import HISTORY, NOTES
from streamd.journal.rewrite import places_of

_MARKS = (b"MULTI", b"EXEC")
_WHOLE = frozenset((b"FLUSHALL", b"FLUSHDB", b"SWAPDB", b"FUNCTION", b"DEFAULTS"))


class CannotFollow(Exception):
    """Effects that cannot be applied: this state is another one than its primary had. The message says which."""


def records_of(body: bytes, databases: int) -> list[Record]:
    """Return the effects of a frame's body. Raises: CannotFollow."""
    found: list[Record] = []
    db = at = 0
    try:
        while at < len(body):
            words, at = parse_one(body, at)
            name = words[0]
            if name == b"SELECT":
                db = int(words[1])
            elif name[:1] == b"#":
                if name[1:] not in NOTES:
                    raise CannotFollow(f"this version does not know the note {name[1:]!r}: a newer streamd wrote it")
                found.append((int(words[1]), [name[1:], *words[2:]]))
            elif name not in _MARKS:
                found.append((db, words))
    except (Incomplete, Malformed, ValueError, IndexError) as error:
        raise CannotFollow(f"a frame has what is no command: {error}")
    for index, _ in found:
        if not 0 <= index < databases:
            raise CannotFollow(f"its databases are more than the {databases} here; start with --databases {index + 1}")
    return found


class FrameApplier:
    """Applies frames to a server's state, as a start applies its journal."""

    def __init__(self, state: State) -> None:
        self._state = state
        records, state.records = state.records, None
        self._replay = Replay(state)
        state.records = records
        if state.stream_defaults is not None:
            self._replay.defaults = state.stream_defaults

    def apply(self, records: Sequence[Record], note: list[bytes]) -> None:
        """Apply a frame's effects, and hand them to the journal with a note of where the state stands then.

        Raises: CannotFollow; then the state is neither the one before nor the one behind the frame.
        """
        state, replay = self._state, self._replay
        kept, state.records = state.records, None
        replay.borrow()
        try:
            for db_index, words in records:
                if words[0] == HISTORY:
                    continue
                problem = replay.apply(db_index, list(words))
                if problem is not None:
                    raise CannotFollow(f"{words[0].decode('ascii', 'replace')}: {problem}")
        finally:
            replay.finish()
            state.records = kept
        state.stream_defaults = replay.defaults
        state.dirty += len(records)
        self._tell(records)
        if state.journal is not None:
            state.journal.append_unit([*records, (0, note)])

    def _tell(self, records: Sequence[Record]) -> None:
        """Wake the clients that wait for a key, and tell those that follow one."""
        keyspace = self._state.keyspace
        for db_index, words in records:
            if words[0].upper() in _WHOLE or len(words) < 2:
                continue
            for index, key in places_of(db_index, words):
                db = keyspace[index]
                db.touch(key)
                db.signal(key)
