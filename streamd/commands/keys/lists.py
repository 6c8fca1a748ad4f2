"""Commands on lists, as far as programs around streams need them."""

from collections import deque
from itertools import islice

from streamd.base.errors import CommandError, NotAnInteger, WrongArity
from streamd.catalog import Context, command
from streamd.catalog.arguments import parse_integer
from streamd.commands.long_replies import array
from streamd.data.types import LIST
from streamd.resp.types import NULL_ARRAY, Reply

_PUSH = "write denyoom fast"


def _push(context: Context, args: list[bytes], left: bool) -> int:
    key, items = args[1], args[2:]
    value = context.db.get_as(key, LIST)
    if value is None:
        context.db.put(key, value := deque())
    if left:
        value.extendleft(items)
    else:
        value.extend(items)
    context.record(b"LPUSH" if left else b"RPUSH", key, *items, changes=len(items))
    context.changed(key, "l", "lpush" if left else "rpush")
    return len(value)


def _pop(context: Context, args: list[bytes], left: bool) -> Reply:
    key = args[1]
    count = 1
    if len(args) > 3:
        raise WrongArity(args[0].decode().lower())
    if len(args) == 3:
        try:
            count = parse_integer(args[2])
        except NotAnInteger:
            count = -1
        if count < 0:
            raise CommandError("ERR value is out of range, must be positive")
    value = context.db.get_as(key, LIST)
    if value is None:
        return None if len(args) == 2 else NULL_ARRAY
    taken = [value.popleft() if left else value.pop() for _ in range(min(count, len(value)))]
    if taken:
        context.record(b"LPOP" if left else b"RPOP", key, b"%d" % len(taken), changes=len(taken))
        context.changed(key, "l", "lpop" if left else "rpop")
        if not value:
            context.db.remove(key)
            context.notify(key, "g", "del")
    return taken[0] if len(args) == 2 else taken


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
    "LRANGE", arity=4, flags="readonly", keys=(1, 1, 1), since="1.0.0", complexity="O(S+N), S the start's distance",
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
    stop = stop + length if stop < 0 else stop
    return array(list(islice(value, min(start, length), max(min(stop, length - 1) + 1, 0)))) if start <= stop else []
