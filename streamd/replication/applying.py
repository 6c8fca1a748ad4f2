"""Applies what a primary has shipped: to the state, to this server's own journal, and to clients that wait for it."""

import re
from collections.abc import Sequence

from streamd.connected.state import State
from streamd.data.records import ColumnsRecord, Record
from streamd.durability.replay import Replay
from streamd.journal.alike import TOGETHER_MIN, Shapes
from streamd.journal.notes import HISTORY, NOTES
from streamd.journal.parsing import Incomplete, Malformed, parse_one
from streamd.journal.rewrite import places_of

_MARKS = (b"MULTI", b"EXEC")
_SELECTED = re.compile(rb"\*2\r\n\$6\r\nSELECT\r\n\$(\d)\r\n(\d{1,9})\r\n")
_XADD = b"$4\r\nXADD\r\n"
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
        self._replay = Replay(state, is_ours=True)
        state.records = records
        if state.stream_defaults is not None:
            self._replay.defaults = state.stream_defaults
        self._shapes = Shapes()

    def apply(self, body: bytes, note: list[bytes]) -> None:
        """Apply a frame's effects, and hand them to the journal with a note of where the state stands then.

        Raises: CannotFollow; then the state is neither the one before nor the one behind the frame.
        """
        state = self._state
        kept, state.records = state.records, None
        self._replay.borrow()
        try:
            columns = self._apply_columns(body)
            records = self._apply_records(body) if columns is None else []
        finally:
            self._replay.finish()
            state.records = kept
        state.stream_defaults = self._replay.defaults
        if columns is None:
            state.dirty += len(records)
            self._tell(records)
        else:
            found, count = columns
            state.dirty += count
            assert found.key is not None
            self._tell_of(found.db_index, found.key)
        if state.journal is not None:
            state.journal.append_unit([*(records if columns is None else [columns[0]]), (0, note)])

    def _apply_columns(self, body: bytes) -> tuple[ColumnsRecord, int] | None:
        """Apply a frame of entries for one stream by columns, as a start does, and return these and their number; of
        another frame nothing, and return None.

        (Clients with pipelines make such frames. A replica that took them entry by entry would not keep up.)
        """
        db_index, select = 0, b""
        selected = _SELECTED.match(body)
        if selected is not None and int(selected[1]) == len(selected[2]):
            db_index, select = int(selected[2]), selected[0]  # each run of a frame may say it
        # (Values may have these bytes, too: then the frame is parsed for nothing.)
        if body.count(_XADD) < TOGETHER_MIN or db_index >= len(self._state.keyspace.databases):
            return None
        found = self._shapes.columns_of_frame(body, select)
        if found is None or not self._replay.take_columns(db_index, *found):
            return None
        columns, count = found
        for at in (0, 1):  # which all share: see take_columns
            column = columns[at]
            columns[at] = column if isinstance(column, bytes) else column[0]
        return ColumnsRecord(db_index, columns), count

    def _apply_records(self, body: bytes) -> list[Record]:
        """Apply the effects one by one. Raises: CannotFollow."""
        records = records_of(body, len(self._state.keyspace.databases))
        for db_index, words in records:
            if words[0] == HISTORY:
                continue
            problem = self._replay.apply(db_index, list(words))
            if problem is not None:
                raise CannotFollow(f"{words[0].decode('ascii', 'replace')}: {problem}")
        return records

    def _tell(self, records: Sequence[Record]) -> None:
        """Wake the clients that wait for a key, and tell those that follow one."""
        for db_index, words in records:
            if words[0].upper() in _WHOLE or len(words) < 2:
                continue
            for index, key in places_of(db_index, words):
                self._tell_of(index, key)

    def _tell_of(self, db_index: int, key: bytes) -> None:
        db = self._state.keyspace[db_index]
        db.touch(key)
        db.signal(key)
