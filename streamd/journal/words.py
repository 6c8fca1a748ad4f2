"""Taking apart RESP that was verified before: the fast way."""

from collections.abc import Iterator

from streamd.journal.file_reader import parse_command

try:
    import hiredis
except ImportError:  # PyPy, Windows: slower, the same
    hiredis = None  # type: ignore[assignment]


class NoCommandError(Exception):
    """What was verified is what somebody has written, and is no command."""


def bare_commands(data: bytes) -> Iterator[list[bytes]]:
    """Yield the commands of verified RESP. Raises: NoCommandError."""
    if hiredis is None:
        at = 0
        while at < len(data):
            words, at = parse_command(data, at)
            yield words
        return
    reader = hiredis.Reader()
    reader.feed(data)
    take = reader.gets
    try:
        while (found := take()) is not False:
            if type(found) is not list:
                raise NoCommandError
            yield found
    except hiredis.ProtocolError:
        raise NoCommandError


def all_bare_commands(data: bytes) -> list[list[bytes]]:
    """Return the commands of verified RESP. Raises: NoCommandError."""
    if hiredis is None:
        return [*bare_commands(data)]
    reader = hiredis.Reader()
    reader.feed(data)
    try:
        found = [*iter(reader.gets, False)]
    except hiredis.ProtocolError:
        raise NoCommandError
    if [*map(type, found)].count(list) != len(found):
        raise NoCommandError
    return found
