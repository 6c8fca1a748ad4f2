"""The whole runs behind a fault in a file of the journal, found again by the checksum of each."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from streamd.journal.file_reader import LINE_BYTES_MAX, Bare, FileReader, Trouble
from streamd.journal.mending import can_fill
from streamd.journal.parsing import NOTHING, Parsed, parse_body
from streamd.journal.record import CUT_LINE, FIRST_LINE_BYTES, encode_first_line, run_hash

_HEADER: Final = re.compile(
    rb"#streamd (?:(?:run|mix) (\d{1,19}) ([0-9a-f]{16}) (\d{1,19})(?: [0-9a-f]+)?"
    rb"|(synced|end) (\d{1,19}) ([0-9a-f]{16}))\n"
)
# A SELECT of another database than 0, maybe with its name damaged.
_OTHER_DATABASE: Final = re.compile(rb"(?:\*2\r\n\$6\r\n.{6}|SELECT)\r\n\$\d\r\n[1-9]", re.DOTALL)
_OTHER_DATABASE_BYTES_MAX: Final = 64
# Where the salt stands in a first line, and behind it the hash.
_SALT: Final = slice(19, 35)
_SALT_HASH: Final = slice(36, 52)


class Gap(NamedTuple):
    """Bytes from `offset` to `end` that are not kept.

    in_run: they are the rest of a run. instead: the right bytes for the place, if they are known.
    """

    offset: int
    end: int
    in_run: bool
    detail: str
    instead: bytes = b""


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
            gap, end, salt = self._gap(reader.trouble)
            self._has_begun = True
            yield gap
            reader.resume(end, salt)

    def _gap(self, trouble: Trouble) -> tuple[Gap, int, int | None]:
        """Return the gap behind a trouble, the offset to go on at, and the salt of the bytes there."""
        reader = self._reader
        first = len(CUT_LINE) if trouble.in_run else 0
        if reader.salt is not None:
            if trouble.in_run and (header := self._header_of_what_is_whole(trouble.offset, reader.salt)):
                gap = Gap(reader.offset, reader.offset + len(header), False, "the header of a run is damaged", header)
                return gap, trouble.offset, reader.salt
            end = self._next_whole(trouble.offset, first, reader.salt)
            return Gap(trouble.offset, end, trouble.in_run, trouble.detail), end, reader.salt
        if not self._has_begun:  # a damaged first line may read like a line of other software
            for salt in self._salts():
                if self._next_whole(0, FIRST_LINE_BYTES, salt) < reader.size:
                    gap = Gap(0, FIRST_LINE_BYTES, False, "its first line is damaged", encode_first_line(salt))
                    return gap, FIRST_LINE_BYTES, salt
        # The bytes of other software have no checksums: nothing behind a fault is known to be a command.
        return Gap(trouble.offset, reader.size, False, trouble.detail), reader.size, None

    def _header_of_what_is_whole(self, end: int, salt: int) -> bytes | None:
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
        words[2:4] = b"%d" % len(body), run_hash(body, run.synced, salt)
        header = b" ".join(words)
        return header if len(header) == len(found) else None

    def _salts(self) -> list[int]:
        """Return the possible salts of a damaged first line: the salt as it reads, or with one other digit."""
        line = self._reader.read(0, FIRST_LINE_BYTES)
        text, found = line[_SALT], line[_SALT_HASH]
        read = [text] + [text[:at] + b"%x" % digit + text[at + 1 :] for at in range(16) for digit in range(16)]
        salts = [int(one, 16) for one in read if re.fullmatch(rb"[0-9a-f]{16}", one)]
        if re.fullmatch(rb"[0-9a-f]{16}", text):
            return salts[:1] + [salt for salt in salts[1:] if salt and run_hash(b"journal", 0, salt) == found]
        return [salt for salt in salts if salt and run_hash(b"journal", 0, salt) == found]

    def _next_whole(self, offset: int, first: int, salt: int) -> int:
        """Return the place of the next whole run or line, at least `first` bytes behind a fault; or the size of the
        file.

        A value may hold bytes that look like a run. No client knows the salt, so their hash is another. A file of an
        earlier version has no salt. There only the end counts that the header of the damaged run names.
        """
        reader = self._reader
        named = None if salt else self._end_of_run(offset)
        for begin, data in reader.overlapping(offset + max(first, 1), LINE_BYTES_MAX):
            for header in _HEADER.finditer(data):
                place = begin + header.start()
                if place < offset + first or place <= offset or not can_fill(place - offset - first):
                    continue
                if named in (None, place) and self._is_whole(header, place, begin + header.end(), salt):
                    return place
            if named is not None and begin + len(data) > named:
                break
        return reader.size

    def _end_of_run(self, offset: int) -> int:
        header = _HEADER.match(self._reader.read(offset, LINE_BYTES_MAX))
        return offset + header.end() + int(header[1]) if header is not None and header[1] else self._reader.size

    def _is_whole(self, header: re.Match[bytes], place: int, body_at: int, salt: int) -> bool:
        """Return whether streamd wrote a line, its run is whole, and the database of the commands behind is known."""
        reader = self._reader
        if header[4]:
            length = int(header[5])
            is_end = header[4] == b"end"
            if not (length == place if is_end else length <= place) or run_hash(header[4], length, salt) != header[6]:
                return False
            return is_end or not self._may_be_another()
        length = int(header[1])
        if body_at + length > reader.size or int(header[3]) > place:
            return False
        body = reader.read(body_at, length)
        if run_hash(body, int(header[3]), salt) != header[2]:
            return False
        return not self._may_be_another() or _selects(body, body_at)

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
