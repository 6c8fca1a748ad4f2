"""Taking apart RESP that was verified before: the fast way."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from streamd.journal.parsing import Incomplete, Malformed, parse_command

try:
    import hiredis
except ImportError:  # PyPy, Windows: slower, the same
    hiredis = None  # type: ignore[assignment]

# Of so many bytes all commands are found at once. (hiredis moves what it has not parsed again and again: it is given no
# more.)
PART_BYTES: Final = 128 * 1024
# Of more bytes so many commands, which takes some milliseconds.
_PART_COMMANDS: Final = 4_096
_PARSED_COMMANDS: Final = 512


def bare_commands(data: bytes) -> tuple[list[list[bytes]], bool]:
    """Return `(commands, whether these are all)` of verified bytes. These may still be no commands, or notes behind
    commands; then the commands in front of that place are returned.
    """
    found: list[list[bytes]] = []
    if hiredis is None or len(data) > PART_BYTES:
        are_all = True
        for more, is_whole in bare_parts(data):
            found += more
            are_all = is_whole
        return found, are_all
    reader = hiredis.Reader()
    reader.feed(data)
    try:
        found.extend(iter(reader.gets, False))
    except hiredis.ProtocolError:
        is_whole = False
    else:
        is_whole = not reader.has_data()  # a note, say, which has another end of its line
    return _up_to_the_first_that_is_none(found, is_whole)


def bare_parts(data: bytes) -> Iterator[tuple[list[list[bytes]], bool]]:
    """Yield what `bare_commands` returns in parts, of which only the last may be followed by what is no command."""
    if hiredis is None:
        yield from _parsed_parts(data)
        return
    reader = hiredis.Reader()
    at, is_whole = 0, True
    while is_whole and (at < len(data) or reader.has_data()):
        found: list[list[bytes]] = []
        try:
            while len(found) < _PART_COMMANDS:
                count = len(found)
                found.extend(islice(iter(reader.gets, False), _PART_COMMANDS - count))
                if len(found) == _PART_COMMANDS:
                    break
                if at >= len(data):
                    is_whole = not reader.has_data()
                    break
                length = min(PART_BYTES, len(data) - at)
                reader.feed(data, at, length)
                at += length
                if len(found) == count:
                    break  # within a long word
        except hiredis.ProtocolError:
            is_whole = False
        commands, is_whole = _up_to_the_first_that_is_none(found, is_whole)
        yield commands, is_whole


def _parsed_parts(data: bytes) -> Iterator[tuple[list[list[bytes]], bool]]:
    at, is_whole = 0, True
    while is_whole and at < len(data):
        found: list[list[bytes]] = []
        try:
            while at < len(data) and len(found) < _PARSED_COMMANDS:
                words, at = parse_command(data, at)
                found.append(words)
        except (Incomplete, Malformed):
            is_whole = False
        yield found, is_whole


def _up_to_the_first_that_is_none(found: list[list[bytes]], is_whole: bool) -> tuple[list[list[bytes]], bool]:
    kinds = [*map(type, found)]
    if kinds.count(list) == len(kinds):
        return found, is_whole
    return found[: next(at for at, kind in enumerate(kinds) if kind is not list)], False
