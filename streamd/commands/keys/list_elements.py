"""Commands on the elements in the middle of a list: finding, changing, adding and removing them."""

from itertools import islice

from streamd.base.errors import CommandError, NoSuchKey, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import INT64_MAX, Arguments, parse_integer, parse_signed_count
from streamd.commands.keys.lists import end_if_empty
from streamd.data.element_list import ElementList
from streamd.data.types import LIST
from streamd.resp.types import Reply

_ON = "O(N), N the elements"


@command(
    "LINDEX", arity=3, flags="readonly", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="list",
    syntax="key index", access="RO access",
)  # fmt: skip
def lindex(context: Context, args: list[bytes]) -> Reply:
    """Return the element at a place of a list, counted from its end when negative, or nil."""
    value = context.db.read_as(args[1], LIST)
    if value is None:
        return None
    place = parse_integer(args[2])
    length = len(value)
    return value[place % length] if -length <= place < length else None


@command(
    "LSET", arity=4, flags="write denyoom", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="list",
    syntax="key index element", access="RW update",
)  # fmt: skip
def lset(context: Context, args: list[bytes]) -> Reply:
    """Replace the element at a place of a list."""
    value = context.db.get_as(args[1], LIST)
    if value is None:
        raise NoSuchKey()
    place = parse_integer(args[2])
    length = len(value)
    if not -length <= place < length:
        raise CommandError("ERR index out of range")
    value[place % length] = args[3]
    context.record(*args)
    context.changed(args[1], "l", "lset")
    return "OK"


@command(
    "LINSERT", arity=5, flags="write denyoom", keys=(1, 1, 1), since="2.2.0", complexity=_ON, group="list",
    syntax="key <BEFORE | AFTER> pivot element", access="RW insert",
)  # fmt: skip
def linsert(context: Context, args: list[bytes]) -> Reply:
    """Insert an element beside another; return the list's length, -1 if that other is missing, 0 without a list."""
    side = args[2].upper()
    if side not in (b"BEFORE", b"AFTER"):
        raise SyntaxError_()
    value = context.db.get_as(args[1], LIST)
    if value is None:
        return 0
    place = value.place_of(args[3])
    if place is None:
        return -1
    value.insert(place + (side == b"AFTER"), args[4])
    context.db.signal(args[1])
    context.record(b"LINSERT", *args[1:])
    context.changed(args[1], "l", "linsert")
    return len(value)


@command(
    "LTRIM", arity=4, flags="write", keys=(1, 1, 1), since="1.0.0", complexity="O(N), N the elements removed",
    group="list", syntax="key start:integer stop:integer", access="RW delete",
)  # fmt: skip
def ltrim(context: Context, args: list[bytes]) -> Reply:
    """Keep the elements between two places of a list and remove all others."""
    start, stop = parse_integer(args[2]), parse_integer(args[3])
    value = context.db.get_as(args[1], LIST)
    if value is None:
        return "OK"
    length = len(value)
    start = max(0, start + length if start < 0 else start)
    behind = max(0, length - 1 - (stop + length if stop < 0 else stop))
    removed = min(length, start + behind)
    context.db.trash.add(value.keep(start, length - behind))
    if removed:
        context.record(b"LTRIM", *args[1:], changes=removed)
    context.changed(args[1], "l", "ltrim")
    end_if_empty(context, args[1], value)
    return "OK"


@command(
    "LREM", arity=4, flags="write", keys=(1, 1, 1), since="1.0.0", complexity=_ON, group="list",
    syntax="key count element", access="RW delete",
)  # fmt: skip
def lrem(context: Context, args: list[bytes]) -> Reply:
    """Remove elements equal to one: a number of them from the head, or from the end if negative, or with 0 all.

    Reply: the number of removed elements.
    """
    count, unwanted = parse_signed_count(args[2]), args[3]
    value = context.db.get_as(args[1], LIST)
    if value is None:
        return 0
    removed = value.remove(unwanted, abs(count) or len(value), count < 0)
    if removed:
        context.record(b"LREM", *args[1:], changes=removed)
        context.changed(args[1], "l", "lrem")
        end_if_empty(context, args[1], value)
    return removed


def _places(value: ElementList, element: bytes, rank: int, count: int, length_max: int) -> list[int]:
    """Return the places of an element: from the |rank|-th one on, `count` at most, within this many comparisons."""
    last = len(value) - 1
    skipped, found = abs(rank) - 1, []
    for at, one in enumerate(islice(reversed(value) if rank < 0 else value, length_max)):
        if one == element:
            if skipped:
                skipped -= 1
                continue
            found.append(last - at if rank < 0 else at)
            if len(found) == count:
                break
    return found


@command(
    "LPOS", arity=-3, flags="readonly", keys=(1, 1, 1), since="6.0.6", complexity=_ON, group="list",
    syntax="key element [RANK rank:integer] [COUNT num-matches:integer] [MAXLEN len:integer]", access="RO access",
)  # fmt: skip
def lpos(context: Context, args: list[bytes]) -> Reply:
    """Return the place of an element in a list, or nil; with COUNT several places, with 0 all."""
    rank, count, length_max = 1, -1, 0
    words = Arguments(args, 3)
    while words.left():
        if words.flag(b"RANK", followed_by=1):
            rank = words.integer()
            if rank < -INT64_MAX:
                raise CommandError(f"ERR value is out of range, value must between {-INT64_MAX} and {INT64_MAX}")
            if not rank:
                raise CommandError(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... "
                    "or use negative to start from the end of the list"
                )
        elif words.flag(b"COUNT", followed_by=1):
            count = _not_negative(words, "COUNT")
        elif words.flag(b"MAXLEN", followed_by=1):
            length_max = _not_negative(words, "MAXLEN")
        else:
            raise SyntaxError_()
    value = context.db.read_as(args[1], LIST)
    if value is None:
        return None if count < 0 else []
    found = _places(value, args[2], rank, 1 if count < 0 else count or len(value), length_max or len(value))
    return found if count >= 0 else found[0] if found else None


def _not_negative(words: Arguments, option: str) -> int:
    error = CommandError(f"ERR {option} can't be negative")
    number = words.integer(error)
    if number < 0:
        raise error
    return number
