"""Commands on a part of a string, or on the number in it."""

from streamd.base.errors import CommandError, NotAnInteger, StringTooLong, WouldOverflow, WrongType
from streamd.catalog import Context, command
from streamd.catalog.arguments import INT64_MAX, INT64_MIN, parse_integer
from streamd.data.growing import GROWING_BYTES_MIN, GrowingString
from streamd.data.types import STRING, KeyValue
from streamd.resp.types import Reply


def _add(context: Context, key: bytes, increment: int) -> int:
    db = context.db
    old = db.get_as(key, STRING)
    number = 0 if old is None else parse_integer(old)
    if not INT64_MIN <= number + increment <= INT64_MAX:
        raise WouldOverflow()
    number += increment
    db.put(key, b"%d" % number)
    context.record(b"INCRBY", key, b"%d" % increment)
    context.changed(key, "$", "incrby")
    return number


@command(
    "INCR", arity=2, flags="write denyoom fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="string",
    syntax="key", access="RW access update",
)  # fmt: skip
def incr(context: Context, args: list[bytes]) -> Reply:
    """Add one to a number and return it; a missing key counts as 0."""
    return _add(context, args[1], 1)


@command(
    "DECR", arity=2, flags="write denyoom fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="string",
    syntax="key", access="RW access update",
)  # fmt: skip
def decr(context: Context, args: list[bytes]) -> Reply:
    """Subtract one from a number and return it; a missing key counts as 0."""
    return _add(context, args[1], -1)


@command(
    "INCRBY", arity=3, flags="write denyoom fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="string",
    syntax="key increment", access="RW access update",
)  # fmt: skip
def incrby(context: Context, args: list[bytes]) -> Reply:
    """Add to a number and return it; a missing key counts as 0."""
    return _add(context, args[1], parse_integer(args[2]))


@command(
    "DECRBY", arity=3, flags="write denyoom fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="string",
    syntax="key decrement", access="RW access update",
)  # fmt: skip
def decrby(context: Context, args: list[bytes]) -> Reply:
    """Subtract from a number and return it; a missing key counts as 0."""
    decrement = parse_integer(args[2])
    if decrement == INT64_MIN:
        raise CommandError("ERR decrement would overflow")
    return _add(context, args[1], -decrement)


@command(
    "INCRBYFLOAT", arity=3, flags="write denyoom fast", keys=(1, 1, 1), since="2.6.0", complexity="O(1)",
    group="string", syntax="key increment:double", access="RW access update",
)  # fmt: skip
def incrbyfloat(context: Context, args: list[bytes]) -> Reply:
    """Add a fraction to a number and return it; a missing key counts as 0."""
    from streamd.base.long_double import add_fractions  # with `fractions`: a start need not wait for it

    key, db = args[1], context.db
    old = db.get_as(key, STRING)
    value = add_fractions(b"0" if old is None else old, args[2])
    db.put(key, value)
    context.record(b"SET", key, value, b"KEEPTTL")
    context.changed(key, "$", "incrbyfloat")
    return value


def text_of(value: KeyValue | None) -> bytes | GrowingString:
    """Return a string, kept in any form; an empty one for a missing key. Raises: WrongType."""
    if value is None:
        return b""
    if not isinstance(value, bytes | GrowingString):
        raise WrongType()
    return value


def _growing(value: bytes | GrowingString) -> GrowingString:
    return GrowingString(value) if isinstance(value, bytes) else value


@command(
    "STRLEN", arity=2, flags="readonly fast", keys=(1, 1, 1), since="2.2.0", complexity="O(1)", group="string",
    syntax="key", access="RO",
)  # fmt: skip
def strlen(context: Context, args: list[bytes]) -> Reply:
    """Return the length of a string in bytes."""
    return len(text_of(context.db.read(args[1])))


