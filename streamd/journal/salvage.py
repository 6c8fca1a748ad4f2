"""The whole runs behind a fault in a file of the journal, found again by the checksum of each."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from streamd.journal.file_reader import LINE_BYTES_MAX, Bare, FileReader, Trouble
from streamd.journal.formats import Beginning
from streamd.journal.mending import can_fill
from streamd.journal.parsing import NOTHING, Parsed, parse_body
from streamd.journal.record import CUT_LINE, FIRST_LINE_BYTES, encode_first_line, run_hash

_HEADER: Final = re.compile(
    rb"#streamd (?:(?:run|mix) (\d{1,19}) ([0-9a-f]{16}) (\d{1,19})(?: @(\d{1,19}))?(?: [0-9a-f]+)?"
    rb"|(synced|end) (\d{1,19}) ([0-9a-f]{16}))\n"
)
# A SELECT of another database than 0, maybe with its name damaged.
_OTHER_DATABASE: Final = re.compile(rb"(?:\*2\r\n\$6\r\n.{6}|SELECT)\r\n\$\d\r\n[1-9]", re.DOTALL)
_OTHER_DATABASE_BYTES_MAX: Final = 64
# Where the salt stands in a first line, and behind it the hash.
_SALT: Final = slice(19, 35)
_SALT_HASH: Final = slice(36, 52)
_END_OF_FIRST_LINE: Final = re.compile(rb"([0-9a-f]{16}) [0-9a-f]{16}\n")


class Gap(NamedTuple):
    """Bytes from `offset` to `end` that are not kept.

    in_run: they are the rest of a run. instead: the right bytes for the place, if they are known. missing: how many
    bytes are missing in front of `end`, from which on all is where it was; it has to be noted behind `instead`. salt:
    that of the part behind the gap.
    """

    offset: int
    end: int
    in_run: bool
    detail: str
    instead: bytes = b""
    missing: int = 0
    salt: int = 0


class _Found(NamedTuple):
    """A whole run or line of streamd's. missing: how many bytes of its part are missing before it."""

    place: int
    missing: int
    beginning: Beginning | None


