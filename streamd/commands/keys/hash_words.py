"""Words of the commands on a hash's fields: `FIELDS number field ...`, beside options in any order."""

from collections.abc import Callable
from typing import Final

from streamd.base.errors import CommandError, NotAnInteger, WrongArity, echoed
from streamd.catalog.arguments import Arguments, parse_integer
from streamd.commands.keys.expiry import Expiry, take_expiry

_FIELDS_MAX: Final = 2**31 - 1
_EXPIRIES: Final = (b"EX", b"PX", b"EXAT", b"PXAT")


def take_all_fields(words: Arguments) -> list[bytes]:
    """Parse `FIELDS number field ...`, which ends the request. Raises: CommandError."""
    if not words.flag(b"FIELDS"):
        raise CommandError("ERR Mandatory argument FIELDS is missing or not at the right position")
    count = _count(words.word())
    if count < 1:
        raise CommandError("ERR Number of fields must be a positive integer")
    if count != words.left():
        raise CommandError("ERR The `numfields` parameter must match the number of arguments")
    return words.words[words.at :]


def take_expire_options(words: Arguments) -> tuple[list[bytes], set[bytes]]:
    """Parse the words of HEXPIRE behind the time; return the fields, and the condition if there is one.

    Raises: CommandError.
    """
    conditions: set[bytes] = set()

    def take_condition() -> bool:
        name = words.peek()
        if name not in (b"NX", b"XX", b"GT", b"LT"):
            return False
        conditions.add(words.word().upper())
        return True

    def take_fields() -> list[bytes]:
        if words.left() < 2:
            raise CommandError("ERR FIELDS requires at least numfields and one field argument")
        return _take_counted(words, 1, "ERR Parameter `numFields` should be greater than 0")

    fields = _take_any_order(words, take_condition, take_fields)
    if len(conditions) > 1:
        raise CommandError("ERR Multiple condition flags specified")
    return fields, conditions


class SetOptions:
    """The options of HSETEX and HGETEX, in any order.

    `parse_due` turns an expiry into Unix milliseconds as soon as it is read; `keep` names the option that stands in
    place of an expiry: KEEPTTL or PERSIST.
    """

    def __init__(self, words: Arguments, name: str, keep: bytes, parse_due: Callable[[Expiry], int]) -> None:
        """Raises: CommandError."""
        self.due_ms: int | None = None
        self.keeps = False
        self.condition: bytes | None = None
        self._words, self._name, self._keep, self._parse_due = words, name, keep, parse_due
        self._words_each = 2 if name == "hsetex" else 1
        self.fields = _take_any_order(words, self._take_option, self._take_fields)

    def _take_option(self) -> bool:
        words = self._words
        name = words.peek()
        if name == self._keep or name in _EXPIRIES:
            if self.keeps or self.due_ms is not None:
                last = self._keep.decode()
                raise CommandError(f"ERR Only one of EX, PX, EXAT, PXAT or {last} arguments can be specified")
            if words.flag(self._keep):
                self.keeps = True
            elif (expiry := take_expiry(words)) is None:
                raise CommandError("ERR missing expire time")
            else:
                self.due_ms = self._parse_due(expiry)
            return True
        if self._words_each == 2 and name in (b"FNX", b"FXX"):
            if self.condition is not None:
                raise CommandError("ERR Only one of FXX or FNX arguments can be specified")
            self.condition = words.word().upper()
            return True
        return False

    def _take_fields(self) -> list[bytes]:
        if not self._words.left():
            raise WrongArity(self._name)
        return _take_counted(self._words, self._words_each, "ERR invalid number of fields")


def _take_any_order(
    words: Arguments, take_option: Callable[[], bool], take_fields: Callable[[], list[bytes]]
) -> list[bytes]:
    """Parse options and one `FIELDS ...`, up to the end of the request; return the fields. Raises: CommandError."""
    fields: list[bytes] | None = None
    while words.left():
        if take_option():
            continue
        if not words.flag(b"FIELDS"):
            unknown = words.word()
            raise CommandError(f"ERR unknown argument: {echoed(unknown, len(unknown))}")
        if fields is not None:
            raise CommandError("ERR FIELDS keyword specified multiple times")
        fields = take_fields()
    if fields is None:
        raise CommandError("ERR missing FIELDS argument")
    return fields


def _take_counted(words: Arguments, words_each: int, no_count: str) -> list[bytes]:
    """Take a number and so many fields, or pairs of words. Raises: CommandError."""
    count = _count(words.word())
    if not 1 <= count <= _FIELDS_MAX:
        raise CommandError(no_count)
    end = words.at + count * words_each
    if end > len(words.words):
        raise CommandError("ERR wrong number of arguments")
    taken = words.words[words.at : end]
    words.at = end
    return taken


def _count(word: bytes) -> int:
    try:
        return parse_integer(word)
    except NotAnInteger:
        return 0
