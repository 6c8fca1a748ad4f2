"""XSPLIT: where to cut a range of a stream into parts of equal length (streamd's own command)."""

from streamd.base.errors import CommandError
from streamd.catalog import Context, command
from streamd.catalog.arguments import parse_integer
from streamd.resp.types import Reply
from streamd.stream.entry_id import format_id, parse_range_end, parse_range_start


@command(
    "XSPLIT",
    arity=5,
    flags="readonly",
    keys=(1, 1, 1),
    since="8.10.0",
    complexity="O(S) with S being the number of the stream's segments.",
    syntax="key start end count",
    access="RO access",
)
def xsplit(context: Context, args: list[bytes]) -> Reply:
    """Return the IDs at which a range falls into parts of `count` entries, the last one shorter.

    These are the first IDs of the second, third, ... part, so a range of `count` entries or less has none. `start` and
    `end` are as in XRANGE.

    Reply: array of bulk strings; empty when the key does not exist.
    Raises: InvalidStreamId, InvalidRangeStart, InvalidRangeEnd, NotAnInteger; WrongType.
    """
    start = parse_range_start(args[2])
    end = parse_range_end(args[3])
    count = parse_integer(args[4])
    if count < 1:
        raise CommandError("ERR value is out of range, must be positive")
    stream = context.read_stream(args[1])
    if stream is None:
        return []
    return [format_id(entry_id) for entry_id in stream.log.split(start, end, count)]
