"""Checks of batches that come again after their commit: the checkpoint must not be older, nor the rows others.

{orders}:spark:digests   hash: <sink> -> "batch|how|rows|digest" of its last committed micro-batch
                               <sink>:done:<name> -> the same of a named batch write, as long as its mark is kept
                               <sink>:changed -> micro-batch that came again with other rows and stopped its query
                               <sink>:apart -> later micro-batch, which the query had written under another sinkId

Spark repeats only its last batch. A lower number than the noted one therefore proves that the checkpoint is a restored
backup, or a copy. An equal number does not, so the rows are compared: by a digest of what names them, which does not
depend on order and partitions; by position and with exactlyOnce=marker by their number alone.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from spark_source.connecting.connection import Session, Word
from spark_source.errors import OldCheckpoint, OptionError, RowsChanged
from spark_source.naming.identity import BatchName, digest_text
from spark_source.naming.tally import Short, sum_digest
from spark_source.noting.markers import digests_key, done_field, marker_key
from spark_source.settings.options import WriteOptions

log = logging.getLogger("spark_source")

CHANGED, APART = ":changed", ":apart"  # behind a sink's name, in the hash of digests


@dataclass(frozen=True)
class Whole:
    """All rows of a batch for one stream. how: what names them, and the kind of write. digest: "" for none."""

    how: str
    rows: int
    digest: str

    def is_same(self, other: "Whole") -> bool:
        """Return whether these can be the same rows; of rows that are named in different ways only numbers tell."""
        if self.rows != other.rows or self.how.startswith("overwrite") != other.how.startswith("overwrite"):
            return False
        return self.how != other.how or self.digest == other.digest


def whole_of(shorts: Iterable[Short | None], rows: int, mode: str, options: WriteOptions, overwrite: bool) -> Whole:
    """Return the summary of all tasks' rows."""
    how = mode if mode == "marker" else options.identity
    digest = "" if how in ("marker", "position") else sum_digest(short for short in shorts if short is not None)
    if how == "key":
        how += digest_text(",".join(options.key_columns).encode())
    return Whole(f"overwrite-{how}" if overwrite else how, rows, digest)


def number_of(name: BatchName) -> int | None:
    """Return Spark's number of the batch; None for a batch write of its own, whose name has no order."""
    return name.epoch if name.number is None else name.number


def is_finished(session: Session, stream: str, name: BatchName) -> bool:
    """Return whether a batch is committed. Raises: OldCheckpoint when a later one is."""
    return is_finished_by(stream, name, session.call("HGET", marker_key(stream), done_field(name)))


def is_finished_by(stream: str, name: BatchName, mark: object) -> bool:
    """Return whether the value of a done field says that the batch is committed. Raises: OldCheckpoint."""
    if mark is None:
        return False
    assert isinstance(mark, bytes)
    number = number_of(name)
    if number is None:
        return True
    if int(mark) > number:
        raise _older(stream, name, number, int(mark))
    return int(mark) == number


def _older(stream: str, name: BatchName, number: int, noted: int) -> OldCheckpoint:
    return OldCheckpoint(
        f"batch {number} of sink {name.sink} comes after batch {noted} was committed to {stream}: the checkpoint is "
        "older than the sink (a restored backup, or a copy), and rows would be lost: go on with the checkpoint as it "
        f"was after batch {noted}, or write the rows since batch {number} once more, with a new sinkId or with "
        f"exactlyOnce=none up to batch {noted}"
    )


def judge_marks(session: Session, stream: str, name: BatchName) -> None:
    """Check a batch that is begun for the first time against the marks of the query's other writes to the stream.

    Raises: OldCheckpoint; OptionError when the query has written this batch, or begun to, under another sinkId.
    """
    number = number_of(name)
    if number is None:
        return
    pairs = session.call("HGETALL", marker_key(stream))
    assert isinstance(pairs, list)
    marks = {bytes(field).decode(): bytes(value) for field, value in zip(pairs[0::2], pairs[1::2], strict=True)}  # type: ignore[arg-type]
    if name.query is not None:
        _judge_other_sinks(session, stream, name, number, marks)
        return
    named = f"{name.sink}:done:"
    latest = max(
        (int(mark) for field, mark in marks.items() if field == name.sink or field.startswith(named)), default=0
    )
    if latest > number:
        raise _older(stream, name, number, latest)


