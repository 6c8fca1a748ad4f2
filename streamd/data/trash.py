"""Unreachable values, freed in slices."""

import sys
from collections import deque
from collections.abc import Callable
from gc import get_referents
from typing import Any, Final

from streamd.data.deadlines import Deadlines
from streamd.data.element_list import ElementList
from streamd.data.sorted_set import SortedSet
from streamd.idmp.indexed import IndexedWindow
from streamd.idmp.table import IdmpTable
from streamd.stream.groups.group import Group
from streamd.stream.groups.pending import Chunk
from streamd.stream.log.segment import Segment
from streamd.stream.stream import Stream

# A value with fewer elements is freed at once, in less than a tenth of a millisecond.
_ELEMENTS_MIN: Final = 1_000
# So many elements are released between two looks at the time.
_AT_ONCE: Final = 256
# If these have many elements themselves, only the ones with at most so many are freed at once.
_FEW: Final = 16

# Elements that are freed as they are: short, or one object however long.
_SMALL: Final = frozenset({bytes, bytearray, int, float, tuple, str, type(None), Chunk, Segment})

# (PyPy counts no references: releasing an object frees nothing there, and nothing has to be freed in slices.)
_reference_count: Final[Callable[[object], int] | None] = getattr(sys, "getrefcount", None)


class Trash:
    """Values to free. Releasing a dict of ten million rows at once takes longer than a second.

    Only values without other references are taken apart: a snapshot, or an iterator, keeps its part as it is.
    `freed`: about how many elements were released so far.
    """

    __slots__ = ("_left", "freed")

    def __init__(self) -> None:
        self._left: list[Any] = []
        self.freed = 0

    def __bool__(self) -> bool:
        return bool(self._left)

    def add(self, value: object) -> None:
        """Take a value that was removed from its key, or a part of one; the caller must not use it any more."""
        if _reference_count is not None and _is_large(value):
            self._left.append(value)

    def add_parts(self, parts: list[object]) -> None:
        """Take removed parts of a value; the caller must not use the list any more."""
        if _reference_count is not None and sum(map(_elements, parts)) > _ELEMENTS_MIN:
            self._left.append(parts)

    def add_rows(self, rows: dict[bytes, Any]) -> None:
        """Take the rows of a database; it must have new ones."""
        if len(rows) > _ELEMENTS_MIN:
            self.add(rows)
        else:
            for value in rows.values():
                self.add(value)

    def free(self, stop: Callable[[], bool]) -> bool:
        """Free values until `stop` returns True; return whether there are more."""
        while self._left:
            self._step()
            if stop():
                break
        return bool(self._left)

    def _step(self) -> None:
        left = self._left
        if _references_of_last(left) > _REFERENCES_OF_OURS:
            left.pop()
            return
        value = left[-1]
        if isinstance(value, dict):
            parts: list[object] = [value.popitem()[1] for _ in range(min(_AT_ONCE, len(value)))]
        elif isinstance(value, list | deque | set):
            parts = [value.pop() for _ in range(min(_AT_ONCE, len(value)))]
        else:
            left.pop()
            self.freed += 1
            left += [part for part in get_referents(value) if type(part) not in _SMALL and not isinstance(part, type)]
            return
        if not value:
            left.pop()
            parts += get_referents(value)  # a hash's times
        self.freed += len(parts)
        heavy = [part for part in parts if type(part) not in _SMALL]
        if sum(map(_elements, heavy)) > _ELEMENTS_MIN:
            left += [part for part in heavy if _elements(part) > _FEW]


def _references_of_last(values: list[Any]) -> int:
    """Return the number of references to the last value, including those of the list and of this call."""
    assert _reference_count is not None
    return _reference_count(values[-1])


# The number of references to a value that is held here alone. (It differs with the references that a call takes: one in
# Python 3.14, two before.)
_REFERENCES_OF_OURS: Final = 0 if _reference_count is None else _references_of_last([[]])


def _is_large(value: object) -> bool:
    return type(value) not in _SMALL and _elements(value) > _ELEMENTS_MIN


def _elements(value: object) -> int:
    """Return roughly the number of objects that are freed with a value."""
    if isinstance(value, dict | set | list | deque | ElementList | SortedSet):
        return len(value)
    if isinstance(value, Stream):
        own, groups = len(value) + value.idmp.iids_tracked, value.groups or {}
        return own + (sum(map(_elements, groups.values())) if len(groups) <= _FEW else _ELEMENTS_MIN + 1)
    if isinstance(value, IndexedWindow):
        return len(value.order)
    if isinstance(value, Group):
        return len(value.pending) + len(value.consumers)
    if isinstance(value, IdmpTable):
        return value.iids_tracked
    if isinstance(value, Chunk):
        return len(value.stamps)
    return _ELEMENTS_MIN + 1 if isinstance(value, Deadlines) else 1
