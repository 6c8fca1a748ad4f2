"""Commands on lists: their ends, their length, a range."""

from streamd.base.errors import WrongArity
from streamd.catalog import Context, command
from streamd.catalog.arguments import parse_integer, parse_positive
from streamd.data.element_list import ElementList
from streamd.data.types import LIST
from streamd.resp.types import NULL_ARRAY, Reply

_PUSH = "write denyoom fast"


def _push(context: Context, args: list[bytes], left: bool) -> int:
    key, items = args[1], args[2:]
    value = context.db.get_as(key, LIST)
    if value is None:
        context.db.put(key, value := ElementList())
    if left:
        value.extendleft(items)
    else:
        value.extend(items)
    context.record_words([b"LPUSH" if left else b"RPUSH", key, *items], len(items))
    context.changed(key, "l", "lpush" if left else "rpush")
    return len(value)


def _pop(context: Context, args: list[bytes], left: bool) -> Reply:
    key = args[1]
    count = 1
    if len(args) > 3:
        raise WrongArity(args[0].decode().lower())
    if len(args) == 3:
        count = parse_positive(args[2])
    value = context.db.get_as(key, LIST)
    if value is None:
        return None if len(args) == 2 else NULL_ARRAY
    taken = pop_elements(context, key, count, left)
    return taken[0] if len(args) == 2 else taken


def pop_elements(context: Context, key: bytes, count: int, left: bool) -> list[bytes]:
    """Remove and return up to this many elements from an end of a list that exists."""
    value = context.db.get_as(key, LIST)
    assert value is not None
    taken = value.take(count, left)
    if taken:
        context.record(b"LPOP" if left else b"RPOP", key, b"%d" % len(taken), changes=len(taken))
        context.changed(key, "l", "lpop" if left else "rpop")
        end_if_empty(context, key, value)
    return taken


def end_if_empty(context: Context, key: bytes, value: ElementList) -> None:
    """Remove a list that has no elements any more."""
    if not value:
        context.db.remove(key)
        context.notify(key, "g", "del")


@command(
    "LPUSH", arity=-3, flags=_PUSH, keys=(1, 1, 1), since="1.0.0", complexity="O(1) for each element", group="list",
    syntax="key element [element ...]", access="RW insert",
)  # fmt: skip
def lpush(context: Context, args: list[bytes]) -> Reply:
    """Put elements at the head of a list; return its length."""
    return _push(context, args, left=True)


@command(
    "RPUSH", arity=-3, flags=_PUSH, keys=(1, 1, 1), since="1.0.0", complexity="O(1) for each element", group="list",
    syntax="key element [element ...]", access="RW insert",
)  # fmt: skip
def rpush(context: Context, args: list[bytes]) -> Reply:
    """Put elements at the end of a list; return its length."""
    return _push(context, args, left=False)


def _push_to_list(context: Context, args: list[bytes], left: bool) -> int:
    return 0 if context.db.get_as(args[1], LIST) is None else _push(context, args, left)


@command(
    "LPUSHX", arity=-3, flags=_PUSH, keys=(1, 1, 1), since="2.2.0", complexity="O(1) for each element", group="list",
    syntax="key element [element ...]", access="RW insert",
)  # fmt: skip
def lpushx(context: Context, args: list[bytes]) -> Reply:
    """Put elements at the head of a list if it exists; return its length."""
    return _push_to_list(context, args, left=True)


@command(
    "RPUSHX", arity=-3, flags=_PUSH, keys=(1, 1, 1), since="2.2.0", complexity="O(1) for each element", group="list",
    syntax="key element [element ...]", access="RW insert",
)  # fmt: skip
def rpushx(context: Context, args: list[bytes]) -> Reply:
    """Put elements at the end of a list if it exists; return its length."""
    return _push_to_list(context, args, left=False)


@command(
    "LPOP", arity=-2, flags="write fast", keys=(1, 1, 1), since="1.0.0", complexity="O(N), N the elements",
    group="list", syntax="key [count]", access="RW access delete",
)  # fmt: skip
def lpop(context: Context, args: list[bytes]) -> Reply:
    """Take elements from the head of a list."""
    return _pop(context, args, left=True)


@command(
    "RPOP", arity=-2, flags="write fast", keys=(1, 1, 1), since="1.0.0", complexity="O(N), N the elements",
    group="list", syntax="key [count]", access="RW access delete",
)  # fmt: skip
def rpop(context: Context, args: list[bytes]) -> Reply:
    """Take elements from the end of a list."""
    return _pop(context, args, left=False)


@command(
    "LLEN", arity=2, flags="readonly fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="list",
    syntax="key", access="RO",
)  # fmt: skip
def llen(context: Context, args: list[bytes]) -> Reply:
    """Return the length of a list."""
    value = context.db.read_as(args[1], LIST)
    return 0 if value is None else len(value)


@command(
    "LRANGE", arity=4, flags="readonly", keys=(1, 1, 1), since="1.0.0", complexity="O(N), N the elements returned",
    group="list", syntax="key start stop", access="RO access",
)  # fmt: skip
def lrange(context: Context, args: list[bytes]) -> Reply:
    """Return the elements between two places of a list, negative ones counted from its end."""
    start, stop = parse_integer(args[2]), parse_integer(args[3])
    value = context.db.read_as(args[1], LIST)
    if value is None:
        return []
    length = len(value)
    start = max(0, start + length if start < 0 else start)
    stop = min(stop + length if stop < 0 else stop, length - 1)
    return value.part(start, stop + 1)
