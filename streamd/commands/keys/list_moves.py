"""Commands that take elements of a list, or move them to another, waiting for them if asked to."""

from collections.abc import Callable
from dataclasses import dataclass

from streamd.base.errors import CommandError, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_wait_ms
from streamd.catalog.counted_keys import CountedKeys
from streamd.commands.keys.lists import end_if_empty, pop_elements, push_elements
from streamd.commands.keys.waiting import parse_several, take_first, take_or_wait
from streamd.data.element_list import ElementList
from streamd.data.types import LIST
from streamd.resp.types import NULL_ARRAY, Reply

_MOVE = "RW access delete; RW insert"


def _declare_pop(name: str, what: str, left: bool) -> None:
    def handler(context: Context, args: list[bytes]) -> Reply:
        timeout_ms = parse_wait_ms(args[-1], context.now_ms)
        return take_or_wait(
            context, args[1:-1], LIST, lambda key: [key, *pop_elements(context, key, 1, left)], timeout_ms
        )  # fmt: skip

    command(
        name, arity=-3, flags="write blocking", keys=(1, -2, 1), since="2.0.0", complexity="O(N), N the keys",
        group="list", syntax="key [key ...] timeout:double", access="RW access delete",
        summary=f"Take the {what} of the first list that has elements, and name that list; wait if all are empty.",
    )(handler)  # fmt: skip


_declare_pop("BLPOP", "head", left=True)
_declare_pop("BRPOP", "last element", left=False)


def _is_left(word: bytes) -> bool:
    """Return whether a word names the head of a list. Raises: SyntaxError_."""
    end = word.upper()
    if end not in (b"LEFT", b"RIGHT"):
        raise SyntaxError_()
    return end == b"LEFT"


@command(
    "LMPOP", arity=-4, flags="write", since="7.0.0", complexity="O(N+M), N the keys, M the elements taken",
    group="list", find_keys=CountedKeys(1), syntax="numkeys:integer key [key ...] <LEFT | RIGHT> [COUNT count]",
    access="RW access delete",
)  # fmt: skip
def lmpop(context: Context, args: list[bytes]) -> Reply:
    """Take elements of the first list that has any.

    Reply: array of the key and an array of elements, or null.
    """
    keys, left, count = parse_several(Arguments(args, 1), b"LEFT", b"RIGHT")
    reply = take_first(context, keys, LIST, lambda key: [key, pop_elements(context, key, count, left)])
    return NULL_ARRAY if reply is None else reply


@command(
    "BLMPOP", arity=-5, flags="write blocking", since="7.0.0", complexity="O(N+M), N the keys, M the elements taken",
    group="list", find_keys=CountedKeys(2),
    syntax="timeout:double numkeys:integer key [key ...] <LEFT | RIGHT> [COUNT count]", access="RW access delete",
)  # fmt: skip
def blmpop(context: Context, args: list[bytes]) -> Reply:
    """Take elements of the first list that has any; wait if all are empty.

    Reply: array of the key and an array of elements, or null.
    """
    keys, left, count = parse_several(Arguments(args, 2), b"LEFT", b"RIGHT")
    timeout_ms = parse_wait_ms(args[1], context.now_ms)
    return take_or_wait(
        context, keys, LIST, lambda key: [key, pop_elements(context, key, count, left)], timeout_ms
    )  # fmt: skip


def _record_and_push(
    context: Context, source: bytes, target: bytes, left: ElementList, taken: list[bytes], from_left: bool,
    to_left: bool,
) -> None:  # fmt: skip
    """Put what was taken from a list at an end of another one, and record both. left: what is left of the first.

    For each key a record of its own, as a rewrite asks: one key may be written already and the other not.
    """
    # A list that gives itself all that it has stays. If its records emptied it first, its expiry would end with it.
    stays = source == target and not left
    count = b"%d" % len(taken)
    if not stays:
        context.record(b"LPOP" if from_left else b"RPOP", source, count, changes=len(taken))
    push_elements(context, target, taken, to_left, 0)
    if stays:
        context.record(b"RPOP" if to_left else b"LPOP", source, count, changes=len(taken))


def _move(context: Context, source: bytes, target: bytes, from_left: bool, to_left: bool) -> bytes:
    """Move one element of a list that is there and return it. Raises: WrongType."""
    db = context.db
    value = db.get_as(source, LIST)
    assert value is not None
    db.get_as(target, LIST)
    element = value.popleft() if from_left else value.pop()
    _record_and_push(context, source, target, value, [element], from_left, to_left)
    context.changed(source, "l", "lpop" if from_left else "rpop")
    end_if_empty(context, source, value)
    return element


def _move_now(context: Context, source: bytes, target: bytes, from_left: bool, to_left: bool) -> Reply:
    return take_first(context, [source], LIST, lambda key: _move(context, key, target, from_left, to_left))


def _move_or_wait(context: Context, args: list[bytes], from_left: bool, to_left: bool, wait: bytes) -> Reply:
    return take_or_wait(
        context, [args[1]], LIST, lambda key: _move(context, key, args[2], from_left, to_left),
        parse_wait_ms(wait, context.now_ms), in_transaction=None,
    )  # fmt: skip


