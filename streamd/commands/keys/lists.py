"""Commands on lists: their ends, their length, a range."""

from streamd.base.errors import WrongArity
from streamd.catalog import Context, command
from streamd.catalog.arguments import parse_integer, parse_positive
from streamd.data.element_list import ElementList
from streamd.data.types import LIST
from streamd.resp.types import NULL_ARRAY, Reply


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


def push_elements(context: Context, key: bytes, elements: list[bytes], left: bool, changes: int) -> int:
    """Put elements at an end of a list, the first one first, and return its length. Raises: WrongType.

    changes: the number of changes that it counts for.
    """
    db = context.db
    value = db.get_as(key, LIST)
    if value is None:
        db.put(key, value := ElementList())
    elif key in db.waiting:
        db.signal(key)  # a client may wait for several elements
    if left:
        value.extendleft(elements)
    else:
        value.extend(elements)
    context.record_words([b"LPUSH" if left else b"RPUSH", key, *elements], changes)
    context.changed(key, "l", "lpush" if left else "rpush")
    return len(value)


def end_if_empty(context: Context, key: bytes, value: ElementList) -> None:
    """Remove a list that has no elements any more."""
    if not value:
        context.db.remove(key)
        context.notify(key, "g", "del")


def _declare_push(name: str, end: str, since: str, needs_list: bool) -> None:
    left = end == "head"

    def handler(context: Context, args: list[bytes]) -> Reply:
        if needs_list and context.db.get_as(args[1], LIST) is None:
            return 0
        return push_elements(context, args[1], args[2:], left, len(args) - 2)

    command(
        name, arity=-3, flags="write denyoom fast", keys=(1, 1, 1), since=since, complexity="O(1) for each element",
        group="list", syntax="key element [element ...]", access="RW insert",
        summary=f"Put elements at the {end} of a list{' if it exists' if needs_list else ''}; return its length.",
    )(handler)  # fmt: skip


def _declare_pop(name: str, end: str) -> None:
    left = end == "head"

    def handler(context: Context, args: list[bytes]) -> Reply:
        key = args[1]
        if len(args) > 3:
            raise WrongArity(name.lower())
        count = parse_positive(args[2]) if len(args) == 3 else 1
        if context.db.get_as(key, LIST) is None:
            return None if len(args) == 2 else NULL_ARRAY
        taken = pop_elements(context, key, count, left)
        return taken[0] if len(args) == 2 else taken

    command(
        name, arity=-2, flags="write fast", keys=(1, 1, 1), since="1.0.0", complexity="O(N), N the elements",
        group="list", syntax="key [count]", access="RW access delete",
        summary=f"Take elements from the {end} of a list.",
    )(handler)  # fmt: skip


_declare_push("LPUSH", "head", "1.0.0", needs_list=False)
_declare_push("RPUSH", "end", "1.0.0", needs_list=False)
_declare_push("LPUSHX", "head", "2.2.0", needs_list=True)
_declare_push("RPUSHX", "end", "2.2.0", needs_list=True)
_declare_pop("LPOP", "head")
_declare_pop("RPOP", "end")


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
