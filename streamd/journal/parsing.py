"""Commands and notes out of bytes, one by one: the definition of what a journal may hold."""

import re
from collections.abc import Generator
from typing import Final, NamedTuple

from streamd.journal.record import decode_note

_LINES_OF_NOTES: Final = re.compile(rb"#streamd (note|more) ([\x21-\x7e ]*)\n")
# Of the commands behind a note, about.
_SHORT_BYTES: Final = 1_024
# No other software writes longer words or commands.
_NUMBER_MAX: Final = {b"*": 2**31 - 1, b"$": 2**40}
# So many are parsed between two turns of others.
_AT_ONCE: Final = 256


class Incomplete(Exception):
    """The bytes end inside a command. word_end: where the word ends that they are cut in; 0 if that is not known."""

    def __init__(self, word_end: int = 0) -> None:
        super().__init__("the bytes end inside a command")
        self.word_end = word_end


class Malformed(Exception):
    """The bytes are no command; the message says why."""


class Parsed(NamedTuple):
    """Commands and notes; a note's first word begins with `#`, its second is its database.

    places: the offset of each in the file.
    """

    commands: list[list[bytes]]
    places: list[int]

    def place_of(self, number: int) -> int:
        """Return the offset in the file of the command with this number, counted from 0."""
        return self.places[number]


# A piece without commands: some work was done that has led to none yet, so others may be served.
NOTHING: Final = Parsed([], [])


def parse_command(data: bytes, at: int) -> tuple[list[bytes], int]:
    """Return `(words, place of the next)` of the command at `at`. Raises: Incomplete, Malformed."""
    count, at = _number(data, at, b"*")
    if count == 0:
        raise Malformed("a command has no words")
    # (Most are short. If all lines between CRLF are what lengths and words would make, they are that.)
    some = data[at : at + _SHORT_BYTES]
    lines = some.split(b"\r\n", min(2 * count, _SHORT_BYTES))
    words = lines[1:-1:2]
    if len(words) == count and lines[:-1:2] == [b"$%d" % len(word) for word in words]:
        return words, at + len(some) - len(lines[-1])
    words = []
    for _ in range(count):
        length, at = _number(data, at, b"$")
        end = at + length
        if data[end : end + 2] != b"\r\n":
            if end + 2 > len(data) and b"\r\n".startswith(data[end:]):
                raise Incomplete(end)
            raise Malformed("a word does not end where its length says")
        words.append(data[at:end])
        at = end + 2
    return words, at


def _number(data: bytes, at: int, mark: bytes) -> tuple[int, int]:
    if at >= len(data):
        raise Incomplete
    if data[at : at + 1] != mark:
        raise Malformed(f"{data[at : at + 1]!r} stands where {mark!r} should")
    end = data.find(b"\r\n", at, at + 24)
    digits = data[at + 1 : end if end >= 0 else at + 24]
    if end < 0 and len(data) < at + 24:
        if digits and not digits.removesuffix(b"\r").isdigit() and digits != b"\r":
            raise Malformed(f"{digits!r} is no length")
        raise Incomplete
    if end < 0 or not digits.isdigit() or (digits[:1] == b"0" and len(digits) > 1):
        raise Malformed(f"{digits!r} is no length")
    number = int(digits)
    if number > _NUMBER_MAX[mark]:
        raise Malformed(f"{number} is too long")
    return number, end + 2


def parse_body(body: bytes, offset: int) -> Parsed | str:
    """Return the commands and notes of a verified body at `offset`; a text if it cannot be parsed, which is a bug of
    its writer.
    """
    steps = parsing(body, offset)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            parsed: Parsed | str = ended.value
            return parsed


def parsing(body: bytes, offset: int) -> Generator[Parsed, None, Parsed | str]:
    """Return the same; yields NOTHING after some commands."""
    parsed = Parsed([], [])
    try:
        at = 0
        while at < len(body):
            parsed.places.append(offset + at)
            words, at = parse_one(body, at)
            parsed.commands.append(words)
            if len(parsed.commands) % _AT_ONCE == 0:
                yield NOTHING
    except (Incomplete, Malformed):
        return "a run of records is whole, but no run that this version can read"
    return parsed


def parse_one(body: bytes, at: int) -> tuple[list[bytes], int]:
    """Return `(words, place of the next)` of the command or note at `at`."""
    if body[at : at + 1] != b"#":
        return parse_command(body, at)
    text = b""
    while True:
        line = _LINES_OF_NOTES.match(body, at)
        if line is None:
            if body.find(b"\n", at) < 0:
                raise Incomplete
            raise Malformed("a note is damaged")
        text += line[2]
        at = line.end()
        if line[1] == b"note":
            return decode_note(text), at


def parse_unit(body: bytes, at: int) -> tuple[int, int]:
    """Return `(number of its commands and notes, place of the next)` of the unit at `at`."""
    words, at = parse_one(body, at)
    count = 1
    if words == [b"MULTI"]:
        while words != [b"EXEC"]:
            words, at = parse_one(body, at)
            count += 1
    return count, at


class ForeignCommands:
    """Finds commands outside of runs, whose bytes come in parts; those of a transaction are held back until its end.

    begun_at: the offset of the transaction that is not closed yet.
    """

    def __init__(self) -> None:
        self._held: Parsed | None = None
        self.begun_at = 0

    @property
    def is_closed(self) -> bool:
        """Whether no transaction has begun without an end."""
        return self._held is None

    def take(self, data: bytes, offset: int) -> tuple[Parsed, int, Incomplete | Malformed | None]:
        """Return `(commands, number of used bytes, the fault behind)` of data at `offset`; None: a line, or the end."""
        found = Parsed([], [])
        used, held = 0, self._held
        problem: Incomplete | Malformed | None = None
        try:
            while used < len(data) and (data[used : used + 1] != b"#" or held is not None):
                if data[used : used + 1] == b"#":
                    end = data.find(b"\n", used)
                    if end < 0:
                        raise Incomplete
                    if data.startswith(b"#streamd ", used):
                        raise Malformed("a transaction has no end before streamd's part")
                    used = end + 1
                    continue
                words, end = parse_command(data, used)
                name = words[0].upper()
                if name == b"MULTI" and held is None:
                    held, self.begun_at = Parsed([], []), offset + used
                elif name == b"EXEC":
                    if held is not None:
                        found.commands.extend(held.commands)
                        found.places.extend(held.places)
                    held = None
                else:
                    into = found if held is None else held
                    into.commands.append(words)
                    into.places.append(offset + used)
                used = end
        except (Incomplete, Malformed) as fault:
            problem = fault
        self._held = held
        return found, used, problem
