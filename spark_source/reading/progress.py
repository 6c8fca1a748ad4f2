"""Shows a query's position, in Spark's progress and on the server as a consumer group; it decides nothing."""

import logging

from spark_source import ids
from spark_source.connecting.connection import Server, Session
from spark_source.connecting.stream_info import StreamInfo, as_dict
from spark_source.errors import OptionError, StreamdError
from spark_source.reading.offsets import Mark

log = logging.getLogger("spark_source")


class ProgressGroup:
    """The consumer group of a query, one in each stream that it reads. Lives beside the driver.

    A group of that name with consumers is never touched: moving it would lose or repeat their deliveries.
    """

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.checked: set[str] = set()
        self.refused: set[str] = set()

    def show(self, stream: str, mark: Mark) -> None:
        """Set the group to the query's position. A missing group is made; a missing stream is left out.

        Errors of the server are logged once, and the query goes on without the group.

        Raises: OptionError for a group with consumers; Unreachable.
        """
        if stream in self.refused:
            return
        try:
            self.server.patiently(lambda session: self._set(session, stream, mark), stream)
        except OptionError:
            raise
        except StreamdError as error:
            if "did not answer" in str(error):
                raise
            self.refused.add(stream)
            log.warning("progressGroup=%s cannot be set for stream %s: %s", self.name, stream, error)

    def _set(self, session: Session, stream: str, mark: Mark) -> None:
        import redis

        read: list[str | int] = ["ENTRIESREAD", mark.n] if mark.n is not None else []
        try:
            if stream not in self.checked:
                self._check(session, stream)
            try:
                session.call("XGROUP", "SETID", stream, self.name, mark.id, *read)
            except redis.ResponseError as error:
                if not str(error).startswith("NOGROUP"):
                    raise
                session.call("XGROUP", "CREATE", stream, self.name, mark.id, *read)
        except redis.ResponseError as error:
            if "no such key" not in str(error) and "requires the key to exist" not in str(error):
                raise
            return  # the stream is gone, or not there yet: then there is no progress to show
        self.checked.add(stream)

    def _check(self, session: Session, stream: str) -> None:
        groups = session.call("XINFO", "GROUPS", stream)
        assert isinstance(groups, list)
        for group in map(as_dict, groups):
            if group["name"] == self.name.encode() and (group["consumers"] or group["pending"]):
                raise OptionError(
                    f"progressGroup={self.name} names a group of stream {stream} that has consumers: take another name"
                )


def standing(server: Server, stream: str, read: Mark | None, info: StreamInfo) -> dict[str, object]:
    """Return a stream's position (`id`, `n` entries ever added), and of its entries behind `read` the number (`lag`)
    and the time in the oldest one's ID (`oldest_ms`); each only if known.
    """
    found: dict[str, object] = {"id": info.last, "n": info.added}
    if read is None:
        return found
    if ids.parse(read.id) >= ids.parse(info.last) or not info.length:
        return {**found, "lag": 0}
    if info.added is not None and read.n is not None:
        found["lag"] = max(0, min(info.added - read.n, info.length))

    def first(session: Session) -> int | None:
        reply = session.call("XRANGE", stream, "(" + read.id, "+", "COUNT", 1)
        return ids.parse(reply[0][0])[0] if isinstance(reply, list) and reply else None  # type: ignore[index,arg-type]

    oldest_ms = server.patiently(first, stream)
    if oldest_ms is not None:
        found["oldest_ms"] = oldest_ms
    return found
