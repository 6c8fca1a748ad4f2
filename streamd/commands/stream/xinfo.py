"""XINFO: what a stream, its consumer groups and their consumers look like."""

from itertools import islice

from streamd.base.errors import SubcommandSyntaxError
from streamd.catalog import Context, command, container
from streamd.catalog.arguments import parse_integer
from streamd.commands.stream.group_effects import group_of, need_stream
from streamd.resp.types import Raw, Reply
from streamd.stream.entry_id import ID_MAX, format_id
from streamd.stream.group import Group
from streamd.stream.pending import Consumer
from streamd.stream.stream import Stream

# Without COUNT, FULL shows so many entries, pending ones included.
FULL_COUNT_DEFAULT = 10

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

    Both names of the number of producers are there, `pids-tracked` and `producers-tracked`.

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
    entries, data = stream.log.encode_range(0, ID_MAX, count or None)
    return {
        **_properties(stream),
        b"entries": Raw(b"*%d\r\n%b" % (entries, data)),
        b"groups": [_full_group(stream, name, group, count) for name, group in sorted((stream.groups or {}).items())],
    }


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
        b"producers-tracked": idmp.pids_tracked,
    }


def _summary(stream: Stream) -> Reply:
    _, first = stream.log.encode_range(0, ID_MAX, 1)
    _, last = stream.log.encode_range(0, ID_MAX, 1, reverse=True)
    return {
        **_properties(stream),
        b"groups": len(stream.groups or ()),
        b"first-entry": Raw(first) if first else None,
        b"last-entry": Raw(last) if last else None,
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
        **_filter_of(group),
        b"pel-count": len(group.pending),
        b"nacked-count": len(group.pending.nacked),
        b"pending": pending,
        b"consumers": [_full_consumer(group, consumer, count) for _, consumer in sorted(group.consumers.items())],
    }


def _filter_of(group: Group) -> dict[bytes, Reply]:
    return {} if group.wanted is None else {b"filter": list(group.wanted.words)}


def _full_consumer(group: Group, consumer: Consumer, count: int) -> Reply:
    return {
        b"name": consumer.name,
        b"seen-time": consumer.seen_ms,
        b"active-time": -1 if consumer.active_ms is None else consumer.active_ms,
        b"pel-count": consumer.pending,
        b"pending": [
            [format_id(entry_id), time_ms, deliveries]
            for entry_id, _, time_ms, deliveries in islice(group.pending.of_consumer(consumer), count or None)
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
    return [
        {
            b"name": name,
            b"consumers": len(group.consumers),
            b"pending": len(group.pending),
            b"last-delivered-id": format_id(group.last_id),
            b"entries-read": group.entries_read,
            b"lag": stream.lag(group),
            **_filter_of(group),
        }
        for name, group in sorted((stream.groups or {}).items())
    ]


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
    return [
        {
            b"name": name,
            b"pending": consumer.pending,
            b"idle": max(0, now_ms - consumer.seen_ms),
            b"inactive": -1 if consumer.active_ms is None else max(0, now_ms - consumer.active_ms),
        }
        for name, consumer in sorted(group.consumers.items())
    ]
