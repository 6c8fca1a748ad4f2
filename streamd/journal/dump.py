"""The dump of a key's value: the commands and notes that make it again.

It comes in pieces `(notes, bytes)`: the bytes are `#streamd` lines alone if `notes`, otherwise RESP alone. A piece
takes well below a millisecond to make.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Final

from streamd.data.entry_record import NAME, entry_columns, entry_words
from streamd.data.types import KeyValue, type_of
from streamd.idmp.settings import DURATION_S_DEFAULT, MAXSIZE_DEFAULT
from streamd.journal.cold_records import NamedFiles, unwritten_from
from streamd.journal.record import encode_columns, encode_command, encode_note
from streamd.stream.entry_id import format_id, format_ids
from streamd.stream.groups.group import Group
from streamd.stream.groups.pending import Consumer, PendingEntry
from streamd.stream.stream import Stream

Piece = tuple[bool, bytes]

# Entries in one piece: as many as a node has by default.
_PIECE_ENTRIES: Final = 100
# Iids in one piece: a few ten microseconds.
_PIECE_ITEMS: Final = 64


def dump_key(
    db_index: int, key: bytes, value: KeyValue, expires_ms: int | None, named: NamedFiles | None = None
) -> Iterator[Piece]:
    """Yield the pieces that make `value` again at a free key; `db_index` must be selected.

    expires_ms: when the key expires, Unix milliseconds, or None. named: names the segment files whose entries are not
    written again; None: all entries are.
    """
    commands = type_of(value).commands
    if commands is not None:
        for words in commands(key, value):
            yield False, encode_command(words)
    else:
        assert isinstance(value, Stream), "only streams take more than commands"
        yield from _dump_stream(db_index, key, value, named)
    if expires_ms is not None:
        yield False, encode_command((b"PEXPIREAT", key, b"%d" % expires_ms))


def _dump_stream(db_index: int, key: bytes, stream: Stream, named: NamedFiles | None) -> Iterator[Piece]:
    """Yield the pieces of a stream: entries, counters, groups and window, in the order of Redis's own rewrite."""
    if len(stream.log) == 0:
        # An empty stream is made by an entry that is trimmed at once, as Redis does it.
        yield False, encode_command([NAME, key, b"MAXLEN", b"0", b"0-1", b"x", b"y"])
    if named is not None:
        for record in named.dump(key, stream):
            yield False, record
    entries = stream.log.iterate(0 if named is None else unwritten_from(stream))
    while batch := list(islice(entries, _PIECE_ENTRIES)):
        yield False, _encode_entries(key, batch)
    yield False, encode_command((
        b"XSETID", key, format_id(stream.last_id), b"ENTRIESADDED", b"%d" % stream.entries_added,
        b"MAXDELETEDID", format_id(stream.max_deleted_id),
    ))  # fmt: skip
    yield from dump_groups(db_index, key, stream)
    yield from _dump_window(db_index, key, stream)


def dump_groups(db_index: int, key: bytes, stream: Stream) -> Iterator[Piece]:
    """Yield the pieces that make a stream's groups, after its entries and counters."""
    for name, group in (stream.groups or {}).items():
        yield from _dump_group(db_index, key, name, group, stream)


def _encode_entries(key: bytes, batch: list[tuple[int, list[bytes]]]) -> bytes:
    """Return the RESP of XADDs; made from columns if all entries have as many fields."""
    entry_ids, rows = zip(*batch, strict=True)
    ids = format_ids(entry_ids)
    if len({*map(len, rows)}) == 1:
        return b"".join(encode_columns(entry_columns(key, ids, [*zip(*rows, strict=True)])))
    return b"".join([encode_command(entry_words(key, text, fields)) for text, fields in zip(ids, rows, strict=True)])


