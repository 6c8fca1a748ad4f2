"""Checks that all attempts of a partition bring the same rows: each notes them before it writes the first.

{orders}:spark:rows:<batch>   hash: <partition> -> "rows|digest|buckets" of the first attempt to note them
                                    with keys, <partition>|<digest> -> the same, of each attempt that brings other keys
                                    with keys, buckets -> the number of producers of the batch; rows -> of its rows
{orders}:spark:keys:<batch>   hash: <partition>|<digest> -> a sample of the keys' hashes

An attempt with other rows than noted would silently leave the rows of an earlier attempt in the stream. So it fails
before it writes. Rows with keys may come in another partition: at the end of the batch each key of an earlier attempt
must still be there. An attempt that names its rows in another way (by a key instead of their content) would write all
of them again, and fails, too.
"""

import logging
from dataclasses import dataclass

from spark_source.connecting.connection import Session, Word
from spark_source.errors import RowsChanged
from spark_source.naming.identity import MOST_BUCKETS, BatchName, bucket_count, rows_max
from spark_source.naming.tally import Short, missing
from spark_source.noting.markers import keys_key, rows_key
from spark_source.settings.options import WriteOptions

log = logging.getLogger("spark_source")

KEEP_MORE_S = 3600  # notes outlive the window by that: what it recognises must be known to be the same
KEY_BUCKETS_MIN = 256  # for batches of 1.5 million rows, whatever share the first task has; as quick as one producer
TASKS_FORESEEN = 16  # like the first one; a batch with more rows than these and those gets further producers on its way
ACCEPT = "set onRowsChanged=continue to accept duplicates"
FINISH = f"let the batch finish with the identity that it was begun with, or {ACCEPT}"
REMEDY = (
    "set idempotencyKey to columns that are the same in every attempt (once this batch is finished), take rand(), "
    f"current_timestamp() and the like out of the query or from a column of its source, or {ACCEPT}"
)


@dataclass(frozen=True)
class Noted:
    """The notes about one partition."""

    rows: int
    digest: str
    buckets: int


@dataclass(frozen=True)
class Verdict:
    """The number of producers to spread the rows over, and whether an earlier attempt brought other rows."""

    buckets: int
    changed: bool = False


def note_rows(
    session: Session,
    stream: str,
    name: BatchName,
    partition: int,
    short: Short,
    seen_before: bool,
    options: WriteOptions,
) -> Verdict:
    """Note the rows of an attempt before it writes any of them. May run twice.

    Raises: RowsChanged when an earlier attempt noted other rows, unless onRowsChanged=continue.
    """
    by_key = options.identity == "key"
    if seen_before:
        _judge(_begun_otherwise(_noted(session, rows_key(stream, name)), stream, name, by_key), options, FINISH)
    if by_key:
        return _note_keys(session, stream, name, partition, short, seen_before, options)
    key = rows_key(stream, name)
    mine = f"{short.rows}|{short.digest}|{bucket_count(short.rows, options.window_size)}"
    noted = _put(session, key, str(partition), mine, options)
    if noted.digest == short.digest and noted.rows == short.rows:
        return Verdict(noted.buckets)
    _judge(
        f"batch {name.batch}, partition {partition}, stream {stream}: the attempt before had {noted.rows} rows and may "
        f"have written some, this one has {short.rows} and they are not the same",
        options,
    )
    return Verdict(bucket_count(short.rows, options.window_size), True)


def note_presence(session: Session, stream: str, name: BatchName, partition: int) -> None:
    """Note that a partition may write rows; the rows themselves are noted elsewhere (exactlyOnce=marker)."""
    session.call("HSETNX", rows_key(stream, name), str(partition), "1||1")


def _note_keys(
    session: Session,
    stream: str,
    name: BatchName,
    partition: int,
    short: Short,
    seen_before: bool,
    options: WriteOptions,
) -> Verdict:
    key, field = rows_key(stream, name), f"{partition}|{short.digest}"
    noted = session.call("HGET", key, field)
    if isinstance(noted, bytes):
        return Verdict(_parse(noted).buckets)
    buckets = _key_buckets(session, key, short.rows, seen_before, options)
    if buckets is None:
        _judge(
            f"batch {name.batch}, partition {partition}, stream {stream}: its rows come in other partitions than in "
            "the attempt before, and it is larger than its first task let expect, so that they cannot be recognised",
            options,
        )
        return Verdict(MOST_BUCKETS, True)
    samples = keys_key(stream, name)
    first: tuple[list[Word], ...] = (
        ["HSET", samples, field, short.sample],
        ["EXPIRE", samples, options.window_s + KEEP_MORE_S],
    )
    return Verdict(_put(session, key, field, f"{short.rows}|{short.digest}|{buckets}", options, *first).buckets)


