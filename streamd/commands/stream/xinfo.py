"""XINFO: the properties of a stream, its consumer groups and their consumers."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, repeat
from operator import itemgetter
from typing import Final

from streamd.base.errors import SubcommandSyntaxError
from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.catalog import Context, command, container
from streamd.catalog.arguments import parse_integer
from streamd.commands.long_replies import shown_in_slices, sorted_in_slices
from streamd.commands.stream.group_effects import group_of, need_stream
from streamd.resp.encoder import bulk
from streamd.resp.types import LongArray, Raw, Reply, Sliced
from streamd.stream.entry_id import ID_MAX, format_id
from streamd.stream.entry_replies import entries_now, pinned_bytes
from streamd.stream.groups.group import CONSUMER_BYTES, ConsumerColumns, Group, columns_of
from streamd.stream.groups.pending import PENDING_BYTES, Chunk, Consumer, PendingEntries, PendingEntry
from streamd.stream.search.patterns import EntryFilter
from streamd.stream.stream import Stream

# Without COUNT, FULL shows so many entries, pending ones included.
FULL_COUNT_DEFAULT: Final = 10

# The pending entries and consumers of a group without any.
_NOBODY: Final[tuple[PendingEntries, ConsumerColumns]] = (PendingEntries(), ([], [], [], [], []))

container(
    "XINFO",
    since="5.0.0",
    group="stream",
    help_lines=[
        "CONSUMERS <key> <groupname>",
        "    Show consumers of <groupname>.",
        "GROUPS <key>",
        "    Show the stream consumer groups.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Show information about the stream.",
    ],
)


@command(
    "XINFO STREAM",
    arity=-3,
    flags="readonly",
    keys=(2, 2, 1),
    since="5.0.0",
    complexity="O(1); O(N) with FULL, N being the number of entries shown.",
    syntax="key [FULL [COUNT count]]",
    access="RO access",
)
def xinfo_stream(context: Context, args: list[bytes]) -> Reply:
    """Return the properties of a stream.

    Reply: map.
    Raises: NoSuchKey; WrongType; SubcommandSyntaxError, NotAnInteger.
    """
    stream = need_stream(context.read_stream(args[2]))
    if len(args) == 3:
        return _summary(stream)
    count = FULL_COUNT_DEFAULT
    if args[3].upper() != b"FULL" or len(args) not in (4, 6):
        raise SubcommandSyntaxError(args)
    if len(args) == 6:
        if args[4].upper() != b"COUNT":
            raise SubcommandSyntaxError(args)
        count = parse_integer(args[5])
        if count < 0:
            count = FULL_COUNT_DEFAULT
    groups = stream.groups or {}
    if _decoded(stream, count) > SLICED_ITEMS_MIN:
        return _full_in_slices(stream, count)
    entries, parts = stream.log.encode_parts(0, ID_MAX, count or None)
    return {
        **_properties(stream),
        b"entries": Raw(b"*%d\r\n%b" % (entries, b"".join(parts))),
        b"groups": [_full_group(stream, name, group, count) for name, group in sorted(groups.items())],
    }


def _decoded(stream: Stream, count: int) -> int:
    """Return at most how many entries, groups, pending entries and consumers FULL shows."""
    shown = min(count or len(stream), len(stream)) + len(stream.groups or ())
    for group in (stream.groups or {}).values():
        pending = len(group.pending)
        shown += len(group.consumers) + min(count or pending, pending)
        shown += min(pending, count * len(group.consumers)) if count else pending
    return shown


def _full_in_slices(stream: Stream, count: int) -> Reply:
    """Return the reply of FULL, to be made in slices."""
    log, pinned = stream.log, pinned_bytes(stream.log, min(count or len(stream), len(stream)))
    groups = stream.groups or {}
    facts = stream.without_groups()
    consumers, pending, last_ids, read, wanted = columns_of(groups.values())
    pinned += PENDING_BYTES * sum(pending) + CONSUMER_BYTES * sum(consumers)
    # Most of a great many groups have neither consumers nor pending entries: nothing is copied for these.
    held = [
        (group.pending.snapshot(), group.columns()) if some or more else None
        for group, some, more in zip(groups.values(), consumers, pending, strict=True)
    ]
    rows = zip(list(groups), last_ids, read, wanted, held, strict=True)
    shown = shown_in_slices(rows, partial(_long_group, facts, count))
    entries = min(count or len(log), len(log))
    content = {
        **_properties(stream),
        b"entries": entries_now(facts.log, 0, ID_MAX, entries),
        b"groups": LongArray(len(groups), shown),
    }
    return Sliced(content, pinned)


def _long_group(
    stream: Stream,
    count: int,
    name: bytes,
    last_id: int,
    entries_read: int | None,
    wanted: EntryFilter | None,
    held: tuple[PendingEntries, ConsumerColumns] | None,
) -> dict[bytes, Reply]:
    pending, consumers = held or _NOBODY
    size = min(count or len(pending), len(pending))
    return {
        b"name": name,
        b"last-delivered-id": format_id(last_id),
        b"entries-read": entries_read,
        b"lag": _lag_at_once(stream, last_id, entries_read),
        **_filter_of(wanted),
        b"pel-count": len(pending),
        b"nacked-count": len(pending.nacked),
        b"pending": LongArray(size, _pending_parts(pending.pieces(0, ID_MAX, None, None), size, is_owned=False)),
        b"consumers": LongArray(len(consumers[0]), _long_consumers(pending, consumers, count)),
    }


def _pending_parts(pieces: Iterator[list[PendingEntry]], left: int, *, is_owned: bool) -> Iterator[bytes]:
    """Yield the RESP of the first pending entries, some at a time; is_owned: leave out the consumer's name."""
    head = b"*3" if is_owned else b"*4"
    for rows in pieces:
        parts = []
        for entry_id, owner, time_ms, deliveries in rows[:left]:
            parts.append(b"%b\r\n%b" % (head, bulk(format_id(entry_id))))
            if not is_owned:
                parts.append(bulk(b"" if owner is None else owner.name))
            parts.append(b":%d\r\n:%d\r\n" % (time_ms, deliveries))
        yield b"".join(parts)
        left -= min(left, len(rows))
        if not left:
            return


