"""Decimal digits, written byte by byte.

Only the compiled form imports this: there an i64 is C's integer, and no number becomes an object.
"""

from librt.strings import BytesWriter

try:
    from mypy_extensions import i64, u8
except ImportError:
    pass  # compiled code knows them by itself


def digits_of(number: i64) -> i64:
    """Return how many decimal digits a number has, 0 or more and below 10**18."""
    digits: i64 = 1
    bound: i64 = 10
    while number >= bound:
        digits += 1
        bound *= 10
    return digits


def write_number(writer: BytesWriter, number: i64) -> None:
    """Write a number, 0 or more and below 10**18."""
    if number < 10:
        writer.append(u8(48 + number))
        return
    if number < 100:
        writer.append(u8(48 + number // 10))
        writer.append(u8(48 + number % 10))
        return
    unit: i64 = 100
    while unit * 10 <= number:
        unit *= 10
    while unit:
        digit = number // unit
        writer.append(u8(48 + digit))
        number -= digit * unit
        unit //= 10
