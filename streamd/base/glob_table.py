"""Values by glob patterns: a text is compared with few of them, however many there are."""

from bisect import bisect_left
from typing import Final, Generic, TypeVar

from streamd.base.glob import Matcher, compile_glob
from streamd.base.glob_words import literal_head, literal_tail
from streamd.base.prefixes import Prefixes

Value = TypeVar("Value")

# So few patterns are all compared, which takes no longer than looking for those that may match.
_FEW: Final = 4


class _Row(Generic[Value]):
    """A pattern with its value.

    number: rows that came later have a greater one. shared: the head that it stands under, or if `is_tail` the tail.
    matches: made when it is needed first.
    """

    __slots__ = ("is_tail", "matches", "number", "pattern", "shared", "value")

    def __init__(self, number: int, pattern: bytes, value: Value, shared: bytes, is_tail: bool) -> None:
        self.number = number
        self.pattern = pattern
        self.value = value
        self.shared = shared
        self.is_tail = is_tail
        self.matches: Matcher | None = None

    def takes(self, text: bytes) -> bool:
        """Return whether the pattern matches a text."""
        matches = self.matches
        if matches is None:
            matches = self.matches = compile_glob(self.pattern)
        return bool(matches(text))


class GlobTable(Generic[Value]):
    """Pattern -> value.

    The literal head or tail of a pattern is looked up for a text: only patterns that share it are compared with the
    text. A pattern is filed under the one of the two that fewer others share.

    compared: the number of comparisons so far.
    """

    __slots__ = ("_heads", "_numbers", "_rows", "_tails", "compared")

    def __init__(self) -> None:
        self._rows: dict[bytes, _Row[Value]] = {}
        self._heads: Prefixes[list[_Row[Value]]] = Prefixes()
        self._tails: Prefixes[list[_Row[Value]]] = Prefixes()  # each turned round
        self._numbers = 0
        self.compared = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, pattern: object) -> bool:
        return pattern in self._rows

    def get(self, pattern: bytes) -> Value | None:
        """Return the value of a pattern, or None."""
        row = self._rows.get(pattern)
        return None if row is None else row.value

    def values(self) -> list[Value]:
        """Return all values, in the order in which their patterns came."""
        return [row.value for row in self._rows.values()]

    def add(self, pattern: bytes, value: Value) -> None:
        """Add a new pattern."""
        shared, table = literal_head(pattern), self._heads
        place = table.values.get(shared)
        if place is not None and (tail := literal_tail(pattern)[::-1]):
            others = self._tails.values.get(tail)
            if others is None or len(others) < len(place):
                shared, table, place = tail, self._tails, others
        self._numbers += 1
        row = self._rows[pattern] = _Row(self._numbers, pattern, value, shared, table is self._tails)
        if place is None:
            table.put(shared, [row])
        else:
            place.append(row)

    def __delitem__(self, pattern: bytes) -> None:
        row = self._rows.pop(pattern)
        table = self._tails if row.is_tail else self._heads
        place = table.values[row.shared]
        if len(place) == 1:
            table.remove(row.shared)
        else:
            del place[bisect_left(place, row.number, key=_number)]

    def find(self, text: bytes) -> list[tuple[bytes, Value]]:
        """Return the patterns that match a text, in the order in which they came, and their values."""
        if len(self._rows) <= _FEW:
            self.compared += len(self._rows)
            return [(row.pattern, row.value) for row in self._rows.values() if row.takes(text)]
        found: list[_Row[Value]] = []
        for place in self._places(text):
            self.compared += len(place)
            found += [row for row in place if row.takes(text)]
        if len(found) > 1:
            found.sort(key=_number)
        return [(row.pattern, row.value) for row in found]

    def matches(self, text: bytes) -> bool:
        """Return whether a pattern matches a text."""
        for place in self._places(text) if len(self._rows) > _FEW else (self._rows.values(),):
            for row in place:
                self.compared += 1
                if row.takes(text):
                    return True
        return False

    def _places(self, text: bytes) -> list[list[_Row[Value]]]:
        places = [place for _, place in self._heads.of(text)]
        if len(self._tails):
            places += [place for _, place in self._tails.of(text[::-1])]
        return places


def _number(row: _Row[Value]) -> int:
    return row.number
