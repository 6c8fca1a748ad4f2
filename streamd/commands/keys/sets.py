"""Commands on the members of a set."""

from streamd.base.errors import SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import parse_positive, parse_random_count
from streamd.commands.keys.results import end_removal
from streamd.commands.keys.scan_pages import page_reply
from streamd.data import positions
from streamd.data.member_set import MemberSet
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
        context.db.put(args[1], value := MemberSet())
    added = value.gain(args[2:])
    if added:
        context.record_words([b"SADD", *args[1:]], added)
        context.changed(args[1], "s", "sadd")
    return added


@command(
    "SREM", arity=-3, flags="write fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1) for each member",
    group="set", syntax="key member [member ...]", access="RW delete",
)  # fmt: skip
def srem(context: Context, args: list[bytes]) -> Reply:
    """Remove members of a set; return the number of those that existed."""
    value = context.db.get_as(args[1], SET)
    if value is None:
        return 0
    removed = value.lose(args[2:])
    end_removal(context, args[1], value, removed, b"SREM", "s", "srem")
    return len(removed)


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


@command(
    "SMISMEMBER", arity=-3, flags="readonly fast", keys=(1, 1, 1), since="6.2.0", complexity="O(N), N the members",
    group="set", syntax="key member [member ...]", access="RO access",
)  # fmt: skip
def smismember(context: Context, args: list[bytes]) -> Reply:
    """Return for each given member whether a set has it."""
    value = context.db.read_as(args[1], SET) or ()
    return [int(member in value) for member in args[2:]]


@command(
    "SPOP", arity=-2, flags="write fast", keys=(1, 1, 1), since="1.0.0", complexity="O(N), N the members taken",
    group="set", syntax="key [count]", access="RW access delete", tips="nondeterministic_output",
)  # fmt: skip
def spop(context: Context, args: list[bytes]) -> Reply:
    """Take random members of a set."""
    if len(args) > 3:
        raise SyntaxError_()
    count = parse_positive(args[2]) if len(args) == 3 else 1
    value = context.db.get_as(args[1], SET)
    if value is None:
        return None if len(args) == 2 else SetReply([])
    chosen = positions.some_rows(value, context.state.random, count)
    value.lose(chosen)
    end_removal(context, args[1], value, chosen, b"SREM", "s", "spop")
    return chosen[0] if len(args) == 2 else SetReply(list(chosen))


@command(
    "SRANDMEMBER", arity=-2, flags="readonly", keys=(1, 1, 1), since="1.0.0", complexity="O(N), N the members returned",
    group="set", syntax="key [count]", access="RO access", tips="nondeterministic_output",
)  # fmt: skip
def srandmember(context: Context, args: list[bytes]) -> Reply:
    """Return random members of a set: one, or several different ones, or with a negative count any."""
    if len(args) > 3:
        raise SyntaxError_()
    count = parse_random_count(args[2]) if len(args) == 3 else None
    value = context.db.read_as(args[1], SET)
    random = context.state.random
    if count is None:
        return None if value is None else positions.some_row(value, random)
    if value is None:
        return []
    if count < 0:
        return positions.any_rows(value, random, -count)
    return positions.some_rows(value, random, count)


@command(
    "SMOVE", arity=4, flags="write fast", keys=(1, 2, 1), since="1.0.0", complexity="O(1)", group="set",
    syntax="source destination member", access="RW access delete; RW insert",
)  # fmt: skip
def smove(context: Context, args: list[bytes]) -> Reply:
    """Move a member from a set to another; return whether it was moved."""
    source, target, member = args[1:]
    db = context.db
    value = db.get_as(source, SET)
    if value is None:
        return 0
    other = db.get_as(target, SET)
    if value is other:
        return int(member in value)
    if not value.lose([member]):
        return 0
    context.changed(source, "s", "srem")
    if not value:
        db.remove(source)
        context.notify(source, "g", "del")
    if other is None:
        added = (other := MemberSet()).gain([member])
        db.put(target, other)
    else:
        added = other.gain([member])
    # For each key a record of its own, as a rewrite asks: one key may be written already and the other not.
    context.record(b"SREM", source, member)
    if added:
        context.record(b"SADD", target, member)
        context.changed(target, "s", "sadd")
    return 1


@command(
    "SSCAN", arity=-3, flags="readonly", keys=(1, 1, 1), since="2.8.0",
    complexity="O(COUNT)", group="set",
    syntax="key cursor [MATCH pattern] [COUNT count]", access="RO access", tips="nondeterministic_output",
)  # fmt: skip
def sscan(context: Context, args: list[bytes]) -> Reply:
    """Return a page of the members, and the cursor of the next page; a small set is one page.

    A member that is there all the time is returned, and only once unless others are removed and added meanwhile.

    Reply: array of the next cursor, 0 at the end, and an array of members.
    """
    return page_reply(context, args, SET)
