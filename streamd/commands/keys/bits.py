"""Commands on the bits of a string."""

from collections.abc import Callable, Iterator
from functools import partial, reduce
from operator import and_, or_, xor
from typing import Final
from zlib import adler32

from streamd.base.errors import CommandError, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import parse_integer
from streamd.commands.keys.string_parts import byte_at, parse_bit_offset, text_of, write_part
from streamd.data.types import STRING
from streamd.resp.plain import plain
from streamd.resp.types import Later, Reply, Sliced


def _first_only(numbers: list[int]) -> int:
    return numbers[0] & ~reduce(or_, numbers[1:])


def _others_only(numbers: list[int]) -> int:
    return ~numbers[0] & reduce(or_, numbers[1:])


def _first_and_others(numbers: list[int]) -> int:
    return numbers[0] & reduce(or_, numbers[1:])


def _in_one(numbers: list[int]) -> int:
    """Return the bits that are set in exactly one of the numbers."""
    once = several = 0
    for number in numbers:
        several |= once & number
        once |= number
    return once & ~several


# Operations on bits, each with the least number of strings.
_OPERATIONS: Final[dict[bytes, tuple[Callable[[list[int]], int], int]]] = {
    b"AND": (partial(reduce, and_), 1),
    b"OR": (partial(reduce, or_), 1),
    b"XOR": (partial(reduce, xor), 1),
    b"DIFF": (_first_only, 2),
    b"DIFF1": (_others_only, 2),
    b"ANDOR": (_first_and_others, 2),
    b"ONE": (_in_one, 1),
}


@command(
    "SETBIT", arity=4, flags="write denyoom", keys=(1, 1, 1), since="2.2.0", complexity="O(1)", group="bitmap",
    syntax="key offset value:integer", access="RW access update",
)  # fmt: skip
def setbit(context: Context, args: list[bytes]) -> Reply:
    """Set a bit of a string, which is padded with zero bits, and return its old value."""
    key, offset = args[1], parse_bit_offset(context, args[2])
    if args[3] not in (b"0", b"1"):
        raise CommandError("ERR bit is not an integer or out of range")
    value = text_of(context.db.get(key))  # a long string stays in the form in which it is changed
    at, mask = offset >> 3, 0x80 >> (offset & 7)
    byte = byte_at(value, at)
    changed = byte | mask if args[3] == b"1" else byte & ~mask
    if changed != byte or at >= len(value):
        write_part(context, key, at, bytes([changed]))
        context.record(b"SETBIT", *args[1:])
        context.changed(key, "$", "setbit")
    return int(bool(byte & mask))


@command(
    "GETBIT", arity=3, flags="readonly fast", keys=(1, 1, 1), since="2.2.0", complexity="O(1)", group="bitmap",
    syntax="key offset", access="RO access",
)  # fmt: skip
def getbit(context: Context, args: list[bytes]) -> Reply:
    """Return a bit of a string; 0 behind its end."""
    offset = parse_bit_offset(context, args[2])
    byte = byte_at(text_of(context.db.read(args[1])), offset >> 3)
    return int(bool(byte & (0x80 >> (offset & 7))))


def _range(args: list[bytes], at: int, length: int, unit_before_end: bool) -> tuple[int, int]:
    """Return the first bit, and the one behind the last, of `[start [end [BYTE | BIT]]]` at args[at]; equal if none.

    unit_before_end: which of two faults is told.
    """
    words = args[at:]
    if len(words) > 3:
        raise SyntaxError_()
    start = parse_integer(words[0]) if words else 0
    unit = words[2].upper() if len(words) == 3 else b"BYTE"
    is_unit = unit in (b"BIT", b"BYTE")
    if unit_before_end and not is_unit:
        raise SyntaxError_()
    end = parse_integer(words[1]) if len(words) > 1 else -1
    if not is_unit:
        raise SyntaxError_()
    bits = 1 if unit == b"BIT" else 8
    total = length * 8 // bits
    start = max(0, start + total) if start < 0 else start
    end = min(max(0, end + total) if end < 0 else end, total - 1)
    return (start * bits, (end + 1) * bits) if start <= end else (0, 0)


# So many bytes are counted at once, in less than a tenth of a millisecond.
_COUNTED_BYTES: Final = 64 * 1024
# A longer part of a string is counted in slices: that takes some milliseconds.
_SLICED_BYTES_MIN: Final = 4 * 1024 * 1024
# How many bits of each byte are set.
_ONES: Final = bytes(byte.bit_count() for byte in range(256))
# Adler-32 adds up bytes, modulo 65,521: so many of them are less, at most eight each.
_ADDED_BYTES: Final = 8_184


def _ones(part: bytes) -> int:
    """Return the number of set bits. (The sum of a checksum takes two thirds of the time of bit_count of a number.)"""
    counts = part.translate(_ONES)
    return sum([(adler32(counts[at : at + _ADDED_BYTES]) & 0xFFFF) - 1 for at in range(0, len(counts), _ADDED_BYTES)])


