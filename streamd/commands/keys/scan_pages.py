"""Pages of HSCAN, SSCAN and ZSCAN, made in slices where a page or the value is long."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.catalog import Context
from streamd.commands.long_replies import ITEMS_AT_ONCE
from streamd.data.types import ROW_OVERHEAD
from streamd.resp.encoder import bulk
from streamd.resp.types import LongArray, Reply, Sliced


class Scanned(Protocol):
    """A value with pages: a hash, a set or a sorted set."""

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the cursor of the next page, and the elements of this one."""

    def __len__(self) -> int:
        """Return how many elements there are."""


Beside = Callable[[Any], bytes]


def page_reply(
    context: Context,
    value: Scanned,
    cursor: int,
    count: int,
    matches: Callable[[bytes], object] | None,
    rows: Mapping[bytes, Any] | None = None,
    text_of: Beside = bytes,
) -> Reply:
    """Return a page: the next cursor, 0 at the end, and the elements, each with the text of what `rows` has for it."""
    if count > SLICED_ITEMS_MIN and len(value) > SLICED_ITEMS_MIN and not context.in_unit:
        pieces = _in_slices(value, cursor, count, matches, rows, text_of)
        return Sliced(LongArray(2, pieces), ROW_OVERHEAD * min(count, len(value)))
    cursor, page = value.page(cursor, count)
    return [b"%d" % cursor, list(_words(page, matches, rows, text_of))]


def _words(
    page: list[bytes], matches: Callable[[bytes], object] | None, rows: Mapping[bytes, Any] | None, text_of: Beside
) -> Iterator[bytes]:
    for element in page if matches is None else filter(matches, page):
        yield element
        if rows is not None:
            yield text_of(rows[element])


def _in_slices(
    value: Scanned,
    cursor: int,
    count: int,
    matches: Callable[[bytes], object] | None,
    rows: Mapping[bytes, Any] | None,
    text_of: Beside,
) -> Iterator[bytes]:
    """Yield the two elements of a long page piece by piece: short ones, each with the value of its moment."""
    pieces: list[bytes] = []
    passed = found = 0
    while True:
        cursor, page = value.page(cursor, min(ITEMS_AT_ONCE, count - passed))
        passed += len(page)
        words = list(_words(page, matches, rows, text_of))
        found += len(words)
        pieces.append(b"".join(map(bulk, words)))
        if passed >= count or not cursor:
            break
        yield b""
    yield bulk(b"%d" % cursor) + b"*%d\r\n" % found
    pieces.reverse()
    while pieces:
        yield pieces.pop()