def _long_consumers(pending: PendingEntries, consumers: ConsumerColumns, count: int) -> Iterator[bytes | list[Reply]]:
    """Yield the rows of FULL for the consumers of a group; an empty text is a step without a row."""
    chunks: dict[Consumer, list[Chunk]] = {}
    for _ in pending.by_owner(chunks):
        yield b""
    for rows in sorted_in_slices(zip(*consumers, strict=True)):
        for name, consumer, seen_ms, active_ms, size in rows:
            shown = min(count or size, size)
            pieces = map(Chunk.rows_of, chunks.get(consumer, ()), repeat(consumer))
            yield [
                {
                    b"name": name,
                    b"seen-time": seen_ms,
                    b"active-time": -1 if active_ms is None else active_ms,
                    b"pel-count": size,
                    b"pending": LongArray(shown, _pending_parts(pieces, shown, is_owned=True)),
                }
            ]


def _properties(stream: Stream) -> dict[bytes, Reply]:
    log, idmp = stream.log, stream.idmp
    return {
        b"length": len(log),
        # Redis counts the nodes of the tree that holds its segments; ours are in a list.
        b"radix-tree-keys": log.segments,
        b"radix-tree-nodes": log.segments + 1,
        b"last-generated-id": format_id(stream.last_id),
        b"max-deleted-entry-id": format_id(stream.max_deleted_id),
        b"entries-added": stream.entries_added,
        b"recorded-first-entry-id": format_id(log.first_id or 0),
        b"idmp-duration": idmp.duration_s,
        b"idmp-maxsize": idmp.maxsize,
        b"pids-tracked": idmp.pids_tracked,
        b"iids-tracked": idmp.iids_tracked,
        b"iids-added": idmp.iids_added,
        b"iids-duplicates": idmp.iids_duplicates,
    }


def _summary(stream: Stream) -> Reply:
    _, first = stream.log.encode_parts(0, ID_MAX, 1)
    _, last = stream.log.encode_parts(0, ID_MAX, 1, reverse=True)
    return {
        **_properties(stream),
        b"groups": len(stream.groups or ()),
        b"first-entry": Raw(first[0]) if first else None,
        b"last-entry": Raw(last[0]) if last else None,
    }


def _full_group(stream: Stream, name: bytes, group: Group, count: int) -> Reply:
    pending = [
        [format_id(entry_id), b"" if owner is None else owner.name, time_ms, deliveries]
        for entry_id, owner, time_ms, deliveries in islice(group.pending.iterate(), count or None)
    ]
    return {
        b"name": name,
        b"last-delivered-id": format_id(group.last_id),
        b"entries-read": group.entries_read,
        b"lag": stream.lag(group),
        **_filter_of(group.wanted),
        b"pel-count": len(group.pending),
        b"nacked-count": len(group.pending.nacked),
        b"pending": pending,
        b"consumers": [_full_consumer(group, consumer, count) for _, consumer in sorted(group.consumers.items())],
    }


