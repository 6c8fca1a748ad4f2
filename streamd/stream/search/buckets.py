"""A hash of values that separates most of them, and most of those that match a topic filter from the others.

15 bits: 3 of a topic's first level, 5 of its second, 7 of the others. So a filter that has some of these levels
determines their bits. These are the low bits of a number whose 16th bit is set as well.
"""

from typing import Final
from zlib import crc32

from streamd.stream.search.patterns import Pattern

# Numbers from this on are buckets; those of values that begin with $ are the last ones. The very last one, 0xFFFF, is
# free.
BUCKETS: Final = 0x8000
DOLLARS: Final = 0xF000
_FIRST: Final = 7 << 12
_SECOND: Final = 31 << 7
_REST: Final = 127
_WILD: Final = frozenset((b"+", b"#"))


def bucket(value: bytes) -> int:
    """Return the number of a value's bucket."""
    first, slash, others = value.partition(b"/")
    second, next_slash, rest = others.partition(b"/") if slash else (first, b"", b"")
    return BUCKETS | _first(first) | _second(second) | _rest(rest if next_slash else second)


def bits_of(pattern: Pattern) -> tuple[int, int]:
    """Return `(mask, bits)`: the bucket of every matching value has `bits` in the places of `mask`."""
    mask = bits = BUCKETS
    levels = pattern.levels or [b"#"]
    if levels[0] not in _WILD:
        mask, bits = mask | _FIRST, bits | _first(levels[0])
    if len(levels) > 1 and levels[1] not in _WILD:
        mask, bits = mask | _SECOND, bits | _second(levels[1])
    rest = levels[2:] or levels[1:]
    if rest and not _WILD.intersection(rest):
        mask, bits = mask | _REST, bits | _rest(b"/".join(rest))
    return mask, bits


def _first(level: bytes) -> int:
    return _FIRST if level[:1] == b"$" else crc32(level) % 7 << 12


def _second(level: bytes) -> int:
    return (crc32(level) & 31) << 7


def _rest(levels: bytes) -> int:
    return (crc32(levels) >> 8) % 127
