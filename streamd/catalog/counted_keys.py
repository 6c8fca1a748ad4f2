"""Keys that stand behind their number, as in `ZUNION numkeys key [key ...]`, or behind a keyword."""

from collections.abc import Callable
from typing import Final

from streamd.base.errors import CommandError, NotAnInteger
from streamd.catalog.arguments import Arguments, parse_integer

# What most requests have, read already.
FEW: Final = {b"%d" % count: count for count in range(10)}


class CountedKeys:
    """Finds a request's keys: the key at place `target`, if any, and the keys behind their number at place `at`, each
    `step` words behind the one before.
    """

    __slots__ = ("at", "step", "target")

    def __init__(self, at: int, target: int = 0, step: int = 1) -> None:
        self.at = at
        self.target = target
        self.step = step

    def __call__(self, request: list[bytes]) -> list[bytes]:
        """Return the keys; none of a request whose number is below 1, or above that of the words."""
        at, step = self.at, self.step
        count = FEW.get(request[at], 0)
        if count and not self.target and step == 1 and at + count < len(request):
            return request[at + 1 : at + 1 + count]
        try:
            count = parse_integer(request[at])
        except NotAnInteger:
            return []
        # (Of the last key, what belongs to it may be missing.)
        if count < 1 or at + 1 + (count - 1) * step >= len(request):
            return []
        targets = [request[self.target]] if self.target else []
        return targets + request[at + 1 : at + 1 + count * step : step]


class KeysBehindWord:
    """Finds a request's keys, which may be all words behind a keyword.

    start: the place from which on the keyword is looked for, negative from the end. find: finds the keys of a request.
    """

    __slots__ = ("find", "keyword", "start")

    def __init__(self, keyword: bytes, start: int, find: Callable[[list[bytes]], list[bytes]]) -> None:
        self.keyword = keyword
        self.start = start
        self.find = find

    def __call__(self, request: list[bytes]) -> list[bytes]:
        """Return the keys."""
        return self.find(request)


def take_counted_keys(
    words: Arguments, too_few: str, too_many: str = "ERR syntax error", no_number: CommandError | None = None
) -> list[bytes]:
    """Take a number and so many keys. Raises: CommandError, with the text for a number below 1 or above the words.

    no_number: the error for a word that is no integer; by default the one for a number below 1.
    """
    count = words.integer(no_number or CommandError(too_few))
    if count < 1:
        raise CommandError(too_few)
    if count > words.left():
        raise CommandError(too_many)
    return [words.word() for _ in range(count)]
