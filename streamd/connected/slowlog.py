"""The slow log: the last commands that took longer than a configured time."""

import marshal
from collections import deque
from typing import NamedTuple


class SlowLogBounds(NamedTuple):
    """How many entries there are, and how many words and bytes of each word an entry keeps of a long request."""

    entries: int = 128
    words: int = 32
    word_bytes: int = 128


class SlowCommand(NamedTuple):
    """One entry; `words` is shortened where the request is long."""

    number: int
    unix_s: int
    took_us: int
    words: list[bytes]
    address: bytes
    name: bytes


class SlowLog:
    """Entries, newest first."""

    def __init__(self) -> None:
        self.entries: deque[SlowCommand] = deque()
        self._numbers = 0

    def add(
        self, unix_s: int, took_us: int, request: list[bytes], address: str, name: bytes, bounds: SlowLogBounds
    ) -> None:
        """Note a command; the oldest entries go when there are too many."""
        entry = SlowCommand(self._numbers, unix_s, took_us, _shortened(request, bounds), address.encode(), name)
        self._numbers += 1
        self.entries.appendleft(entry)
        while len(self.entries) > bounds.entries:
            self.entries.pop()

    def pack(self) -> None:
        """Copy the entries, so that memory of a peak around them can be freed; see heap."""
        # (Not by pickle: what its import makes would be left there itself.)
        rows = marshal.loads(marshal.dumps([tuple(entry) for entry in self.entries]))
        self.entries = deque([SlowCommand(*row) for row in rows])


def _shortened(request: list[bytes], bounds: SlowLogBounds) -> list[bytes]:
    kept = len(request) if len(request) <= bounds.words else bounds.words - 1
    bytes_max = bounds.word_bytes
    words = [
        word if len(word) <= bytes_max else b"%b... (%d more bytes)" % (word[:bytes_max], len(word) - bytes_max)
        for word in request[:kept]
    ]
    if kept < len(request):
        words.append(b"... (%d more arguments)" % (len(request) - kept))
    return words
