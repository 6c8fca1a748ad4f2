"""Streams in RDB form: entries, counters, consumer groups and windows.

Five types tell more and more: 15 (Redis 5.0), 19 (7.0), 21 (7.2: when consumers were active), 26 (8.6: windows), 27
(8.8: released entries). The earliest that can tell everything is written.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from streamd.idmp.settings import (
    DURATION_S_DEFAULT,
    DURATION_S_MAX,
    DURATION_S_MIN,
    MAXSIZE_DEFAULT,
    MAXSIZE_MAX,
    MAXSIZE_MIN,
)
from streamd.idmp.table import IdmpTable
from streamd.rdb.bytes import (
    PAYLOAD_BYTES_MAX,
    BadData,
    Reader,
    TooLarge,
    write_int64,
    write_length,
    write_string,
)
from streamd.rdb.nodes import NodeEntries, nodes_of, read_node, runs_of
from streamd.resp.types import Pause
from streamd.stream.entry_id import ID_MAX, make_id
from streamd.stream.entry_replies import entries_ahead, pauses
from streamd.stream.groups.group import Group
from streamd.stream.groups.pending import Consumer
from streamd.stream.log.absent import Absent
from streamd.stream.log.entry_log import Log
from streamd.stream.stream import Stream

FIRST: Final = 15
COUNTED: Final = 19
TIMED: Final = 21
WITH_WINDOW: Final = 26
WITH_RELEASED: Final = 27
TYPES: Final = (FIRST, COUNTED, TIMED, WITH_WINDOW, WITH_RELEASED)

_INT64_MAX: Final = 2**63 - 1
# How an unknown number of entries read is written.
_UNKNOWN: Final = 2**64 - 1
# So many pending entries, or iids, are one piece.
_PIECE_ITEMS: Final = 256


def read_stream(kind: int, reader: Reader, stream: Stream, now_ms: int | None) -> Stream:
    """Return `stream`, new and empty, filled with the one that is read. Raises: BadData.

    kind: one of TYPES. now_ms: see `read_value`.
    """
    for _ in range(reader.count(2)):
        read_node(stream, reader.string(), reader.string())
    if reader.length() != len(stream.log):
        raise BadData("a stream has another number of entries than it says")
    last_id = _read_parts(reader)
    if last_id < stream.last_id:
        raise BadData("the last ID of a stream is before that of its last entry")
    stream.last_id = last_id
    if kind >= COUNTED:
        _read_parts(reader)  # the ID of the first entry
        stream.max_deleted_id = _read_parts(reader)
        stream.entries_added = _read_number(reader)
        if stream.max_deleted_id > last_id or stream.entries_added < len(stream.log):
            raise BadData("the counters of a stream contradict its entries")
    groups: dict[bytes, Group] = {}
    for _ in range(reader.count(3)):
        name = reader.string()
        if name in groups:
            raise BadData("two groups have the same name")
        groups[name] = _read_group(kind, reader, stream)
    stream.groups = groups or None
    if kind >= WITH_WINDOW:
        _read_window(reader, stream.idmp, now_ms)
    return stream


def _read_parts(reader: Reader) -> int:
    """Return an entry ID that is written as two lengths."""
    return make_id(reader.length(), reader.length())


def _read_id(reader: Reader) -> int:
    """Return an entry ID that is written in 16 bytes."""
    return int.from_bytes(reader.take(16), "big")


def _read_number(reader: Reader) -> int:
    number = reader.length()
    if number > _INT64_MAX:
        raise BadData("a counter is too great")
    return number


def _read_group(kind: int, reader: Reader, stream: Stream) -> Group:
    group = Group(_read_parts(reader))
    if kind >= COUNTED:
        entries_read = reader.length()
        if _INT64_MAX < entries_read < _UNKNOWN:
            raise BadData("a counter is too great")
        group.entries_read = None if entries_read == _UNKNOWN else entries_read
    else:
        group.entries_read = stream.entries_up_to(group.last_id)
    deliveries: dict[int, tuple[int, int]] = {}
    count = reader.count(25)
    for _ in range(count):
        entry_id = _read_id(reader)
        deliveries[entry_id] = reader.int64(), _read_number(reader)
    if len(deliveries) != count:
        raise BadData("an entry is pending twice")
    owners: dict[int, Consumer] = {}
    for _ in range(reader.count(10)):
        name = reader.string()
        consumer, is_new = group.consumer(name, reader.int64())
        if not is_new:
            raise BadData("two consumers have the same name")
        active_ms = reader.int64() if kind >= TIMED else consumer.seen_ms
        consumer.active_ms = None if active_ms == -1 else active_ms
        for _ in range(reader.count(16)):
            entry_id = _read_id(reader)
            if entry_id in owners or entry_id not in deliveries:
                raise BadData("a consumer has an entry that is not pending, or another's")
            owners[entry_id] = consumer
    released: list[int] = []
    if kind >= WITH_RELEASED:
        released = [_read_id(reader) for _ in range(reader.count(16))]
    if {*owners, *released} != deliveries.keys() or len(owners) + len(released) != len(deliveries):
        raise BadData("a pending entry has no consumer, or is released and has one")
    _deliver(group, deliveries, owners, released)
    for entry_id in deliveries:
        if entry_id not in stream.log:
            stream.note_missing(entry_id)
    return group


def _deliver(
    group: Group, deliveries: dict[int, tuple[int, int]], owners: dict[int, Consumer], released: list[int]
) -> None:
    """Make entries pending, those alike that follow each other at once."""
    run: list[int] = []
    like: tuple[Consumer, tuple[int, int]] | None = None
    for entry_id in sorted(owners):
        this = owners[entry_id], deliveries[entry_id]
        if this != like:
            if like is not None:
                group.own_pending().deliver(run, like[0], *like[1])
            like, run = this, []
        run.append(entry_id)
    if like is not None:
        group.own_pending().deliver(run, like[0], *like[1])
    for entry_id in released:
        group.own_pending().set(entry_id, None, *deliveries[entry_id])


def _read_window(reader: Reader, idmp: IdmpTable, now_ms: int | None) -> None:
    """Read a window's settings, its iids, each producer's oldest first, and its counters."""
    idmp.duration_s, idmp.maxsize = reader.length(), reader.length()
    if not (DURATION_S_MIN <= idmp.duration_s <= DURATION_S_MAX and MAXSIZE_MIN <= idmp.maxsize <= MAXSIZE_MAX):
        raise BadData("the settings of a window are out of range")
    pids: set[bytes] = set()
    for _ in range(reader.count(2)):
        pid = reader.string()
        if not pid or pid in pids:
            raise BadData("a producer comes twice, or has no name")
        pids.add(pid)
        iids: set[bytes] = set()
        for _ in range(reader.count(3)):
            iid = reader.string()
            if not iid or iid in iids:
                raise BadData("an idempotent ID comes twice, or is empty")
            iids.add(iid)
            entry_id = _read_parts(reader)
            is_ahead = now_ms is not None and entry_id >> 64 > now_ms
            idmp.record(pid, iid, entry_id, now_ms if is_ahead else None)
    idmp.iids_added, idmp.iids_duplicates = _read_number(reader), _read_number(reader)


def type_of(stream: Stream) -> int:
    """Return the earliest type that can tell everything about a stream."""
    groups = (stream.groups or {}).values()
    if any(group.pending.nacked for group in groups):
        return WITH_RELEASED
    idmp = stream.idmp
    if idmp.pids_tracked or idmp.iids_added or idmp.iids_duplicates:
        return WITH_WINDOW
    if (idmp.duration_s, idmp.maxsize) != (DURATION_S_DEFAULT, MAXSIZE_DEFAULT):
        return WITH_WINDOW
    for group in groups:
        for consumer in group.consumers.values():
            if consumer.active_ms != consumer.seen_ms:
                return TIMED
    return COUNTED


def stream_pieces(kind: int, stream: Stream) -> Iterator[bytes | Pause]:
    """Yield a stream behind its type's byte, `kind`, and a Pause where entries are not in memory; it must not change
    meanwhile. Raises: TooLarge.
    """
    out = bytearray()
    # In front of the nodes stands their number, which nothing knows before they are made.
    nodes: list[bytes] = []
    size = 0
    for run in _runs(stream.log):
        if isinstance(run, Pause):
            yield run
            continue
        for first_id, packed in nodes_of(run):
            write_string(out, first_id.to_bytes(16, "big"))
            write_string(out, packed)
            nodes.append(bytes(out))
            size += len(out)
            out.clear()
            yield b""
        if size > PAYLOAD_BYTES_MAX:
            raise TooLarge
    write_length(out, len(nodes))
    yield bytes(out)
    out.clear()
    yield from nodes
    write_length(out, len(stream.log))
    with stream.log.at_once():
        first = stream.log.first_id or 0
    for entry_id in (stream.last_id, first, stream.max_deleted_id):
        _write_parts(out, entry_id)
    write_length(out, stream.entries_added)
    groups = stream.groups or {}
    write_length(out, len(groups))
    for name, group in groups.items():
        write_string(out, name)
        yield from _group_pieces(kind, group, out)
    if kind >= WITH_WINDOW:
        yield from _window_pieces(stream.idmp, out)
    yield bytes(out)


def _runs(log: Log) -> Iterator[NodeEntries | Pause]:
    """Yield the entries of a log as runs, with a Pause in front of those that are not in memory.

    What was there before a Pause may have been evicted for what came: then a run is read in place, so that it ends.
    """
    start, waited_at = 0, -1
    while True:
        try:
            for run in runs_of(log, start):
                yield run
                start = run.last_id + 1
            return
        except Absent:
            pass
        if start == waited_at:
            with log.at_once():
                one = next(runs_of(log, start), None)
            if one is None:
                return
            yield one
            start = one.last_id + 1
        waited_at = start
        yield from pauses(partial(log.require, start, ID_MAX, entries_ahead(log)))


def _write_parts(out: bytearray, entry_id: int) -> None:
    write_length(out, entry_id >> 64)
    write_length(out, entry_id & 2**64 - 1)


def _group_pieces(kind: int, group: Group, out: bytearray) -> Iterator[bytes]:
    """Yield what `out` has, and a group behind its name; the last bytes stay in `out`."""
    _write_parts(out, group.last_id)
    write_length(out, _UNKNOWN if group.entries_read is None else group.entries_read)
    write_length(out, len(group.pending))
    for rows in group.pending.pieces(0, 2**128 - 1, None, None):
        for entry_id, _, time_ms, count in rows:
            out += entry_id.to_bytes(16, "big")
            write_int64(out, time_ms)
            write_length(out, count)
        yield bytes(out)
        out.clear()
    write_length(out, len(group.consumers))
    for consumer in group.consumers.values():
        write_string(out, consumer.name)
        write_int64(out, consumer.seen_ms)
        if kind >= TIMED:
            write_int64(out, -1 if consumer.active_ms is None else consumer.active_ms)
        write_length(out, consumer.pending)
        for row in group.pending.iterate(owner=consumer):
            out += row[0].to_bytes(16, "big")
            if len(out) > 16 * _PIECE_ITEMS:
                yield bytes(out)
                out.clear()
        if len(out) > 16 * _PIECE_ITEMS:  # (of many consumers without pending entries)
            yield bytes(out)
            out.clear()
    if kind >= WITH_RELEASED:
        write_length(out, len(group.pending.nacked))
        for entry_id in group.pending.nacked:
            out += entry_id.to_bytes(16, "big")


def _window_pieces(idmp: IdmpTable, out: bytearray) -> Iterator[bytes]:
    """Yield what `out` has, and a window; the last bytes stay in `out`."""
    write_length(out, idmp.duration_s)
    write_length(out, idmp.maxsize)
    pids = idmp.pids()
    write_length(out, len(pids))
    for pid in pids:
        iids = idmp.iids(pid)
        write_string(out, pid)
        write_length(out, len(iids))
        for iid, entry_id in iids:
            write_string(out, iid)
            _write_parts(out, entry_id)
        if len(out) > 16 * _PIECE_ITEMS:
            yield bytes(out)
            out.clear()
    write_length(out, idmp.iids_added)
    write_length(out, idmp.iids_duplicates)
