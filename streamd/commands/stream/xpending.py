"""XPENDING: what a consumer group has not acknowledged."""

from collections.abc import Iterable, Iterator
from itertools import islice

from streamd.base.errors import SyntaxError_
from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.catalog import Context, command
from streamd.catalog.arguments import parse_integer
from streamd.commands.stream.group_effects import need_group
from streamd.resp.types import NULL_ARRAY, LongArray, Raw, Reply, Sliced
from streamd.stream.entry_id import SEQ_MAX, format_id, parse_range_end, parse_range_start
from streamd.stream.group import Group
from streamd.stream.pending import PENDING_BYTES, Consumer, PendingEntries, PendingEntry


@command(
    "XPENDING",
    arity=-3,
    flags="readonly",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity="O(N) with N being the number of entries shown, with IDLE also those passed over; without a range O(C) "
    "with C being the number of consumers.",
    syntax="key group [[IDLE min-idle-time] start end count [consumer]]",
    access="RO access",
    tips="nondeterministic_output",
)
def xpending(context: Context, args: list[bytes]) -> Reply:
    """Return a summary of a group's pending entries, or those of a range of IDs.

    Reply: [how many, least ID, greatest ID, [[consumer, how many], ...]], or an array of [ID, consumer, idle time in
    ms, delivery count].
    Raises: CommandError; NoGroup; WrongType.
    """
    words = len(args)
    if words != 3 and not 6 <= words <= 9:
        raise SyntaxError_()
    if words == 3:
        return _summary(need_group(context, args[1], args[2])[1])
    at, min_idle_ms = 3, 0
    if args[3].upper() == b"IDLE":
        min_idle_ms = parse_integer(args[4])
        if words < 8:
            raise SyntaxError_()
        at = 5
    count = max(0, parse_integer(args[at + 2]))
    start = parse_range_start(args[at])
    end = parse_range_end(args[at + 1])
    _, group = need_group(context, args[1], args[2])
    until_ms = context.now_ms - min_idle_ms if min_idle_ms else None
    consumer: Consumer | None = None
    if at + 3 < words:
        consumer = group.consumers.get(args[at + 3])
        if consumer is None:
            return []
    if count > SLICED_ITEMS_MIN and group.pending.may_exceed(SLICED_ITEMS_MIN, start, end):
        return _long(group.pending, count, (start, end, until_ms, consumer), context.now_ms)
    if consumer is not None:
        entries = group.pending.of_consumer(consumer, start, end, until_ms)
    else:
        entries = group.pending.iterate(start, end, until_ms)
    parts = _encode(islice(entries, count), context.now_ms)
    return Raw(b"*%d\r\n%b" % (len(parts), b"".join(parts)))


def _encode(entries: Iterable[PendingEntry], now_ms: int) -> list[bytes]:
    """Return the RESP of each entry."""
    parts = []
    of: Consumer | None = None
    at_ms = times = None
    for entry_id, owner, time_ms, deliveries in entries:
        # What was delivered together differs in its IDs alone.
        if time_ms != at_ms or owner is not of or deliveries != times:
            of, at_ms, times = owner, time_ms, deliveries
            # An entry that was released belongs to nobody, and is idle since no time that could be said.
            name, idle_ms = (b"", -1) if owner is None else (owner.name, max(0, now_ms - time_ms))
            rest = b"\r\n$%d\r\n%b\r\n:%d\r\n:%d\r\n" % (len(name), name, idle_ms, deliveries)
        id_text = b"%d-%d" % (entry_id >> 64, entry_id & SEQ_MAX)
        parts.append(b"*4\r\n$%d\r\n%b%b" % (len(id_text), id_text, rest))
    return parts


def _long(live: PendingEntries, count: int, asked: tuple[int, int, int | None, Consumer | None], now_ms: int) -> Reply:
    """Return the entries that are asked for now, to be counted and encoded in slices."""
    pending = live.snapshot()

    def counts() -> Iterator[int]:
        left = count
        for rows in pending.pieces(*asked):
            yield min(left, len(rows))
            left -= min(left, len(rows))
            if not left:
                return

    def parts() -> Iterator[bytes]:
        left = count
        for rows in pending.pieces(*asked):
            yield b"".join(_encode(rows[:left], now_ms))
            left -= min(left, len(rows))
            if not left:
                return

    return Sliced(LongArray(counts(), parts()), PENDING_BYTES * min(count, len(live)))


def _summary(group: Group) -> Reply:
    pending = group.pending
    first_id, last_id = pending.first_id, pending.last_id
    if first_id is None or last_id is None:
        return [0, None, None, NULL_ARRAY]
    owners = sorted((consumer for consumer in group.consumers.values() if consumer.pending), key=lambda one: one.name)
    counts = [[consumer.name, b"%d" % consumer.pending] for consumer in owners]
    return [len(pending), format_id(first_id), format_id(last_id), counts]
