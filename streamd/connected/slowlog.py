"""The slow log: the last commands that took longer than a configured time."""

import marshal
from collections import deque
from typing import Final, NamedTuple

# An entry must not keep a large request alive: so many words, and so many bytes of each.
_WORDS_MAX: Final = 32
_WORD_BYTES_MAX: Final = 128


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

    def add(self, unix_s: int, took_us: int, request: list[bytes], address: str, name: bytes, length_max: int) -> None:
        """Note a command; the oldest entries go when there are more than `length_max`."""
        entry = SlowCommand(self._numbers, unix_s, took_us, _shortened(request), address.encode(), name)
        self._numbers += 1
        self.entries.appendleft(entry)
        while len(self.entries) > length_max:
            self.entries.pop()

    def pack(self) -> None:
        """Copy the entries, so that memory of a peak around them can be freed; see heap."""
        # (Not by pickle: what its import makes would be left there itself.)
        rows = marshal.loads(marshal.dumps([tuple(entry) for entry in self.entries]))
        self.entries = deque([SlowCommand(*row) for row in rows])


def _shortened(request: list[bytes]) -> list[bytes]:
    kept = len(request) if len(request) <= _WORDS_MAX else _WORDS_MAX - 1
    words = [
        word
        if len(word) <= _WORD_BYTES_MAX
        else b"%b... (%d more bytes)" % (word[:_WORD_BYTES_MAX], len(word) - _WORD_BYTES_MAX)
        for word in request[:kept]
    ]
    if kept < len(request):
        words.append(b"... (%d more arguments)" % (len(request) - kept))
    return words
