"""About how many bytes the windows of a table take."""

from collections.abc import Mapping
from itertools import islice
from sys import getsizeof
from typing import Final

from streamd.idmp.indexed import IndexedWindow
from streamd.idmp.ring import RingWindow

_SAMPLE: Final = 100
# Windows that grow and turn over leave holes in the heap: they take so many eighths of the sum of their parts.
_EIGHTHS: Final = 9


def window_bytes(windows: Mapping[bytes, bytes | IndexedWindow | RingWindow]) -> int:
    """Return about how many bytes windows take, from a sample of them and of their iids; 0 without windows."""
    if not windows:
        return 0
    sample = list(islice(windows.items(), _SAMPLE))
    size = 0
    for pid, window in sample:
        size += getsizeof(pid) + getsizeof(window) + 8
        if isinstance(window, RingWindow):
            size += window.arrays_bytes()
        elif isinstance(window, IndexedWindow):
            size += getsizeof(window.entries) + getsizeof(window.order)
            iids = list(islice(window.entries.items(), _SAMPLE))
            each = sum(getsizeof(iid) + getsizeof(entry_id) for iid, entry_id in iids)
            size += each * len(window.entries) // max(len(iids), 1)
    return (getsizeof(windows) + size * len(windows) // len(sample)) * _EIGHTHS // 8
