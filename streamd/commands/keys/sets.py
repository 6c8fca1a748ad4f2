"""Commands on sets, as far as programs around streams need them."""

from streamd.catalog import Context, command
from streamd.data.types import SET
from streamd.resp.types import Reply, SetReply


@command(
    "SADD", arity=-3, flags="write denyoom fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1) for each member",
    group="set", syntax="key member [member ...]", access="RW insert",
)  # fmt: skip
def sadd(context: Context, args: list[bytes]) -> Reply:
    """Add members to a set; return how many are new."""
    value = context.db.get_as(args[1], SET)
    if value is None:
        context.db.put(args[1], value := set())
    before = len(value)
    value.update(args[2:])
    if len(value) > before:
        context.record(*args, changes=len(value) - before)
        context.changed(args[1], "s", "sadd")
    return len(value) - before


@command(
    "SREM", arity=-3, flags="write fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1) for each member",
    group="set", syntax="key member [member ...]", access="RW delete",
)  # fmt: skip
def srem(context: Context, args: list[bytes]) -> Reply:
    """Remove members of a set; return how many were there."""
    value = context.db.get_as(args[1], SET)
    if value is None:
        return 0
    before = len(value)
    value.difference_update(args[2:])
    removed = before - len(value)
    if removed:
        context.record(*args, changes=removed)
        context.changed(args[1], "s", "srem")
        if not value:
            context.db.remove(args[1])
            context.notify(args[1], "g", "del")
    return removed


@command(
    "SMEMBERS", arity=2, flags="readonly", keys=(1, 1, 1), since="1.0.0", complexity="O(N), N the members",
    group="set", syntax="key", access="RO access", tips="nondeterministic_output_order",
)  # fmt: skip
def smembers(context: Context, args: list[bytes]) -> Reply:
    """Return the members of a set."""
    return SetReply(list(context.db.read_as(args[1], SET) or ()))


@command(
    "SCARD", arity=2, flags="readonly fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="set",
    syntax="key", access="RO",
)  # fmt: skip
def scard(context: Context, args: list[bytes]) -> Reply:
    """Return the number of members of a set."""
    value = context.db.read_as(args[1], SET)
    return 0 if value is None else len(value)


@command(
    "SISMEMBER", arity=3, flags="readonly fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="set",
    syntax="key member", access="RO",
)  # fmt: skip
def sismember(context: Context, args: list[bytes]) -> Reply:
    """Return whether a set has a member."""
    return int(args[2] in (context.db.read_as(args[1], SET) or ()))
