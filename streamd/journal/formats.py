"""The first lines of files of all formats; the earlier ones are read, and written by `--skip` alone.

    #streamd journal 2 SALT HASH    its runs do not name their places
    #streamd journal 1              the same, without a salt, which is 0 then

So bytes that are missing from the middle of such a file are noticed only if a run is damaged, or if a line names more
bytes than stand before it. What knows of these formats is here, and where `has_places` is asked.
"""

from typing import Final, NamedTuple

from streamd.journal.record import (
    ANY_FIRST_LINE,
    DATABASES_LINE,
    FIRST_LINE_HEAD,
    FORMAT,
    decode_first_line,
    encode_first_line,
    encode_run,
    run_hash,
)

_FIRST_LINE_1: Final = b"#streamd journal 1\n"
_HEAD_2: Final = b"#streamd journal 2 "


class Beginning(NamedTuple):
    """The beginning of streamd's part of a file. has_places: its runs name their places, as they do since format 3."""

    salt: int
    has_places: bool

    def line(self) -> bytes:
        """Return it as the first line."""
        return encode_first_line(self.salt) if self.has_places else encode_earlier_first_line(self.salt)

    def lines(self) -> bytes:
        """Return it as the first lines. (The second may be missing in a file of an earlier format.)"""
        return self.line() + DATABASES_LINE if self.has_places else self.line()

    def run(self, body: bytes, synced: int, notes: bool, place: int) -> bytes:
        """Return a run of one body."""
        if self.has_places:
            return encode_run([body], synced, notes, self.salt, place)
        word = b"mix" if notes else b"run"
        return b"#streamd %b %d %b %d\n%b" % (word, len(body), run_hash(body, synced, self.salt), synced, body)


def decode_beginning(line: bytes) -> Beginning | None:
    """Return what a first line of any known format says; None if the line is another or damaged."""
    salt = decode_first_line(line)
    if salt is not None:
        return Beginning(salt, True)
    earlier = _salt_of_earlier(line)
    return None if earlier is None else Beginning(earlier, False)


def newer_format(line: bytes) -> int | None:
    """Return the format number of a first line if this version does not know it; None for any other line.

    A line that differs from a known one only in this number is damaged.
    """
    found = ANY_FIRST_LINE.match(line)
    if found is None or int(found[1]) <= FORMAT:
        return None
    rest = line[found.end() + 1 :]
    is_known = any(decode_beginning(head + rest) for head in (FIRST_LINE_HEAD, _HEAD_2))
    return None if is_known else int(found[1])


def encode_earlier_first_line(salt: int) -> bytes:
    """Return the first line of a file of an earlier format; `salt` is 0 for format 1."""
    return b"%b%016x %b\n" % (_HEAD_2, salt, run_hash(b"journal", 0, salt)) if salt else _FIRST_LINE_1


def _salt_of_earlier(line: bytes) -> int | None:
    if line == _FIRST_LINE_1:
        return 0
    if not line.startswith(_HEAD_2):
        return None
    try:
        salt = int(line[len(_HEAD_2) : len(_HEAD_2) + 16], 16)
    except ValueError:
        return None
    return salt if salt and line == encode_earlier_first_line(salt) else None
