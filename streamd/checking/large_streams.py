"""Tells in which parts two streams differ that are too large for DUMP: they are read page by page."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from xxhash import xxh3_64

# So many entries, or pending entries, are one page.
_PAGE: Final = 100
# What XINFO STREAM says of the form of a stream, and what is compared otherwise.
_LEFT_OUT: Final = frozenset((b"radix-tree-keys", b"radix-tree-nodes", b"first-entry", b"last-entry", b"groups"))

# Takes the words of a command; returns its reply.
Ask = Callable[..., Any]


class Large(NamedTuple):
    """A stream as it was read. pages: the last ID and the hash of each page of entries. pending: a hash by group."""

    counters: dict[bytes, Any]
    pages: list[tuple[bytes, int]]
    pending: dict[bytes, int]


def read_large(ask: Ask, key: bytes, groups: list[bytes]) -> Large:
    """Return what a stream has, by XINFO, XRANGE and XPENDING. groups: the names of its groups."""
    listed = ask("XINFO STREAM", key)
    items = listed.items() if isinstance(listed, dict) else zip(listed[::2], listed[1::2], strict=True)
    counters = {name: value for name, value in items if name not in _LEFT_OUT}
    pages = []
    for page in _pages(lambda start: ask("XRANGE", key, start, "+", "COUNT", _PAGE)):
        digest = xxh3_64()
        for entry_id, fields in page:
            words = [entry_id, *fields]
            digest.update(b"%d:%b " % (len(words), b" ".join([b"%d" % len(word) for word in words])))
            digest.update(b"".join(words))
        pages.append((page[-1][0], digest.intdigest()))
    return Large(counters, pages, {name: _pending(ask, key, name) for name in groups})


def _pages(page_from: Callable[[bytes], list[Any]]) -> Iterator[list[Any]]:
    """Yield pages of items that begin with their IDs. page_from: returns the items from an ID on."""
    start = b"-"
    while page := page_from(start):
        yield page
        start = b"(" + page[-1][0]


def _pending(ask: Ask, key: bytes, group: bytes) -> int:
    """Return the hash of the pending entries of a group, without the times that pass."""
    digest = xxh3_64()
    for page in _pages(lambda start: ask("XPENDING", key, group, start, "+", _PAGE)):
        for entry_id, consumer, _, deliveries in page:
            digest.update(b"%b %d:%b %d " % (entry_id, len(consumer), consumer, deliveries))
    return digest.intdigest()


def differences(one: Large, other: Large) -> list[str]:
    """Return the parts in which two streams differ."""
    found = []
    if one.pages != other.pages:
        before = b"0-0"
        for page, its in zip(one.pages, other.pages, strict=False):
            if page != its:
                break
            before = page[0]
        found.append(f"the entries, behind {before.decode()}")
    for name in sorted({*one.counters, *other.counters}):
        mine, theirs = one.counters.get(name), other.counters.get(name)
        if mine != theirs:
            found.append(f"{name.decode()} ({_shown(mine)} and {_shown(theirs)})")
    for name in sorted({*one.pending, *other.pending}):
        if one.pending.get(name) != other.pending.get(name):
            found.append(f"the pending entries of group {name!r}")
    return found


def _shown(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
