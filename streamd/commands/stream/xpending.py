"""XPENDING: the entries that a consumer group has not acknowledged."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from streamd.base.errors import SyntaxError_
from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.catalog import Context, command
from streamd.catalog.arguments import parse_integer
from streamd.commands.stream.group_effects import need_group
from streamd.resp.types import NULL_ARRAY, LongArray, Raw, Reply, Sliced
from streamd.stream.entry_id import format_id, parse_range_end, parse_range_start
from streamd.stream.groups.chunk_ids import ChunkIds
from streamd.stream.groups.group import Group
from streamd.stream.groups.pending import PENDING_BYTES, Consumer, PendingColumns, PendingEntries, PendingEntry
from streamd.stream.wire.entry_encoder import encode_id_rows

_T = TypeVar("_T")
_ROW: Final = b"\r\n*4"


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
    now_ms = context.now_ms
    until_ms = now_ms - min_idle_ms if min_idle_ms else None
    pending = group.pending
    consumer: Consumer | None = None
    if at + 3 < words:
        consumer = group.consumers.get(args[at + 3])
        if consumer is None:
            return []
    if count > SLICED_ITEMS_MIN and pending.may_exceed(SLICED_ITEMS_MIN, start, end):
        return _long(pending, count, (start, end, until_ms, consumer), now_ms)
    if consumer is None and until_ms is None:
        return _rows(pending.columns(start, end, count), now_ms)
    some = [*islice(pending.iterate(start, end, until_ms, consumer), count)]
    return _rows([_columns(some)] if some else [], now_ms)


def _columns(rows: list[PendingEntry]) -> PendingColumns:
    """Return rows, one at least, as columns."""
    ids, owners, times, counts = map(list, zip(*rows, strict=True))
    return ChunkIds(ids), owners, times, counts


def _rows(parts: Iterable[PendingColumns], now_ms: int) -> Raw:
    """Return the rows of all parts as one array."""
    length = 0
    rows: list[bytes] = []
    for columns in parts:
        length += len(columns[0].stamps)
        rows.append(_encode(columns, now_ms))
    return Raw(b"*%d\r\n%b" % (length, b"".join(rows)))


def _encode(columns: PendingColumns, now_ms: int) -> bytes:
    """Return the RESP of some rows; entries that were delivered together differ in their IDs alone."""
    ids = columns[0]
    size = len(ids.stamps)
    owners, times, counts = _alike(columns[1]), _alike(columns[2]), _alike(columns[3])
    rests: bytes | list[bytes]
    if isinstance(times, list) or isinstance(counts, list):
        of = owners if isinstance(owners, list) else [owners] * size
        since = times if isinstance(times, list) else [times] * size
        often = counts if isinstance(counts, list) else [counts] * size
        rests = [_rest(*row, now_ms) for row in zip(of, since, often, strict=True)]
    elif isinstance(owners, list):
        first, last = owners[0], owners[-1]
        # A listing mostly begins in the delivery of one request, and ends in that of the next one.
        ahead = owners.count(first)
        if ahead + owners.count(last) == size and owners[:ahead].count(first) == ahead:
            head = encode_id_rows(ids.part(0, ahead).parts(), ahead, _ROW, _rest(first, times, counts, now_ms))
            behind = ids.part(ahead, size).parts()
            return head + encode_id_rows(behind, size - ahead, _ROW, _rest(last, times, counts, now_ms))
        texts = {owner: _rest(owner, times, counts, now_ms) for owner in set(owners)}
        rests = [*map(texts.__getitem__, owners)]
    else:
        rests = _rest(owners, times, counts, now_ms)
    return encode_id_rows(ids.parts(), size, _ROW, rests)


def _alike(column: list[_T] | _T) -> list[_T] | _T:
    """Return a column, or the one value if all are the same."""
    return column[0] if isinstance(column, list) and column.count(column[0]) == len(column) else column


def _rest(owner: Consumer | None, time_ms: int, deliveries: int, now_ms: int) -> bytes:
    """Return the lines of a row behind its ID; each line has its CRLF in front."""
    # A released entry has no owner, and no idle time.
    name, idle_ms = (b"", -1) if owner is None else (owner.name, max(0, now_ms - time_ms))
    return b"\r\n$%d\r\n%b\r\n:%d\r\n:%d" % (len(name), name, idle_ms, deliveries)


def _long(live: PendingEntries, count: int, asked: tuple[int, int, int | None, Consumer | None], now_ms: int) -> Reply:
    """Return the requested entries as they are now, to be counted and encoded in slices."""
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
            yield _encode(_columns(rows[:left]), now_ms) if rows else b""
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