@command(
    "LMOVE", arity=5, flags="write denyoom", keys=(1, 2, 1), since="6.2.0", complexity="O(1)", group="list",
    syntax="source destination <LEFT | RIGHT> <LEFT | RIGHT>", access=_MOVE,
)  # fmt: skip
def lmove(context: Context, args: list[bytes]) -> Reply:
    """Move an element from an end of a list to an end of another and return it, or nil."""
    return _move_now(context, args[1], args[2], _is_left(args[3]), _is_left(args[4]))


@command(
    "BLMOVE", arity=6, flags="write denyoom blocking", keys=(1, 2, 1), since="6.2.0", complexity="O(1)",
    group="list", syntax="source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout:double", access=_MOVE,
)  # fmt: skip
def blmove(context: Context, args: list[bytes]) -> Reply:
    """Move an element from an end of a list to an end of another and return it; wait if the list is empty."""
    return _move_or_wait(context, args, _is_left(args[3]), _is_left(args[4]), args[5])


@command(
    "RPOPLPUSH", arity=3, flags="write denyoom", keys=(1, 2, 1), since="1.2.0", complexity="O(1)", group="list",
    syntax="source destination", access=_MOVE,
)  # fmt: skip
def rpoplpush(context: Context, args: list[bytes]) -> Reply:
    """Move the last element of a list to the head of another and return it, or nil."""
    return _move_now(context, args[1], args[2], from_left=False, to_left=True)


@command(
    "BRPOPLPUSH", arity=4, flags="write denyoom blocking", keys=(1, 2, 1), since="2.2.0", complexity="O(1)",
    group="list", syntax="source destination timeout:double", access=_MOVE,
)  # fmt: skip
def brpoplpush(context: Context, args: list[bytes]) -> Reply:
    """Move the last element of a list to the head of another and return it; wait if the list is empty."""
    return _move_or_wait(context, args, False, True, args[3])


@dataclass(slots=True)
class _Move:
    """What LMOVEM asks for: from which end to which, how many elements at most, and their order.

    is_exact: whether fewer elements are too few. reverses: whether they arrive in the reverse order.
    """

    from_left: bool
    to_left: bool
    count: int = 1
    is_exact: bool = False
    reverses: bool = False


def _parse_move(args: list[bytes]) -> _Move:
    return _Move(_is_left(args[3]), _is_left(args[4]))


def _take_number(words: Arguments, move: _Move) -> None:
    """Parse the number of elements and their order, up to the end. Raises: CommandError."""
    if not words.left():
        return
    if words.left() != 3:
        raise SyntaxError_()
    move.is_exact = words.flag(b"EXACTLY", followed_by=1)
    if not move.is_exact and not words.flag(b"COUNT", followed_by=1):
        raise SyntaxError_()
    error = CommandError("ERR count should be greater than 0")
    move.count = words.integer(error)
    if move.count < 1:
        raise error
    # One by one, from one end to the same end, the last element arrives first.
    one_by_one = words.flag(b"OBO")
    if not one_by_one and not words.flag(b"BULK"):
        raise SyntaxError_()
    move.reverses = one_by_one and move.from_left == move.to_left


def _mover(context: Context, target: bytes, move: _Move) -> Callable[[bytes], Reply | None]:
    """Return the function that moves elements of a list that is there; it returns None if there are too few."""

    def take(source: bytes) -> Reply | None:
        db = context.db
        value = db.get_as(source, LIST)
        assert value is not None
        if move.is_exact and len(value) < move.count:
            return None
        db.get_as(target, LIST)
        taken = value.take(move.count, move.from_left)
        if move.from_left == move.reverses:
            taken.reverse()
        popped = "lpop" if move.from_left else "rpop"
        if source == target:
            context.changed(source, "l", popped)
        pushed = taken[::-1] if move.to_left else taken
        _record_and_push(context, source, target, value, pushed, move.from_left, move.to_left)
        if source != target:
            context.changed(source, "l", popped)
        end_if_empty(context, source, value)
        return taken

    return take


_HOW_MANY = "[<COUNT count | EXACTLY exactly:integer> <OBO | BULK>]"


@command(
    "LMOVEM", arity=-5, flags="write denyoom", keys=(1, 2, 1), since="8.10.0",
    complexity="O(N), N the elements moved", group="list",
    syntax=f"source destination <LEFT | RIGHT> <LEFT | RIGHT> {_HOW_MANY}", access=_MOVE,
)  # fmt: skip
def lmovem(context: Context, args: list[bytes]) -> Reply:
    """Move elements from an end of a list to an end of another and return them, or nil if there are too few.

    One by one (OBO) each is moved behind the other; in bulk (BULK) they keep their order. The reply has the order in
    which they stand in the other list.
    """
    move = _parse_move(args)
    _take_number(Arguments(args, 5), move)
    reply = take_first(context, [args[1]], LIST, _mover(context, args[2], move))
    return NULL_ARRAY if reply is None else reply


@command(
    "BLMOVEM", arity=-6, flags="write denyoom blocking", keys=(1, 2, 1), since="8.10.0",
    complexity="O(N), N the elements moved", group="list",
    syntax=f"source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout:double {_HOW_MANY}", access=_MOVE,
)  # fmt: skip
def blmovem(context: Context, args: list[bytes]) -> Reply:
    """Move elements from an end of a list to an end of another and return them; wait if there are too few."""
    move = _parse_move(args)
    timeout_ms = parse_wait_ms(args[5], context.now_ms)
    _take_number(Arguments(args, 6), move)
    return take_or_wait(context, [args[1]], LIST, _mover(context, args[2], move), timeout_ms)
