"""Floats as Redis 8 writes them."""

from math import copysign
from typing import Final

# Whole numbers up to this have all their digits.
_WHOLE_MAX: Final = 2.0**62


def format_float(number: float) -> bytes:
    """Return the shortest digits that are read as the same number; `inf`, `-inf`, `nan`.

    Large whole numbers have up to six zeros behind their digits; small and long fractions have an exponent.
    """
    if -_WHOLE_MAX <= number <= _WHOLE_MAX:
        whole = int(number)
        if whole == number:
            return b"%d" % whole if whole or copysign(1.0, number) > 0 else b"-0"
    text = repr(number)
    point = text.find(".")
    if point > 0 and len(text) - point <= 7 and "e" not in text:
        return text.encode()
    return _format_rare(text) if text[-1].isdigit() else text.encode()


def _format_rare(text: str) -> bytes:
    """Return the form of Redis for a number in Python's: its digits, and zeros or an exponent."""
    sign, text = ("-", text[1:]) if text[0] == "-" else ("", text)
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    exponent = int(power or 0) - len(fraction)  # of the last digit
    digits = (whole + fraction).lstrip("0")
    if not fraction:
        digits, zeros = digits.rstrip("0"), len(digits)
        exponent += zeros - len(digits)
    first = exponent + len(digits) - 1  # the exponent of the first digit
    if exponent >= 0 and first < len(digits) + 7:
        shown = digits + "0" * exponent
    elif exponent < 0 and (exponent > -7 or abs(first) < 4):
        digits = digits.rjust(1 - exponent, "0")
        shown = f"{digits[:exponent]}.{digits[exponent:]}"
    else:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        shown = f"{digits[0]}{rest}e{first:+d}"
    return f"{sign}{shown}".encode()
