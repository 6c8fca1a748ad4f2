"""Commands that take the first or last members of a sorted set, waiting for them if asked to."""

from typing import Final

from streamd.base.errors import SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_positive, parse_wait_ms
from streamd.catalog.counted_keys import CountedKeys
from streamd.commands.keys.results import end_removal
from streamd.commands.keys.waiting import parse_several, take_first, take_or_wait
from streamd.data.types import SORTED_SET
from streamd.resp.types import NULL_ARRAY, Reply

ScoredMembers = list[tuple[bytes, float]]

_OLOG: Final = "O(log(N)+M), N the members, M those taken"


def _pop(context: Context, key: bytes, count: int, last: bool) -> ScoredMembers:
    """Take members and return them with their scores, the outermost first. Raises: WrongType."""
    value = context.db.get_as(key, SORTED_SET)
    if value is None or not count:
        return []
    length = len(value)
    start = max(0, length - count) if last else 0
    members = value.members(start, length if last else min(count, length))
    rows = [(member, value.scores[member]) for member in members]
    value.drop_places(start, start + len(members))
    end_removal(context, key, value, members, b"ZREM", "z", "zpopmax" if last else "zpopmin")
    return rows[::-1] if last else rows


def _declare_pop(name: str, which: str, last: bool) -> None:
    def handler(context: Context, args: list[bytes]) -> Reply:
        if len(args) > 3:
            raise SyntaxError_()
        count = parse_positive(args[2]) if len(args) == 3 else 1
        rows = _pop(context, args[1], count, last)
        if context.client.protocol == 2 or len(args) == 2:
            return [word for row in rows for word in row]
        return [list(row) for row in rows]

    command(
        name, arity=-2, flags="write fast", keys=(1, 1, 1), since="5.0.0", complexity=_OLOG, group="sorted-set",
        syntax="key [count]", access="RW access delete",
        summary=f"Remove the members with the {which} scores and return them with their scores.",
    )(handler)  # fmt: skip


_declare_pop("ZPOPMIN", "smallest", last=False)
_declare_pop("ZPOPMAX", "greatest", last=True)


def _declare_waiting_pop(name: str, which: str, last: bool) -> None:
    def handler(context: Context, args: list[bytes]) -> Reply:
        timeout_ms = parse_wait_ms(args[-1], context.now_ms)
        return take_or_wait(
            context, args[1:-1], SORTED_SET, lambda key: [key, *_pop(context, key, 1, last)[0]], timeout_ms
        )  # fmt: skip

    command(
        name, arity=-3, flags="write blocking fast", keys=(1, -2, 1), since="5.0.0", complexity=_OLOG,
        group="sorted-set", syntax="key [key ...] timeout:double", access="RW access delete",
        summary=f"Take the member with the {which} score of the first sorted set that has one; wait if all are empty.",
    )(handler)  # fmt: skip


_declare_waiting_pop("BZPOPMIN", "smallest", last=False)
_declare_waiting_pop("BZPOPMAX", "greatest", last=True)


def _named_rows(context: Context, key: bytes, count: int, last: bool) -> Reply:
    return [key, [list(row) for row in _pop(context, key, count, last)]]


@command(
    "ZMPOP", arity=-4, flags="write", since="7.0.0", complexity=_OLOG, group="sorted-set", find_keys=CountedKeys(1),
    syntax="numkeys:integer key [key ...] <MIN | MAX> [COUNT count]", access="RW access delete",
)  # fmt: skip
def zmpop(context: Context, args: list[bytes]) -> Reply:
    """Take members of the first sorted set that has any.

    Reply: array of the key and an array of pairs of members and scores, or null.
    """
    keys, last, count = parse_several(Arguments(args, 1), b"MAX", b"MIN")
    reply = take_first(context, keys, SORTED_SET, lambda key: _named_rows(context, key, count, last))
    return NULL_ARRAY if reply is None else reply


@command(
    "BZMPOP", arity=-5, flags="write blocking", since="7.0.0", complexity=_OLOG, group="sorted-set",
    find_keys=CountedKeys(2), syntax="timeout:double numkeys:integer key [key ...] <MIN | MAX> [COUNT count]",
    access="RW access delete",
)  # fmt: skip
def bzmpop(context: Context, args: list[bytes]) -> Reply:
    """Take members of the first sorted set that has any; wait if all are empty.

    Reply: array of the key and an array of pairs of members and scores, or null.
    """
    keys, last, count = parse_several(Arguments(args, 2), b"MAX", b"MIN")
    timeout_ms = parse_wait_ms(args[1], context.now_ms)
    return take_or_wait(context, keys, SORTED_SET, lambda key: _named_rows(context, key, count, last), timeout_ms)
