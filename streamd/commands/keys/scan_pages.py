"""Pages of SCAN, HSCAN, SSCAN and ZSCAN, made in slices where a page or the value is long."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from streamd.base.errors import CommandError, SyntaxError_
from streamd.base.glob import Matcher, compile_glob
from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.catalog import Context
from streamd.catalog.arguments import Arguments, parse_cursor
from streamd.commands.long_replies import ITEMS_AT_ONCE
from streamd.data.types import ROW_OVERHEAD, ValueType
from streamd.resp.encoder import bulk
from streamd.resp.types import LongArray, Reply, Sliced

# What stands beside each of some elements of a value.
Beside = Callable[[Any, list[bytes]], Iterable[bytes]]


def take_options(
    words: Arguments, takes_type: bool = False, has_values: bool = False
) -> tuple[int, Matcher | None, str | None, bool]:
    """Take COUNT, the matcher of MATCH (None for all), the name behind TYPE, or None, and whether NOVALUES is there.

    has_values: whether that makes sense. Raises: CommandError.
    """
    count = 10
    matches: Matcher | None = None
    type_name: str | None = None
    leaves_out = False
    while words.left():
        if words.flag(b"MATCH", followed_by=1):
            matches = compile_glob(words.word())
        elif words.flag(b"COUNT", followed_by=1):
            count = words.integer()
            if count < 1:
                raise SyntaxError_()
        elif takes_type and words.flag(b"TYPE", followed_by=1):
            type_name = words.word().lower().decode("utf-8", "surrogateescape")
        elif words.flag(b"NOVALUES"):
            if not has_values:
                raise CommandError("ERR NOVALUES option can only be used in HSCAN")
            leaves_out = True
        else:
            raise SyntaxError_()
    return count, matches, type_name, leaves_out


def page_reply(
    context: Context,
    args: list[bytes],
    kind: ValueType[Any, Any],
    beside: Beside | None = None,
    has_values: bool = False,
) -> Reply:
    """Return a page of the value at a key: the next cursor, 0 at the end, and the elements with the words beside each.

    has_values: whether the words beside are values, which NOVALUES leaves out. Raises: CommandError.
    """
    cursor = parse_cursor(args[2])
    value = context.db.read_as(args[1], kind)
    if value is None:
        return [b"0", []]
    count, matches, _, leaves_out = take_options(Arguments(args, 3), has_values=has_values)
    if leaves_out:
        beside = None
    if count > SLICED_ITEMS_MIN and len(value) > SLICED_ITEMS_MIN and not context.in_unit:
        pieces = in_slices(value.page, partial(_words, value, beside, matches), cursor, count)
        return Sliced(LongArray(2, pieces), ROW_OVERHEAD * min(count, len(value)))
    cursor, page = value.page(cursor, count)
    return [b"%d" % cursor, _words(value, beside, matches, page)]


def _words(value: Any, beside: Beside | None, matches: Matcher | None, page: list[bytes]) -> list[bytes]:
    elements = page if matches is None else list(filter(matches, page))
    if beside is None:
        return elements
    return list(chain.from_iterable(zip(elements, beside(value, elements), strict=True)))


def in_slices(
    page_at: Callable[[int, int], tuple[int, list[bytes]]],
    words_of: Callable[[list[bytes]], list[bytes]],
    cursor: int,
    count: int,
) -> Iterator[bytes]:
    """Yield the two elements of a long page piece by piece: short ones, each with the value of its moment.

    page_at(cursor, count): the next cursor and elements. words_of(elements): the matching ones, with words beside.
    """
    pieces: list[bytes] = []
    passed = found = 0
    while True:
        cursor, page = page_at(cursor, min(ITEMS_AT_ONCE, count - passed))
        passed += len(page)
        words = words_of(page)
        found += len(words)
        pieces.append(b"".join(map(bulk, words)))
        if passed >= count or not cursor:
            break
        yield b""
    yield bulk(b"%d" % cursor) + b"*%d\r\n" % found
    pieces.reverse()
    while pieces:
        yield pieces.pop()
