"""How many entries a read asks for, so that a reply is not too large to hold."""

from itertools import chain
from typing import Any, Final

_FIRST_BYTES: Final = 2**20  # of an entry, while none has come: the default of the largest packet
_GROWTH: Final = 4


class AskedCount:
    """Follows the sizes of the entries that came last.

    A reply has at most `entries_max` entries of each stream, and about `bytes_max` bytes in all: more only if entries
    are suddenly larger. Few entries say little about those that follow: so at most a few times as many are asked for as
    have come lately.
    """

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self._entries_max, self._bytes_max = entries_max, bytes_max
        # Of the last replies: an older one counts half as much as the one that follows it.
        self._entries, self._bytes = 1.0, float(_FIRST_BYTES)
        self._entry_bytes = float(_FIRST_BYTES)  # it grows at once, and falls with the older replies

    def per_stream(self, streams: int) -> int:
        """Return how many entries to ask of each of some streams."""
        fitting = self._bytes_max / self._entry_bytes / streams
        known = max(self._bytes_max / _FIRST_BYTES / streams, _GROWTH * self._entries)
        return max(1, min(self._entries_max, int(fitting), int(known)))

    def came(self, entries: int, size_bytes: int) -> None:
        """Note the entries of a reply."""
        if entries:
            self._entries = self._entries / 2 + entries
            self._bytes = self._bytes / 2 + max(size_bytes, 1)
            self._entry_bytes = max(self._bytes / self._entries, size_bytes / entries)


def size_of(entries: list[Any]) -> int:
    """Return the bytes of the fields of entries as the store sends them."""
    return sum(map(len, chain.from_iterable([fields for _, fields in entries if fields is not None])))