def _count(value: bytes, start: int, end: int) -> Iterator[int | None]:
    """Yield None behind each part, and then the number of set bits from `start` up to, not including, `end`."""
    if start == end:
        yield 0
        return
    first, last = start >> 3, (end - 1) >> 3
    # Of the first and the last byte some bits may be outside.
    total = -(value[first] >> (8 - start % 8)).bit_count() - (value[last] & ((1 << -end % 8) - 1)).bit_count()
    before, count = b"", 0
    for at in range(first, last + 1, _COUNTED_BYTES):
        part = value[at : min(at + _COUNTED_BYTES, last + 1)]
        if part != before:  # bitmaps have long parts that repeat
            before, count = part, _ones(part)
        total += count
        yield None
    yield total


def _first_other(value: bytes, start: int, stop: int, byte: int) -> int:
    """Return the position of the first byte that is not `byte`, or `stop`. (Comparing pages is quickest.)"""
    for page in _PAGES[byte]:
        while start + len(page) <= stop and value.startswith(page, start):
            start += len(page)
    return start


_PAGES: Final = {byte: [bytes([byte]) * size for size in (65_536, 4_096, 256, 16, 1)] for byte in (0, 255)}


@command(
    "BITCOUNT", arity=-2, flags="readonly", keys=(1, 1, 1), since="2.6.0", complexity="O(N), N the bytes",
    group="bitmap", syntax="key [start:integer end:integer [BYTE | BIT]]", access="RO access",
)  # fmt: skip
def bitcount(context: Context, args: list[bytes]) -> Reply:
    """Return the number of set bits in a string, or in a part of it."""
    if len(args) == 3:
        raise SyntaxError_()
    _range(args, 2, 0, unit_before_end=False)  # as in Redis, words are parsed before the key is looked up
    value = context.db.read_as(args[1], STRING)
    if value is None:
        return 0
    start, end = _range(args, 2, len(value), unit_before_end=False)
    if len(args) > 3 and 0 > parse_integer(args[2]) > parse_integer(args[3]):
        return 0  # even where both are in front of the string, which is its first byte else
    count = Later(_count(value, start, end))
    return Sliced(count, len(value)) if end - start > 8 * _SLICED_BYTES_MIN else plain(count)


@command(
    "BITPOS", arity=-3, flags="readonly", keys=(1, 1, 1), since="2.8.7", complexity="O(N), N the bytes",
    group="bitmap", syntax="key bit:integer [start:integer [end:integer [BYTE | BIT]]]", access="RO access",
)  # fmt: skip
def bitpos(context: Context, args: list[bytes]) -> Reply:
    """Return the position of the first bit that is 0, or 1, in a string; or -1.

    Behind the end of the string all bits are 0, unless an end is given.
    """
    bit = parse_integer(args[2])
    if bit not in (0, 1):
        raise CommandError("ERR The bit argument must be 1 or 0.")
    _range(args, 3, 0, unit_before_end=True)  # as for BITCOUNT
    value = context.db.read_as(args[1], STRING)
    if value is None:
        return -bit
    start, end = _range(args, 3, len(value), unit_before_end=True)
    if start == end:
        return -1
    none = -1 if bit or len(args) > 4 else end
    unwanted = 0 if bit else 255
    at, stop = start >> 3, (end + 7) >> 3
    outside = 255 >> start % 8 ^ 255  # the bits of the first byte that are in front of the start
    byte = value[at] & ~outside if bit else value[at] | outside
    if byte == unwanted:
        at = _first_other(value, at + 1, stop, unwanted)
        if at == stop:
            return none
        byte = value[at]
    place = 8 * at + 8 - (byte ^ unwanted).bit_length()
    return place if place < end else none


@command(
    "BITOP", arity=-4, flags="write denyoom", keys=(2, -1, 1), since="2.6.0", complexity="O(N), N the bytes",
    group="bitmap",
    syntax="<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey:key key [key ...]",
    access="OW update; RO access",
)  # fmt: skip
def bitop(context: Context, args: list[bytes]) -> Reply:
    """Combine the bits of strings by an operation, put the result at a key and return its length.

    NOT: the bits of one string, inverted. DIFF: set in the first string and no other. DIFF1: in another and not in the
    first. ANDOR: in the first and another. ONE: in exactly one string.
    """
    name, target = args[1].upper(), args[2]
    if name != b"NOT" and name not in _OPERATIONS:
        raise SyntaxError_()
    if name == b"NOT" and len(args) != 4:
        raise CommandError("ERR BITOP NOT must be called with a single source key.")
    if name != b"NOT" and len(args) - 3 < _OPERATIONS[name][1]:
        raise CommandError(f"ERR BITOP {name.decode()} must be called with at least two source keys.")
    db = context.db
    values = [db.read_as(key, STRING) or b"" for key in args[3:]]
    length = max(map(len, values))
    if not length:
        if db.delete(target):
            context.record(b"DEL", target)
            context.changed(target, "g", "del")
        return 0
    numbers = [int.from_bytes(value) << (length - len(value)) * 8 for value in values]
    number = numbers[0] ^ ((1 << length * 8) - 1) if name == b"NOT" else _OPERATIONS[name][0](numbers)
    result = number.to_bytes(length)
    context.notify_overwritten(target, db.peek(target), result)
    db.clear_expiry(target)
    db.put(target, result)
    context.record(b"SET", target, result)  # a rewrite may have written the other keys already, as they are later
    context.changed(target, "$", "set")
    return length