@command(
    "APPEND", arity=3, flags="write denyoom fast", keys=(1, 1, 1), since="2.0.0",
    complexity="O(N), N the length of what is appended", group="string", syntax="key value", access="RW insert",
)  # fmt: skip
def append(context: Context, args: list[bytes]) -> Reply:
    """Append to a string and return its length."""
    key = args[1]
    value = text_of(context.db.get(key))
    length = len(value) + len(args[2])
    if length > context.state.config.integer("proto-max-bulk-len"):
        raise StringTooLong()
    if isinstance(value, bytes) and length < GROWING_BYTES_MIN:
        value += args[2]
    else:
        value = _growing(value)
        value.append(args[2])
    context.db.put(key, value)
    context.record(b"APPEND", key, args[2])
    context.changed(key, "$", "append")
    return len(value)


@command(
    "SUBSTR", arity=4, flags="readonly", keys=(1, 1, 1), since="1.0.0", complexity="O(N), N the bytes returned",
    group="string", syntax="key start:integer end:integer", access="RO access",
    summary="Return a part of a string: the older name of GETRANGE.",
)  # fmt: skip
@command(
    "GETRANGE", arity=4, flags="readonly", keys=(1, 1, 1), since="2.4.0", complexity="O(N), N the bytes returned",
    group="string", syntax="key start:integer end:integer", access="RO access",
)  # fmt: skip
def getrange(context: Context, args: list[bytes]) -> Reply:
    """Return a part of a string, both ends included; negative ones count from its end."""
    start, end = parse_integer(args[2]), parse_integer(args[3])
    value = text_of(context.db.read(args[1]))
    if start < 0 and end < 0 and start > end:
        return b""
    length = len(value)
    start = max(0, start + length) if start < 0 else start
    end = max(0, end + length) if end < 0 else end
    end = min(end + 1, length)
    if start >= end:
        return b""
    return value[start:end] if isinstance(value, bytes) else value.part(start, end)


@command(
    "SETRANGE", arity=4, flags="write denyoom", keys=(1, 1, 1), since="2.2.0",
    complexity="O(N), N the length of what is written", group="string", syntax="key offset:integer value",
    access="RW update",
)  # fmt: skip
def setrange(context: Context, args: list[bytes]) -> Reply:
    """Overwrite a part of a string, which is padded with zero bytes, and return its length."""
    key, offset, part = args[1], parse_integer(args[2]), args[3]
    if offset < 0:
        raise CommandError("ERR offset is out of range")
    value = text_of(context.db.get(key))
    if not part:
        return len(value)
    if offset + len(part) > context.state.config.integer("proto-max-bulk-len"):
        raise StringTooLong()
    length = write_part(context, key, offset, part)
    context.record(b"SETRANGE", key, b"%d" % offset, part)
    context.changed(key, "$", "setrange")
    return length


def write_part(context: Context, key: bytes, offset: int, part: bytes) -> int:
    """Overwrite a part of a string, which is padded with zero bytes, and return its length. Raises: WrongType."""
    value = text_of(context.db.get(key))
    if isinstance(value, bytes) and max(len(value), offset + len(part)) < GROWING_BYTES_MIN:
        value = value[:offset].ljust(offset, b"\0") + part + value[offset + len(part) :]
    else:
        value = _growing(value)
        value.overwrite(offset, part)
    context.db.put(key, value)
    return len(value)


def parse_bit_offset(context: Context, word: bytes, unit_bits: int = 1) -> int:
    """Return the place of a bit that stands behind so many units. Raises: CommandError."""
    try:
        offset = parse_integer(word) * unit_bits
    except NotAnInteger:
        offset = -1
    if offset < 0 or offset >> 3 >= context.state.config.integer("proto-max-bulk-len"):
        raise CommandError("ERR bit offset is not an integer or out of range")
    return offset


def byte_at(value: bytes | GrowingString, at: int) -> int:
    """Return a byte of a string; 0 behind its end."""
    if at >= len(value):
        return 0
    return value[at] if isinstance(value, bytes) else value.part(at, at + 1)[0]
