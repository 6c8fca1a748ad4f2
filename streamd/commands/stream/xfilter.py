"""XFILTER: the entries of a range that a filter lets through, waiting for them if asked to (streamd's own command)."""

from collections.abc import Sequence
from functools import lru_cache

from streamd.base.errors import CommandError, SyntaxError_
from streamd.base.kept import SHORT_BYTES_MAX
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_timeout_ms
from streamd.commands.stream.filter_words import slice_end, take_filter
from streamd.connected.blocking import BLOCKED
from streamd.resp.encoder import encode
from streamd.resp.types import Raw, Reply
from streamd.stream.entry_id import ID_MAX, format_id, parse_range_end, parse_range_start
from streamd.stream.entry_replies import gathered
from streamd.stream.search.patterns import EntryFilter
from streamd.stream.search.searching import Found, search
from streamd.stream.stream import Stream


class _Question:
    """The words of a request.

    starts: key -> the ID to search from; first the stream that is read, then the streams that only wake the client.
    """

    __slots__ = ("block_ms", "count", "end", "key", "starts", "wanted")

    def __init__(self, args: list[bytes], now_ms: int) -> None:
        """now_ms: the present time. Raises: CommandError."""
        self.key = args[1]
        self.starts = {args[1]: parse_range_start(args[2])}
        self.end = parse_range_end(args[3])
        self.count = 0
        self.block_ms: int | None = None
        wanted: EntryFilter | None = None
        words = Arguments(args, 4)
        while words.left():
            if words.flag(b"COUNT", followed_by=1):
                self.count = words.integer()
                if self.count < 1:
                    raise CommandError("ERR COUNT must be > 0")
            elif words.flag(b"BLOCK", followed_by=1):
                self.block_ms = parse_timeout_ms(words.word(), now_ms)
            elif words.flag(b"ALSO", followed_by=2):
                self._take_others(words)
            elif wanted is None:
                wanted = take_filter(words)
            else:
                raise SyntaxError_()
        if wanted is None or not self.count or (len(self.starts) > 1 and self.block_ms is None):
            raise SyntaxError_()
        self.wanted = wanted

    def _take_others(self, words: Arguments) -> None:
        if words.left() % 2:
            raise SyntaxError_()
        while words.left():
            key = words.word()
            if key in self.starts:
                raise CommandError("ERR a key is named once in XFILTER")
            self.starts[key] = parse_range_start(words.word())


def _keys(words: list[bytes]) -> list[bytes]:
    """Return the keys: the first argument, and each second one behind ALSO, which is the last option."""
    upper = [word.upper() for word in words[4:]]
    at = 0
    while at < len(upper) and upper[at] != b"ALSO":
        at += 4 if upper[at] == b"FIELD" else 2
    return [words[1], *words[at + 5 :: 2]]


@command(
    "XFILTER",
    arity=-10,
    flags="readonly blocking movablekeys",
    keys=(1, 1, 1),
    since="8.10.0",
    complexity="O(S+N) with S being the number of segments passed over, and N that of entries looked at; all within a "
    "slice of 5 milliseconds.",
    syntax="key start end COUNT count [BLOCK milliseconds] FIELD field <MQTT | GLOB | EQ> pattern "
    "[ALSO key start [key start ...]]",
    find_keys=_keys,
    access="RO access",
)
def xfilter(context: Context, args: list[bytes]) -> Reply:
    """Return the entries of a range one field of which matches a pattern, and up to where was looked.

    The next request starts behind the returned ID; the search is complete when that ID stays the same. With BLOCK and
    no match, the client waits for one in this stream, or behind the given ID in a stream named by ALSO, of which no
    entries are returned. It does not wait in a stream that has reached the last possible ID. An entry without the field
    does not match; if it has the field several times, the last value counts.

    Reply: [the last ID that was looked at, entries].
    Raises: CommandError; InvalidStreamId, InvalidRangeStart, InvalidRangeEnd; WrongType.
    """
    question = _Question(args, context.now_ms)
    attempt = _Attempt(context, question)
    streams = [context.read_stream(key) for key in attempt.starts]
    reply = attempt.look(streams)
    if reply is not None:
        return reply
    if question.block_ms is None or context.in_unit:
        return attempt.on_timeout()
    return context.block([*attempt.starts], question.block_ms, attempt, filtering=attempt)


