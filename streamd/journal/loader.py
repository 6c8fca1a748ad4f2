"""Applying what a journal says to the keyspace."""

from collections.abc import Iterator
from typing import Final, Protocol

from streamd.data.keyspace import Keyspace
from streamd.journal.notes import apply_note
from streamd.journal.reading import Bare, Parsed
from streamd.journal.words import bare_commands
from streamd.stream.entry_id import SEQ_MAX
from streamd.stream.stream import Stream

# Entries that one call of append_many takes: enough that the call does not count, few enough for a slice.
_RUN_ENTRIES_MAX: Final = 2_000
# Commands between two points where the loader can be interrupted: about two milliseconds.
_SLICE_COMMANDS: Final = 2_000
# Of the number of a database; --databases takes no longer one.
_DIGITS_MAX: Final = 10


class Target(Protocol):
    """What the loader needs of the layers above it."""

    def apply(self, db_index: int, words: list[bytes]) -> str | None:
        """Apply a command as it was recorded; return what is wrong with it, or None."""

    def create_stream(self, db_index: int, key: bytes) -> Stream:
        """Store and return a new stream at a free key."""

    def set_defaults(self, duration_s: int, maxsize: int) -> None:
        """Take these as the settings of streams that are created from here on."""


class LoadError(Exception):
    """A command that cannot be applied: the bytes are whole, but no journal that this start can load.

    The message names file and offset, and says what to do. needs_databases: so many are needed, 0 if that is not it.
    """

    def __init__(self, path: str, offset: int, detail: str, advice: str, needs_databases: int = 0) -> None:
        super().__init__(f"{path} cannot be loaded at offset {offset}: {detail}; {advice}")
        self.offset = offset
        self.detail = detail
        self.needs_databases = needs_databases


class _Refusal(Exception):
    """What is wrong with a command."""

    def __init__(self, problem: str, needs_databases: int = 0) -> None:
        super().__init__(problem)
        self.needs_databases = needs_databases


