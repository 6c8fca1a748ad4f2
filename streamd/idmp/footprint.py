"""About how many bytes the windows of a table take."""

from collections.abc import Mapping
from itertools import islice
from sys import getsizeof
from typing import Final

from streamd.idmp import packed
from streamd.idmp.indexed import IndexedWindow

_SAMPLE: Final = 100


def packed_bytes(windows: Mapping[bytes, packed.Window]) -> int:
    """Return about how much packed windows take, from a sample; 0 for none."""
    if not windows:
        return 0
    sample = list(islice(windows.items(), _SAMPLE))
    size = sum(getsizeof(pid) + getsizeof(window) + 8 for pid, window in sample)
    return getsizeof(windows) + size * len(windows) // len(sample)


def indexed_bytes(windows: dict[bytes, IndexedWindow]) -> int:
    """Return about how much indexed windows take, from a sample of them and of their iids; 0 for none."""
    if not windows:
        return 0
    sample = list(islice(windows.items(), _SAMPLE))
    size = 0
    for pid, indexed in sample:
        size += getsizeof(pid) + getsizeof(indexed) + getsizeof(indexed.entries) + getsizeof(indexed.order) + 8
        iids = list(islice(indexed.entries.items(), _SAMPLE))
        each = sum(getsizeof(iid) + getsizeof(entry_id) for iid, entry_id in iids)
        size += each * len(indexed.entries) // max(len(iids), 1)
    return getsizeof(windows) + size * len(windows) // len(sample)
