"""XRANGE and XREVRANGE: the entries between two IDs."""

from streamd.base.limits import LARGE_REPLY_BYTES
from streamd.catalog import Context, command
from streamd.commands.stream.options import parse_count_option
from streamd.resp.types import NULL_ARRAY, Raw, Reply, Sliced
from streamd.stream.entry_id import parse_range_end, parse_range_start
from streamd.stream.reading import gathered, long_array, pinned_bytes

_COMPLEXITY = "O(N) with N being the number of entries returned, and O(log(S)) for finding the first of S segments."


@command(
    "XRANGE",
    arity=-4,
    flags="readonly",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity=_COMPLEXITY,
    syntax="key start end [COUNT count]",
    access="RO access",
)
def xrange(context: Context, args: list[bytes]) -> Reply:
    """Return the entries of a stream from one ID to another, oldest first.

    Reply: array of entries; empty when the key does not exist, null when COUNT is 0 or less.
    Raises: InvalidStreamId, InvalidRangeStart, InvalidRangeEnd; WrongType.
    """
    return _read(context, args, args[2], args[3], reverse=False)


@command(
    "XREVRANGE",
    arity=-4,
    flags="readonly",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity=_COMPLEXITY,
    syntax="key end start [COUNT count]",
    access="RO access",
)
def xrevrange(context: Context, args: list[bytes]) -> Reply:
    """Return the entries of a stream from one ID back to another, youngest first.

    Reply and errors: as XRANGE.
    """
    return _read(context, args, args[3], args[2], reverse=True)


def _read(context: Context, args: list[bytes], start_text: bytes, end_text: bytes, reverse: bool) -> Reply:
    start = parse_range_start(start_text)
    end = parse_range_end(end_text)
    count = parse_count_option(args, 4) if len(args) > 4 else None
    stream = context.read_stream(args[1])
    if stream is None:
        return []
    if count == 0:
        return NULL_ARRAY
    many = long_array(stream.log, start, end, count, reverse)
    if many is not None:
        return Sliced(many[1], pinned_bytes(stream.log, many[0]))
    entries, parts = stream.log.encode_parts(start, end, count, reverse)
    if len(parts) == 1 and len(parts[0]) <= LARGE_REPLY_BYTES:
        return Raw(b"*%d\r\n%b" % (entries, parts[0]))
    parts.insert(0, b"*%d\r\n" % entries)
    return gathered(parts)
