"""XRANGE and XREVRANGE: the entries between two IDs."""

from itertools import islice
from typing import Final

from streamd.base.errors import CommandError, InvalidStreamId
from streamd.base.limits import LARGE_REPLY_BYTES
from streamd.catalog import Batch, Context, command
from streamd.commands.stream.options import parse_count_option, parse_ids
from streamd.resp.template import Requests
from streamd.resp.types import NULL_ARRAY, Raw, Reply, Sliced
from streamd.stream.entry_id import parse_range_end, parse_range_start
from streamd.stream.entry_replies import gathered, long_array, pinned_bytes
from streamd.stream.log.absent import Absent
from streamd.stream.stream import Stream

_COMPLEXITY = "O(N) with N being the number of entries returned, and O(log(S)) for finding the first of S segments."

# A run of so many requests takes no longer than others can wait, and replies of so many entries are mostly small.
_RUN_MAX: Final = 128
_RUN_COUNT_MAX: Final = 128


def xrange_run(context: Context, requests: Requests) -> int:
    """Return the entries from several IDs on: a run of XRANGEs that differ in their start alone, and end with a COUNT.

    The stream is looked up once, and IDs are parsed together. A property test holds this against the handler.
    """
    first, db = requests.first, context.db
    key = first[1]
    stream = db.values.get(key)
    if len(first) != 6 or type(stream) is not Stream or key in db.expires_ms:
        return 0
    try:
        end, count = parse_range_end(first[3]), parse_count_option(first, 4) or 0
    except CommandError:
        return 0
    log = stream.log
    if not 0 < count <= _RUN_COUNT_MAX or log.memory_bytes * count > LARGE_REPLY_BYTES * max(1, len(log)):
        return 0
    name, tail = first[0], first[3:]
    words = [first[2]]
    for request in islice(requests.rows(), 1, _RUN_MAX):
        if len(request) != 6 or request[0] != name or request[1] != key or request[3:] != tail:
            break
        words.append(request[2])
    replies: list[bytes] = []
    for start in _starts(words):
        try:
            entries, pieces = log.encode_parts(start, end, count)
        except Absent:
            break  # this one waits
        encoded = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if len(encoded) > LARGE_REPLY_BYTES:
            break  # what counts for the limit of output is the engine's
        replies.append(b"*%d\r\n%b" % (entries, encoded))
    if replies:
        db.hits += len(replies)
        db.touched[key] = db.time.s
        context.out += replies
    return len(replies)


def _starts(words: list[bytes]) -> list[int]:
    """Return the IDs where ranges start, those before the first one that is none."""
    try:
        return parse_ids(words)
    except InvalidStreamId:
        pass
    starts: list[int] = []
    try:
        for word in words:
            starts.append(parse_range_start(word))
    except CommandError:
        pass
    return starts


@command(
    "XRANGE",
    arity=-4,
    flags="readonly",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity=_COMPLEXITY,
    syntax="key start end [COUNT count]",
    access="RO access",
    batch=Batch(xrange_run, any_keys=True),
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
