"""Numbers of packed columns, read in place.

Only the compiled form imports this: there an i64 is C's integer, and no number becomes an object.
"""

try:
    from mypy_extensions import i64
except ImportError:
    pass  # compiled code knows them by itself


def number_at(column: bytes, size: i64, place: i64) -> i64:
    """Return the number at a place of a column; `size`: 1, 2 or 4 bytes for each number, little-endian."""
    if size == 1:
        return i64(column[place])
    if size == 2:
        return i64(column[2 * place]) | (i64(column[2 * place + 1]) << 8)
    at = 4 * place
    low = i64(column[at]) | (i64(column[at + 1]) << 8)
    return low | (i64(column[at + 2]) << 16) | (i64(column[at + 3]) << 24)


def first_from(column: bytes, length: i64, number: i64) -> i64:
    """Return the place of the first number that is `number` or more; the column, as above, ascends."""
    size = len(column) // length
    low: i64 = 0
    high = length
    while low < high:
        middle = (low + high) // 2
        if number_at(column, size, middle) < number:
            low = middle + 1
        else:
            high = middle
    return low
