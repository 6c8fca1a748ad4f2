"""Entry IDs as pairs of numbers, for comparisons."""

from datetime import UTC, datetime

Id = tuple[int, int]
_HIGHEST = 2**64 - 1
BEGIN: Id = (0, 0)
# The end entry of a generation has the highest ID there is: the server itself refuses every XADD behind it.
END: Id = (_HIGHEST, _HIGHEST)


def parse_id(text: bytes | str) -> Id:
    """Return an entry ID as two numbers. Raises: ValueError."""
    if isinstance(text, bytes):
        text = text.decode("ascii")
    ms, dash, seq = text.partition("-")
    if not (dash and ms.isdecimal() and seq.isdecimal() and text.isascii()):
        raise ValueError(f"no entry ID: {text[:60]!r}")
    found = int(ms), int(seq)
    if max(found) > _HIGHEST:
        raise ValueError(f"no entry ID: {text[:60]!r}")
    return found


def format_id(entry_id: Id) -> str:
    """Return `ms-seq`."""
    return f"{entry_id[0]}-{entry_id[1]}"


def before_ms(ms: int) -> Id:
    """Return the last ID before a time in Unix milliseconds."""
    return (ms - 1, _HIGHEST) if ms > 0 else BEGIN


def following(entry_id: Id) -> Id:
    """Return the next ID."""
    return (entry_id[0], entry_id[1] + 1) if entry_id[1] < _HIGHEST else (entry_id[0] + 1, 0)


def to_ms(time: datetime) -> int:
    """Return the Unix milliseconds of a time, rounded up, so that nothing older is read.

    Raises: ValueError, if the time does not say its zone.
    """
    if time.tzinfo is None or time.utcoffset() is None:
        raise ValueError(f"start {time.isoformat()}: of which time zone? Give datetime(..., tzinfo=...)")
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    micro = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return max(0, -(-micro // 1_000))
