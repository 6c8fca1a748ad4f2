"""Refuses a streaming query that writes into a stream that it reads: it would read its own rows, endlessly.

The driver looks into the checkpoint, where the query's offsets name the streams and their server, before the first
row is written. Where it cannot see them (a checkpoint on another file system, or only named in the session's
configuration), a task that reads notices the marks of its own query beside the stream, at the second batch.
"""

import json
import os
from urllib.parse import unquote, urlsplit

from spark_source.connecting.connection import Server
from spark_source.errors import OptionError
from spark_source.noting.markers import INTO_SOURCE, marker_key
from spark_source.settings.connection_options import ConnectionOptions

WHAT_TO_DO = "write to another stream, or set allowSourceAsTarget=true on the sink if it ends by itself"


def place_of(options: ConnectionOptions) -> str:
    """Return the server and database of a stream, as an offset holds them.

    Nodes count in any order; behind Sentinels the master's name counts as well.
    """
    named = {(host.lower(), port) for host, port in options.nodes}
    nodes = sorted(f"{'127.0.0.1' if host == 'localhost' else host}:{port}" for host, port in named)
    master = "" if options.master is None else f"{options.master}@"
    return f"{master}{','.join(nodes)}/{options.db}"


def streams_read(checkpoint: str | None, place: str) -> frozenset[str]:
    """Return the streams of a server in a checkpoint's newest offsets; none if these cannot be read."""
    directory = _local(checkpoint)
    if directory is None:
        return frozenset()
    try:
        numbers = [int(name) for name in os.listdir(os.path.join(directory, "offsets")) if name.isdecimal()]
        with open(os.path.join(directory, "offsets", str(max(numbers))), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return frozenset()
    found: set[str] = set()
    for line in lines:
        try:
            offset = json.loads(line)
        except (ValueError, RecursionError):
            continue
        marks = offset.items() if isinstance(offset, dict) else ()
        found.update(stream for stream, mark in marks if isinstance(mark, dict) and mark.get("at") == place)
    return frozenset(found)


def _local(checkpoint: str | None) -> str | None:
    parts = urlsplit(checkpoint or "")
    if not checkpoint or parts.scheme not in ("", "file"):
        return None
    return unquote(parts.path) if parts.scheme else checkpoint


def refuse_source(stream: str, sources: frozenset[str]) -> None:
    """Raise OptionError when the query reads the stream."""
    if stream in sources:
        raise OptionError(f"stream {stream} is a source of this query, which would read its own rows: {WHAT_TO_DO}")


def refuse_own_rows(server: Server, stream: str, query: str) -> None:
    """Raise OptionError if a stream that is read bears the marks of the query's own sink.

    Unreadable marks count as none.
    """
    import redis

    try:
        with server.session(stream) as session:
            fields = session.call("HKEYS", marker_key(stream))
    except (redis.RedisError, OSError, OptionError):
        return
    names = {bytes(field).decode(errors="replace") for field in fields} if isinstance(fields, list) else set()  # type: ignore[arg-type]
    sinks = {name.partition(":open:")[0].partition(":done:")[0] for name in names}
    for sink in sinks:
        if (sink == query or sink.endswith("@" + query)) and sink + INTO_SOURCE not in names:
            raise OptionError(f"stream {stream} is also written by this query, which reads its own rows: {WHAT_TO_DO}")


def query_of_task() -> str | None:
    """Return the ID of the streaming query that a task belongs to; None outside of tasks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")
