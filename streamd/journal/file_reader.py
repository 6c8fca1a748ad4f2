"""Reading one file of the journal: its verified pieces in order, up to its end or to its first fault."""

import re
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from xxhash import xxh32_hexdigest

from streamd.base.filesystem import READ_BYTES, File, read_exactly
from streamd.journal.formats import Beginning, decode_beginning, newer_format
from streamd.journal.parsing import (
    NOTHING,
    ForeignCommands,
    Incomplete,
    Malformed,
    Parsed,
    parse_body,
    parse_command,
    parse_unit,
    parsing,
)
from streamd.journal.record import CUT_LINE, DATABASES_LINE, run_hash

LINE_BYTES_MAX: Final = 1024
# Between two pieces so many bytes outside of runs are looked at.
_FOREIGN_BYTES: Final = 16 * 1024
RDB_ADVICE: Final = (
    "streamd reads journals of commands: let the redis-server that wrote it run CONFIG SET aof-use-rdb-preamble no,"
    " then BGREWRITEAOF"
)

_RUN: Final = re.compile(rb"#streamd (run|mix) (\d{1,19}) ([0-9a-f]{16}) (\d{1,19})(?: @(\d{1,19}))?(?: ([0-9a-f]+))?")
# The same as a whole line, whose digests are checked apart: a pattern would go through them one by one.
_RUN_LINE: Final = re.compile(_RUN.pattern.replace(b"[0-9a-f]+", b".+"), re.DOTALL)
_RUN_OF_ONE: Final = re.compile(rb"#streamd run (\d{1,19}) ([0-9a-f]{16}) (\d{1,19}) @(\d{1,19})\n")
_DIGEST_DIGITS: Final = 8
_MARK: Final = re.compile(rb"#streamd (synced|end) (\d{1,19}) ([0-9a-f]{16})")
_MISSING: Final = re.compile(rb"#streamd missing ([+-]\d{19}) ([0-9a-f]{16})")
_NOT_BEGUN: Final = "a line of streamd's stands in a part of the file that streamd has not begun"
_TEXT: Final = re.compile(rb"[\x20-\x7e\t\r]*")
_LIKE_A_LINE_OF_OURS: Final = re.compile(rb"[0-9a-f]{15}|streamd|each run names|its database")


class Trouble(NamedTuple):
    """The first fault of a file.

    offset: everything before it is whole. torn: the file ends behind it, inside a line, command or run. in_run:
    `offset` lies inside a run, so a CUT_LINE must come first there. is_newer: the only fault is that a newer version
    wrote the part. is_rdb: the file is an RDB file, and no journal. is_damage: no crash leaves such a fault.
    is_foreign: other software wrote what is torn.
    """

    offset: int
    torn: bool
    in_run: bool
    detail: str
    is_newer: bool = False
    is_rdb: bool = False
    is_damage: bool = False
    is_foreign: bool = False


class Bare(NamedTuple):
    """Verified RESP without notes, as it stands in the file from `offset` on."""

    data: bytes
    offset: int

    def place_of(self, number: int) -> int:
        """Return the offset in the file of the command with this number, counted from 0."""
        at = 0
        for _ in range(number):
            _, at = parse_command(self.data, at)
        return self.offset + at


class Extent(NamedTuple):
    """The place of a run's body, the other fields of its header, and whether the body matches its checksum.

    place: where the run stood when it was written.
    """

    body_at: int
    end: int
    synced: int
    place: int
    has_notes: bool
    is_whole: bool


