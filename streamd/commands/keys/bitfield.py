"""BITFIELD: integers of any width at any position of a string."""

from typing import Final, NamedTuple

from streamd.base.errors import CommandError, NotAnInteger, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import INT64_MAX, Arguments, parse_integer
from streamd.commands.keys.string_parts import parse_bit_offset, text_of, write_part
from streamd.data.growing import GrowingString
from streamd.resp.types import Reply

_OVERFLOWS: Final = (b"WRAP", b"SAT", b"FAIL")


class _Operation(NamedTuple):
    """GET, SET or INCRBY of the `bits` bits from `offset` on; `number` is the value to set or to add."""

    name: bytes
    is_signed: bool
    bits: int
    offset: int
    number: int
    overflow: bytes

    def read(self, value: bytes | GrowingString) -> int:
        """Return the present integer; behind the end of a string all bits are 0."""
        first, last = self.offset >> 3, (self.offset + self.bits + 7) >> 3
        part = value[first:last] if isinstance(value, bytes) else value.part(first, min(last, max(first, len(value))))
        number = int.from_bytes(part.ljust(last - first, b"\0")) >> (-(self.offset + self.bits) % 8)
        return self._within(number)

    def _within(self, number: int) -> int:
        """Return the value of a number's lowest bits."""
        number &= (1 << self.bits) - 1
        return number - (1 << self.bits) if self.is_signed and number >> (self.bits - 1) else number

    def new(self, old: int) -> int | None:
        """Return the new integer; None if it does not fit and must not be set."""
        # Unsigned, a negative number that is set counts as the largest.
        number = old + self.number if self.name == b"INCRBY" else self.number if self.is_signed else self.number % 2**64
        low, high = (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) if self.is_signed else (0, 2**self.bits - 1)
        if low <= number <= high:
            return number
        if self.overflow == b"FAIL":
            return None
        if self.overflow == b"SAT":
            # A number next to -2**63 that is set is so far below that Redis takes it for one above.
            is_high = number > high or (self.name == b"SET" and self.bits < 64 and high - number > INT64_MAX)
            return high if is_high else low
        return self._within(number)

    def write(self, context: Context, key: bytes, number: int) -> None:
        """Write a number; the string is long enough."""
        first, last = self.offset >> 3, (self.offset + self.bits + 7) >> 3
        value = text_of(context.db.get(key))
        part = value[first:last] if isinstance(value, bytes) else value.part(first, last)
        shift, mask = -(self.offset + self.bits) % 8, (1 << self.bits) - 1
        bits = int.from_bytes(part) & ~(mask << shift) | (number & mask) << shift
        write_part(context, key, first, bits.to_bytes(last - first))


def _parse_type(word: bytes) -> tuple[bool, int]:
    try:
        bits = parse_integer(word[1:])
    except NotAnInteger:
        bits = 0
    if word[:1] not in (b"i", b"u") or not 1 <= bits <= (64 if word[:1] == b"i" else 63):
        raise CommandError(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
        )
    return word[:1] == b"i", bits


def _parse(context: Context, args: list[bytes]) -> list[_Operation]:
    operations = []
    words = Arguments(args, 2)
    overflow = b"WRAP"
    while words.left():
        if words.flag(b"OVERFLOW", followed_by=1):
            overflow = words.word().upper()
            if overflow not in _OVERFLOWS:
                raise CommandError("ERR Invalid OVERFLOW type specified")
            continue
        name = words.peek() or b""
        if not words.flag(b"GET", 2) and not words.flag(b"SET", 3) and not words.flag(b"INCRBY", 3):
            raise SyntaxError_()
        is_signed, bits = _parse_type(words.word())
        offset = words.word()
        # `#3` is behind three such integers.
        is_counted = offset[:1] == b"#"
        first = parse_bit_offset(context, offset[1:] if is_counted else offset, bits if is_counted else 1)
        number = 0 if name == b"GET" else words.integer()
        operations.append(_Operation(name, is_signed, bits, first, number, overflow))
    return operations


_GET = "GET encoding offset"


@command(
    "BITFIELD", arity=-2, flags="write denyoom", keys=(1, 1, 1), since="3.2.0", complexity="O(1) for each operation",
    group="bitmap", access="RW access update variable_flags",
    syntax=f"key [{_GET} | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value:integer | "
    "INCRBY encoding offset increment>]",
)  # fmt: skip
def bitfield(context: Context, args: list[bytes]) -> Reply:
    """Read, set and add to integers at positions of a string, which is padded with zero bits.

    Reply: array of the values that GET reads, of the old values for SET, and of the new ones for INCRBY; nil where the
    number does not fit under OVERFLOW FAIL.
    """
    key, db = args[1], context.db
    operations = _parse(context, args)
    written = [one for one in operations if one.name != b"GET"]
    if not written:
        text = text_of(db.read(key))
        return [one.read(text) for one in operations]
    value = text_of(db.get(key))
    length = (max(one.offset + one.bits for one in written) + 7) >> 3
    grows = length > len(value)
    if grows:
        write_part(context, key, length - 1, b"\0")
    replies: list[Reply] = []
    changes = 0
    for one in operations:
        old = one.read(text_of(db.get(key)))
        new = old if one.name == b"GET" else one.new(old)
        if one.name != b"GET" and new is not None:
            changes += grows or new != old
            one.write(context, key, new)
        replies.append(old if one.name == b"SET" and new is not None else new)
    if changes or grows:
        context.record(*args, changes=changes)
    if changes:
        context.changed(key, "$", "setbit")
    return replies


@command(
    "BITFIELD_RO", arity=-2, flags="readonly fast", keys=(1, 1, 1), since="6.0.0",
    complexity="O(1) for each operation", group="bitmap", syntax=f"key [{_GET} [encoding offset ...]]",
    access="RO access",
)  # fmt: skip
def bitfield_ro(context: Context, args: list[bytes]) -> Reply:
    """Read integers at positions of a string.

    Reply: array of the integers; behind the end of the string all bits are 0.
    """
    operations = _parse(context, args)
    if any(one.name != b"GET" for one in operations):
        raise CommandError("ERR BITFIELD_RO only supports the GET subcommand")
    value = text_of(context.db.read(args[1]))
    return [one.read(value) for one in operations]