class Loader:
    """Applies commands and notes in their order.

    A run of plain XADDs to one key goes into its log a slice at a time, without dispatch: that is what a rewritten
    base is made of. Everything else goes through the commands' own handlers. commands: how many were applied.
    """

    def __init__(self, keyspace: Keyspace, target: Target) -> None:
        self._keyspace = keyspace
        self._target = target
        self.commands = 0
        self._path = self._advice = ""
        self._db = 0
        self._key: bytes | None = None
        self._width = 0
        self._ids: list[int] = []
        self._texts: list[bytes] = []
        self._last_id = -1

    def begin_file(self, path: str, advice: str) -> None:
        """Start a file: database 0 is selected. advice: what to do if something in it cannot be applied."""
        self._end_run()
        self._db = 0
        self._path, self._advice = path, advice

    def take(self, piece: Bare | Parsed) -> Iterator[None]:
        """Apply a piece; yields after each slice of it. Raises: LoadError."""
        before, count = self.commands, 0
        words: list[bytes] = []
        try:
            for words in bare_commands(piece.data) if isinstance(piece, Bare) else piece.commands:
                self._take(words)
                count += 1
                if count == _SLICE_COMMANDS:
                    self.commands += count
                    count = 0
                    yield
        except _Refusal as refusal:
            self.commands += count
            place = piece.place_of(self.commands - before)
            detail, advice = f"`{_shown(words)}`: {refusal}", self._advice
            if refusal.needs_databases:
                advice = f"start with more of them: --databases {refusal.needs_databases}"
            raise LoadError(self._path, place, detail, advice, refusal.needs_databases)
        self.commands += count
        if count >= 16:
            yield

    def end(self) -> None:
        """Apply what is still collected."""
        self._end_run()

    def _take(self, words: list[bytes]) -> None:
        name = words[0]
        # A run goes on: as many texts, the same key, a greater ID. 1M entries pass here at a start.
        if name == b"XADD" and len(words) == self._width and words[1] == self._key:
            entry_id = _plain_id(words[2])
            if entry_id > self._last_id:
                self._ids.append(entry_id)
                self._texts += words[3:]
                self._last_id = entry_id
                if len(self._ids) >= _RUN_ENTRIES_MAX:
                    self._append()
                return
        self._end_run()
        if name == b"XADD" and self._begin_run(words):
            return
        problem: str | None
        if name[:1] == b"#":
            self._check_database(words[1] if len(words) > 1 else b"")
            problem = apply_note(self._keyspace, self._target, words)
        elif name == b"XADD" and len(words) > 2 and words[2] == b"IDMP":
            problem = self._append_idempotent(words)
        elif name == b"XIDMPRECORD":
            problem = self._remember(words)
        elif name == b"SELECT" or name.upper() == b"SELECT":
            self._db = self._check_database(words[1] if len(words) == 2 else b"")
            return
        elif name in (b"MULTI", b"EXEC"):
            return
        else:
            problem = self._target.apply(self._db, words)
        if problem is not None:
            raise _Refusal(_one_line(problem))

    def _check_database(self, word: bytes) -> int:
        """Return the database that a word names. Raises: _Refusal."""
        if not word.isdigit() or len(word) > _DIGITS_MAX:
            raise _Refusal("its words make no sense")
        index, there = int(word), len(self._keyspace.databases)
        if index >= there:
            raise _Refusal(f"there are {there} databases", index + 1)
        return index

    def _append_idempotent(self, words: list[bytes]) -> str | None:
        """Append an entry with its iid, looking at neither clock nor window: `XADD key IDMP pid iid ID field value
        ...`.
        """
        if len(words) < 8 or len(words) % 2 or (entry_id := _plain_id(words[5])) < 0:
            return "its words make no sense"
        key = words[1]
        value = self._keyspace[self._db].values.get(key)
        stream = self._target.create_stream(self._db, key) if value is None else value
        if type(stream) is not Stream:
            return "its key holds another type"
        if entry_id <= stream.last_id:
            return "its ID is not greater than the last one"
        stream.log.append(entry_id, words[6:])
        stream.last_id = entry_id
        stream.entries_added += 1
        stream.idmp.record(words[3], words[4], entry_id)
        return None

    def _remember(self, words: list[bytes]) -> str | None:
        """Remember an iid as its producer's youngest: `XIDMPRECORD key pid iid ID`."""
        if len(words) != 5 or (entry_id := _plain_id(words[4])) < 0:
            return "its words make no sense"
        stream = self._keyspace[self._db].values.get(words[1])
        if type(stream) is not Stream:
            return "there is no stream at its key"
        stream.idmp.record(words[2], words[3], entry_id)
        return None

    def _begin_run(self, words: list[bytes]) -> bool:
        """Begin a run with this XADD; return whether it is one that a run takes."""
        if len(words) < 5 or len(words) % 2 == 0:
            return False
        entry_id = _plain_id(words[2])
        if entry_id <= 0:
            return False
        value = self._keyspace[self._db].values.get(words[1])
        if value is not None and (type(value) is not Stream or entry_id <= value.last_id):
            return False
        self._key = words[1]
        self._width = len(words)
        self._last_id = entry_id
        self._ids.append(entry_id)
        self._texts += words[3:]
        return True

    def _append(self) -> None:
        assert self._key is not None
        value = self._keyspace[self._db].values.get(self._key)
        stream = self._target.create_stream(self._db, self._key) if value is None else value
        assert type(stream) is Stream
        stream.log.append_many(self._ids, self._width - 3, self._texts)
        stream.last_id = self._ids[-1]
        stream.entries_added += len(self._ids)
        self._ids = []
        self._texts = []

    def _end_run(self) -> None:
        if self._ids:
            self._append()
        self._key = None


def _plain_id(text: bytes) -> int:
    """Return the entry ID that a record gives, or -1 if the word is none."""
    ms, dash, seq = text.partition(b"-")
    if dash and ms.isdigit() and seq.isdigit() and len(text) <= 41:
        number, low = int(ms), int(seq)
        if number <= SEQ_MAX and low <= SEQ_MAX:
            return number << 64 | low
    return -1


def _shown(words: list[bytes]) -> str:
    """Return the beginning of a command for a message."""
    return _one_line(b" ".join(words[:3])[:100].decode("utf-8", "backslashreplace"))


def _one_line(text: str) -> str:
    """Return a text with what a terminal or a log could not show as part of one line escaped."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
