"""Sums as Redis makes them for INCRBYFLOAT: in the 80-bit numbers of x86 processors, printed with 17 decimals."""

import re
from fractions import Fraction
from typing import Final

from streamd.base.errors import NotAFloat, NotFinite

_MANTISSA_BITS: Final = 64
# The largest finite number.
LARGEST: Final = (2**_MANTISSA_BITS - 1) << 16_320
# Redis's numbers end at 10**4932, Python writes integers of up to 4,300 digits: nobody counts with longer ones.
_EXPONENT_MAX: Final = 4_200
_BINARY_EXPONENT_MAX: Final = 13_950
_LENGTH_MAX: Final = 4_200
_NUMBER: Final = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d{1,9}))?")
_HEXADECIMAL: Final = re.compile(
    rb"([+-]?)0[xX](?=\.?[0-9a-fA-F])([0-9a-fA-F]*)\.?([0-9a-fA-F]*)(?:[pP]([+-]?\d{1,9}))?"
)
_INFINITE: Final = re.compile(rb"[+-]?inf(?:inity)?", re.IGNORECASE)


def add_fractions(number: bytes, increment: bytes) -> bytes:
    """Return the text of the sum of two numbers. Raises: NotAFloat, NotFinite."""
    if not is_number(number) or not is_number(increment):
        raise NotAFloat()
    return text_of_number(rounded(number_of(number) + number_of(increment)))


def is_number(text: bytes) -> bool:
    """Return whether a text is a number, or infinite."""
    if len(text) > _LENGTH_MAX:
        return False
    return bool(_NUMBER.fullmatch(text) or _HEXADECIMAL.fullmatch(text) or _INFINITE.fullmatch(text))


def number_of(text: bytes) -> Fraction:
    """Return the number that a text says. Raises: NotAFloat, NotFinite."""
    if not is_number(text):
        raise NotAFloat()
    if _INFINITE.fullmatch(text):
        raise NotFinite()
    return _parse(text)


def _parse(text: bytes) -> Fraction:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return _parse_hexadecimal(text)
    if abs(int(match[1] or 0)) > _EXPONENT_MAX:
        raise NotAFloat()
    return rounded(Fraction(text.decode()))


def _parse_hexadecimal(text: bytes) -> Fraction:
    match = _HEXADECIMAL.fullmatch(text)
    assert match is not None
    sign, whole, part, exponent = match.groups()
    if abs(int(exponent or 0)) > _BINARY_EXPONENT_MAX:
        raise NotAFloat()
    number = rounded(int(whole + part, 16) * Fraction(2) ** (int(exponent or 0) - 4 * len(part)))
    return -number if sign == b"-" else number


def rounded(number: Fraction) -> Fraction:
    """Return the nearest number with a mantissa of 64 bits; of two the even one."""
    if not number:
        return number
    exponent = abs(number.numerator).bit_length() - number.denominator.bit_length() - _MANTISSA_BITS
    unit = Fraction(2) ** exponent
    while abs(number / unit) >= 2**_MANTISSA_BITS:
        unit *= 2
    return round(number / unit) * unit


def text_of_number(number: Fraction) -> bytes:
    """Return a number with at most 17 decimals. Raises: NotFinite for one that is too large."""
    if abs(number) >= 10**_EXPONENT_MAX:
        raise NotFinite()
    digits = f"{abs(round(number * 10**17)):018d}"
    text = f"{digits[:-17]}.{digits[-17:]}".rstrip("0").rstrip(".")
    return (f"-{text}" if number < 0 and text != "0" else text).encode()
