"""Commands on hashes."""

from typing import Final

from streamd.base.errors import (
    CommandError,
    NotAFloat,
    NotAnInteger,
    NotFinite,
    WouldOverflow,
    WrongArity,
)
from streamd.catalog import Context, command
from streamd.catalog.arguments import INT64_MAX, INT64_MIN, parse_integer, take_random_count
from streamd.commands.keys.hash_fields import remove_fields, set_fields
from streamd.commands.keys.results import with_values
from streamd.commands.keys.scan_pages import page_reply
from streamd.commands.long_replies import mapping
from streamd.data import positions
from streamd.data.hash import Hash
from streamd.data.types import HASH
from streamd.resp.types import Reply

_WRITE = "write denyoom fast"
_O1 = "O(1)"
_ON = "O(N), N the fields"
_NONE: Final = Hash()


def _store(context: Context, key: bytes, pairs: list[bytes]) -> int:
    """Set fields to values, `[field, value, ...]`, and remove their times; return how many of the fields are new."""
    fields = context.db.get_as(key, HASH)
    if fields is None:
        context.db.put(key, fields := Hash())
    added = fields.set_fields(pairs)
    context.record_words([b"HSET", key, *pairs], len(pairs) // 2)
    if key in context.db.followed:  # (Mostly nobody needs the list of the fields.)
        context.changed(key, "h", "hset", pairs[::2])
    return added


def _store_number(context: Context, args: list[bytes], value: bytes) -> None:
    """Set a field to a new count, and keep its time."""
    key = args[1]
    fields = context.db.get_as(key, HASH)
    if fields is None:
        context.db.put(key, fields := Hash())
    set_fields(context, key, fields, [args[2], value], args[0].decode().lower(), keeps_times=True)


@command(
    "HSET", arity=-4, flags=_WRITE, keys=(1, 1, 1), since="2.0.0", complexity="O(1) for each field", group="hash",
    syntax="key field value [field value ...]", access="RW update",
)  # fmt: skip
def hset(context: Context, args: list[bytes]) -> Reply:
    """Set fields of a hash; return how many of them are new."""
    if len(args) % 2:
        raise WrongArity("hset")
    return _store(context, args[1], args[2:])


@command(
    "HMSET", arity=-4, flags=_WRITE, keys=(1, 1, 1), since="2.0.0", complexity=_ON, group="hash",
    syntax="key field value [field value ...]", access="RW update",
)  # fmt: skip
def hmset(context: Context, args: list[bytes]) -> Reply:
    """Set fields of a hash."""
    if len(args) % 2:
        raise WrongArity("hmset")
    _store(context, args[1], args[2:])
    return "OK"


@command(
    "HSETNX", arity=4, flags=_WRITE, keys=(1, 1, 1), since="2.0.0", complexity=_O1, group="hash",
    syntax="key field value", access="RW insert",
)  # fmt: skip
def hsetnx(context: Context, args: list[bytes]) -> Reply:
    """Set a field of a hash if it does not exist; return whether it was set."""
    if args[2] in (context.db.get_as(args[1], HASH) or ()):
        return 0
    return _store(context, args[1], args[2:])


@command(
    "HGET", arity=3, flags="readonly fast", keys=(1, 1, 1), since="2.0.0", complexity=_O1, group="hash",
    syntax="key field", access="RO access",
)  # fmt: skip
def hget(context: Context, args: list[bytes]) -> Reply:
    """Return the value of a field, or nil."""
    return (context.db.read_as(args[1], HASH) or _NONE).get(args[2])


@command(
    "HMGET", arity=-3, flags="readonly fast", keys=(1, 1, 1), since="2.0.0", complexity=_ON, group="hash",
    syntax="key field [field ...]", access="RO access",
)  # fmt: skip
def hmget(context: Context, args: list[bytes]) -> Reply:
    """Return the values of fields; nil for missing ones."""
    fields = context.db.read_as(args[1], HASH) or _NONE
    return [fields.get(field) for field in args[2:]]


@command(
    "HGETALL", arity=2, flags="readonly", keys=(1, 1, 1), since="2.0.0", complexity=_ON, group="hash", syntax="key",
    access="RO access", tips="nondeterministic_output_order",
)  # fmt: skip
def hgetall(context: Context, args: list[bytes]) -> Reply:
    """Return all fields with their values.

    Reply: map.
    """
    fields = context.db.read_as(args[1], HASH)
    return {} if fields is None else mapping(fields)


@command(
    "HKEYS", arity=2, flags="readonly", keys=(1, 1, 1), since="2.0.0", complexity=_ON, group="hash", syntax="key",
    access="RO access", tips="nondeterministic_output_order",
)  # fmt: skip
def hkeys(context: Context, args: list[bytes]) -> Reply:
    """Return all fields."""
    return list(context.db.read_as(args[1], HASH) or ())


@command(
    "HVALS", arity=2, flags="readonly", keys=(1, 1, 1), since="2.0.0", complexity=_ON, group="hash", syntax="key",
    access="RO access", tips="nondeterministic_output_order",
)  # fmt: skip
def hvals(context: Context, args: list[bytes]) -> Reply:
    """Return all values."""
    return list((context.db.read_as(args[1], HASH) or _NONE).values())


@command(
    "HDEL", arity=-3, flags="write fast", keys=(1, 1, 1), since="2.0.0", complexity=_ON, group="hash",
    syntax="key field [field ...]", access="RW delete",
)  # fmt: skip
def hdel(context: Context, args: list[bytes]) -> Reply:
    """Remove fields; return the number of those that existed. A hash without fields is removed."""
    key = args[1]
    fields = context.db.get_as(key, HASH)
    if fields is None:
        return 0
    return remove_fields(context, key, fields, args[2:])


@command(
    "HLEN", arity=2, flags="readonly fast", keys=(1, 1, 1), since="2.0.0", complexity=_O1, group="hash", syntax="key",
    access="RO",
)  # fmt: skip
def hlen(context: Context, args: list[bytes]) -> Reply:
    """Return the number of fields in a hash."""
    value = context.db.read_as(args[1], HASH)
    return 0 if value is None else len(value)


@command(
    "HSTRLEN", arity=3, flags="readonly fast", keys=(1, 1, 1), since="3.2.0", complexity=_O1, group="hash",
    syntax="key field", access="RO",
)  # fmt: skip
def hstrlen(context: Context, args: list[bytes]) -> Reply:
    """Return the length of a field's value in bytes."""
    return len((context.db.read_as(args[1], HASH) or _NONE).get(args[2], b""))


@command(
    "HEXISTS", arity=3, flags="readonly fast", keys=(1, 1, 1), since="2.0.0", complexity=_O1, group="hash",
    syntax="key field", access="RO",
)  # fmt: skip
def hexists(context: Context, args: list[bytes]) -> Reply:
    """Return whether a field exists."""
    return int(args[2] in (context.db.read_as(args[1], HASH) or ()))


@command(
    "HINCRBY", arity=4, flags=_WRITE, keys=(1, 1, 1), since="2.0.0", complexity=_O1, group="hash",
    syntax="key field increment", access="RW access update",
)  # fmt: skip
def hincrby(context: Context, args: list[bytes]) -> Reply:
    """Add to the number in a field and return it; a missing field counts as 0."""
    increment = parse_integer(args[3])
    try:
        number = parse_integer((context.db.get_as(args[1], HASH) or _NONE).get(args[2], b"0"))
    except NotAnInteger:
        raise CommandError("ERR hash value is not an integer")
    if not INT64_MIN <= number + increment <= INT64_MAX:
        raise WouldOverflow()
    _store_number(context, args, b"%d" % (number + increment))
    return number + increment


@command(
    "HSCAN", arity=-3, flags="readonly", keys=(1, 1, 1), since="2.8.0",
    complexity="O(COUNT)", group="hash",
    syntax="key cursor [MATCH pattern] [COUNT count] [NOVALUES]", access="RO access", tips="nondeterministic_output",
)  # fmt: skip
def hscan(context: Context, args: list[bytes]) -> Reply:
    """Return a page of the fields with their values, and the cursor of the next page; a small hash is one page.

    A field that is there all the time is returned, and only once unless others are removed and added meanwhile.

    Reply: array of the next cursor, 0 at the end, and an array of fields and values, with NOVALUES of fields.
    """
    return page_reply(context, args, HASH, lambda value, fields: map(value.__getitem__, fields), has_values=True)


@command(
    "HINCRBYFLOAT", arity=4, flags=_WRITE, keys=(1, 1, 1), since="2.6.0", complexity=_O1, group="hash",
    syntax="key field increment:double", access="RW access update",
)  # fmt: skip
def hincrbyfloat(context: Context, args: list[bytes]) -> Reply:
    """Add a fraction to the number in a field and return it; a missing field counts as 0."""
    from streamd.base.long_double import add_fractions  # with `fractions`: a start need not wait for it

    try:
        add_fractions(b"0", args[3])
    except NotFinite:
        raise CommandError("ERR value is NaN or Infinity")
    before = (context.db.get_as(args[1], HASH) or _NONE).get(args[2], b"0")
    try:
        value = add_fractions(before, args[3])
    except NotAFloat:
        raise CommandError("ERR hash value is not a float")
    _store_number(context, args, value)
    return value


@command(
    "HRANDFIELD", arity=-2, flags="readonly", keys=(1, 1, 1), since="6.2.0", complexity="O(N), N the fields returned",
    group="hash", syntax="key [count [WITHVALUES]]", access="RO access", tips="nondeterministic_output",
)  # fmt: skip
def hrandfield(context: Context, args: list[bytes]) -> Reply:
    """Return random fields of a hash: one, or several different ones, or with a negative count any."""
    random = context.state.random
    if len(args) == 2:
        only = context.db.read_as(args[1], HASH)
        return None if only is None else positions.some_rows(only, random, 1)[0]
    count, shows_values = take_random_count(args, b"WITHVALUES")
    fields = context.db.read_as(args[1], HASH)
    if fields is None or not count:
        return []
    found = positions.some_rows(fields, random, count) if count > 0 else positions.any_rows(fields, random, -count)
    return with_values(context, found, fields) if shows_values else found
