"""Loading: applies the commands and notes of a journal, a slice at a time."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from streamd.base.limits import DATABASES_MAX
from streamd.data.keyspace import Keyspace
from streamd.journal.alike import Shapes, are_alike
from streamd.journal.cold_loading import NewerFormat
from streamd.journal.file_reader import Bare
from streamd.journal.notes import NOTES
from streamd.journal.parsing import NOTHING, Parsed
from streamd.journal.record import encode_command, encode_select
from streamd.journal.recovery import NewerError
from streamd.journal.words import PART_BYTES, bare_commands, bare_parts
from streamd.resp.template import Column

# Between two points where the loader can be interrupted it works so much: two milliseconds at most. What is left of
# that for the next piece counts on: most clients send no pipelines, and each of their commands is a piece.
# An entry that is taken by columns weighs as many as it has words; another command as many as a few, and more with each
# of its words (XCLAIM may name a hundred entries). Reading a piece weighs, too, each of its bytes a little, and each
# command that had to be found word by word.
_SLICE_WEIGHT: Final = 8_000
_COMMAND_WEIGHT, _WORD_WEIGHT = 20, 3
_PIECE_WEIGHT, _PARSED_WEIGHT = 40, 24
_BYTES_OF_ONE: Final = 128
# What these take is up to values that are there, not to their words: a slice ends behind each of them.
_OF_VALUES: Final = frozenset(
    b"BITOP COPY GEORADIUS GEORADIUSBYMEMBER GEOSEARCHSTORE LINSERT LREM PFCOUNT PFMERGE SDIFFSTORE SINTERSTORE"
    b" SORT SUNIONSTORE ZDIFFSTORE ZINTERSTORE ZRANGESTORE ZUNIONSTORE".split()
)
_FIRST_SELECT: Final = encode_select(0)
# Of the number of a database; Redis takes no longer one.
_DIGITS_MAX: Final = 10


class Target(Protocol):
    """The functions of the layers above that the loader needs."""

    def take_columns(self, db_index: int, places: Sequence[Column], count: int) -> bool:
        """Apply records whose words are given by their places, if they add entries of one stream; return whether that
        is so: else nothing has happened.
        """

    def apply(self, db_index: int, words: list[bytes]) -> str | None:
        """Apply a recorded command or note; return the problem with it, or None."""


class LoadError(Exception):
    """A command that cannot be applied, though its bytes are whole.

    The message names file and offset, and the remedy. needs_databases: the number of databases that the command
    needs, 0 if it failed for another reason.
    """

    def __init__(self, path: str, offset: int, detail: str, advice: str, needs_databases: int = 0) -> None:
        super().__init__(f"{path} cannot be loaded at offset {offset}: {detail}; {advice}")
        self.offset = offset
        self.detail = detail
        self.needs_databases = needs_databases


class _Refusal(Exception):
    """The problem with a command."""

    def __init__(self, problem: str, needs_databases: int = 0) -> None:
        super().__init__(problem)
        self.needs_databases = needs_databases


class Loader:
    """Hands commands and notes to the target in their order.

    commands: how many were applied. names_databases: whether the file has named another database than 0.
    """

    def __init__(self, keyspace: Keyspace, target: Target) -> None:
        self._databases = len(keyspace.databases)
        self._target = target
        self.commands = 0
        self.names_databases = False
        self._select = _FIRST_SELECT
        self._path = self._advice = ""
        self._db = self._weight = 0
        self._shapes = Shapes()

    def begin_file(self, path: str, advice: str) -> None:
        """Start a file: database 0 is selected. advice: the remedy if a command of it cannot be applied."""
        self._db, self._select = 0, _FIRST_SELECT
        self.names_databases = False
        self._path, self._advice = path, advice

    def take(self, piece: Bare | Parsed) -> Iterator[None]:
        """Apply a piece; yields after each slice of work, of which this piece may be a part. Raises: LoadError,
        DamagedError.
        """
        if piece is NOTHING:
            self._weight = _SLICE_WEIGHT
        elif isinstance(piece, Parsed):
            self._weight += _PIECE_WEIGHT + _PARSED_WEIGHT * len(piece.commands)
            if self._weight >= _SLICE_WEIGHT:
                self._weight = 0
                yield
            yield from self._take_parts([(piece.commands, True)], piece)
        else:
            if piece.data.startswith(self._select):
                # What a run says though it is so already; what follows is often of one shape.
                at = len(self._select)
                piece = Bare(piece.data[at:], piece.offset + at)
                self.commands += 1
            self._weight += _PIECE_WEIGHT + len(piece.data) // _BYTES_OF_ONE
            if not self._take_columns(piece.data):
                is_small = len(piece.data) <= PART_BYTES
                yield from self._take_parts([bare_commands(piece.data)] if is_small else bare_parts(piece.data), piece)
        if self._weight >= _SLICE_WEIGHT:
            self._weight = 0
            yield

    def _take_parts(self, parts: Iterable[tuple[list[list[bytes]], bool]], piece: Bare | Parsed) -> Iterator[None]:
        """Apply the commands of a piece, given in parts, each with whether all of its bytes are commands."""
        done = 0  # of this piece
        size_bytes = len(piece.data) if isinstance(piece, Bare) else 0
        for commands, is_whole in parts:
            if not (is_whole and size_bytes and self._take_together(commands, size_bytes)):
                yield from self._take_each(commands, piece, done)
            done += len(commands)
            if not is_whole:
                place = piece.place_of(done)
                raise LoadError(self._path, place, "what stands here is no command", self._advice)
            if size_bytes > PART_BYTES:  # to find a part takes as long as a slice
                self._weight = 0
                yield

    def _take_each(self, commands: list[list[bytes]], piece: Bare | Parsed, done: int) -> Iterator[None]:
        """Apply commands one by one, in front of which the piece has so many others."""
        before, count, weight = self.commands - done, 0, self._weight
        words: list[bytes] = []
        try:
            for words in commands:
                self._take(words)
                weight += _COMMAND_WEIGHT + _WORD_WEIGHT * len(words)
                count += 1
                if weight >= _SLICE_WEIGHT or words[0].upper() in _OF_VALUES:
                    self.commands += count
                    count = weight = 0
                    yield
        except _Refusal as refusal:
            self.commands += count
            place = piece.place_of(self.commands - before)
            detail, advice = f"`{_decoded(words)}`: {refusal}", self._advice
            if refusal.needs_databases:
                advice = f"start with more of them: --databases {refusal.needs_databases}"
                if refusal.needs_databases > DATABASES_MAX:
                    advice = f"no server has more than {DATABASES_MAX}: move its keys where it was written"
            raise LoadError(self._path, place, detail, advice, refusal.needs_databases)
        except NewerFormat as error:
            raise NewerError(self._path, piece.place_of(self.commands + count - before), str(error))
        self.commands += count
        self._weight = weight

    def _take_columns(self, data: bytes) -> bool:
        """Return whether all records of a piece were taken because they are like those of one before."""
        found = self._shapes.columns(data)
        if found is None or not self._target.take_columns(self._db, *found):
            return False
        columns, count = found
        self.commands += count
        self._weight += count * len(columns)
        return True

    def _take_together(self, records: list[list[bytes]], size_bytes: int) -> bool:
        """Return whether all records were taken as entries of one stream, as those of most pieces are.

        size_bytes: that of their piece.
        """
        count = len(records)
        if not are_alike(records):
            return False
        if not self._target.take_columns(self._db, [*zip(*records)], count):  # noqa: B905 (checked, at a fifth of the cost)
            return False
        self.commands += count
        self._weight += count * len(records[0])
        if size_bytes > PART_BYTES:
            # They may be a part of the piece. (A template that they do not fit is compared with what it cuts.)
            size_bytes = len(encode_command(records[0])) * count
        self._shapes.learn(records, size_bytes)
        return True

    def _take(self, words: list[bytes]) -> None:
        name = words[0]
        db_index = self._db
        if name[:1] == b"#":
            db_index = self._check_database(words[1] if len(words) > 1 else b"")
            name = name[1:]
            if name not in NOTES:
                raise _Refusal("this version does not know such a note, a newer streamd wrote it")
            words = [name, *words[2:]]
        elif name.upper() == b"SELECT":
            self._db = self._check_database(words[1] if len(words) == 2 else b"")
            self._select = encode_select(self._db)
            self.names_databases = self.names_databases or self._db > 0
            return
        elif name in (b"MULTI", b"EXEC"):
            return
        problem = self._target.apply(db_index, words)
        if problem is not None:
            raise _Refusal(_one_line(problem))

    def _check_database(self, word: bytes) -> int:
        """Return the database that a word names. Raises: _Refusal."""
        if not word.isdigit() or len(word) > _DIGITS_MAX:
            raise _Refusal("its words make no sense")
        index, there = int(word), self._databases
        if index >= there:
            raise _Refusal(f"there are {there} databases", index + 1)
        return index


def _decoded(words: list[bytes]) -> str:
    """Return the beginning of a command for a message."""
    return _one_line(b" ".join(words[:3])[:100].decode("utf-8", "backslashreplace"))


def _one_line(text: str) -> str:
    """Return a text with its unprintable characters escaped, so that a terminal or a log shows it on one line."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
