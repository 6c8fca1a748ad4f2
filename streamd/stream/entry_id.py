"""Entry IDs: how they are read from a request, and written.

An entry ID is one int, `ms << 64 | seq`, so that IDs compare, count up and count down as ints do.
"""

from streamd.errors import InvalidRangeEnd, InvalidRangeStart, InvalidStreamId

SEQ_BITS = 64
SEQ_MAX = (1 << 64) - 1
ID_MIN = 0
ID_MAX = (1 << 128) - 1

# Redis reads an ID from a buffer of 128 bytes, so leading zeros are fine, but not any number of them.
_ID_BYTES_MAX = 127


def make_id(ms: int, seq: int) -> int:
    """Return the entry ID of two parts; both are 0 .. 2**64-1."""
    return ms << 64 | seq


def parse_id(text: bytes, missing_seq: int = 0) -> int:
    """Return the entry ID that `text` says, `ms-seq`, or `ms` alone, which stands for `ms-missing_seq`.

    Digits only: Redis reads each part with strtoull and so lets a blank or `+` in front of one pass; here they are
    refused. Leading zeros are fine, as in Redis.

    Raises: InvalidStreamId.
    """
    if len(text) > _ID_BYTES_MAX:
        raise InvalidStreamId
    ms_text, dash, seq_text = text.partition(b"-")
    # bytes.isdigit() is true for the ASCII digits alone, and false for nothing at all.
    if not ms_text.isdigit():
        raise InvalidStreamId
    ms = int(ms_text)
    if not dash:
        seq = missing_seq
    elif seq_text.isdigit():
        seq = int(seq_text)
    else:
        raise InvalidStreamId
    if ms > SEQ_MAX or seq > SEQ_MAX:
        raise InvalidStreamId
    return ms << 64 | seq


def parse_new_id(text: bytes) -> tuple[int, bool]:
    """Return `(entry ID, whether its seq is to be chosen)` of the ID that XADD is given.

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
    """Return the first entry ID of a range: `-` and `+` are the ends of all IDs, `(` leaves the ID itself out.

    Raises: InvalidStreamId; InvalidRangeStart when nothing comes behind an ID that is left out.
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
    """Return the last entry ID of a range: `-` and `+` are the ends of all IDs, `(` leaves the ID itself out.

    Raises: InvalidStreamId; InvalidRangeEnd when nothing comes before an ID that is left out.
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
    return b"%d-%d" % (entry_id >> 64, entry_id & SEQ_MAX)
