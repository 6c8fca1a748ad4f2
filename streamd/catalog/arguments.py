"""A cursor over a request's words that parses them with Redis's error texts."""

from streamd.base.errors import CommandError, InvalidCursor, NoSuchDatabase, NotAnInteger, OutOfRange, SyntaxError_

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1


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


def parse_cursor(word: bytes) -> int:
    """Return the cursor of a SCAN, as C's strtoul reads it: signs are taken, -1 is 2**64-1. Raises: InvalidCursor."""
    digits = word[1:] if word[:1] in (b"-", b"+") else word
    if not word:
        return 0
    if not digits.isdigit() or int(digits) >= 2**64:
        raise InvalidCursor()
    return int(word) % 2**64


def parse_database(word: bytes, databases: int) -> int:
    """Return the number of a database. Raises: NotAnInteger, OutOfRange, NoSuchDatabase."""
    number = parse_integer(word)
    if not -(2**31) <= number < 2**31:
        raise OutOfRange()
    if not 0 <= number < databases:
        raise NoSuchDatabase()
    return number


def parse_timeout_ms(word: bytes) -> int:
    """Return how long to wait at most, in milliseconds; 0 mostly means for ever. Raises: CommandError."""
    try:
        timeout_ms = parse_integer(word)
    except NotAnInteger:
        raise CommandError("ERR timeout is not an integer or out of range")
    if timeout_ms < 0:
        raise CommandError("ERR timeout is negative")
    return timeout_ms


class Arguments:
    """The words of a request from position `at` on.

    `word()` takes the next one; `flag("COUNT")` takes it if it is that word, in any case.
    """

    __slots__ = ("at", "words")

    def __init__(self, words: list[bytes], at: int) -> None:
        self.words = words
        self.at = at

    def left(self) -> int:
        """Return how many words are not yet taken."""
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
