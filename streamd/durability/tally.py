"""Counts records of a journal for people: records, entries, their times, their keys."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from streamd.base.errors import CommandError
from streamd.journal.file_reader import Bare
from streamd.journal.notes import FUNCTION
from streamd.journal.parsing import Incomplete, Malformed, Parsed, parse_command
from streamd.journal.words import bare_commands
from streamd.stream.entry_id import parse_id

_NO_RECORDS: Final = frozenset((b"SELECT", b"MULTI", b"EXEC"))
_CONTAINERS: Final = frozenset((b"XGROUP", b"XIDMP"))
# At most so many bytes of a gap are searched for legible commands.
LEGIBLE_BYTES_MAX: Final = 16 * 1024 * 1024
_KEYS_SHOWN_MAX: Final = 10
_KEY_CHARACTERS_MAX: Final = 60


class Tally:
    """Counts records. entries: how many of them are XADDs."""

    def __init__(self) -> None:
        self.records = 0
        self.entries = 0
        self._first_ms = self._last_ms = -1
        self._keys: dict[bytes, int] = {}

    def add(self, words: list[bytes]) -> None:
        """Count a record; notes, and the words around a unit, do not count."""
        name = words[0].upper()
        if name in _NO_RECORDS or name[:1] == b"#":
            return
        self.records += 1
        if name == FUNCTION:
            return  # it has no key
        at = 2 if name in _CONTAINERS else 1
        if at < len(words):
            self._keys[words[at]] = self._keys.get(words[at], 0) + 1
        if name == b"XADD":
            self.entries += 1
            ms = _entry_ms(words)
            if ms >= 0:
                self._first_ms = ms if self._first_ms < 0 else min(self._first_ms, ms)
                self._last_ms = max(self._last_ms, ms)

    def __str__(self) -> str:
        text = f"{self.records} records, {self.entries} of them entries"
        if self._last_ms >= 0:
            text += f", of {_time(self._first_ms)} to {_time(self._last_ms)}"
        return text

    def keys(self) -> str:
        """Return the first keys, each with its number of records."""
        keys = [f"{shown(key)} ({count})" for key, count in list(self._keys.items())[:_KEYS_SHOWN_MAX]]
        more = len(self._keys) - len(keys)
        return ", ".join([*keys, f"and {more} more"] if more else keys)


def commands_of(piece: Bare | Parsed) -> Iterable[list[bytes]]:
    """Return the commands of a piece of a file."""
    return bare_commands(piece.data)[0] if isinstance(piece, Bare) else piece.commands


def legible(data: bytes) -> Iterator[list[bytes]]:
    """Yield unverified commands that can still be read in damaged bytes."""
    at = data.find(b"*")
    while at >= 0:
        try:
            words, end = parse_command(data, at)
            yield words
        except (Incomplete, Malformed):
            end = at + 1
        at = data.find(b"*", end)


def _entry_ms(words: list[bytes]) -> int:
    """Return the milliseconds of the ID of an XADD, -1 if its usual places have none."""
    for word in words[2:6]:
        if b"-" in word and word[:1].isdigit():
            try:
                return parse_id(word) >> 64
            except CommandError:
                continue  # another word
    return -1


def _time(ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"  # no time of today's calendar


def shown(key: bytes) -> str:
    text = ascii(key.decode("utf-8", "backslashreplace"))[1:-1]
    return text if len(text) <= _KEY_CHARACTERS_MAX else f"{text[:_KEY_CHARACTERS_MAX]}..."
