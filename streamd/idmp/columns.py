"""A column of iids, each in the indexed window of its producer, found or added by C code.

What one iid needs from memory is on its way while the one before is looked at: a thousand windows are larger than the
processor's caches.
"""

from collections import deque
from collections.abc import Sequence
from operator import is_

from streamd.idmp.indexed import IndexedWindow


def find_or_add(windows: Sequence[IndexedWindow], iids: Sequence[bytes], ids: Sequence[int]) -> Sequence[int] | None:
    """Return the IDs of the entries that iids made, if all are known, or `ids` if all are new, and were added; None if
    it is neither, and nothing has happened.

    Added iids are not in their windows' order yet: `order_added` is what has to come next.
    """
    entries = [window.entries for window in windows]
    wanted = [*ids]  # (one object for each, to be recognised by)
    found = [*map(dict.setdefault, entries, iids, wanted)]
    # (An equal ID may be a known one: behind XSETID, or where the clock stepped back, IDs come again.)
    if found == wanted and all(map(is_, found, wanted)):
        return ids
    added = [number for number, entry_id in enumerate(found) if entry_id is wanted[number]]
    for number in added:
        del entries[number][iids[number]]
    return None if added else found


def order_added(windows: Sequence[IndexedWindow], iids: Sequence[bytes], maxsize: int) -> int:
    """Make added iids the youngest of their windows, in the order in which they come, and drop the oldest of those that
    hold more than `maxsize`; return how many were dropped.
    """
    orders = [window.order for window in windows]
    deque(map(deque.append, orders, iids), maxlen=0)
    if max(map(len, orders)) <= maxsize:
        return 0
    dropped = 0
    full = [window for window in dict.fromkeys(windows) if len(window.order) > maxsize]
    while full:
        oldest = map(deque.popleft, [window.order for window in full])
        deque(map(dict.pop, [window.entries for window in full], oldest), maxlen=0)
        dropped += len(full)
        full = [window for window in full if len(window.order) > maxsize]  # it had got several
    return dropped
