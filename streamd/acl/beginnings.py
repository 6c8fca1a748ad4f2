"""Whether all of many names begin as some patterns say."""

from collections.abc import Iterable
from typing import Final

# Stands before each name when they are looked at together. (A name may hold it, too: then nothing is known.)
_BREAK: Final = b"\n"
_join = _BREAK.join


class Beginnings:
    """How names begin that patterns like `orders:*` allow.

    prefixes: these, without those that begin with another one: so a name begins with one of them at most.
    """

    __slots__ = ("_marks", "prefixes")

    def __init__(self, prefixes: Iterable[bytes]) -> None:
        found = dict.fromkeys(prefixes)
        self.prefixes = tuple(
            one for one in found if not any(one != other and one.startswith(other) for other in found)
        )
        self._marks = [_BREAK + prefix for prefix in self.prefixes]

    def are_of_all(self, names: list[bytes]) -> bool:
        """Return True only if each name, of one at least, begins with one of the prefixes; False also where that cannot
        be told.

        To ask each name takes six times as long. Where there are as many breaks as names, no name holds one: then a
        prefix behind a break is the beginning of a name, and as a name has one of them at most, they can be counted.
        """
        count = len(names)
        text = _join((b"", *names))
        if text.count(_BREAK) != count:
            return False
        marks = self._marks
        for mark in marks:
            found = text.count(mark)
            if found == count:
                if mark is not marks[0]:
                    # What comes next often begins with that as well.
                    self._marks = [mark, *(other for other in marks if other is not mark)]
                return True
            count -= found
        return False
