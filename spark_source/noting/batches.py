"""Opens a batch before its first row, and commits it when all are written."""

from dataclasses import dataclass

from spark_source.connecting.connection import Session, Word
from spark_source.connecting.stream_info import as_dict, stream_info
from spark_source.errors import StreamdError, WindowExpired
from spark_source.naming.identity import BatchName
from spark_source.noting.finished import Whole, digest_note, is_finished, is_finished_by, judge_marks, judge_rows
from spark_source.noting.markers import (
    INTO_SOURCE,
    batches_key,
    counted_field,
    counted_value,
    digests_key,
    done_field,
    done_value,
    keys_key,
    marker_key,
    open_field,
    rows_key,
    stats_key,
    transact,
)
from spark_source.settings.options import WriteOptions

COMMIT_TRIES = 100  # other sinks of the stream may note something in between


@dataclass(frozen=True)
class Opening:
    """The state in which a task finds its batch: already committed, or possibly half written by an earlier attempt."""

    done: bool
    seen_before: bool


def open_batch(
    session: Session, stream: str, name: BatchName, run: str, attempt: int, mode: str, options: WriteOptions
) -> Opening:
    """Note that a batch is being written, unless that is noted already, and return its state before.

    Raises: WindowExpired when it was half written longer ago than the window remembers; OldCheckpoint when a later one
        is committed; StreamdError when it was half written in another mode, which would not recognise its rows.
    """
    key = marker_key(stream)
    if options.source_as_target:
        session.call("HSET", key, name.sink + INTO_SOURCE, 1)
    found, now = session.pipeline([["HMGET", key, done_field(name), open_field(name)], ["TIME"]])
    for reply in (found, now):
        if isinstance(reply, Exception):
            raise reply
    done, opened = _list(found)
    if is_finished_by(stream, name, done):
        return Opening(True, True)
    seconds, micros = _list(now)
    now_ms = int(bytes(seconds)) * 1000 + int(bytes(micros)) // 1000
    if opened is None:
        judge_marks(session, stream, name)
        if session.call("HSETNX", key, open_field(name), f"{now_ms}|{run}|{mode}"):
            return Opening(False, attempt > 0)
        opened = session.call("HGET", key, open_field(name))
    assert isinstance(opened, bytes)
    since_text, its_run, its_mode = opened.decode().split("|")
    if its_mode != mode:
        raise StreamdError(
            f"batch {name.batch} of sink {name.sink} was half written to {stream} with exactlyOnce={its_mode}: "
            f"set exactlyOnce={its_mode} until it is finished"
        )
    seen_before = its_run != run or attempt > 0
    if mode == "idmp" and seen_before and options.on_window_expired == "fail":
        _check_age(session, stream, name, now_ms - int(since_text))
    return Opening(False, seen_before)


def _check_age(session: Session, stream: str, name: BatchName, age_ms: int) -> None:
    if stream_info(session, stream) is None:
        return
    window_s = as_dict(session.call("XINFO", "STREAM", stream)).get("idmp-duration")
    if isinstance(window_s, int) and age_ms > window_s * 1000:
        raise WindowExpired(
            f"batch {name.batch} of sink {name.sink} was half written to {stream} {age_ms / 1000:.0f} s ago, the "
            f"window remembers {window_s} s: duplicates are possible, set onWindowExpired=continue to accept them"
        )


def commit_batch(
    session: Session, stream: str, name: BatchName, counted: dict[str, int], whole: Whole, options: WriteOptions
) -> bool:
    """Note that a batch is committed, and add its counts to the totals; a repeated call changes nothing.

    Return whether it was committed before, with other rows.

    Raises: redis.RedisError; OldCheckpoint when a later one is committed; RowsChanged when it was committed with other
        rows, unless onRowsChanged=continue; StreamdError when other sinks of the stream change the notes at each try.
    """
    key, stats = marker_key(stream), stats_key(stream)
    for _ in range(COMMIT_TRIES):
        session.call("WATCH", key)
        try:
            if is_finished(session, stream, name):
                return judge_rows(session, stream, name, whole, options)
            commands: list[list[str | bytes | int]] = [
                ["MULTI"],
                *finishing(session, stream, name, whole),
                ["DEL", rows_key(stream, name), keys_key(stream, name)],
            ]
            if name.number is not None:
                noted = f"{name.sink}:{counted_field(name.number)}"
                commands.append(["HSET", batches_key(stream), noted, counted_value(name.number, counted)])
            commands += [["HINCRBY", stats, f"{name.sink}:{what}", more] for what, more in counted.items()]
            if transact(session, commands):
                return False
        finally:
            if not session.closed:
                session.call("UNWATCH")
    raise StreamdError(f"batch {name.batch} of sink {name.sink} cannot be noted on {stream}: start the query again")


def finishing(session: Session, stream: str, name: BatchName, whole: Whole) -> list[list[Word]]:
    """Return the commands that mark a batch as committed, and note its rows."""
    key = marker_key(stream)
    past = past_marks(session, key, name)
    commands: list[list[Word]] = [
        ["HSET", key, done_field(name), done_value(name)],
        ["HDEL", key, open_field(name), *past],
        digest_note(stream, name, whole),
    ]
    return [*commands, ["HDEL", digests_key(stream), *past]] if past else commands


def past_marks(session: Session, key: str, name: BatchName) -> list[str]:
    """Return the marks of this sink for earlier micro-batches, which Spark cannot run again."""
    if name.epoch is None:
        return []
    pairs = _list(session.call("HGETALL", key))
    marks = {field.decode(): value for field, value in zip(pairs[0::2], pairs[1::2], strict=True)}
    mine = f"{name.sink}:done:"
    past = [field for field, value in marks.items() if field.startswith(mine) and int(value) < name.epoch]
    return [field for field in past if field != done_field(name)]


def _list(reply: object) -> list:
    assert isinstance(reply, list), reply
    return reply
