"""Compares many names with prefixes at once."""

from collections.abc import Iterable, Sequence
from typing import Final

from streamd.base.form import is_compiled

# Stands before each name when they are looked at together. (A name may hold it, too: then nothing is known.)
_BREAK: Final = b"\n"
_join = _BREAK.join
# Stands before a request whose words are looked at together with those of others.
_END: Final = b"\r"
_join_requests = _END.join
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


def each_word_begins(requests: list[list[bytes]], prefixes: tuple[bytes, ...]) -> bool:
    """Return whether each word of some requests, but for the first of each, begins with one of the prefixes."""
    likely = prefixes[0]
    for request in requests:
        for at in range(1, len(request)):
            word = request[at]
            if not word.startswith(likely):
                for prefix in prefixes:
                    if word.startswith(prefix):
                        likely = prefix
                        break
                else:
                    return False
    return True


class Beginnings:
    """The prefixes of keys that patterns like `orders:*` allow.

    prefixes: these, without those that begin with another one: so a name begins with one of them at most. None where
        there are many: then to look up one name after the other takes no longer.

    A prefix with one of the two breaks is left out (rules hold no white space): a prefix that is found behind a break
    must end before the next one.
    """

    __slots__ = ("_marks", "prefixes")

    def __init__(self, prefixes: Iterable[bytes]) -> None:
        found = dict.fromkeys(one for one in prefixes if _BREAK not in one and _END not in one)
        least: list[bytes] = []
        for one in sorted(found):  # behind a prefix stands what begins with it
            if not least or not one.startswith(least[-1]):
                least.append(one)
        kept = set(least)
        self.prefixes = tuple(one for one in found if one in kept) if len(kept) <= PREFIXES_MAX else ()
        self._marks = [_BREAK + prefix for prefix in self.prefixes]

    def are_of_all(self, names: Sequence[bytes]) -> bool:
        """Return True only if each name, of one at least, begins with one of the prefixes; False also if that cannot be
        told.

        Asking name by name takes six times as long. With as many breaks as names, no name holds one. Then a prefix
        behind a
        break is the beginning of a name, and as a name has one of them at most, they can be counted.
        """
        if ASKS_EACH:
            return bool(self.prefixes) and each_begins([*names], self.prefixes)
        return bool(self._marks) and self._are_behind_breaks(_BREAK + _join(names), len(names))

    def are_of_all_words(self, requests: list[list[bytes]]) -> bool:
        """Return True only if each word of some requests, but for the first of each, begins with one of the prefixes;
        False also
        if that cannot be told.

        The words are compared as one text, without taking them out of their requests, which would double the time.
        """
        if not self._marks:
            return False
        if ASKS_EACH:
            return each_word_begins(requests, self.prefixes)
        if len(requests) == 1:
            words = requests[0]
            return self._are_behind_breaks(_join(words), len(words) - 1)
        return self._are_behind_breaks(_join_requests(map(_join, requests)), sum(map(len, requests)) - len(requests))

    def _are_behind_breaks(self, text: bytes, count: int) -> bool:
        """Return whether a text has this many breaks, and one of the prefixes behind each of them."""
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
