"""Single requests about a stream, which planning makes."""

from spark_source import ids
from spark_source.connecting.connection import Server, Session

SAMPLE_ENTRIES = 50  # read to learn how large entries are, for maxBytesPerTrigger


def first_entry(server: Server, stream: str, start: str, end: str) -> str | None:
    """Return the first entry ID of a range, None if it is empty. Raises: as `Server.patiently`."""

    def ask(session: Session) -> str | None:
        reply = session.call("XRANGE", stream, start, end, "COUNT", 1)
        return reply[0][0].decode() if isinstance(reply, list) and reply else None  # type: ignore[index,union-attr]

    return server.patiently(ask, stream)


def entry_bytes(server: Server, stream: str, position: str) -> float:
    """Return the mean size of the next entries behind a position. Raises: as `Server.patiently`."""
    page = server.patiently(
        lambda session: session.call("XRANGE", stream, "(" + position, "+", "COUNT", SAMPLE_ENTRIES), stream
    )
    assert isinstance(page, list)
    held = sum(len(value) for entry in page for value in entry[1])  # type: ignore[index,arg-type,union-attr,misc]
    return max(1.0, held / max(1, len(page)))


def trim(server: Server, stream: str, last: str) -> None:
    """Remove the entries up to `last`, about. Raises: as `Server.patiently`."""
    ms, seq = ids.parse(last)
    behind = f"{ms}-{seq + 1}" if seq < ids.SEQ_MAX else f"{ms + 1}-0"
    server.patiently(lambda session: session.call("XTRIM", stream, "MINID", "~", behind), stream)
