"""The conditions of SET and DELEX on the string that a key holds: IFEQ, IFNE, and by its digest IFDEQ and IFDNE."""

from typing import Final

from xxhash import xxh3_64_hexdigest

from streamd.base.errors import CommandError

_CONDITIONS: Final = (b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE")
_DIGEST_LENGTH: Final = 16

# A condition in upper case, and the string or the digest that it compares with.
Comparison = tuple[bytes, bytes]


def is_comparison(word: bytes) -> bool:
    """Return whether a word, in any case, is one of the four conditions."""
    return word.upper() in _CONDITIONS


def digest(value: bytes) -> bytes:
    """Return the XXH3 hash of 64 bits, as 16 hexadecimal digits."""
    return xxh3_64_hexdigest(value).encode()


def comparison_holds(comparison: Comparison, value: bytes) -> bool:
    """Return whether a string meets a condition. Raises: CommandError for a digest of another length."""
    condition, operand = comparison
    if condition in (b"IFEQ", b"IFNE"):
        is_equal = value == operand
    else:
        if len(operand) != _DIGEST_LENGTH:
            raise CommandError("ERR must be exactly 16 hexadecimal characters")
        is_equal = digest(value) == operand.lower()
    return is_equal == (condition in (b"IFEQ", b"IFDEQ"))
