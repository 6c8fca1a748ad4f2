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
{orders}:spark:digests              hash: the rows of the last committed batch of each sink, see `finished`
{orders}:spark:new:<sink>:<batch>   the stream that an overwrite fills before it takes the other's place
"""

import time

from spark_source.connecting.connection import Session
from spark_source.errors import OptionError
from spark_source.naming.identity import BatchName, digest_text

INTO_SOURCE = ":into-source"  # behind a sink's name, a mark: its query may read what it writes
COUNTED = ("rows", "duplicates", "retries", "waited_ms", "changed")
BATCHES_NOTED = 16  # so many micro-batches back a listener finds what each one counted


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


def digests_key(stream: str) -> str:
    return marker_key(stream) + ":digests"


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
    assert isinstance(done, list)
    for reply in done:
        if isinstance(reply, Exception):
            raise reply
    return True