@lru_cache(maxsize=256)
def _shared(*words: object) -> tuple[object, ...]:
    """Return the words as one tuple, shared by all clients with the same request."""
    return words


def _said(protocol: int, question: _Question) -> tuple[object, ...]:
    """Return the words of a request that its reply depends on, other than the starts, with the protocol."""
    wanted = question.wanted
    words = protocol, question.key, question.count, wanted, question.end
    is_short = len(question.key) + len(wanted.field) + len(wanted.pattern.text) <= 2 * SHORT_BYTES_MAX
    return _shared(*words) if is_short else words


class _Attempt:
    """The search of a request, which is repeated while the client waits.

    starts: key -> the ID to search from; no match is in front of it. said: see `_said`.
    """

    __slots__ = ("context", "count", "end", "is_open", "key", "said", "starts", "wanted")

    def __init__(self, context: Context, question: _Question) -> None:
        self.context = context
        self.key, self.end, self.count = question.key, question.end, question.count
        self.wanted = question.wanted
        self.starts = question.starts
        self.is_open = question.end == ID_MAX
        self.said = _said(context.client.protocol, question)

    def start_of(self, key: bytes) -> int:
        """Return the ID from which on the stream at a key was not searched yet."""
        return self.starts[key]

    def passed(self, key: bytes, entry_id: int) -> None:
        """Note that a stream has no match up to an ID."""
        if entry_id >= self.starts[key]:
            self.starts[key] = min(entry_id, ID_MAX - 1) + 1

    def on_timeout(self) -> Reply:
        """Return the reply without entries."""
        return [format_id(self._before()), []]

    def _before(self) -> int:
        return max(self.starts[self.key] - 1, 0)

    def __call__(self) -> Reply:
        # One entry may wake a thousand clients with the same request: their reply is encoded once.
        context, starts = self.context, self.starts
        shared = context.state.blocked.shared
        asked = context.db.index, starts[self.key] if len(starts) == 1 else (*starts.items(),), self.said
        if shared is not None:
            known = shared.get(asked)
            if known is not None:
                return known
        values = map(context.db.peek, starts)
        reply = self.look([value if type(value) is Stream else None for value in values])
        if reply is None:
            return BLOCKED
        reply = Raw(encode(reply, context.client.protocol))
        if shared is not None:
            shared[asked] = reply
        return reply

    def look(self, streams: Sequence[Stream | None]) -> Reply:
        """Return the reply so far; None if it is empty and entries may still come."""
        stop = slice_end(self.context)
        end = self.end
        wakes = False
        for (key, start), stream in zip([*self.starts.items()], streams, strict=True):
            is_read = key == self.key
            if stream is None or start > (min(end, stream.last_id) if is_read else stream.last_id):
                wakes |= is_read and stream is not None and stream.last_id >= end
                continue
            index = stream.index_of(self.wanted.field)
            last = end if is_read else ID_MAX
            found = search(stream.log, index, self.wanted, start, last, self.count if is_read else 1, stop)
            if is_read and (found.entries or not found.is_done):
                return _answer(found, min(last, stream.last_id))
            if not is_read and (found.entries or not found.is_done or stream.last_id == ID_MAX):
                return self.on_timeout()
            if is_read:
                wakes = stream.last_id >= end
            passed_id = min(last, stream.last_id)
            if passed_id == ID_MAX:
                return [format_id(ID_MAX), []]
            self.passed(key, passed_id)
        return self.on_timeout() if wakes else None


def _answer(found: Found, end: int) -> Reply:
    """Return the reply of a search that found entries or ended with its slice; `end`: the last ID of the range."""
    assert found.passed_id is not None
    passed = format_id(end if found.is_done else found.passed_id)
    head = b"*2\r\n$%d\r\n%b\r\n*%d\r\n" % (len(passed), passed, found.entries)
    return gathered([head, *found.parts])
