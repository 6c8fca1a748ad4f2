"""XREAD: new entries of several streams, waiting for them if asked to."""

from functools import lru_cache
from typing import Final

from streamd.base.errors import CommandError
from streamd.catalog import Context, command
from streamd.commands.stream.options import ReadOptions, parse_read_options, stream_keys
from streamd.connected.blocking import BLOCKED
from streamd.data.types import STREAM
from streamd.resp.encoder import encode
from streamd.resp.types import NULL_ARRAY, LongArray, Pairs, Raw, Reply, Sliced
from streamd.stream.entry_id import ID_MAX, parse_id
from streamd.stream.entry_replies import ReadBudget, first_entries, pinned_bytes
from streamd.stream.stream import Stream

_NAMES: Final = frozenset({b"$", b"+", b">"})
# Who follows several streams asks again and again behind the same entries of those where nothing new comes.
_parse_id: Final = lru_cache(maxsize=256)(parse_id)


@command(
    "XREAD",
    arity=-4,
    flags="readonly blocking movablekeys",
    since="5.0.0",
    complexity="O(N) with N being the number of entries returned.",
    syntax="[COUNT count] [MAXCOUNT count] [MAXSIZE bytes] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
    find_keys=stream_keys,
    access="RO access",
)
def xread(context: Context, args: list[bytes]) -> Reply:
    """Return the entries of several streams that come after an ID of each.

    `$` stands for a stream's last ID as it is now, `+` for the ID before its last entry.

    Reply: map of key to entries, in RESP2 an array of pairs; null when there is nothing.
    Raises: CommandError; WrongType.
    """
    options = parse_read_options(args, grouped=False)
    streams: list[Stream | None] = []
    after: list[int | None] = []
    read_as = context.db.read_as
    for key, word in zip(options.keys, options.ids, strict=True):
        stream = read_as(key, STREAM)
        streams.append(stream)
        after.append(_resolve(stream, word) if word in _NAMES else _parse_id(word))
    reply = _read(context, options, after, streams)
    if reply is not None:
        return reply
    if options.block_ms is None:
        return NULL_ARRAY
    attempt = _Attempt(context, options, after)
    return context.block(options.keys, options.block_ms, attempt, on_timeout=NULL_ARRAY)


class _Attempt:
    """The read that is repeated for a waiting client.

    One XADD may wake a thousand clients with the same request: their reply is read and encoded once, which is nearly
    half of the work for each.
    """

    __slots__ = ("after", "context", "options", "question")

    def __init__(self, context: Context, options: ReadOptions, after: list[int | None]) -> None:
        self.context = context
        self.options = options
        self.after = after
        # Everything that the reply depends on except the database.
        limits = options.count, options.count_max, options.bytes_max
        self.question = context.client.protocol, *options.keys, *after, *limits

    def __call__(self) -> Reply:
        ready = self.context.state.blocked.serving
        if ready is not None and type(self.context.db.peek(ready)) is not Stream:
            return BLOCKED
        shared = self.context.state.blocked.shared
        if shared is None:
            return self.read()
        question = self.context.db.index, self.question
        reply = shared.get(question)
        if reply is None:
            reply = self.read()
            if type(reply) is Sliced:
                return reply  # its parts can be made only once
            if reply is not BLOCKED:
                reply = Raw(encode(reply, self.context.client.protocol))
            shared[question] = reply
        return reply

    def read(self) -> Reply:
        """Return the new entries of all streams, or BLOCKED.

        Raises: WrongType, if one of the keys is no stream any more. (That ends no wait by itself, as in Redis.)
        """
        reply = _read(self.context, self.options, self.after)
        return BLOCKED if reply is None else reply


def _resolve(stream: Stream | None, name: bytes) -> int | None:
    """Return the ID to read behind for a word that names one; None for `+`, whose meaning changes while a client
    waits.
    """
    if name == b"$":
        return 0 if stream is None else stream.last_id
    if name == b"+":
        return None
    raise CommandError(
        "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
    )


def _read(
    context: Context, options: ReadOptions, after: list[int | None], streams: list[Stream | None] | None = None
) -> Reply:
    """Return the new entries of all streams, or None.

    streams: those of the keys, if they were looked up for this request already.
    """
    budget: ReadBudget | None = None
    is_limited = options.count_max or options.bytes_max
    found: list[tuple[Reply, Reply]] = []
    pinned = 0
    for number, key in enumerate(options.keys):
        after_id = after[number]
        stream = None if streams is None else streams[number]
        if stream is None:
            stream = context.read_stream(key)
            if stream is None:
                continue
        else:
            context.db.hits += 1  # as in Redis, which looks it up again
        if after_id is not None and after_id >= stream.last_id:
            continue
        last_id = stream.log.last_id
        if last_id is None:
            continue
        start = last_id if after_id is None else after_id + 1
        if start > last_id:
            continue
        if not is_limited:
            entries, shown = first_entries(stream.log, start, ID_MAX, options.count or None)
            found.append((key, shown))
            if type(shown) is LongArray:
                pinned += pinned_bytes(stream.log, entries)
            continue
        if budget is None:
            protocol = context.client.protocol
            budget = ReadBudget(options.count, options.count_max, options.bytes_max, protocol, key)
        else:
            budget.next_stream(key)
            if budget.exhausted:
                break
        entries, shown = budget.take(stream.log, start, ID_MAX)
        found.append((key, shown))
        if type(shown) is LongArray:
            pinned += pinned_bytes(stream.log, entries)
    if not found:
        return None
    return Sliced(Pairs(found), pinned) if pinned else Pairs(found)