def _key_buckets(session: Session, key: str, rows: int, seen_before: bool, options: WriteOptions) -> int | None:
    """Return the number of producers for a batch's keys, one for all its tasks; None if earlier attempts used several.

    The first task decides, long before the size of the batch is known. If the batch outgrows that, later tasks use the
    maximum, and then only a partition with the same rows is recognised.
    """
    if options.scope == "stream":
        return MOST_BUCKETS
    if seen_before:
        taken = {noted.buckets for field, noted in _noted(session, key).items() if "|" in field}
        if taken:
            return taken.pop() if len(taken) == 1 else None
    size = options.window_size
    wanted = max(bucket_count(rows * TASKS_FORESEEN, size), min(KEY_BUCKETS_MIN, bucket_count(rows_max(size), size)))
    _, first, total = _pipeline(
        session, ["HSETNX", key, "buckets", wanted], ["HGET", key, "buckets"], ["HINCRBY", key, "rows", rows]
    )
    assert isinstance(first, bytes)
    assert isinstance(total, int)
    buckets = int(first)
    return buckets if bucket_count(total, size) <= buckets else MOST_BUCKETS


def changed_rows(
    session: Session, stream: str, name: BatchName, reports: dict[int, Short | None], by_key: bool
) -> str | None:
    """Return a message about rows that earlier attempts may have written and the final ones do not bring, or None.

    `reports` are the final attempts by partition; None for a partition whose rows are noted elsewhere.
    """
    key = rows_key(stream, name)
    noted = _noted(session, key)
    otherwise = _begun_otherwise(noted, stream, name, by_key)
    if otherwise is not None:
        return otherwise
    if not by_key:
        for field, before in noted.items():
            now = reports.get(int(field), Short(0, ""))
            if now is not None and before.rows and (now.digest, now.rows) != (before.digest, before.rows):
                return (
                    f"batch {name.batch}, partition {field}, stream {stream}: an attempt before had {before.rows} rows "
                    f"and may have written some, the one that counts has {now.rows} and they are not the same"
                )
        return None
    there = {f"{partition}|{short.digest}" for partition, short in reports.items() if short is not None}
    others = [field for field in noted if "|" in field and field not in there]
    if not others:
        return None
    samples = session.call("HMGET", keys_key(stream, name), *others)
    assert isinstance(samples, list)
    found = missing(
        [sample for sample in samples if isinstance(sample, bytes)],
        [short.sample for short in reports.values() if short is not None],
    )
    if not found:
        return None
    return (
        f"batch {name.batch}, stream {stream}: an attempt before had about {found} keys that are not among those of "
        "the attempts that count, and may have written them"
    )


def judge_batch(text: str | None, options: WriteOptions) -> bool:
    """Return whether rows of a batch changed. Raises: RowsChanged, unless onRowsChanged=continue."""
    _judge(text, options)
    return text is not None


def _judge(what: str | None, options: WriteOptions, remedy: str = REMEDY) -> None:
    if what is None:
        return
    if options.on_rows_changed == "fail":
        raise RowsChanged(f"{what}: {remedy}")
    log.warning("%s: duplicates are possible (onRowsChanged=continue)", what)


def _begun_otherwise(noted: dict[str, Noted], stream: str, name: BatchName, by_key: bool) -> str | None:
    """Return a message if earlier attempts at a batch named its rows in another way, or None."""
    # (Without a digest rows are noted elsewhere, and are recognised by that.)
    if all(("|" in field) == by_key for field, one in noted.items() if one.digest):
        return None
    ways = "identity=content or position", "identity=key"
    return (
        f"batch {name.batch}, stream {stream}: it was begun with {ways[not by_key]} and runs again with "
        f"{ways[by_key]}, which would write its rows twice"
    )


def _put(session: Session, key: str, field: str, text: str, options: WriteOptions, *first: list[Word]) -> Noted:
    """Note a value, after the commands `first`, unless the field has one; return the value of the field."""
    *_, noted, _ = _pipeline(
        session,
        *first,
        ["HSETNX", key, field, text],
        ["HGET", key, field],
        ["EXPIRE", key, options.window_s + KEEP_MORE_S],
    )
    assert isinstance(noted, bytes)
    return _parse(noted)


def _noted(session: Session, key: str) -> dict[str, Noted]:
    """Return the notes about partitions."""
    reply = session.call("HGETALL", key)
    assert isinstance(reply, list)
    pairs = zip(reply[0::2], reply[1::2], strict=True)
    found = {bytes(field).decode(): bytes(value) for field, value in pairs}  # type: ignore[arg-type]
    return {field: _parse(value) for field, value in found.items() if field not in ("buckets", "rows")}


def _parse(noted: bytes) -> Noted:
    rows, digest, buckets = noted.decode().split("|")
    return Noted(int(rows), digest, int(buckets))


def _pipeline(session: Session, *commands: list[Word]) -> list:
    replies = session.pipeline(commands)
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
