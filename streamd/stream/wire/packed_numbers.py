"""Columns of unsigned ints, each in as few bytes as its greatest one needs."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from sys import byteorder
from typing import Final

from streamd.base.form import is_compiled

# The compiled form reads bytes in place, where numbers have at most four of them.
IS_NATIVE: Final = is_compiled() and byteorder == "little"
NATIVE_BYTES_MAX: Final = 4
if IS_NATIVE:
    from streamd.stream.wire.native_columns import first_from

_CODES: Final = {2: "H", 4: "I", 8: "Q"}


def pack(values: Sequence[int]) -> bytes:
    """Return `values` (at least one, each below 2**64) packed in 1, 2, 4 or 8 bytes each, the same for all."""
    greatest = max(values)
    if greatest < 1 << 8:
        return bytes(values)
    return array("H" if greatest < 1 << 16 else "I" if greatest < 1 << 32 else "Q", values).tobytes()


def view(column: bytes, length: int) -> Sequence[int]:
    """Return a view of the `length` ints of a packed column, which unpacks only the ints that are read."""
    size = len(column) // length
    return column if size == 1 else memoryview(column).cast(_CODES[size])  # type: ignore[call-overload]


def number_at(column: bytes, length: int, place: int) -> int:
    """Return one of the `length` ints of a packed column."""
    size = len(column) // length
    return column[place] if size == 1 else int.from_bytes(column[place * size : (place + 1) * size], byteorder)


def unpacked(column: bytes, length: int) -> Sequence[int]:
    """As `view`, for reading many ints: an array is made and read in less time than a view."""
    size = len(column) // length
    return column if size == 1 else array(_CODES[size], column)


def lower_bound(column: bytes, length: int, number: int) -> int:
    """Return the place of the first number that is `number` (0 or more) or more; the column ascends."""
    if IS_NATIVE and len(column) <= NATIVE_BYTES_MAX * length and not number >> 32:
        return first_from(column, length, number)
    return bisect_left(view(column, length), number)


def index_of(column: bytes, length: int, number: int, most: int) -> int:
    """Return the place of a number in a column of distinct, ascending numbers; -1 if it is not there.

    most: how much greater it is than the first number. So `most` is its last possible place, and in a column that
    counts up by one it is found at once. (The bytes are searched: making a view takes longer than searching a node.)
    """
    if most < 0:
        return -1
    size = len(column) // length
    if size == 1:
        return column.rfind(number, 0, most + 1) if number < 256 else -1
    if number >= 1 << 8 * size:
        return -1
    needle = number.to_bytes(size, byteorder)
    at = column.rfind(needle, 0, (most + 1) * size)
    while at % size and at >= 0:  # bytes of two numbers
        at = column.rfind(needle, 0, at + size - 1)
    return at // size
