"""Entry IDs: how they are read from a request, and written.

An entry ID is one int, `ms << 64 | seq`, so that IDs compare, count up and count down as ints do.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from typing import Final

from streamd.base.errors import InvalidRangeEnd, InvalidRangeStart, InvalidStreamId
from streamd.stream.id_parts import format_parts, parts_of

SEQ_MAX: Final = (1 << 64) - 1
ID_MIN: Final = 0
ID_MAX: Final = (1 << 128) - 1

# Redis reads an ID from a buffer of 128 bytes, so leading zeros are fine, but not any number of them.
_ID_BYTES_MAX: Final = 127

_NUMBER: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?)([0-9]+)")


def make_id(ms: int, seq: int) -> int:
    """Return the entry ID of two parts; both are 0 .. 2**64-1."""
    return ms << 64 | seq


def parse_id(text: bytes, missing_seq: int = 0) -> int:
    """Return the entry ID in `text`: `ms-seq`, or `ms` alone, which stands for `ms-missing_seq`.

    Raises: InvalidStreamId.
    """
    if len(text) > _ID_BYTES_MAX:
        raise InvalidStreamId
    ms_text, dash, seq_text = text.partition(b"-")
    # bytes.isdigit() is true for the ASCII digits alone, and false for nothing at all.
    if not ms_text.isdigit() or (dash and not seq_text.isdigit()):
        return _parse_oddity(text, missing_seq)
    ms = int(ms_text)
    seq = int(seq_text) if dash else missing_seq
    if ms > SEQ_MAX or seq > SEQ_MAX:
        raise InvalidStreamId
    return ms << 64 | seq


def _parse_oddity(text: bytes, missing_seq: int) -> int:
    """Return the entry ID of a text with more than digits; Redis reads such a text with strtoull, up to a zero byte."""
    ms_text, dash, seq_text = text.partition(b"\0")[0].partition(b"-")
    ms = _strtoull(ms_text)
    return make_id(ms, _strtoull(seq_text) if dash else missing_seq)


def _strtoull(text: bytes) -> int:
    """Return the number that C's strtoull reads: blanks and a sign may precede it; a minus counts down from 2**64.

    Redis reads a signed 64-bit integer in its usual spelling without strtoull, and refuses a negative one.
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise InvalidStreamId
    number = int(found[2])
    if number > SEQ_MAX or (text[:1] == b"-" and text[1:2] != b"0" and number <= 1 << 63):
        raise InvalidStreamId
    return -number % (SEQ_MAX + 1) if found[1] == b"-" else number


def parse_new_id(text: bytes) -> tuple[int, bool]:
    """Return `(entry ID, whether the server chooses its seq)` of the ID argument of XADD.

    `ms-*` leaves the seq to the server; the ID is `ms-0` then. `*` alone is no ID: XADD looks for it first.

    Raises: InvalidStreamId.
    """
    if text.endswith(b"-*"):
        ms_text = text[:-2]
        if b"-" in ms_text:
            raise InvalidStreamId
        return parse_id(ms_text), True
    return parse_id(text), False


def parse_range_start(text: bytes) -> int:
    """Return the first entry ID of a range: `-` and `+` are the ends of all IDs, `(` excludes the ID itself.

    Raises: InvalidStreamId; InvalidRangeStart when the excluded ID is the greatest of all.
    """
    if text == b"-":
        return ID_MIN
    if text == b"+":
        return ID_MAX
    if text[:1] != b"(":
        return parse_id(text, 0)
    start = parse_id(text[1:], 0)
    if start == ID_MAX:
        raise InvalidRangeStart
    return start + 1


def parse_range_end(text: bytes) -> int:
    """Return the last entry ID of a range: `-` and `+` are the ends of all IDs, `(` excludes the ID itself.

    Raises: InvalidStreamId; InvalidRangeEnd when the excluded ID is the least of all.
    """
    if text == b"+":
        return ID_MAX
    if text == b"-":
        return ID_MIN
    if text[:1] != b"(":
        return parse_id(text, SEQ_MAX)
    end = parse_id(text[1:], SEQ_MAX)
    if end == ID_MIN:
        raise InvalidRangeEnd
    return end - 1


def format_id(entry_id: int) -> bytes:
    """Return the text of an entry ID, `ms-seq`."""
    # (By way of a str: two thirds of the time that formatting bytes takes.)
    return f"{entry_id >> 64}-{entry_id & SEQ_MAX}".encode()


def consecutive_ids(first_id: int, count: int) -> list[int]:
    """Return some entry IDs that follow each other; count: 1 or more. (As a range would, at two fifths of its time.)"""
    return [*accumulate(repeat(1, count - 1), initial=first_id)]


NUMBERS: Final = [b"%d" % number for number in range(1000)]
_THREE_DIGITS: Final = [b"%03d" % number for number in range(1000)]


def consecutive_parts(entry_id: int, count: int) -> Iterator[tuple[bytes, Sequence[bytes]]]:
    """Yield `(head, tails)` of the texts of `count` IDs that follow each other in one millisecond, from `entry_id` on:
    each text is the head and one of the tails, which are equally long.

    A tail is up to three digits from a table, which is 25 times as quick as `format_id`.
    """
    ms, seq = entry_id >> 64, entry_id & SEQ_MAX
    while count > 0:
        thousands, rest = divmod(seq, 1000)
        if thousands:
            same = min(count, 1000 - rest)
            yield b"%d-%d" % (ms, thousands), _THREE_DIGITS[rest : rest + same]
        else:
            same = min(count, (10 if rest < 10 else 100 if rest < 100 else 1000) - rest)
            yield b"%d-" % ms, NUMBERS[rest : rest + same]
        seq += same
        count -= same


def format_ids(ids: Sequence[int]) -> list[bytes]:
    """Return the texts of ascending IDs."""
    if ids and ids[-1] - ids[0] == len(ids) - 1 and ids[-1] >> 64 == ids[0] >> 64:
        return [head + tail for head, tails in consecutive_parts(ids[0], len(ids)) for tail in tails]
    return format_parts(*parts_of(ids))
