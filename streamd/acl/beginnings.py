"""Compares many names with prefixes at once."""

from collections.abc import Iterable, Sequence
from typing import Final

from streamd.base.form import is_compiled

# Stands before each name when they are looked at together. (A name may hold it, too: then nothing is known.)
_BREAK: Final = b"\n"
_join = _BREAK.join
# Names are asked for so many beginnings at most.
PREFIXES_MAX: Final = 64
# Compiled, to ask one name after the other takes some nanoseconds each, a fifth of what putting them together takes;
# as it is written, six times as long.
ASKS_EACH: Final = is_compiled()


def each_begins(names: list[bytes], prefixes: tuple[bytes, ...]) -> bool:
    """Return whether each name begins with one of the prefixes, of which there is one at least."""
    likely = prefixes[0]
    for name in names:
        if not name.startswith(likely):
            for prefix in prefixes:
                if name.startswith(prefix):
                    likely = prefix  # what comes next often begins with that as well
                    break
            else:
                return False
    return True


class Beginnings:
    """The prefixes of keys that patterns like `orders:*` allow.

    prefixes: these, without those that begin with another one: so a name begins with one of them at most. None where
        there are many: then to look up one name after the other takes no longer.

    A prefix of a rule holds no break, as no rule holds white space; one that did would not be looked for.
    """

    __slots__ = ("_marks", "prefixes")

    def __init__(self, prefixes: Iterable[bytes]) -> None:
        found = dict.fromkeys([one for one in prefixes if _BREAK not in one])
        least: list[bytes] = []
        for one in sorted(found):  # behind a prefix stands what begins with it
            if not least or not one.startswith(least[-1]):
                least.append(one)
        self.prefixes = tuple(least) if len(least) <= PREFIXES_MAX else ()
        self._marks = [_BREAK + prefix for prefix in self.prefixes]

    def are_of_all(self, names: Sequence[bytes]) -> bool:
        """Return True only if each name, of one at least, begins with one of the prefixes; False also if that cannot be
        told.

        Where there are as many breaks as names, no name holds one: then a prefix behind a break is the beginning of a
        name, and as a name has one of them at most, they can be counted.
        """
        if ASKS_EACH:
            return bool(self.prefixes) and each_begins([*names], self.prefixes)
        text, left = _BREAK + _join(names), len(names)
        if text.count(_BREAK) != left:
            return False
        marks = self._marks
        for mark in marks:
            found = text.count(mark)
            if found == left:
                if mark is not marks[0]:
                    # What comes next often begins with that as well.
                    self._marks = [mark, *(other for other in marks if other is not mark)]
                return True
            left -= found
        return False