class FileReader:
    """A reader of one file; `pieces()` ends at the end of the file or at `trouble`.

    offset: everything before it was read. ours: streamd wrote the part there, so that all its records lie in runs.
    salt: the salt of its hashes, 0 if it has none, None while it is not ours. has_places: its runs name their places.
    missing: how many of its bytes are missing before `offset`, as `--skip` has noted. has_earlier: a part of an earlier
    format was read. names_databases: each run of another database than 0 begins with a SELECT. begun_by_us: streamd
    wrote the first line of the file. ended: the last line of a base was read.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self.size = file.size()
        self.offset = 0
        self.salt: int | None = None
        self.has_places = False
        self.missing = 0
        self.has_earlier = False
        self.names_databases = False
        self.begun_by_us = False
        self.ended = False
        self.trouble: Trouble | None = None
        self._is_foreign = False  # other software wrote what was read last
        self._window = b""
        self._window_at = 0

    @property
    def ours(self) -> bool:
        """Whether streamd wrote the part that was read last."""
        return self.salt is not None

    @property
    def beginning(self) -> Beginning:
        """The beginning of the part that was read last, which is ours."""
        assert self.salt is not None
        return Beginning(self.salt, self.has_places)

    def pieces(self) -> Iterator[Bare | Parsed]:
        """Yield the commands and notes of the file in pieces, in order; NOTHING where finding some takes long."""
        while self.trouble is None and self.offset < self.size:
            head = self._take(self.offset, LINE_BYTES_MAX)
            if self.has_places and not self.ended and (bare := self._whole_unit(head)) is not None:
                yield bare
                self.offset = bare.offset + len(bare.data)
                continue
            first = head[:1]
            if self.ended:
                self._stop("something stands behind the end of the base")
            elif first == b"#":
                yield from self._line(head)
            elif first == b"*":
                yield from self._foreign_commands()
            elif self.offset == 0 and head.startswith(b"REDIS"):
                self.trouble = Trouble(0, False, False, RDB_ADVICE, is_rdb=True, is_damage=True)
            else:
                self._stop(f"no record begins with {head[:1]!r}", is_damage=not self.ours or self._is_foreign)

    # -- lines ----------------------------------------------------------------------------------------------------

    def _line(self, head: bytes) -> Iterator[Bare | Parsed]:
        end = head.find(b"\n")
        if end < 0:
            if len(head) < LINE_BYTES_MAX:
                self._stop("a line is incomplete", torn=True)
            else:
                self._stop("a line is too long", is_damage=not self.ours)
            return
        line = head[:end]
        if not line.startswith(b"#streamd "):
            self._comment(line)
            yield NOTHING
        elif (
            self.ours
            and (found := _RUN_LINE.fullmatch(line))
            and (found[5] is not None) == self.has_places
            and _are_digests(found[6] or b"")
        ):
            yield from self._run(found, end + 1)
        elif (beginning := decode_beginning(head[: end + 1])) is not None:
            self.salt, self.has_places = beginning
            self.has_earlier = self.has_earlier or not self.has_places
            self.missing = 0
            self._is_foreign = False
            self.names_databases = False
            self.begun_by_us = self.begun_by_us or self.offset == 0
            self.offset += end + 1
        elif (newer := newer_format(head[: end + 1])) is not None:
            self.trouble = Trouble(self.offset, False, False, f"its format is {newer}", is_newer=True)
        elif not self.ours:
            self._stop(_NOT_BEGUN, is_damage=True)
        elif (mark := _MARK.fullmatch(line)) and self._hash(mark[1], mark[2]) == mark[3]:
            named, here = int(mark[2]), self.offset + self.missing
            if mark[1] == b"end":
                if named != here:
                    self._stop(f"the end of the base should be at {named}", is_damage=True)
                    return
                self.ended = True
            elif named > here:
                self._stop(_bytes_are_missing(named, here), is_damage=True)
                return
            self.offset += end + 1
        elif (gap := _MISSING.fullmatch(line)) and self._hash(b"missing", b"%d" % (int(gap[1]) % 2**64)) == gap[2]:
            self.missing += int(gap[1])
            self.offset += end + 1
        else:
            self._stop("a line of streamd's is damaged")

    def _comment(self, line: bytes) -> None:
        """Skip a line of other software, unless it looks like a damaged line of streamd's."""
        if line == DATABASES_LINE[:-1] and self.ours:
            self.names_databases = True
        elif line == DATABASES_LINE[:-1]:
            self._stop(_NOT_BEGUN, is_damage=True)
            return
        elif _TEXT.fullmatch(line) is None or _LIKE_A_LINE_OF_OURS.search(line):
            self._stop("a line is damaged", is_damage=not self.ours)
            return
        self.offset += len(line) + 1

    def _whole_unit(self, head: bytes) -> Bare | None:
        """Return what `_run` yields for a whole run of one unit without notes, at half of its cost; None for all else.

        Most runs of clients without pipelines are such, and at a start most of the work.
        """
        found = _RUN_OF_ONE.match(head)
        if found is None:
            return None
        length, digest, synced, place = found.groups()
        here, start, size = self.offset, self.offset + found.end(), int(length)
        if size > READ_BYTES:
            return None  # `_run` reads it a part at a time
        body = self._take(start, size)
        named = int(place)
        if (
            named == here + self.missing
            and len(body) == size
            and run_hash(body, int(synced), self.salt or 0, named) == digest
        ):
            self._is_foreign = False
            return Bare(body, start)
        return None

    # -- runs -----------------------------------------------------------------------------------------------------

    def _run(self, header: re.Match[bytes], header_bytes: int) -> Iterator[Bare | Parsed]:
        start = self.offset + header_bytes
        length = int(header[2])
        body = yield from self._body(start, length)
        notes = header[1] == b"mix"
        here = self.offset + self.missing
        if self.has_places:
            place = int(header[5])
            is_here = place == here
        else:
            place = 0
            is_here = int(header[4]) <= here
        is_whole = len(body) == length and run_hash(body, int(header[4]), self.salt or 0, place) == header[3]
        if is_whole and is_here:
            self._is_foreign = False
            piece = (yield from parsing(body, start)) if notes else Bare(body, start)
            if isinstance(piece, str):
                self._stop(piece)
                return
            yield piece
            self.offset = start + length
            return
        if is_whole:
            named = place if self.has_places else int(header[4])
            self._stop(_bytes_are_missing(named, here), is_damage=True)
            return
        whole = _whole_units(body, header[6] or b"") if is_here else 0
        units = parse_body(body[:whole], start)
        if isinstance(units, Parsed) and units.commands:
            yield units
        if whole and self._take(start + whole, len(CUT_LINE)) == CUT_LINE:
            self.offset = start + whole + len(CUT_LINE)
            return
        torn = len(body) < length
        detail = "a run of records is incomplete" if torn else "a run of records does not match its checksum"
        cut = start + whole if whole else self.offset
        self.trouble = Trouble(cut, torn, whole > 0, detail)

    def _body(self, start: int, length: int) -> Generator[Parsed, None, bytes]:
        """Return the bytes of a run's body, a part at a time if they are many; fewer at the end of the file."""
        if length <= READ_BYTES:
            return self._take(start, length)
        parts: list[bytes] = []
        for at in range(start, min(start + length, self.size), READ_BYTES):
            parts.append(self.read(at, min(READ_BYTES, start + length - at)))
            yield NOTHING
        return b"".join(parts)

    # -- what redis-server wrote ----------------------------------------------------------------------------------

    def _foreign_commands(self) -> Iterator[Parsed]:
        """Yield commands outside of runs, some at a time, up to the next `#` line; MULTI ... EXEC stay together."""
        self.names_databases = False
        commands = ForeignCommands()
        at, want = self.offset, _FOREIGN_BYTES
        while True:
            data = self._take(at, want)
            at_end = at + len(data) >= self.size
            found, used, problem = commands.take(data, at)
            word_end = at + problem.word_end if isinstance(problem, Incomplete) else 0
            at_end = at_end or word_end >= self.size  # nor would all of the rest make it whole
            at += used
            self._is_foreign = self._is_foreign or used > 0
            yield found if found.commands else NOTHING
            self.offset = at if commands.is_closed else commands.begun_at
            if isinstance(problem, Malformed):
                self._stop(str(problem), is_damage=self._is_foreign or not self.ours)
                return
            if problem is None and commands.is_closed and (at_end or data[used : used + 1]):
                return
            if at_end:
                is_foreign = self._is_foreign or not self.ours
                self.trouble = Trouble(self.offset, True, False, "the last record is incomplete", is_foreign=is_foreign)
                return
            want = max(_FOREIGN_BYTES if used else want * 2, word_end - at)

    def cut_before(self, place: int) -> tuple[int, bool]:
        """Return `(offset of the cut, whether it is inside a run)` that removes the unit with the command at `place`.

        The command must be in the piece that `pieces()` yielded last.
        """
        header = _RUN.match(self._take(self.offset, LINE_BYTES_MAX))
        if header is None:
            commands = ForeignCommands()
            _, used, _ = commands.take(self._take(self.offset, place - self.offset), self.offset)
            return self.offset + used if commands.is_closed else commands.begun_at, False
        start = self.offset + header.end() + 1
        whole = _whole_units(self._take(start, place - start), header[6] or b"")
        return (start + whole, True) if whole else (self.offset, False)

    # -- behind a trouble -----------------------------------------------------------------------------------------

    def resume(self, offset: int, beginning: Beginning | None, missing: int) -> None:
        """Go on behind a trouble at `offset`, where a run or line is whole by its hash. missing: how many bytes of its
        part are missing before it.
        """
        self.trouble = None
        self.offset = offset
        self.salt, self.has_places = beginning or (None, False)
        self.missing = missing
        self.ended = False

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes of the file from `offset` on, fewer at its end."""
        return read_exactly(self._file, offset, length)

    def overlapping(self, offset: int, overlap: int) -> Iterator[tuple[int, bytes]]:
        """Yield `(offset, bytes)` of the file's parts from an offset on; each begins with the end of the one before."""
        data = b""
        while block := self.read(offset, READ_BYTES):
            data = data[-overlap:] + block
            offset += len(block)
            yield offset - len(data), data

    def run_here(self) -> Extent | None:
        """Return the extent of the run that `pieces()` yielded last; None if that piece was not in a run."""
        header = _RUN.match(self._take(self.offset, LINE_BYTES_MAX))
        if header is None:
            return None
        body_at, length = self.offset + header.end() + 1, int(header[2])
        body = self._take(body_at, length)
        synced, place = int(header[4]), int(header[5] or b"0")
        is_whole = len(body) == length and run_hash(body, synced, self.salt or 0, place) == header[3]
        return Extent(body_at, body_at + length, synced, place, header[1] == b"mix", is_whole)

    # -- bytes ----------------------------------------------------------------------------------------------------

    def _hash(self, body: bytes, synced: bytes) -> bytes:
        return run_hash(body, int(synced), self.salt or 0)

    def _stop(self, detail: str, torn: bool = False, is_damage: bool = False) -> None:
        self.trouble = Trouble(self.offset, torn, False, detail, is_damage=is_damage)

    def _take(self, offset: int, length: int) -> bytes:
        at = offset - self._window_at
        if at < 0 or at + length > len(self._window):
            length = min(length, self.size - offset)
            if at < 0 or at + length > len(self._window):
                self._window = read_exactly(self._file, offset, max(length, READ_BYTES))
                self._window_at, at = offset, 0
        return self._window[at : at + length]


def _bytes_are_missing(named: int, here: int) -> str:
    """Return the fault of a line that names its place, or a number of bytes before it."""
    few = f"{named - here} bytes are missing" if named > here else f"there are {here - named} bytes too many"
    return f"what stands here belongs to offset {named} or behind it: {few} before it"


def _are_digests(digits: bytes) -> bool:
    return len(digits) % _DIGEST_DIGITS == 0 and not digits.translate(None, b"0123456789abcdef")


def _whole_units(body: bytes, digests: bytes) -> int:
    """Return the length of the units at the beginning of `body` that match their digests."""
    whole = 0
    for place in range(0, len(digests), _DIGEST_DIGITS):
        try:
            count, end = parse_unit(body, whole)
            # A SELECT, or notes, may begin a unit: such a unit goes on.
            while xxh32_hexdigest(body[whole:end]).encode() != digests[place : place + _DIGEST_DIGITS]:
                more, end = parse_unit(body, end)
                count += more
                if count > 64 and end - whole > 16 * READ_BYTES:
                    return whole
        except (Incomplete, Malformed):
            return whole
        whole = end
    return whole
