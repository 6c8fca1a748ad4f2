"""Allows newer fields in the entries of a topic log, before a task writes the first of them."""

from spark_source.connecting.connection import Server, Session
from spark_source.connecting.topic_log import TopicLog, meta_key
from spark_source.errors import StreamdError
from spark_source.noting.markers import transact

_TRIES = 100  # others may change the log's settings meanwhile


def allow_version(server: Server, log: TopicLog, version: int) -> None:
    """Raise the version of a log to this one, unless it is as high; libraries that do not know it refuse the log then.

    Raises: StreamdError.
    """
    if log.version >= version:
        return
    key = meta_key(log.name)

    def attempt(session: Session) -> bool:
        session.call("WATCH", key)
        found = session.call("HGET", key, "version")
        if not isinstance(found, bytes) or int(found) >= version:  # it was dropped, or raised
            session.call("UNWATCH")
            return True
        return transact(session, [["MULTI"], ["HSET", key, "version", version]])

    if not any(server.patiently(attempt, key) for _ in range(_TRIES)):
        raise StreamdError(f"the settings of log {log.name} are changed again and again: run the batch again")
