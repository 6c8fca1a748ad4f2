"""Common parts of the consumer group commands: finding a group, and recording its changes."""

from collections.abc import Iterable
from typing import Final

from streamd.base.errors import NoGroup, NoSuchKey, echoed
from streamd.catalog import Context
from streamd.stream.entry_id import format_id
from streamd.stream.groups.group import Group
from streamd.stream.groups.pending import Consumer
from streamd.stream.stream import Stream

# After a restart a consumer may have been seen so much earlier than it was.
SEEN_NOTED_EVERY_MS: Final = 1_000


def decoded(word: bytes) -> str:
    """Return a client's word, of any length, as an error text shows it."""
    return echoed(word, len(word))


def find_group(context: Context, key: bytes, name: bytes) -> tuple[Stream, Group] | None:
    """Return the stream at `key` and its group, or None if there is no such group. Raises: WrongType."""
    stream = context.read_stream(key)
    if stream is None or not stream.groups or name not in stream.groups:
        return None
    return stream, stream.groups[name]


def need_stream(stream: Stream | None) -> Stream:
    """Return the stream that a key holds. Raises: NoSuchKey, if it holds none."""
    if stream is None:
        raise NoSuchKey()
    return stream


def group_of(stream: Stream, key: bytes, name: bytes) -> Group:
    """Return a group of the stream at `key`. Raises: NoGroup."""
    group = (stream.groups or {}).get(name)
    if group is None:
        raise NoGroup(f"No such consumer group '{decoded(name)}' for key name '{decoded(key)}'")
    return group


def need_group(context: Context, key: bytes, name: bytes, where: str = "") -> tuple[Stream, Group]:
    """Return the stream at `key` and its group. `where` ends the error's text. Raises: NoGroup, WrongType."""
    found = find_group(context, key, name)
    if found is None:
        raise no_group(key, name, where)
    return found


def no_group(key: bytes, name: bytes, where: str = "") -> NoGroup:
    """Return the error for a key without a stream or a stream without the group."""
    return NoGroup(f"No such key '{decoded(key)}' or consumer group '{decoded(name)}'{where}")


def need_consumer(context: Context, key: bytes, group_name: bytes, group: Group, name: bytes) -> Consumer:
    """Return the consumer called `name`, created if it is not there; a creation is recorded and published."""
    consumer, created = group.consumer(name, context.now_ms)
    if created:
        context.record(b"XGROUP", b"CREATECONSUMER", key, group_name, name)
        context.notify(key, "t", "xgroup-createconsumer")
    return consumer


def record_owned(
    context: Context,
    key: bytes,
    group_name: bytes,
    group: Group,
    consumer: Consumer,
    ids: Iterable[int],
    time_ms: int,
    count: int,
    changes: int = 1,
) -> None:
    """Record that `consumer` has the entries `ids` since `time_ms`, each delivered `count` times."""
    state = context.state
    state.dirty += changes
    if state.records is None:
        return
    words = [b"XCLAIM", key, group_name, consumer.name, b"0", *map(format_id, ids)]
    words += [b"TIME", b"%d" % time_ms, b"RETRYCOUNT", b"%d" % count, b"FORCE", b"JUSTID"]
    words += [b"LASTID", format_id(group.last_id)]
    state.records.append((context.db.index, words))


def record_taken(
    context: Context, key: bytes, group_name: bytes, group: Group, consumer: Consumer, ids: list[int], time_ms: int
) -> None:
    """Record that `consumer` has got the pending entries `ids`, whose delivery counts are as they are now.

    It counts as no change: the caller knows whether it is one to Redis.
    """
    if context.state.records is None:
        return
    by_count: dict[int, list[int]] = {}
    for entry_id, count in zip(ids, group.pending.counts_of(ids), strict=True):
        by_count.setdefault(count, []).append(entry_id)
    for count, same in by_count.items():
        record_owned(context, key, group_name, group, consumer, same, time_ms, count, changes=0)


def record_position(context: Context, key: bytes, group_name: bytes, group: Group, changes: int = 1) -> None:
    """Record how far a group has read."""
    if context.state.records is None:
        context.state.dirty += changes
        return
    read = -1 if group.entries_read is None else group.entries_read
    position = format_id(group.last_id)
    context.record(b"XGROUP", b"SETID", key, group_name, position, b"ENTRIESREAD", b"%d" % read, changes=changes)


def record_seen(context: Context, key: bytes, group_name: bytes, consumer: Consumer, *, since: int = -1) -> None:
    """Record when a consumer was last named in a command, and when it last got an entry.

    To be called last: the record of a delivery says the same, but by the clock of a later start. since: how many
    records there were before the command named the consumer. If it added none, one note a second is enough, so that
    readers that ask all the time and get nothing do not make the journal grow.
    """
    records = context.state.records
    if records is None or (len(records) == since and 0 <= consumer.seen_ms - consumer.noted_ms < SEEN_NOTED_EVERY_MS):
        return
    consumer.noted_ms = consumer.seen_ms
    active_ms = -1 if consumer.active_ms is None else consumer.active_ms
    times = b"%d" % consumer.seen_ms, b"%d" % active_ms
    records.append((context.db.index, [b"XGROUPSEEN", key, group_name, consumer.name, *times]))


def record_removed(context: Context, key: bytes, group_name: bytes, ids: list[int]) -> None:
    """Record that entries are no longer pending."""
    context.state.dirty += len(ids)
    if context.state.records is not None:
        context.state.records.append((context.db.index, [b"XACK", key, group_name, *map(format_id, ids)]))


def record_deleted(context: Context, key: bytes, ids: list[int], references: str) -> None:
    """Record that entries were deleted, and with `references` "delete" that no group refers to them any more."""
    words = [format_id(entry_id) for entry_id in ids]
    if references == "delete":
        context.record(b"XDELEX", key, b"DELREF", b"IDS", b"%d" % len(words), *words, changes=len(ids))
    else:
        context.record(b"XDEL", key, *words, changes=len(ids))
