"""The figures of streams from XINFO STREAM."""

from collections.abc import Sequence
from dataclasses import dataclass

from spark_source.connecting.connection import Reply, Server, Session
from spark_source.errors import StreamdError

ASKED_TOGETHER = 200  # streams: each reply holds two entries of it, which may be large


@dataclass(frozen=True)
class StreamInfo:
    """The reply of XINFO STREAM; `added` and `max_deleted` are None before Redis 7.0, `first` for an empty stream."""

    length: int
    last: str
    added: int | None
    first: str | None
    max_deleted: str | None


def stream_info(session: Session, stream: str) -> StreamInfo | None:
    """Return the figures of a stream, None when there is no such key.

    Raises: StreamdError for a key of another type; redis.RedisError.
    """
    import redis

    try:
        reply = session.call("XINFO", "STREAM", stream)
    except redis.ResponseError as error:
        if "no such key" in str(error):
            return None
        if str(error).startswith("WRONGTYPE") or "wrong kind of value" in str(error):
            raise StreamdError(f"key {stream} holds no stream: give another one in option stream") from None
        raise
    return _info(reply)


def stream_infos(server: Server, streams: Sequence[str]) -> dict[str, StreamInfo | None]:
    """Return the figures of many streams, those of one node asked for together.

    Raises: as `stream_info`, and as `Server.patiently`.
    """
    found: dict[str, StreamInfo | None] = dict.fromkeys(streams)
    for group in server.by_node(list(found)):
        for first in range(0, len(group), ASKED_TOGETHER):
            some = group[first : first + ASKED_TOGETHER]
            words = [("XINFO", "STREAM", stream) for stream in some]
            replies = server.patiently(lambda session, words=words: session.pipeline(words), some[0])  # type: ignore[misc]
            for stream, reply in zip(some, replies, strict=True):
                if isinstance(reply, Exception):  # no such key, another type, or a node that has it no more
                    found[stream] = server.patiently(lambda session, key=stream: stream_info(session, key), stream)  # type: ignore[misc]
                else:
                    found[stream] = _info(reply)
    return found


def _info(reply: Reply) -> StreamInfo:
    found = as_dict(reply)
    first = found.get("first-entry")
    added = found.get("entries-added")
    deleted = found.get("max-deleted-entry-id")
    return StreamInfo(
        length=as_int(found["length"]),
        last=as_text(found["last-generated-id"]),
        added=None if added is None else as_int(added),
        first=as_text(first[0]) if isinstance(first, list) and first else None,
        max_deleted=None if deleted is None else as_text(deleted),
    )


def as_dict(reply: Reply) -> dict[str, Reply]:
    """Return a flat reply of names and values as a dict."""
    assert isinstance(reply, list)
    return {as_text(name): value for name, value in zip(reply[0::2], reply[1::2], strict=True)}


def as_text(value: Reply) -> str:
    """Return a bulk or simple string as text."""
    assert isinstance(value, (bytes, str)), value
    return value.decode() if isinstance(value, bytes) else value


def as_int(value: Reply) -> int:
    """Return an integer reply."""
    assert isinstance(value, int), value
    return value
