"""A loaded state as a journal for Redis 8.6.2 or later: its streams know the same idempotent IDs."""

from collections.abc import Iterator
from typing import Final

from streamd.data.entry_record import NAME, entry_words
from streamd.data.keyspace import Keyspace
from streamd.idmp.settings import DURATION_S_DEFAULT, MAXSIZE_DEFAULT
from streamd.journal.dump import dump_groups, dump_key
from streamd.journal.record import encode_command, encode_select
from streamd.stream.entry_id import format_id
from streamd.stream.stream import Stream

# Fields of an entry that is gone, which stands in its place until its name is recorded.
_PLACEHOLDER: Final = [b"", b""]


def commands_for_redis(keyspace: Keyspace, now_ms: int) -> Iterator[tuple[bytes, int]]:
    """Yield `(bytes, number of commands)`, without notes and expired idempotent IDs."""
    for db in keyspace:
        if db.values:
            yield encode_select(db.index), 0  # as at the beginning of each file
        for key, value in db.values.items():
            expires_ms = db.expires_ms.get(key)
            if isinstance(value, Stream):
                yield from _stream(db.index, key, value, now_ms)
                if expires_ms is not None:
                    yield encode_command((b"PEXPIREAT", key, b"%d" % expires_ms)), 1
            else:
                for is_note, data in dump_key(db.index, key, value, expires_ms):
                    if not is_note:
                        yield data, 1


def _stream(db_index: int, key: bytes, stream: Stream, now_ms: int) -> Iterator[tuple[bytes, int]]:
    """Yield a stream with its window.

    XIDMPRECORD, the only command that records a name, needs an existing entry, and so does XCLAIM. So a removed entry
    is added at its place among the others, and removed again once its name is recorded and it is pending: removing an
    entry does neither forget its name nor take it from its consumer.
    """
    names = _names(stream, now_ms)
    missing = _missing(key, stream)
    gone = sorted({*missing, *(entry_id for *_, entry_id in names if entry_id not in stream.log)})
    first_id = stream.log.first_id
    for entry_id, fields in _merged(stream, gone):
        yield encode_command(entry_words(key, format_id(entry_id), fields)), 1
    if first_id is None and not gone:
        yield encode_command([NAME, key, b"MAXLEN", b"0", b"0-1", b"x", b"y"]), 1  # makes an empty stream
    idmp = stream.idmp
    if (idmp.duration_s, idmp.maxsize) != (DURATION_S_DEFAULT, MAXSIZE_DEFAULT):
        words = (b"XCFGSET", key, b"IDMP-DURATION", b"%d" % idmp.duration_s, b"IDMP-MAXSIZE", b"%d" % idmp.maxsize)
        yield encode_command(words), 1
    for pid, iid, entry_id in names:
        yield encode_command((b"XIDMPRECORD", key, pid, iid, format_id(entry_id))), 1
    counters = (b"ENTRIESADDED", b"%d" % stream.entries_added, b"MAXDELETEDID", format_id(stream.max_deleted_id))
    setting = encode_command((b"XSETID", key, format_id(stream.last_id), *counters))
    if stream.entries_added >= len(stream.log) + len(gone):
        yield setting, 1  # by it Redis bounds how many entries a group has read
    for is_note, data in dump_groups(db_index, key, stream):
        if not is_note:
            yield data, 1
    for claims in missing.values():
        for claim in claims:
            yield encode_command(claim), 1
    if gone:
        # Trimming leaves the greatest ID that was deleted as it is, which XSETID could not take back to 0-0.
        trim = (b"MAXLEN", b"=", b"0") if first_id is None else (b"MINID", b"=", format_id(first_id))
        yield encode_command((b"XTRIM", key, *trim)), 1
    for entry_id in gone:
        if first_id is not None and entry_id > first_id:
            yield encode_command((b"XDEL", key, format_id(entry_id))), 1
    yield setting, 1


def _missing(key: bytes, stream: Stream) -> dict[int, list[list[bytes]]]:
    """Return the entries that are pending in groups, but not in the stream, with the claims that make each so."""
    claims: dict[int, list[list[bytes]]] = {}
    for name, group in (stream.groups or {}).items():
        for entry_id, owner, time_ms, count in group.pending.iterate():
            if entry_id in stream.log:
                continue
            made = claims.setdefault(entry_id, [])
            if owner is not None:  # a released one is made by XNACK
                words = [b"XCLAIM", key, name, owner.name, b"0", format_id(entry_id), b"TIME", b"%d" % time_ms]
                made.append([*words, b"RETRYCOUNT", b"%d" % count, b"FORCE", b"JUSTID"])
    return claims


def _names(stream: Stream, now_ms: int) -> list[tuple[bytes, bytes, int]]:
    """Return (pid, iid, entry ID) of the remembered names, each producer's oldest first."""
    return list(stream.idmp.remembered(now_ms))


def _merged(stream: Stream, gone: list[int]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the entries of a stream, and placeholders for removed ones, by their IDs."""
    at = 0
    for entry_id, fields in stream.log.iterate():
        while at < len(gone) and gone[at] < entry_id:
            yield gone[at], _PLACEHOLDER
            at += 1
        yield entry_id, fields
    for entry_id in gone[at:]:
        yield entry_id, _PLACEHOLDER
