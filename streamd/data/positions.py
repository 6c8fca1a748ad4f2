"""The rows of a dict by their positions: SCAN's pages and random choices without an index beside the dict.

CPython keeps the rows of a dict in one array, in the order in which they were added. A new row goes to the end. A row
that is removed leaves a hole. When the array is full, the rows move to another array without the holes. So the position
of a row falls or stays, for as long as the row is there. A walk from the end to the beginning therefore meets every row
that is there all the time: the rows still to come are below the cursor, and can only move further down. New rows are
above it, so that every walk ends. A row is met twice only if the array was made anew between two pages.

`PyDict_Next` reads the row at a position. Without it (PyPy), a row's position is its place among the rows, which falls
or stays as well; finding a row takes O(N) then.
"""

import sys
from collections.abc import Callable
from functools import cache
from itertools import islice
from random import Random
from typing import Any, Final, NamedTuple

Table = dict[bytes, Any]

# What one row takes in the array. Python tells the size of the whole dict, which is more.
_ROW_BYTES: Final = 24
# A dict with more positions for each row is made anew when a walk begins or a row is chosen: most positions are holes.
_POSITIONS_PER_ROW_MAX: Final = 16
# So many rows are put into a list to choose among them.
_FEW: Final = 128
# So many positions are passed for a page that finds nothing: a hole takes a nanosecond.
_PASSED_MAX: Final = 65_536


class _Reader(NamedTuple):
    """The functions that read a dict's rows.

    bound: a number that is greater than all rows' positions. first_from: the position of the first row from a position
    on, or -1.
    between: the rows from a position on and before another, in order, with their positions.
    """

    bound: Callable[[Table], int]
    first_from: Callable[[Table, int], int]
    between: Callable[[Table, int, int], list[tuple[int, bytes]]]


@cache
def _reader() -> _Reader:
    if sys.implementation.name == "cpython":
        try:
            return _array_reader()
        except (ImportError, AttributeError):
            pass
    return PLAIN


def _array_reader() -> _Reader:
    import ctypes  # not at the start: it takes longer than much else

    position, key = ctypes.c_ssize_t(), ctypes.py_object()
    behind, found_key = ctypes.byref(position), ctypes.byref(key)
    next_row = ctypes.PyDLL(None).PyDict_Next  # not ctypes.pythonapi's, which everybody in the process shares
    next_row.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    next_row.restype = ctypes.c_int

    def first_from(rows: Table, start: int) -> int:
        position.value = start
        return position.value - 1 if next_row(rows, behind, None, None) else -1

    def between(rows: Table, start: int, stop: int) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        position.value = start
        while next_row(rows, behind, found_key, None) and position.value <= stop:
            found.append((position.value - 1, key.value))
        return found

    return _Reader(lambda rows: sys.getsizeof(rows) // _ROW_BYTES, first_from, between)


PLAIN: Final = _Reader(
    len,
    lambda rows, start: start if start < len(rows) else -1,
    lambda rows, start, stop: list(enumerate(islice(rows, start, stop), start)),
)


def page(rows: Table, cursor: int, count: int) -> tuple[int, list[bytes]]:
    """Return the cursor of the next page, 0 behind the last one, and the keys of `count` rows; cursor 0 begins a walk.

    A page holds fewer keys when too many holes were passed. O(count).
    """
    reader = _reader()
    stop = cursor if 0 < cursor < reader.bound(rows) else _end(rows)
    found: list[bytes] = []
    width, last = count, stop - max(_PASSED_MAX, 10 * count)
    while stop > 0 and len(found) < count and stop > last:
        start = max(0, stop - width)
        part = reader.between(rows, start, stop)
        wanted = count - len(found)
        stop = part[-wanted][0] if len(part) > wanted else start
        found += [key for _, key in part[: -wanted - 1 : -1]]
        width *= 2
    return stop, found


def _end(rows: Table) -> int:
    """Return the position behind the last row. O(log N)."""
    reader = _reader()
    _close_holes(rows)
    low, high = len(rows), reader.bound(rows)
    while low < high:
        middle = (low + high) // 2
        at = reader.first_from(rows, middle)
        if at < 0:
            high = middle
        else:
            low = at + 1
    return low


def _close_holes(rows: Table) -> None:
    """Make a dict anew if it had many times as many rows, so that it has fewer positions."""
    if _reader().bound(rows) > _POSITIONS_PER_ROW_MAX * max(_FEW, len(rows)):
        left = {**rows}
        rows.clear()
        rows.update(left)


def some_row(rows: Table, random: Random) -> bytes:
    """Return the key of a random row; there must be one. O(1), but for a dict that had many times as many rows."""
    size = len(rows)
    if size <= _FEW:
        return random.choice(list(rows))
    reader = _reader()
    bound = reader.bound(rows)
    if bound > _POSITIONS_PER_ROW_MAX * size:
        _close_holes(rows)
        bound = reader.bound(rows)
    while True:
        position = int(random.random() * bound)
        if found := reader.between(rows, position, position + 1):
            return found[0][1]


def some_rows(rows: Table, random: Random, count: int) -> list[bytes]:
    """Return the keys of this many different random rows, or of all rows if there are fewer. O(count)."""
    if count >= len(rows):
        return list(rows)
    if count == 1:
        return [some_row(rows, random)]
    if count * 3 > len(rows) or len(rows) <= _FEW:
        return random.sample(list(rows), count)
    found: dict[bytes, None] = {}
    while len(found) < count:
        found[some_row(rows, random)] = None
    return list(found)


def any_rows(rows: Table, random: Random, count: int) -> list[bytes]:
    """Return the keys of this many random rows, with repetitions; the dict must not be empty. O(count)."""
    if count * 3 > len(rows):
        return random.choices(list(rows), k=count)
    return [some_row(rows, random) for _ in range(count)]
