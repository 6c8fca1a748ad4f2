"""Columns of unsigned ints, each in as few bytes as its greatest one needs."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence

_CODES = {2: "H", 4: "I", 8: "Q"}


def pack(values: Sequence[int]) -> bytes:
    """Return `values` (at least one, each below 2**64) in 1, 2, 4 or 8 bytes each, all in the same."""
    greatest = max(values)
    if greatest < 1 << 8:
        return bytes(values)
    return array("H" if greatest < 1 << 16 else "I" if greatest < 1 << 32 else "Q", values).tobytes()


def view(column: bytes, length: int) -> Sequence[int]:
    """Return the `length` ints of a packed column, without unpacking those that are not looked at."""
    size = len(column) // length
    return column if size == 1 else memoryview(column).cast(_CODES[size])  # type: ignore[call-overload]


def index_of(column: bytes, length: int, number: int) -> int:
    """Return where a number stands in an ascending column; -1 if nowhere."""
    if len(column) == length:
        return column.find(number) if 0 <= number < 256 else -1
    numbers = view(column, length)
    index = bisect_left(numbers, number)
    return index if index < length and numbers[index] == number else -1
