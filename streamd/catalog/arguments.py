"""A cursor over a request's words that parses them with Redis's error texts."""

import re
from math import ceil, inf
from typing import Final

from streamd.base.errors import (
    CommandError,
    InvalidCursor,
    NoSuchDatabase,
    NotAFloat,
    NotAnInteger,
    NotFinite,
    OutOfRange,
    SyntaxError_,
)

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

_DECIMAL: Final = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_HEXADECIMAL: Final = re.compile(rb"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)([pP][+-]?\d+)?")
_UNSIGNED: Final = re.compile(rb"[ \t\n\v\f\r]*([+-]?)(\d+)")
_INFINITE: Final = re.compile(rb"([+-]?)inf(?:inity)?", re.IGNORECASE)
# The longest number that anybody writes, and more: what takes time to read is refused.
_NUMBER_BYTES_MAX: Final = 400
# So many digits of seconds are exact without a look at fractions.
_SECONDS_DIGITS_MAX: Final = 18


def parse_integer(word: bytes) -> int:
    """Return a signed 64-bit integer, written as Redis takes it. Raises: NotAnInteger."""
    digits = word[1:] if word[:1] == b"-" else word
    # bytes.isdigit is ASCII only; a leading zero is taken for the single digit 0 alone.
    if not digits.isdigit() or (digits[:1] == b"0" and len(word) > 1) or len(digits) > 19:
        raise NotAnInteger()
    number = int(word)
    if not INT64_MIN <= number <= INT64_MAX:
        raise NotAnInteger()
    return number


def parse_double(word: bytes, error: CommandError | None = None) -> float:
    """Return a number as C's strtod reads it, infinities too. Raises: `error`, by default NotAFloat."""
    if word.isdigit() and len(word) <= 300:
        return float(word)
    number = _strtod(word)
    # Too large, and too small, a number is none.
    if number is None or (abs(number) == inf and not _INFINITE.fullmatch(word)):
        raise error or NotAFloat()
    if not number and (mantissa := _DECIMAL.fullmatch(word)) and mantissa[1].strip(b"0."):
        raise error or NotAFloat()
    return number


def _strtod(word: bytes) -> float | None:
    """Return the number that a word is; infinity for one too large; None for no number."""
    if len(word) > _NUMBER_BYTES_MAX:
        return None
    if _DECIMAL.fullmatch(word):
        return float(word)
    if infinite := _INFINITE.fullmatch(word):
        return -inf if infinite[1] == b"-" else inf
    if _HEXADECIMAL.fullmatch(word):
        try:
            return float.fromhex(word.decode())
        except OverflowError:
            return inf
    return None


def parse_bound(word: bytes) -> tuple[float, bool]:
    """Return the end of a range of scores, and whether it is left out: `(5`. Raises: CommandError."""
    leaves_out = word[:1] == b"("
    text = (word[1:] if leaves_out else word).lstrip()
    number = _strtod(text) if text else 0.0
    if number is None:
        raise CommandError("ERR min or max is not a float")
    return number, leaves_out


def parse_wait_ms(word: bytes, now_ms: int) -> int:
    """Return how long to wait at most, given in seconds, in milliseconds from now on; 0 for ever.

    Raises: CommandError.
    """
    if word.isdigit() and len(word) <= _SECONDS_DIGITS_MAX:
        return _within_time(int(word) * 1000, now_ms)
    from streamd.base import long_double  # whole seconds, which most clients send, need no fractions

    try:
        wait_ms = ceil(long_double.rounded(long_double.number_of(word) * 1000))
    except NotFinite:
        wait_ms = INT64_MIN if word.startswith(b"-") else INT64_MAX
    except NotAFloat:
        raise CommandError("ERR timeout is not a float or out of range")
    return _within_time(wait_ms, now_ms)


def parse_timeout_ms(word: bytes, now_ms: int) -> int:
    """Return how long to wait at most, given in milliseconds, from now on; 0 mostly means for ever.

    Raises: CommandError.
    """
    try:
        wait_ms = parse_integer(word)
    except NotAnInteger:
        raise CommandError("ERR timeout is not an integer or out of range")
    return _within_time(wait_ms, now_ms)