def _judge_other_sinks(session: Session, stream: str, name: BatchName, number: int, marks: dict[str, bytes]) -> None:
    """Compare with the marks of a streaming query under other sinkIds, by which its rows would be there twice.

    Later batches may have another sinkId. A new one is also the way out where the checkpoint is known to be older; such
    a sink goes its own way from then on.
    """
    digests, query = digests_key(stream), str(name.query)
    if session.call("HGET", digests, name.sink + APART) is not None:
        return
    refusal: OptionError | None = None
    later: int | None = None
    for field, value in marks.items():
        sink, opening, batch = field.partition(":open:")
        if sink == name.sink or ":done:" in sink or not (sink == query or sink.endswith("@" + query)):
            continue
        if opening:
            if batch == name.batch:
                refusal = _under_another(stream, name, sink, "began to write")
            continue
        noted = int(value)
        if noted > number or (noted == number and session.call("HGET", digests, sink + CHANGED) == value):
            later = max(noted, later or 0)
        elif noted == number:
            refusal = _under_another(stream, name, sink, "wrote")
    if later is not None and name.sink in marks:
        raise _older(stream, name, number, later)
    if later is not None:
        if session.call("HSETNX", digests, name.sink + APART, str(later)):
            log.warning(
                "batch %d of sink %s: the query has written up to batch %d to %s under another name, rows of these "
                "batches are there twice now",
                *(number, name.sink, later, stream),
            )
    elif refusal is not None:
        raise refusal


def _under_another(stream: str, name: BatchName, sink: str, state: str) -> OptionError:
    before = sink.removesuffix(str(name.query)).removesuffix("@")
    given = f"with sinkId={before}" if before else "without sinkId"
    return OptionError(
        f"this query {state} batch {name.batch} to {stream} {given}, under another name its rows would be "
        f"there twice: start it {given} until the batch is committed, and change sinkId then"
    )


def digest_note(stream: str, name: BatchName, whole: Whole) -> list[Word]:
    """Return the command that notes the rows of a batch that is committed."""
    number = number_of(name)
    text = f"{'' if number is None else number}|{whole.how}|{whole.rows}|{whole.digest}"
    return ["HSET", digests_key(stream), done_field(name), text]


def judge_rows(session: Session, stream: str, name: BatchName, whole: Whole, options: WriteOptions) -> bool:
    """Return whether a committed batch comes again with other rows.

    Raises: RowsChanged in that case, unless onRowsChanged=continue.
    """
    digests, number = digests_key(stream), number_of(name)
    kept = session.call("HGET", digests, done_field(name))
    if not isinstance(kept, bytes):  # it was committed before digests were kept
        return False
    batch, how, rows, digest = kept.decode().split("|")
    before = Whole(how, int(rows), digest)
    if batch != ("" if number is None else str(number)) or before.is_same(whole):
        return False
    if options.on_rows_changed == "fail":
        if name.query is not None:
            session.call("HSET", digests, name.sink + CHANGED, str(number))
        raise RowsChanged(_changed(stream, name, before, whole))
    return True


def _changed(stream: str, name: BatchName, before: Whole, now: Whole) -> str:
    if before.how.startswith("overwrite") != now.how.startswith("overwrite"):
        was, comes = ("an append", "an overwrite") if now.how.startswith("overwrite") else ("an overwrite", "an append")
        what = f"{described(name)} was {was} to {stream} and comes again as {comes}"
    else:
        others = f"has {before.rows} rows in {stream} and comes again with {now.rows}, which are not the same"
        what = f"{described(name)} is committed, {others}"
    skip = "set onRowsChanged=continue to leave these rows out"
    named = "give each write a name of its own (sinkId, sinkBatch)"
    if number_of(name) is None:
        return f"{what}: {named}, or {skip}"
    if name.query is None:
        why, ways = "two writes of a batch have one name, or the checkpoint is older than the sink", f"{named}, "
    else:
        why, ways = "the checkpoint is older than the sink, a copy of it runs, or the query has changed", ""
    return (
        f"{what}; {why}: {ways}go on with the checkpoint as it was after batch {number_of(name)}, write these rows "
        f"with a new sinkId or with exactlyOnce=none for this batch, or {skip}"
    )


def described(name: BatchName) -> str:
    """Return the name of a batch for messages."""
    if name.number is not None:
        return f"batch {name.batch} of sink {name.sink}"
    within = "" if name.epoch is None else f" in batch {name.epoch}"
    return f"the write sinkBatch={name.batch} of sink {name.sink}{within}"


def warn_left_out(name: BatchName, left_out: dict[str, int], has_changed: bool) -> None:
    """Log how many rows of each stream are not written because their batch was committed before; no row, no word."""
    rows = sum(left_out.values())
    if not rows:
        return
    streams = ", ".join(stream for stream, count in sorted(left_out.items()) if count)
    others = ", although they are others (onRowsChanged=continue)" if has_changed else ""
    log.warning("%s was committed to %s before: its %d rows are not written%s", described(name), streams, rows, others)
