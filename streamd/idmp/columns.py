"""Finding and adding a column of iids, each in the window of its producer, by C code where that is a dict.

The processor loads the memory for one iid while it looks at the one before: a thousand windows are larger than its
caches.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from operator import is_

from streamd.idmp.indexed import IndexedWindow
from streamd.idmp.ring import RingWindow


def find(
    larger: Mapping[bytes, IndexedWindow | RingWindow], pids: Sequence[bytes], iids: Sequence[bytes], until_ms: int
) -> list[int] | None:
    """Return the IDs of the entries that iids made; None if an iid is missing, an ID is not later than `until_ms`, or a
    producer has no larger window.
    """
    first = larger.get(pids[0])
    if first is None or first.find(iids[0]) is None:
        return None  # at once: mostly all are new
    if pids.count(pids[0]) == len(pids):
        known = [*map(first.entries.get, iids)] if isinstance(first, IndexedWindow) else [*map(first.find, iids)]
    else:
        windows = [window for window in map(larger.get, pids) if window is not None]
        if len(windows) < len(pids):
            return None
        known = [window.find(iid) for window, iid in zip(windows, iids, strict=True)]
    if not all(known) or min(known) >> 64 <= until_ms:  # type: ignore[operator, type-var]
        return None
    return known  # type: ignore[return-value]


def add(windows: Sequence[IndexedWindow], iids: Sequence[bytes], ids: Sequence[int]) -> bool:
    """Add iids and the IDs of their entries, if all iids are new; return whether they are. If not, nothing changes.

    The iids are not in their windows' order yet: the caller must call `order_added` next.
    """
    entries = [window.entries for window in windows]
    wanted = [*ids]  # (one object for each, to be recognised by)
    found = [*map(dict.setdefault, entries, iids, wanted)]
    # (An equal ID may be a known one: behind XSETID, or where the clock stepped back, IDs come again.)
    if found == wanted and all(map(is_, found, wanted)):
        return True
    added = [number for number, entry_id in enumerate(found) if entry_id is wanted[number]]
    for number in added:
        del entries[number][iids[number]]
    return False


def order_added(windows: Sequence[IndexedWindow], iids: Sequence[bytes], maxsize: int) -> int:
    """Make added iids the youngest of their windows, in the given order, and drop the oldest iids of windows that hold
    more than `maxsize`; return how many were dropped.
    """
    orders = [window.order for window in windows]
    deque(map(deque.append, orders, iids), maxlen=0)
    dropped = 0
    full: Iterable[IndexedWindow] = windows
    for _ in range(max(map(len, orders)) - maxsize):  # more than one round where a window had got several
        full = [window for window in dict.fromkeys(full) if len(window.order) > maxsize]
        oldest = map(deque.popleft, [window.order for window in full])
        deque(map(dict.pop, [window.entries for window in full], oldest), maxlen=0)
        dropped += len(full)
    return dropped