def _within_time(wait_ms: int, now_ms: int) -> int:
    """Return a wait that ends at a time that Redis can say. Raises: CommandError."""
    if wait_ms > INT64_MAX - now_ms:
        raise CommandError("ERR timeout is out of range")
    if wait_ms < 0:
        raise CommandError("ERR timeout is negative")
    return wait_ms


def parse_signed_count(word: bytes) -> int:
    """Return a count whose sign has a meaning of its own. Raises: CommandError."""
    number = parse_integer(word)
    if number < -INT64_MAX:
        raise CommandError(f"ERR value is out of range, value must between {-INT64_MAX} and {INT64_MAX}")
    return number


def parse_random_count(word: bytes) -> int:
    """Return the number of random elements to give; if it is negative they may repeat. Raises: CommandError."""
    number = parse_signed_count(word)
    if number < -REPEATED_MAX:
        raise CommandError("ERR value is out of range")
    return number


def take_random_count(args: list[bytes], option: bytes) -> tuple[int, bool]:
    """Parse a count at args[2], and whether the option that asks for values stands behind it. Raises: CommandError."""
    count = parse_random_count(args[2])
    words = Arguments(args, 3)
    shows_values = words.flag(option)
    words.end()
    if shows_values and count > INT64_MAX // 2:
        raise CommandError("ERR value is out of range")
    return count, shows_values


# So many random elements, repeated ones among them, are given at once: a reply is made in memory.
REPEATED_MAX: Final = 10_000_000


def parse_positive(word: bytes) -> int:
    """Return a count that is not negative. Raises: CommandError."""
    try:
        number = parse_integer(word)
    except NotAnInteger:
        number = -1
    if number < 0:
        raise CommandError("ERR value is out of range, must be positive")
    return number


def parse_cursor(word: bytes) -> int:
    """Return the cursor of a SCAN: no negative integer, or what C's strtoull reads, up to a zero byte.

    Raises: InvalidCursor.
    """
    try:
        number = parse_integer(word)
    except NotAnInteger:
        found = _UNSIGNED.fullmatch(word.partition(b"\0")[0])
        # (Python refuses to read numbers of thousands of digits.)
        number = -1 if found is None else int(found[2].lstrip(b"0")[:21] or b"0")
        if not 0 <= number < 2**64:
            raise InvalidCursor()
        return number if found is None or found[1] != b"-" else -number % 2**64
    if number < 0:
        raise InvalidCursor()
    return number


def parse_database(word: bytes, databases: int) -> int:
    """Return the number of a database. Raises: NotAnInteger, OutOfRange, NoSuchDatabase."""
    number = parse_integer(word)
    if not -(2**31) <= number < 2**31:
        raise OutOfRange()
    if not 0 <= number < databases:
        raise NoSuchDatabase()
    return number


class Arguments:
    """The words of a request from position `at` on.

    `word()` takes the next one; `flag("COUNT")` takes it if it is that word, in any case.
    """

    __slots__ = ("at", "words")

    def __init__(self, words: list[bytes], at: int) -> None:
        self.words = words
        self.at = at

    def left(self) -> int:
        """Return the number of words that are not yet taken."""
        return len(self.words) - self.at

    def peek(self) -> bytes | None:
        """Return the next word in upper case without taking it."""
        return self.words[self.at].upper() if self.at < len(self.words) else None

    def flag(self, name: bytes, followed_by: int = 0) -> bool:
        """Take the next word if it is `name` (upper case) and at least `followed_by` words follow it."""
        at = self.at
        if at + followed_by < len(self.words) and self.words[at].upper() == name:
            self.at = at + 1
            return True
        return False

    def word(self) -> bytes:
        """Take the next word. Raises: SyntaxError_."""
        if self.at >= len(self.words):
            raise SyntaxError_()
        self.at += 1
        return self.words[self.at - 1]

    def integer(self, error: CommandError | None = None) -> int:
        """Take the next word as a signed 64-bit integer. Raises: `error`, by default NotAnInteger."""
        try:
            return parse_integer(self.word())
        except NotAnInteger:
            raise error or NotAnInteger()

    def end(self) -> None:
        """Check that every word was taken. Raises: SyntaxError_."""
        if self.at < len(self.words):
            raise SyntaxError_()
