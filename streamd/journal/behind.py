"""The bytes behind the first fault of a file: what they prove about the bytes at and before it."""

import re
from typing import Final, NamedTuple

from streamd.journal.file_reader import LINE_BYTES_MAX, FileReader
from streamd.journal.formats import decode_beginning
from streamd.journal.record import run_hash

_RUN: Final = rb"(?:run|mix) (\d{1,19}) ([0-9a-f]{16}) (\d{1,19})(?: @(\d{1,19}))?(?: [0-9a-f]+)?\n"
_LINE: Final = re.compile(
    rb"#streamd (?:%b|(synced|end) (\d{1,19}) ([0-9a-f]{16})|missing ([+-]\d{19}) ([0-9a-f]{16})\n|journal [^\n]+\n)"
    % _RUN
)


_BEGINNING: Final = re.compile(rb"#streamd journal [^\n]+\n")


class Behind(NamedTuple):
    """What stands behind a fault.

    synced: the greatest number of bytes that a line names as on the disk. has_runs: a run is whole. is_moved: a whole
    run or line was written at another place, which no crash explains: bytes before it are missing, or too many.
    """

    synced: int
    has_runs: bool
    is_moved: bool


def what_stands_behind(reader: FileReader) -> Behind:
    """Return what stands behind the trouble of a reader, in a part of the file that streamd has begun.

    The trouble may have hidden the beginnings of lines, so the search covers every place, values included. A line of
    ours is known by its hash, which nobody can make without the salt. A file of format 1 has none: there each text that
    looks like such a line counts, for a refused start is better than a loss, if it names no more bytes than stand
    before it.
    """
    assert reader.trouble is not None
    salt = reader.salt or 0
    synced, has_runs, is_moved = 0, False, False
    missing, searched = reader.missing, reader.trouble.offset
    for begin, data in reader.overlapping(reader.trouble.offset, LINE_BYTES_MAX):
        for found in _LINE.finditer(data):
            place = begin + found.start()
            if place < searched:
                continue  # it is in a run that was looked at, or in the part of before
            if found[1]:
                body = reader.read(begin + found.end(), int(found[1]))
                is_ours = len(body) == int(found[1]) and _hash(body, found, salt) == found[2]
                if is_ours and salt:
                    has_runs = True
                    searched = begin + found.end() + len(body)
                    is_moved = is_moved or (found[4] is not None and int(found[4]) != place + missing)
                elif salt and b"\r" not in body:
                    # A copy in text mode: with its line ends as they were, it is a run.
                    body = body.replace(b"\n", b"\r\n")[: int(found[1])]
                    is_moved = is_moved or _hash(body, found, salt) == found[2]
                named = int(found[3])
            elif found[5]:
                named = int(found[6])
                is_ours = run_hash(found[5], named, salt) == found[7]
                is_moved = is_moved or (is_ours and found[5] == b"end" and bool(salt) and named != place + missing)
            else:
                missing = _missing_from(found, salt, missing)
                searched = begin + found.end()
                continue
            if is_ours or (not salt and named <= place):
                synced = max(synced, named)
                is_moved = is_moved or (is_ours and named > place + missing)
    return Behind(synced, has_runs, is_moved)


def begins_behind(reader: FileReader) -> bool:
    """Return whether a part that streamd wrote begins behind the trouble of a reader, or a value looks like that."""
    assert reader.trouble is not None
    return any(
        decode_beginning(found[0]) is not None
        for _, data in reader.overlapping(reader.trouble.offset, LINE_BYTES_MAX)
        for found in _BEGINNING.finditer(data)
    )


def _hash(body: bytes, found: re.Match[bytes], salt: int) -> bytes:
    return run_hash(body, int(found[3]), salt, int(found[4] or b"0"))


def _missing_from(found: re.Match[bytes], salt: int, missing: int) -> int:
    """Return how many bytes are missing behind a line of these, which may be a text in a value."""
    if found[8]:
        count = int(found[8])
        return missing + count if run_hash(b"missing", count % 2**64, salt) == found[9] else missing
    beginning = decode_beginning(found[0])
    return 0 if beginning is not None and beginning.salt == salt and salt else missing