def _filter_of(wanted: EntryFilter | None) -> dict[bytes, Reply]:
    return {} if wanted is None else {b"filter": list(wanted.words)}


def _full_consumer(group: Group, consumer: Consumer, count: int) -> Reply:
    return {
        b"name": consumer.name,
        b"seen-time": consumer.seen_ms,
        b"active-time": -1 if consumer.active_ms is None else consumer.active_ms,
        b"pel-count": consumer.pending,
        b"pending": [
            [format_id(entry_id), time_ms, deliveries]
            for entry_id, _, time_ms, deliveries in islice(group.pending.iterate(owner=consumer), count or None)
        ],
    }


@command(
    "XINFO GROUPS",
    arity=3,
    flags="readonly",
    keys=(2, 2, 1),
    since="5.0.0",
    complexity="O(N) with N being the number of groups.",
    syntax="key",
    access="RO access",
)
def xinfo_groups(context: Context, args: list[bytes]) -> Reply:
    """Return the consumer groups of a stream.

    Reply: array of maps; a `lag` or `entries-read` that cannot be known is null. `filter`: the words of a group's
    filter, FIELD first; groups without one have no such row.
    Raises: NoSuchKey; WrongType.
    """
    stream = need_stream(context.read_stream(args[2]))
    groups = stream.groups or {}
    rows = zip(list(groups), *columns_of(groups.values()), strict=True)
    if len(groups) > SLICED_ITEMS_MIN:
        facts = stream.without_groups()
        parts = shown_in_slices(rows, partial(_group, partial(_lag_at_once, facts)))
        return Sliced(LongArray(len(groups), parts), CONSUMER_BYTES * len(groups))
    return [_group(stream.lag_of, *row) for row in sorted(rows, key=itemgetter(0))]


def _group(
    lag_of: Callable[[int, int | None], int | None],
    name: bytes,
    consumers: int,
    pending: int,
    last_id: int,
    entries_read: int | None,
    wanted: EntryFilter | None,
) -> dict[bytes, Reply]:
    return {
        b"name": name,
        b"consumers": consumers,
        b"pending": pending,
        b"last-delivered-id": format_id(last_id),
        b"entries-read": entries_read,
        b"lag": lag_of(last_id, entries_read),
        **_filter_of(wanted),
    }


def _lag_at_once(stream: Stream, last_id: int, entries_read: int | None) -> int | None:
    """Return a group's lag for a reply that has begun, which waits for nothing."""
    with stream.log.at_once():
        return stream.lag_of(last_id, entries_read)


@command(
    "XINFO CONSUMERS",
    arity=4,
    flags="readonly",
    keys=(2, 2, 1),
    since="5.0.0",
    complexity="O(N) with N being the number of consumers.",
    syntax="key group",
    access="RO access",
    tips="nondeterministic_output",
)
def xinfo_consumers(context: Context, args: list[bytes]) -> Reply:
    """Return the consumers of a group.

    Reply: array of maps; `idle` is the time in ms since the consumer was last named, `inactive` since it last got an
    entry, -1 if it never did.
    Raises: NoSuchKey; NoGroup; WrongType.
    """
    group = group_of(need_stream(context.read_stream(args[2])), args[2], args[3])
    now_ms = context.now_ms
    if len(group.consumers) > SLICED_ITEMS_MIN:
        rows = zip(*group.columns(), strict=True)
        parts = shown_in_slices(rows, partial(_consumer, now_ms))
        return Sliced(LongArray(len(group.consumers), parts), CONSUMER_BYTES * len(group.consumers))
    return [
        _consumer(now_ms, name, one, one.seen_ms, one.active_ms, one.pending)
        for name, one in sorted(group.consumers.items())
    ]


def _consumer(
    now_ms: int, name: bytes, _: Consumer, seen_ms: int, active_ms: int | None, pending: int
) -> dict[bytes, Reply]:
    return {
        b"name": name,
        b"pending": pending,
        b"idle": max(0, now_ms - seen_ms),
        b"inactive": -1 if active_ms is None else max(0, now_ms - active_ms),
    }
