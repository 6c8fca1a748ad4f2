"""The lists that have segments to be written: taken out to be moved, and put back with what they have left."""

import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from streamd.cold.cold_list import WRITTEN_EARLY_BYTES, WRITTEN_LATE_BYTES, ColdList
from streamd.cold.store import ColdStore

# So many lists of a queue are looked at in one step.
_SWEPT_AT_ONCE: Final = 100

# (PyPy counts no references: there a list that was removed is written in vain.)
_reference_count: Final[Callable[[object], int] | None] = getattr(sys, "getrefcount", None)


def take_queued(store: ColdStore) -> Iterator[ColdList]:
    """Take the lists that have enough to be written out of their queue, in order; more may come meanwhile."""
    for _ in range(len(store.unwritten)):
        if not store.unwritten:
            return
        found = [cast(ColdList, store.unwritten.popleft())]
        found[0].is_queued = False
        if not _is_removed(found):
            yield found.pop()


def take_small(store: ColdStore) -> Iterator[ColdList]:
    """Take the other lists that have something to be written, too, be it the last segment alone."""
    for _ in range(len(store.small)):
        if not store.small:
            return
        found = [cast(ColdList, store.small.popleft())]
        found[0].is_small = False
        if _is_removed(found):
            continue
        if found[0].memory_bytes >= WRITTEN_LATE_BYTES:
            yield found.pop()
        else:
            put_back(store, found.pop())


def put_back(store: ColdStore, one: ColdList) -> None:
    """Queue a list behind the others, if it still has enough."""
    if not one.is_queued and one.unwritten_bytes >= WRITTEN_EARLY_BYTES:
        one.is_queued = True
        store.unwritten.append(one)
    if not one.is_small and one.memory_bytes >= WRITTEN_LATE_BYTES:
        one.is_small = True
        store.small.append(one)


def sweep(store: ColdStore) -> None:
    """Let go of some lists that were removed with their keys, or have nothing to be written any more."""
    if len(store.unwritten) <= _SWEPT_AT_ONCE:  # else they are moved soon
        for one in take_queued(store):
            put_back(store, one)
    for _ in range(min(_SWEPT_AT_ONCE, len(store.small))):
        found = [cast(ColdList, store.small.popleft())]
        found[0].is_small = False
        if not _is_removed(found):
            put_back(store, found.pop())


def reaches(store: ColdStore, size: int, is_short: bool = False) -> bool:
    """Return whether the lists have so many bytes to be written together; is_short: memory is short."""
    total = 0
    for queue in (store.unwritten, store.small) if is_short else (store.unwritten,):
        for one in queue:
            found = cast(ColdList, one)
            total += found.memory_bytes if is_short else found.unwritten_bytes
            if total >= size:
                return True
    return False


def _is_removed(found: list[ColdList]) -> bool:
    """Return whether nothing has the only list of `found` but these queues."""
    if _reference_count is None:
        return False
    return _references(found) <= _REFERENCES_OF_OURS + found[0].is_queued + found[0].is_small


def _references(found: list[Any]) -> int:
    assert _reference_count is not None
    return _reference_count(found[0])


_REFERENCES_OF_OURS: Final = 0 if _reference_count is None else _references([[]])
