"""A cache of values made from long texts, bounded by the texts' bytes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Final, Generic, TypeVar

# Of what is made from no more bytes, `lru_cache` can count the things.
SHORT_BYTES_MAX: Final = 256
# A regular expression takes about sixteen times as many bytes as its text.
KEPT_BYTES_MAX: Final = 256 * 1024

Made = TypeVar("Made")


class Kept(Generic[Made]):
    """The last values that were made; together their texts have at most `bytes_max` bytes.

    (Servers in several threads share it.)
    """

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._left_bytes = self._bytes_max = bytes_max
        self._rows: OrderedDict[Hashable, tuple[Made, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, size_bytes: int, make: Callable[[], Made]) -> Made:
        """Return the value of a key whose texts have this many bytes; a missing one is made."""
        rows = self._rows
        with self._lock:
            row = rows.get(key)
            if row is not None:
                rows.move_to_end(key)
                return row[0]
        made = make()
        with self._lock:
            if size_bytes <= self._bytes_max and key not in rows:
                rows[key] = made, size_bytes
                self._left_bytes -= size_bytes
                while self._left_bytes < 0:
                    self._left_bytes += rows.popitem(last=False)[1][1]
        return made
