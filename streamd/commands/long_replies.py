"""Replies of words that are many enough to be made in slices."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import Final, TypeVar

from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.data.types import BYTES_OVERHEAD
from streamd.resp.slicing import ITEMS_AT_ONCE, used_up
from streamd.resp.types import LongArray, Reply, Sliced

T = TypeVar("T")
Row = TypeVar("Row", bound=tuple[object, ...])

# Maps of several words each.
ROWS_AT_ONCE: Final = 100


def some_at_a_time(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in lists."""
    left = iter(items)
    while some := list(islice(left, ITEMS_AT_ONCE)):
        yield some


def shown_in_slices(rows: Iterable[tuple[object, ...]], show: Callable[..., Reply]) -> Iterator[list[Reply]]:
    """Yield `show(*row)` for rows in the order of `sorted_in_slices`, some at a time."""
    for some in sorted_in_slices(rows):
        yield [show(*row) for row in some]


def sorted_in_slices(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows in the order of their first elements, which differ, some at a time; empty lists before that."""
    runs: list[list[Row]] = []
    for some in some_at_a_time(rows):
        runs.append(sorted(some, key=itemgetter(0)))
        yield []
    merged = merge(*runs, key=itemgetter(0))
    while some := list(islice(merged, ROWS_AT_ONCE)):
        yield some


def mapping(pairs: Mapping[bytes, bytes]) -> Reply:
    """Return a map of words, as it is now."""
    if len(pairs) <= SLICED_ITEMS_MIN:
        return dict(pairs)
    # (Two lists take two thirds of the time of a dict, and can be freed in slices.)
    keys, values = list(pairs), list(pairs.values())
    parts = (
        list(chain.from_iterable(zip(some, others, strict=True)))
        for some, others in zip(used_up(keys), used_up(values), strict=True)
    )
    return Sliced(LongArray(len(keys), parts, is_map=True), _bytes(keys) + _bytes(values))


def _bytes(words: list[bytes]) -> int:
    """Return about how many bytes the words take, going by some of them."""
    some = words[:16]
    return len(words) * (BYTES_OVERHEAD + sum(map(len, some)) // len(some))
