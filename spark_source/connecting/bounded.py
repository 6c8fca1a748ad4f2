"""Receives replies of unknown size: a reply that passes a limit is given up.

XRANGE counts entries, not bytes, and an entry may be a thousand times as large as the one before. redis-py reads a
whole reply, however large; here its bytes are counted as they arrive.
"""

from spark_source.connecting.connection import Reply, Session

CHUNK_BYTES = 256 << 10


class TooLarge(Exception):
    """A reply passed its limit; the connection is closed, since the rest of the reply is still on its way."""


def receive(session: Session, limit_bytes: int | None) -> tuple[Reply, int | None]:
    """Return one reply, and its number of bytes: None if redis-py has other internals than expected.

    Raises: TooLarge; redis.RedisError.
    """
    import redis

    try:
        from redis._parsers.hiredis import NOT_ENOUGH_DATA
    except ImportError:
        return session.receive(), None
    parser = getattr(session.connection, "_parser", None)
    reader, sock = getattr(parser, "_reader", None), getattr(parser, "_sock", None)
    if reader is None or sock is None:
        return session.receive(), None
    got = 0
    with session._guard():
        while (reply := reader.gets(False)) is NOT_ENOUGH_DATA:
            try:
                data = sock.recv(CHUNK_BYTES)
            except TimeoutError:
                raise redis.TimeoutError("Timeout reading from socket") from None
            except OSError as error:
                raise redis.ConnectionError(f"Error while reading from socket: {error}") from None
            if not data:
                raise redis.ConnectionError("Connection closed by server.")
            got += len(data)
            if limit_bytes is not None and got > limit_bytes:
                raise TooLarge
            reader.feed(data)
    if isinstance(reply, Exception):
        raise reply
    return reply, got