def _dump_group(db_index: int, key: bytes, name: bytes, group: Group, stream: Stream) -> Iterator[Piece]:
    """Yield the pieces of a group with its consumers and pending entries, released ones in the order of release."""
    read = b"%d" % (-1 if group.entries_read is None else group.entries_read)
    position = format_id(group.last_id)
    yield False, encode_command((b"XGROUP", b"CREATE", key, name, position, b"ENTRIESREAD", read))
    if group.wanted is not None:
        yield True, encode_note(db_index, (b"XGROUPFILTER", key, name, *group.wanted.words[1:]))
    for consumer in group.consumers.values():
        yield False, encode_command((b"XGROUP", b"CREATECONSUMER", key, name, consumer.name))
    for (owner, time_ms, count), ids in _equal_deliveries(group.pending.iterate()):
        there = [entry_id for entry_id in ids if stream.log.holds_pending(entry_id)]
        times = b"%d" % time_ms, b"%d" % count
        if there:
            words = [b"XCLAIM", key, name, owner.name, b"0", *map(format_id, there)]
            words += [b"TIME", times[0], b"RETRYCOUNT", times[1], b"FORCE", b"JUSTID", b"LASTID", position]
            yield False, encode_command(words)
        if len(there) < len(ids):
            known = {*there}
            gone = [entry_id for entry_id in ids if entry_id not in known]
            notes = [
                encode_note(db_index, (b"XGROUPPENDING", key, name, owner.name, format_id(entry_id), *times))
                for entry_id in gone
            ]
            yield True, b"".join(notes)
    for entry_id in group.pending.nacked:
        entry = group.pending.get(entry_id)
        assert entry is not None
        words = [b"XNACK", key, name, b"FAIL", b"IDS", b"1", format_id(entry_id)]
        yield False, encode_command([*words, b"RETRYCOUNT", b"%d" % entry[3], b"FORCE"])
    for consumer in group.consumers.values():
        active_ms = -1 if consumer.active_ms is None else consumer.active_ms
        seen = b"%d" % consumer.seen_ms, b"%d" % active_ms
        yield True, encode_note(db_index, (b"XGROUPSEEN", key, name, consumer.name, *seen))


def _equal_deliveries(
    entries: Iterable[PendingEntry],
) -> Iterator[tuple[tuple[Consumer, int, int], list[int]]]:
    """Yield runs of entries with the same consumer, delivery time and delivery count."""
    owned = ((entry_id, (owner, time_ms, count)) for entry_id, owner, time_ms, count in entries if owner is not None)
    for like, equal in groupby(owned, lambda row: row[1]):
        while ids := [entry_id for entry_id, _ in islice(equal, _PIECE_ITEMS)]:
            yield like, ids


def _dump_window(db_index: int, key: bytes, stream: Stream) -> Iterator[Piece]:
    """Yield the pieces of settings, iids in the order of their recording, and counters.

    Redis (8.6.2 and later) knows XCFGSET and XIDMPRECORD, the latter for entries that exist. A stream with the default
    settings and without iids is written without these commands, so that an older Redis can load it.
    """
    idmp = stream.idmp
    if (idmp.duration_s, idmp.maxsize) != (DURATION_S_DEFAULT, MAXSIZE_DEFAULT):
        words = (b"XCFGSET", key, b"IDMP-DURATION", b"%d" % idmp.duration_s, b"IDMP-MAXSIZE", b"%d" % idmp.maxsize)
        yield False, encode_command(words)
    yield True, encode_note(db_index, (b"XIDMPSETTINGS", key, b"%d" % idmp.duration_s, b"%d" % idmp.maxsize))
    for pid in idmp.pids():
        remembered = idmp.iids(pid)
        for at in range(0, len(remembered), _PIECE_ITEMS):
            yield from _dump_iids(db_index, key, pid, remembered[at : at + _PIECE_ITEMS], stream)
    if idmp.iids_added or idmp.iids_duplicates:
        yield (
            True,
            encode_note(db_index, (b"XIDMPCOUNTERS", key, b"%d" % idmp.iids_added, b"%d" % idmp.iids_duplicates)),
        )


def _dump_iids(
    db_index: int, key: bytes, pid: bytes, iids: Sequence[tuple[bytes, int]], stream: Stream
) -> Iterator[Piece]:
    """Yield the pieces of iids in their order: commands for existing entries, notes for deleted ones. In front of an
    iid with a time of its own stands a note with that.
    """
    recorded_ms = stream.idmp.recorded_ms(pid)
    for (is_there, is_timed), rows in groupby(
        iids, lambda row: (stream.log.holds_pending(row[1]), row[0] in recorded_ms)
    ):
        if not is_timed:
            yield _encode_iids(db_index, key, pid, rows, is_there)
            continue
        for iid, entry_id in rows:
            duplicates, at = b"%d" % stream.idmp.iids_duplicates, b"%d" % recorded_ms[iid]
            yield True, encode_note(db_index, (b"XIDMPDUPLICATE", key, duplicates, format_id(entry_id), at))
            yield _encode_iids(db_index, key, pid, [(iid, entry_id)], is_there)


def _encode_iids(db_index: int, key: bytes, pid: bytes, iids: Iterable[tuple[bytes, int]], is_there: bool) -> Piece:
    """Return the piece of iids whose entries exist, or of iids whose entries are deleted."""
    if is_there:
        words = [(b"XIDMPRECORD", key, pid, iid, format_id(entry_id)) for iid, entry_id in iids]
        return False, b"".join(map(encode_command, words))
    words = [(b"XIDMPIID", key, pid, iid, format_id(entry_id)) for iid, entry_id in iids]
    return True, b"".join([encode_note(db_index, note) for note in words])
