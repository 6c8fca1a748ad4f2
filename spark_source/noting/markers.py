"""The keys beside a stream in which a sink notes its progress; all in the stream's slot of a cluster.

{orders}:spark                      hash: <sink> -> last committed batch
                                          <sink>:open:<batch> -> "ms|run|mode" since its first task
                                          <sink>:done:<batch> -> ms, for named batch writes; inside foreachBatch,
                                            if not named by its number: <sink>:done:<name> -> number
                                          <sink>:into-source -> its query may read the stream (allowSourceAsTarget)
{orders}:spark:part:<sink>:<part>   string: "batch|rows|digest" (exactlyOnce=marker)
{orders}:spark:rows:<batch>         hash: the notes about each partition's rows, see `attempts`; gone at the commit
{orders}:spark:keys:<batch>         hash: with keys, a sample of them
{orders}:spark:stats                hash: <sink>:rows, :duplicates, :retries, :waited_ms, :changed
{orders}:spark:batches              hash: <sink>:<batch % 16> -> "batch|rows|duplicates|retries|waited_ms|changed" of a
                                          micro-batch that is committed
{orders}:spark:new:<sink>:<batch>   the stream that an overwrite fills before it takes the other's place
"""

import time
from dataclasses import dataclass

from spark_source.connecting.connection import Session
from spark_source.connecting.stream_info import as_dict, stream_info
from spark_source.errors import OptionError, StreamdError, WindowExpired
from spark_source.naming.identity import BatchName, digest_text
from spark_source.settings.options import WriteOptions

INTO_SOURCE = ":into-source"  # behind a sink's name, a mark: its query may read what it writes
COUNTED = ("rows", "duplicates", "retries", "waited_ms", "changed")
BATCHES_NOTED = 16  # so many micro-batches back a listener finds what each one counted
COMMIT_TRIES = 100  # other sinks of the stream may note something in between


def tagged(stream: str) -> str:
    """Return the stream's name in a form whose derived names fall into the same slot.

    Raises: OptionError for a name whose braces make that impossible.
    """
    opened = stream.find("{")
    closed = stream.find("}", opened + 1)
    if opened >= 0 and closed > opened + 1:
        return stream
    if "}" in stream:
        raise OptionError(f"stream {stream} cannot be written: use no braces in its name, or a {{tag}}")
    return "{" + stream + "}"


def marker_key(stream: str) -> str:
    return tagged(stream) + ":spark"


def part_key(stream: str, name: BatchName, partition: int) -> str:
    return f"{marker_key(stream)}:part:{digest_text(name.sink.encode())}:{partition}"


def stats_key(stream: str) -> str:
    return marker_key(stream) + ":stats"


def rows_key(stream: str, name: BatchName) -> str:
    return f"{marker_key(stream)}:rows:{digest_text((name.sink + ' ' + name.whole).encode())}"


def keys_key(stream: str, name: BatchName) -> str:
    return f"{marker_key(stream)}:keys:{digest_text((name.sink + ' ' + name.whole).encode())}"


def replacement_key(stream: str, name: BatchName) -> str:
    return f"{marker_key(stream)}:new:{digest_text((name.sink + ' ' + name.whole).encode())}"


def open_field(name: BatchName) -> str:
    return f"{name.sink}:open:{name.whole}"


def done_field(name: BatchName) -> str:
    return name.sink if name.number is not None else f"{name.sink}:done:{name.batch}"


