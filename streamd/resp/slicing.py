"""Replies of many items, which are made in slices without their commands' knowing."""

from collections.abc import Iterator
from typing import Final

from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.resp.types import LongArray, Reply, SetReply, Sliced

# To encode so many words takes a few hundred microseconds.
ITEMS_AT_ONCE: Final = 1_000
# About what an item takes, beside the bytes in it.
_ITEM_BYTES: Final = 33


def used_up(items: list[Reply]) -> Iterator[list[Reply]]:
    """Yield the items of a list in lists, until it has none: to free a million at its end takes ten milliseconds."""
    items.reverse()
    while items:
        some = items[: -ITEMS_AT_ONCE - 1 : -1]
        del items[-ITEMS_AT_ONCE:]
        yield some


def sliced(reply: Reply) -> Sliced | None:
    """Return a reply that is to be made in slices, None for any other; a long list belongs to the reply then."""
    kind = type(reply)
    if kind is Sliced:
        long: Sliced = reply
        return long
    items: list[Reply] = reply if kind is list else reply.items if kind is SetReply else []
    if len(items) <= SLICED_ITEMS_MIN:
        return None
    size_bytes = sum(len(item) for item in items[:16] if type(item) is bytes) // 16 + _ITEM_BYTES
    return Sliced(LongArray(len(items), used_up(items), is_set=kind is SetReply), len(items) * size_bytes)