class Salvage:
    """A reader of a file that goes on behind faults."""

    def __init__(self, reader: FileReader) -> None:
        self._reader = reader
        self._has_begun = False
        self._names_others: bool | None = None  # until it is known

    def pieces(self) -> Iterator[Bare | Parsed | Gap]:
        """Yield the pieces of the file in order, and the gaps between them. `reader.trouble` has the reason of a gap
        until the next piece is requested, and is set at the end if a newer version wrote the rest.
        """
        reader = self._reader
        while True:
            for piece in reader.pieces():
                if piece is not NOTHING:
                    self._has_begun = True
                    yield piece
            if reader.trouble is None or reader.trouble.is_newer:
                return
            gap, found = self._gap(reader.trouble)
            self._has_begun = True
            yield gap
            reader.resume(found.place, found.beginning, found.missing)

    def _gap(self, trouble: Trouble) -> tuple[Gap, _Found]:
        """Return the gap behind a trouble, and what stands behind that."""
        reader = self._reader
        first = len(CUT_LINE) if trouble.in_run else 0
        if reader.salt is not None:
            if trouble.in_run and (header := self._header_of_what_is_whole(trouble.offset)):
                gap = Gap(reader.offset, reader.offset + len(header), False, "the header of a run is damaged", header)
                return gap, _Found(trouble.offset, reader.missing, reader.beginning)
            found = self._next_whole(trouble.offset, first, reader.salt)
            return self._gap_before(found, trouble), found
        if not self._has_begun:  # a damaged first line may read like a line of other software
            for salt in self._salts():
                found = self._next_whole(0, 0, salt)
                if found.place < reader.size and found.beginning is not None:
                    return self._gap_at_the_beginning(found, found.beginning)
        # The bytes of other software have no checksums: nothing behind a fault is known to be a command.
        return Gap(trouble.offset, reader.size, False, trouble.detail), _Found(reader.size, 0, None)

    def _gap_before(self, found: _Found, trouble: Trouble) -> Gap:
        reader = self._reader
        offset, end = trouble.offset, found.place
        assert found.beginning is not None
        instead, missing = b"", found.missing - reader.missing
        if found.beginning != reader.beginning:  # the first line of a part is in the gap
            instead, missing = found.beginning.lines(), found.missing
        return Gap(offset, end, trouble.in_run, trouble.detail, instead, missing, found.beginning.salt)

    def _gap_at_the_beginning(self, found: _Found, beginning: Beginning) -> tuple[Gap, _Found]:
        detail = "its first line is damaged"
        line = beginning.line()
        if not found.missing and self._reader.read(len(line) - 1, 1) == b"\n":
            return Gap(0, len(line), False, detail, line), _Found(len(line), 0, beginning)
        return Gap(0, found.place, False, detail, beginning.lines(), found.missing, beginning.salt), found

    def _header_of_what_is_whole(self, end: int) -> bytes | None:
        """Return the right header of the run here, if only its header is damaged and its units end at `end`: the run
        behind is whole then, and leaves no room for a CUT_LINE. Else None.
        """
        reader = self._reader
        run = reader.run_here()
        assert run is not None
        found = reader.read(reader.offset, run.body_at - reader.offset)
        if reader.read(end, 1) != b"#":
            return None
        body = reader.read(run.body_at, end - run.body_at)
        words = found.split(b" ")
        words[2:4] = b"%d" % len(body), run_hash(body, run.synced, reader.salt or 0, run.place)
        header = b" ".join(words)
        return header if len(header) == len(found) else None

    def _salts(self) -> list[int]:
        """Return the possible salts of a damaged first line: the salt as it reads, or with one other digit; or that of
        a line whose beginning is missing.
        """
        line = self._reader.read(0, FIRST_LINE_BYTES)
        text, found = line[_SALT], line[_SALT_HASH]
        read = [text] + [text[:at] + b"%x" % digit + text[at + 1 :] for at in range(16) for digit in range(16)]
        salts = [int(one, 16) for one in read if re.fullmatch(rb"[0-9a-f]{16}", one)]
        if re.fullmatch(rb"[0-9a-f]{16}", text):
            salts = salts[:1] + [salt for salt in salts[1:] if _fits(salt, found)]
        else:
            salts = [salt for salt in salts if _fits(salt, found)]
        rest = _END_OF_FIRST_LINE.search(line)
        return salts if rest is None else [*salts, int(rest[1], 16)]

    def _next_whole(self, offset: int, first: int, salt: int) -> _Found:
        """Return the next whole run or line behind a fault, or the end of the file. first: so many bytes have to stand
        between, unless it has moved.

        A value may hold bytes that look like a run. No client knows the salt, so their hash is another. A file of
        format 1 has no salt. There only the end counts that the header of the damaged run names.

        A run that has moved tells how many bytes are missing. One that belongs in front of the fault was read before.
        """
        reader = self._reader
        named = None if salt else self._end_of_run(offset)
        here = offset + reader.missing
        for begin, data in reader.overlapping(offset, LINE_BYTES_MAX):
            for header in _HEADER.finditer(data):
                place = begin + header.start()
                if named not in (None, place):
                    continue
                missing = self._missing_before(header, place, begin + header.end(), salt)
                if missing is None or place + missing < here:
                    continue
                beginning = self._beginning_of(header, salt)
                is_moved = missing != reader.missing or beginning != Beginning(reader.salt or 0, reader.has_places)
                if is_moved or (place > offset and place >= offset + first and can_fill(place - offset - first)):
                    return _Found(place, missing, beginning)
            if named is not None and begin + len(data) > named:
                break
        return _Found(reader.size, reader.missing, None if reader.salt is None else reader.beginning)

    def _beginning_of(self, header: re.Match[bytes], salt: int) -> Beginning:
        """Return the beginning of the part of a whole run or line; a line says nothing of it."""
        return Beginning(salt, header[4] is not None if header[1] else self._reader.has_places)

    def _end_of_run(self, offset: int) -> int:
        header = _HEADER.match(self._reader.read(offset, LINE_BYTES_MAX))
        return offset + header.end() + int(header[1]) if header is not None and header[1] else self._reader.size

    def _missing_before(self, header: re.Match[bytes], place: int, body_at: int, salt: int) -> int | None:
        """Return how many bytes are missing before a run or line; None unless streamd wrote it, the run is whole, and
        the database of the commands behind is known.
        """
        reader = self._reader
        if header[5]:
            if reader.salt is None:
                return None  # it does not tell the format
            length = int(header[6])
            if run_hash(header[5], length, salt) != header[7]:
                return None
            if header[5] == b"end":
                return length - place
            return None if length > place + reader.missing or self._may_be_another() else reader.missing
        length, synced = int(header[1]), int(header[3])
        body = reader.read(body_at, length)
        if len(body) < length or run_hash(body, synced, salt, int(header[4] or b"0")) != header[2]:
            return None
        if self._may_be_another() and not _selects(body, body_at):
            return None
        if header[4]:
            return int(header[4]) - place
        return max(reader.missing, synced - place)

    def _may_be_another(self) -> bool:
        """Return whether a database other than 0 may be selected without a SELECT in the run: in a file of an earlier
        version that names such a database anywhere.
        """
        reader = self._reader
        if reader.names_databases:
            return False
        if self._names_others is None:
            parts = reader.overlapping(0, _OTHER_DATABASE_BYTES_MAX)
            self._names_others = any(_OTHER_DATABASE.search(data) for _, data in parts)
        return self._names_others


def _selects(body: bytes, offset: int) -> bool:
    """Return whether a run names a database before it needs one."""
    parsed = parse_body(body, offset)
    if isinstance(parsed, str):
        return False
    for words in parsed.commands:
        if words[0][:1] != b"#" and words != [b"MULTI"]:
            return words[0] == b"SELECT"
    return False


def _fits(salt: int, found: bytes) -> bool:
    """Return whether the hash of a first line of some format is that of this salt."""
    return bool(salt) and found in (run_hash(b"journal", 0, salt), encode_first_line(salt)[_SALT_HASH])
