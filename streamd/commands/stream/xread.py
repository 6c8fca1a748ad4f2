"""XREAD: new entries of several streams, waiting for them if asked to."""

from typing import Final

from streamd.base.errors import CommandError
from streamd.catalog import Context, command
from streamd.commands.stream.id_lists import PLAIN_ID_BYTES_MAX
from streamd.commands.stream.options import ReadOptions, parse_read_options, stream_keys
from streamd.connected.blocking import BLOCKED
from streamd.resp.encoder import encode
from streamd.resp.types import NULL_ARRAY, LongArray, Pairs, Parts, Raw, Reply, Sliced
from streamd.stream.entry_id import ID_MAX, parse_id
from streamd.stream.entry_replies import ReadBudget, pinned_bytes
from streamd.stream.stream import Stream

_COUNT_DIGITS_MAX: Final = 9
# The IDs of words that came lately: who follows several streams asks again and again behind the same entries of those
# to which nothing comes.
_SEEN_IDS: Final[dict[bytes, int]] = {}
_SEEN_IDS_MAX: Final = 256


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
    keys_at = 2 if args[1] == b"STREAMS" else 4 if args[1] == b"COUNT" and args[3] == b"STREAMS" else 0
    if len(args) > keys_at > 0 and not len(args) & 1:
        newest = _read_newest(context, args, keys_at)
        if newest is not BLOCKED:
            return newest
    options = parse_read_options(args, grouped=False, now_ms=context.now_ms)
    after = [_resolve(context.read_stream(key), options.ids[number]) for number, key in enumerate(options.keys)]
    reply = _read(context, options, after)
    if reply is not None:
        return reply
    if options.block_ms is None:
        return NULL_ARRAY
    attempt = _Attempt(context, options, after)
    # (For several keys another one may hold no stream by then, which is an error.)
    least_id = after[0] + 1 if len(after) == 1 and after[0] is not None else 0
    return context.block(options.keys, options.block_ms, attempt, on_timeout=NULL_ARRAY, least_id=least_id)


class _Attempt:
    """The read that is repeated for a waiting client.

    One XADD may wake a thousand clients with the same request: their reply is read and encoded once, which is nearly
    half of the work for each.
    """

    __slots__ = ("after", "context", "is_plain", "options", "question")

    def __init__(self, context: Context, options: ReadOptions, after: list[int | None]) -> None:
        self.context = context
        self.options = options
        self.after = after
        # Everything that the reply depends on except the database.
        limits = options.count, options.count_max, options.bytes_max
        self.question = context.client.protocol, *options.keys, *after, *limits
        self.is_plain = len(after) == 1 and not (options.count_max or options.bytes_max)

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
        db, key, after_id = self.context.db, self.options.keys[0], self.after[0]
        stream = db.values.get(key)
        if self.is_plain and after_id is not None and type(stream) is Stream and key not in db.expires_ms:
            # (Mostly one entry has come. This takes a third of the time.)
            parts = stream.log.newest(after_id + 1, self.options.count or 0)
            if parts:
                db.hits += 1
                db.touched[key] = db.time.s
                return Pairs([(key, Parts(parts))])
        reply = _read(self.context, self.options, self.after)
        return BLOCKED if reply is None else reply


def _read_newest(context: Context, args: list[bytes], keys_at: int) -> Reply:
    """Return the reply for a client that follows streams and has all but the newest entries; BLOCKED, and nothing
    done, where a key or an ID is not a plain one, or entries are not among the newest.

    A client that asks alone finds the processor's caches cold: what counts is how few functions take part.
    """
    db = context.db
    values, expires_ms, half = db.values, db.expires_ms, (len(args) - keys_at) // 2
    keys = args[keys_at : keys_at + half]
    count_word = args[2] if keys_at > 2 else b"1"
    if not count_word.isdigit() or count_word[:1] == b"0" or len(count_word) > _COUNT_DIGITS_MAX:
        return BLOCKED
    found: list[tuple[Reply, Reply]] = []
    for key, word in zip(keys, args[keys_at + half :], strict=True):
        stream = values.get(key)
        if type(stream) is not Stream or key in expires_ms:
            return BLOCKED
        after_id = _SEEN_IDS.get(word)
        if after_id is None:
            ms_text, _, seq_text = word.partition(b"-")
            if len(word) > PLAIN_ID_BYTES_MAX or not (ms_text.isdigit() and seq_text.isdigit()):
                return BLOCKED
            after_id = int(ms_text) << 64 | int(seq_text)
            if len(_SEEN_IDS) >= _SEEN_IDS_MAX:
                _SEEN_IDS.clear()
            _SEEN_IDS[word] = after_id
        if after_id < stream.last_id:
            parts = stream.log.newest(after_id + 1, int(count_word) if keys_at > 2 else 0)
            if parts is None:
                return BLOCKED
            if parts:
                found.append((key, Parts(parts)))
    db.hits += 2 * half  # as in Redis, which looks each up again
    touched, second = db.touched, db.time.s
    for key in keys:
        touched[key] = second
    return Pairs(found) if found else NULL_ARRAY


def _resolve(stream: Stream | None, word: bytes) -> int | None:
    """Return the ID to read behind; None for `+`, whose meaning changes while a client waits."""
    if word == b"$":
        return 0 if stream is None else stream.last_id
    if word == b"+":
        return None
    if word == b">":
        raise CommandError(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
        )
    return parse_id(word)


def _read(context: Context, options: ReadOptions, after: list[int | None]) -> Reply:
    """Return the new entries of all streams, or None."""
    budget: ReadBudget | None = None
    found: list[tuple[Reply, Reply]] = []
    pinned = 0
    for number, key in enumerate(options.keys):
        after_id = after[number]
        stream = context.read_stream(key)
        if stream is None or (after_id is not None and after_id >= stream.last_id):
            continue
        last_id = stream.log.last_id
        if last_id is None:
            continue
        start = last_id if after_id is None else after_id + 1
        if start > last_id:
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