def done_value(name: BatchName) -> str:
    """Return the value of a committed batch's done field."""
    if name.number is not None:
        return name.batch
    return str(time.time_ns() // 1_000_000 if name.epoch is None else name.epoch)


def is_done(name: BatchName, value: object) -> bool:
    """Return whether the value of a done field says that the batch is committed."""
    if value is None:
        return False
    assert isinstance(value, bytes)
    number = name.epoch if name.number is None else name.number
    return number is None or int(value) >= number


def batches_key(stream: str) -> str:
    return marker_key(stream) + ":batches"


def counted_field(batch: int) -> str:
    return str(batch % BATCHES_NOTED)


def counted_value(batch: int, counted: dict[str, int]) -> str:
    return "|".join(map(str, [batch, *(counted.get(what, 0) for what in COUNTED)]))


def counted_of(value: bytes, batch: int) -> dict[str, int] | None:
    """Return the counts of a micro-batch from a counted field; None when the field is another micro-batch's."""
    number, *figures = map(int, value.split(b"|"))
    return dict(zip(COUNTED, figures, strict=True)) if number == batch else None


@dataclass(frozen=True)
class Opening:
    """The state in which a task finds its batch: already committed, or possibly half written by an earlier attempt."""

    done: bool
    seen_before: bool


def open_batch(
    session: Session, stream: str, name: BatchName, run: str, attempt: int, mode: str, options: WriteOptions
) -> Opening:
    """Note that a batch is being written, unless that is noted already, and return its state before.

    Raises: WindowExpired when it was half written longer ago than the window remembers; StreamdError when it was half
        written in another mode, which would not recognise its rows.
    """
    key = marker_key(stream)
    if options.source_as_target:
        session.call("HSET", key, name.sink + INTO_SOURCE, 1)
    found, now = session.pipeline([["HMGET", key, done_field(name), open_field(name)], ["TIME"]])
    for reply in (found, now):
        if isinstance(reply, Exception):
            raise reply
    done, opened = _list(found)
    if is_done(name, done):
        return Opening(True, True)
    seconds, micros = _list(now)
    now_ms = int(bytes(seconds)) * 1000 + int(bytes(micros)) // 1000
    if opened is None:
        if name.query is not None:
            _refuse_other_sink(session, key, stream, name)
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


def _refuse_other_sink(session: Session, key: str, stream: str, name: BatchName) -> None:
    """Raise OptionError when the query has written this batch, or begun to, under another sinkId.

    Its rows would have other names now, and be there twice. Later batches may have another sinkId.
    """
    assert name.number is not None
    pairs = _list(session.call("HGETALL", key))
    for field, value in zip(map(bytes.decode, pairs[0::2]), pairs[1::2], strict=True):
        sink, opening, batch = field.partition(":open:")
        if sink == name.sink or ":done:" in sink or not (sink == name.query or sink.endswith("@" + str(name.query))):
            continue
        if batch == name.batch if opening else int(value) >= name.number:
            before = sink.removesuffix(str(name.query)).removesuffix("@")
            given = f"with sinkId={before}" if before else "without sinkId"
            state = "began to write" if opening else "wrote"
            raise OptionError(
                f"this query {state} batch {name.batch} to {stream} {given}, under another name its rows would be "
                f"there twice: start it {given} until the batch is committed, and change sinkId then"
            )


def _check_age(session: Session, stream: str, name: BatchName, age_ms: int) -> None:
    if stream_info(session, stream) is None:
        return
    window_s = as_dict(session.call("XINFO", "STREAM", stream)).get("idmp-duration")
    if isinstance(window_s, int) and age_ms > window_s * 1000:
        raise WindowExpired(
            f"batch {name.batch} of sink {name.sink} was half written to {stream} {age_ms / 1000:.0f} s ago, the "
            f"window remembers {window_s} s: duplicates are possible, set onWindowExpired=continue to accept them"
        )


def commit_batch(session: Session, stream: str, name: BatchName, counted: dict[str, int]) -> None:
    """Note that a batch is committed, and add its counts to the totals; a repeated call changes nothing.

    Raises: redis.RedisError; StreamdError when other sinks of the stream change the notes at each try.
    """
    key, stats = marker_key(stream), stats_key(stream)
    for _ in range(COMMIT_TRIES):
        session.call("WATCH", key)
        try:
            if is_done(name, session.call("HGET", key, done_field(name))):
                return
            commands: list[list[str | bytes | int]] = [
                ["MULTI"],
                ["HSET", key, done_field(name), done_value(name)],
                ["HDEL", key, open_field(name), *past_marks(session, key, name)],
                ["DEL", rows_key(stream, name), keys_key(stream, name)],
            ]
            if name.number is not None:
                noted = f"{name.sink}:{counted_field(name.number)}"
                commands.append(["HSET", batches_key(stream), noted, counted_value(name.number, counted)])
            commands += [["HINCRBY", stats, f"{name.sink}:{what}", more] for what, more in counted.items()]
            if transact(session, commands):
                return
        finally:
            if not session.closed:
                session.call("UNWATCH")
    raise StreamdError(f"batch {name.batch} of sink {name.sink} cannot be noted on {stream}: start the query again")


def past_marks(session: Session, key: str, name: BatchName) -> list[str]:
    """Return the marks of this sink for earlier micro-batches, which Spark cannot run again."""
    if name.epoch is None:
        return []
    pairs = _list(session.call("HGETALL", key))
    marks = {field.decode(): value for field, value in zip(pairs[0::2], pairs[1::2], strict=True)}
    mine = f"{name.sink}:done:"
    past = [field for field, value in marks.items() if field.startswith(mine) and int(value) < name.epoch]
    return [field for field in past if field != done_field(name)]


def transact(session: Session, commands: list[list[str | bytes | int]]) -> bool:
    """Send a transaction that begins with MULTI; EXEC is added. Return False when a watched key was changed.

    Raises: redis.RedisError, the first error of its commands.
    """
    replies = session.pipeline([*commands, ["EXEC"]])
    for reply in replies:
        if isinstance(reply, Exception) and not str(reply).startswith("Transaction discarded"):
            raise reply
    done = replies[-1]
    if isinstance(done, Exception):
        raise done
    if done is None:
        return False
    for reply in _list(done):
        if isinstance(reply, Exception):
            raise reply
    return True


def _list(reply: object) -> list:
    assert isinstance(reply, list), reply
    return reply
