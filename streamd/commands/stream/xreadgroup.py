"""XREADGROUP: deliver entries to a consumer of a group, or show it its unacknowledged entries again."""

from typing import Final

from streamd.base.errors import CommandError
from streamd.catalog import Context, command
from streamd.commands.stream.filter_words import slice_end
from streamd.commands.stream.group_effects import need_group
from streamd.commands.stream.group_reads import ClaimingDelivery, Delivery, History, Share
from streamd.commands.stream.options import ReadOptions, parse_read_options, stream_keys
from streamd.connected.blocking import BLOCKED
from streamd.data.keyspace import AT_END
from streamd.resp.types import NULL_ARRAY, LongArray, Pairs, Reply, Sliced
from streamd.stream.entry_id import ID_MAX, parse_id
from streamd.stream.entry_replies import ReadBudget, pinned_bytes
from streamd.stream.groups.group import Group
from streamd.stream.stream import Stream


@command(
    "XREADGROUP",
    arity=-7,
    flags="write blocking movablekeys",
    since="5.0.0",
    complexity="O(M) with M being the number of entries returned; O(log(N)) for each one claimed or read again, N "
    "being the number of pending entries of the group.",
    syntax="GROUP group consumer [COUNT count] [MAXCOUNT count] [MAXSIZE bytes] [BLOCK milliseconds] "
    "[CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]",
    find_keys=stream_keys,
    access="RO access",
)
def xreadgroup(context: Context, args: list[bytes]) -> Reply:
    """Return entries that no consumer of the group got yet, for the ID `>`, or pending ones of the consumer.

    Reply: map of key to entries, in RESP2 an array of pairs; null when there is nothing.
    Raises: CommandError; NoGroup; WrongType.
    """
    options = parse_read_options(args, grouped=True, now_ms=context.now_ms)
    assert options.group is not None
    after: list[int] = []
    groups: list[tuple[Stream, Group]] = []
    for key, word in zip(options.keys, options.ids, strict=True):
        groups.append(need_group(context, key, options.group, _WHERE))
        after.append(_resolve(word))
    attempt = _Attempt(context, options, after)
    context.db.hits += len(groups)  # Redis looks each key up once more to read it
    reply = attempt.read(groups)
    if reply is not None:
        return reply
    if attempt.is_unfinished:
        return _go_on(context, options, attempt)
    if options.block_ms is None:
        return NULL_ARRAY
    line = (options.group, options.no_ack) if _stands_in_line(options) else None
    least_id = AT_END if line is not None and options.no_ack else 0
    parked = context.block(options.keys, options.block_ms, attempt, on_timeout=NULL_ARRAY, line=line, least_id=least_id)
    if parked is BLOCKED:
        attempt.come_back()
    return parked


def _go_on(context: Context, options: ReadOptions, attempt: "_Attempt") -> Reply:
    """Block the client with a retry at once, so that other clients are served before the search goes on."""
    parked = context.block(options.keys, options.block_ms or 0, attempt, on_timeout=NULL_ARRAY)
    if parked is BLOCKED:
        attempt.come_back()
    return parked


def _stands_in_line(options: ReadOptions) -> bool:
    """Return whether clients of a group that wait with such options are served in line: if one finds nothing, all do.

    They all want the entries of one stream that the group has not read, of any size.
    """
    return len(options.keys) == 1 and options.claim_idle_ms is None and not options.bytes_max


_WHERE: Final = " in XREADGROUP with GROUP option"


def _resolve(word: bytes) -> int:
    """Return the ID to read behind; ID_MAX for `>`, as in Redis."""
    if word in (b"$", b"+"):
        raise CommandError(
            f"ERR The {word.decode()} ID is meaningless in the context of XREADGROUP: you want to read the history of "
            "this consumer by specifying a proper ID, or use the > ID to get new messages. The "
            f"{word.decode()} ID would just return an empty result set."
        )
    return ID_MAX if word == b">" else parse_id(word)


class _Attempt:
    """The read of a request, which is repeated while the client waits; NoGroup and WrongType are raised when a stream
    or its group is gone meanwhile.

    is_unfinished: the last read found nothing but ended before the end of a stream, since a filter skips so much.
    """

    __slots__ = ("after", "context", "is_unfinished", "options")

    def __init__(self, context: Context, options: ReadOptions, after: list[int]) -> None:
        self.context = context
        self.options = options
        self.after = after
        self.is_unfinished = False

    def __call__(self) -> Reply:
        was_unfinished = self.is_unfinished
        options = self.options
        assert options.group is not None
        reply = self.read([need_group(self.context, key, options.group, _WHERE) for key in options.keys])
        if reply is None:
            if self.options.block_ms is None and not self.is_unfinished:
                return NULL_ARRAY
            self.come_back()
            return BLOCKED
        if was_unfinished:
            for key in self.options.keys:
                self.context.db.signal(key)  # other clients may have waited for this one to finish
        return reply

    def come_back(self) -> None:
        """Set the time of the next attempt: at once if there is more to search, or when the next pending entry has been
        idle long enough for CLAIM.
        """
        idle_ms, waiter = self.options.claim_idle_ms, self.context.client.waiter
        if waiter is None:
            return
        if self.is_unfinished:
            self.context.state.blocked.set_retry(waiter, 0)
            return
        if idle_ms is None:
            self.context.state.blocked.set_retry(waiter, None)
            return
        times = []
        now_ms = self.context.now_ms
        for key in self.options.keys:
            pending = need_group(self.context, key, self.options.group or b"", _WHERE)[1].pending
            # Those that are idle long enough now were deleted: the read would have taken them.
            next_ms = pending.first_ms_behind(now_ms - idle_ms)
            if next_ms is not None:
                times.append(next_ms + idle_ms)
        self.context.state.blocked.set_retry(waiter, min(times, default=None))

    def read(self, groups: list[tuple[Stream, Group]]) -> Reply:
        """Return the entries, or None. groups: each key's stream and group. Raises: Absent."""
        context, options = self.context, self.options
        limits = options.count, options.count_max, options.bytes_max
        budget = ReadBudget(*limits, context.client.protocol, options.keys[0])
        stop = None
        self.is_unfinished = False
        claims = options.claim_idle_ms is not None
        repeats = len(options.keys) > 1 and len({*options.keys}) < len(options.keys)
        shares: list[Share] = []
        # All streams are read before any is changed: entries may have to be waited for, by a read that starts again.
        for key, (stream, group), after_id in zip(options.keys, groups, self.after, strict=True):
            budget.next_stream(key)
            if budget.exhausted:
                break  # the streams behind are not touched, as in Redis
            if stop is None and group.wanted is not None:
                stop = _never if context.in_unit else slice_end(context)
            kind: type[Share] = ClaimingDelivery if claims else Delivery
            if after_id != ID_MAX:
                claims = False  # for the streams behind it, too, as in Redis
                kind = History
            share = kind(context, key, options, stream, group, after_id, stop or _never)
            shares.append(share)
            if repeats:
                with stream.log.at_once():  # the next one may be the same stream, and sees what this one changes
                    share.read(budget)
                    share.apply()
            else:
                share.read(budget)
        found: list[tuple[Reply, Reply]] = []
        pinned = 0
        for share in shares:
            if not repeats:
                share.apply()
            self.is_unfinished |= share.is_unfinished
            if share.reply is not None:
                found.append((share.key, share.reply))
                if type(share.reply) is LongArray:
                    pinned += pinned_bytes(share.stream.log, len(share.stream))
        if not found:
            return None
        return Sliced(Pairs(found), pinned) if pinned else Pairs(found)


def _never() -> bool:
    return False
