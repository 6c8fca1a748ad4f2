"""The heap: returns unused memory to the system.

Values that were read, and are now parts of a segment, leave holes. With values of 512 bytes these are a tenth of the
memory. glibc keeps the holes until malloc_trim is called; other C libraries have no such call.

Python's own small objects live in arenas of a megabyte, and only an empty arena goes back. So a few objects that were
made among many others can keep a hundred times their size. The known ones are made anew (`packed`, the slow log), made
early (the objects of ctypes), or freed (free lists).
"""

import gc
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, NamedTuple, TypeVar

# A dict that takes more bytes for each row had many more rows. (It takes up to 120, and never less than it once took.)
_ROW_BYTES_MAX: Final = 250
_DICT_BYTES_MIN: Final = 10_000
# So many rows are moved in a few milliseconds.
_ROWS_MAX: Final = 100_000

K = TypeVar("K")
V = TypeVar("V")

# The most that an idle server gives back by itself: more would delay clients.
UNASKED_BYTES_MAX: Final = 64 * 1024 * 1024
# The fewest changes before that. So many bytes of requests and replies count as one change, since requests that change
# nothing can take as much memory.
CHANGES_MIN: Final = 10_000
CHANGE_BYTES: Final = 1_000
# A server that receives and sends no more is idle: somebody may ask for its figures now and then.
IDLE_BYTES_PER_S_MAX: Final = 100_000


class _Library(NamedTuple):
    trim: Callable[[], object]
    unused: Callable[[], int]


def _library() -> _Library | None:
    try:
        return _loaded_library()
    except OSError:
        return None  # no descriptor is free to load it with; a later call tries again


@cache
def _loaded_library() -> _Library | None:
    import ctypes  # not at the start: it takes longer than all else

    class Info(ctypes.Structure):
        # mallinfo2(3)
        _fields_ = [
            (name, ctypes.c_size_t)
            for name in (
                "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
                "keepcost",
            )
        ]  # fmt: skip

    try:
        library = ctypes.CDLL(None)
        info, trim = library.mallinfo2, library.malloc_trim
    except (OSError, TypeError, AttributeError):
        return None
    info.restype = Info
    return _Library(lambda: trim(0), lambda: int(info().fordblks))


def unused_bytes() -> int:
    """Return the unused bytes that the C library holds, returned to the system or not; 0 if unknown."""
    library = _library()
    return 0 if library is None else library.unused()


def packed(rows: dict[K, V]) -> dict[K, V]:
    """Return the dict, or a copy that takes much less memory if it once had many more rows."""
    size = sys.getsizeof(rows)
    if size < _DICT_BYTES_MIN + _ROW_BYTES_MAX * len(rows) or len(rows) > _ROWS_MAX:
        return rows
    return {**rows}


def give_back() -> None:
    """Return unused memory to the system."""
    # A full collection empties Python's free lists. It has nothing to look at, so it takes no time.
    gc.freeze()
    gc.collect()
    gc.unfreeze()
    library = _library()
    if library is not None:
        library.trim()


class IdleTrim:
    """Returns memory when a server is idle after many changes, unless that would delay clients.

    packing: shrinks the server's structures, a step at each call.
    """

    def __init__(self, packing: Callable[[], Iterator[None]]) -> None:
        self._packing = packing
        self._left: Iterator[None] | None = None
        self._seen = self._done = 0
        self._looks = 0

    def look(self, changes: int, traffic_bytes: int = 0, bytes_per_s: float = 0.0) -> bool:
        """Do one step if the server is idle; return whether memory was returned. To be called a few times a second.

        changes: made so far. traffic_bytes: received and sent up to a recent sample; bytes_per_s: their rate then.
        A call does only one step, since releasing a dict that had a million rows takes some milliseconds by itself.
        """
        self._looks += 1
        if self._looks == 2:  # while there is little else, but not before the first client is served
            _library()
        is_idle, self._seen = changes == self._seen and bytes_per_s <= IDLE_BYTES_PER_S_MAX, changes
        if self._left is None:
            done = changes + traffic_bytes // CHANGE_BYTES
            self._done = min(self._done, done)  # counters may be set back
            if not is_idle or done - self._done < CHANGES_MIN:
                return False
            self._done = done
            if unused_bytes() > UNASKED_BYTES_MAX:
                return False
            self._left = self._packing()
        if next(self._left, self) is not self:
            return False
        self._left = None
        give_back()
        return True
