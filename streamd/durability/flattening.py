"""The STREAMCOLD records of a base as the XADDs that they stand for, for a journal without segment files."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from streamd.base.filesystem import FileSystem
from streamd.cold.files import SegmentFile, SegmentFiles
from streamd.cold.format import Damaged, Unreadable
from streamd.cold.whole_file import blocks_of
from streamd.data.entry_record import NAME, entry_words
from streamd.durability.old_redis import ForOldRedis
from streamd.journal.cold_records import COLD, decode_gone
from streamd.journal.record import encode_command
from streamd.journal.recovery import DamagedError
from streamd.stream.entry_id import format_id, parse_id
from streamd.stream.log.segment import Segment

_ADVICE: Final = "--skip goes on behind it, and says which entries are missing"
_KEY_SHOWN_MAX: Final = 60
_PIECE_COMMANDS: Final = 1_000


class _Range(NamedTuple):
    """What a RANGE record says: rows of a file, how many entries they have, and their first and last ID."""

    number: int
    low: int
    high: int
    entries: int
    first_id: int
    last_id: int


class Flattening:
    """Takes the commands of a base, and returns those for a journal of Redis 7.0, which names no segment files."""

    def __init__(
        self, files: FileSystem, directory: str, filename: str, missing: list[str] | None, old: ForOldRedis
    ) -> None:
        """old: brings commands into the form of Redis 7.0. missing: gets a line for each part that cannot be read; None
        makes that an error.
        Raises: OSError.
        """
        self._store = SegmentFiles(files, directory, filename)
        self._missing = missing
        self._old = old
        self._files: dict[int, SegmentFile | str] = {}  # or why it cannot be read
        # The stream whose records came last: what they say is applied with the next record that is none of them.
        self._key = b""
        self._ranges: list[_Range] = []
        self._gone: list[int] = []
        self._skipped = 0
        self._found = 0

    @property
    def is_within(self) -> bool:
        """Whether the next command may belong to those before it."""
        return bool(self._ranges)

    def pieces(self, commands: Iterable[list[bytes]]) -> Iterator[tuple[bytes, int]]:
        """Yield `(bytes, number of commands)` of what stands for commands.

        Raises: DamagedError, OSError; ValueError for a command that makes no sense.
        """
        return self._encoded(chain.from_iterable(map(self._take, commands)))

    def end(self) -> Iterator[tuple[bytes, int]]:
        """Yield what stands for the commands that were taken last. Raises: as `pieces`."""
        return self._encoded(self._end())

    def _encoded(self, commands: Iterable[list[bytes]]) -> Iterator[tuple[bytes, int]]:
        some: list[bytes] = []
        for words in commands:
            kept = self._old.take(words)
            if kept is not None:
                some.append(encode_command(kept))
            if len(some) >= _PIECE_COMMANDS:
                yield b"".join(some), len(some)
                some = []
        yield b"".join(some), len(some)

    def _take(self, words: list[bytes]) -> Iterator[list[bytes]]:
        """Yield the commands that stand for one."""
        if words[0].upper() != COLD:
            if not self._ranges:
                yield words
                return
            is_trim = [word.upper() for word in (words[0], *words[2:4])] == [b"XTRIM", b"MAXLEN", b"="]
            if is_trim and words[1] == self._key:
                there = sum(one.entries for one in self._ranges) - len(self._gone)
                self._skipped = there - int(words[4])
                yield from self._end()
                return
            yield from self._end()
            yield words
            return
        kind, *rest = words[1:]
        if kind == b"FILE":
            number, size, checksum = rest
            self._load(int(number), int(size), int(checksum, 16))
        elif kind in (b"RANGE", b"GONE"):
            if rest[0] != self._key:
                yield from self._end()
                self._key = rest[0]
            if kind == b"GONE":
                self._gone += decode_gone(rest[1])
            else:
                self._ranges.append(_Range(*map(int, rest[1:5]), *map(parse_id, rest[5:7])))

    def _end(self) -> Iterator[list[bytes]]:
        """Yield the commands for the stream whose records were taken last."""
        is_short = False
        self._found = 0
        for one in self._ranges:
            for segments in self._blocks(one):
                if segments is None:
                    is_short = True
                else:
                    yield from self._entries(segments)
        if is_short and not self._found:
            # What follows is about a stream that is there.
            yield [NAME, self._key, b"MAXLEN", b"0", b"0-1", b"x", b"y"]
        self._key, self._ranges, self._gone, self._skipped = b"", [], [], 0

    def _load(self, number: int, size: int, checksum: int) -> None:
        try:
            self._files[number] = self._store.load(number, size, checksum)
        except FileNotFoundError as error:
            self._files[number] = f"{error.filename} is not there"
        except (Damaged, Unreadable) as error:
            self._files[number] = str(error)

    def _blocks(self, one: _Range) -> Iterator[list[Segment] | None]:
        """Yield the segments of each block of a range; None for what is left out."""
        file = self._files.get(one.number, f"no record names segment file {one.number}")
        if isinstance(file, str):
            self._leave_out(file, one.entries, one.first_id, one.last_id)
            yield None
            return
        index, row = file.index, one.low
        blocks = blocks_of(self._store, file, one.low, one.high)
        while row < one.high:
            try:
                segments = next(blocks)
            except Unreadable as error:
                self._leave_out(str(error), index.entries(row, one.high), index.first_id(row), one.last_id)
                yield None
                return
            if isinstance(segments, Damaged):
                self._leave_out(str(segments), index.entries(row, row + 1), index.first_id(row), index.last_id(row))
                yield None
            else:
                yield segments
            row += 1

    def _leave_out(self, reason: str, entries: int, first_id: int, last_id: int) -> None:
        """Note entries, deleted or not, that cannot be read. Raises: DamagedError."""
        if self._missing is None:
            error = DamagedError("", 0, reason, _ADVICE)
            error.args = (f"{reason}; {_ADVICE}",)
            raise error
        there = entries - bisect_right(self._gone, last_id) + bisect_left(self._gone, first_id)
        trimmed = min(self._skipped, there)
        self._skipped -= trimmed
        if there > trimmed:
            key = ascii(self._key.decode("utf-8", "backslashreplace"))[1:-1][:_KEY_SHOWN_MAX]
            ids = f"{format_id(first_id).decode()} to {format_id(last_id).decode()}"
            self._missing.append(f"{there - trimmed} entries of the stream {key}, from {ids}: {reason}")

    def _entries(self, segments: list[Segment]) -> Iterator[list[bytes]]:
        gone = self._gone
        for segment in segments:
            count = segment.count
            for entry_id, fields in zip(segment.ids(0, count), segment.entries(0, count), strict=True):
                at = bisect_left(gone, entry_id)
                if at < len(gone) and gone[at] == entry_id:
                    continue
                if self._skipped:
                    self._skipped -= 1
                    continue
                self._found += 1
                yield entry_words(self._key, format_id(entry_id), fields)
