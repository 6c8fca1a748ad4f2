"""The names that Redis gives to how it would keep a value of a certain size, for OBJECT ENCODING."""

from collections.abc import Callable, Iterable
from typing import Final

from streamd.data.element_list import ElementList
from streamd.data.growing import GrowingString
from streamd.data.hash import Hash
from streamd.data.member_set import MemberSet
from streamd.data.sorted_set import LISTED_BYTES_MAX, LISTED_MEMBERS_MAX, SortedSet
from streamd.data.timed_hash import TimedHash

# The number that an option has, such as hash-max-listpack-entries.
Bound = Callable[[str], int]

# Redis keeps a string of up to so many bytes, its key's among them, inside the object.
_EMBEDDED_BYTES_MAX: Final = 41
# What the values -1 to -5 of list-max-listpack-size mean, and the bytes above which its other values do not count.
_LIST_BYTES_MAX: Final = (4096, 8192, 16384, 32768, 65536)
_LIST_BYTES_SAFE: Final = 8192
# The bytes of a listpack without elements.
_LISTPACK_BYTES: Final = 7
# Bits of a signed integer, and the bytes that it takes in a listpack.
_INTEGER_BYTES: Final = ((13, 3), (16, 4), (24, 5), (32, 6), (64, 10))
# The largest elements whose size stands behind them in one byte, in two, and so on.
_BACKWARDS_MAX: Final = (127, 16382, 2097150, 268435454, 2**40)


def string_encoding(key: bytes, value: bytes | GrowingString, bound: Bound) -> bytes:
    """Return int, embstr or raw."""
    if isinstance(value, bytes) and is_integer(value):
        return b"int"
    return b"embstr" if len(key) + len(value) <= _EMBEDDED_BYTES_MAX else b"raw"


def is_integer(word: bytes) -> bool:
    """Return whether a word is a signed 64-bit integer as Redis writes it."""
    if len(word) > 20:
        return False
    try:
        number = int(word)
    except ValueError:
        return False
    return -(2**63) <= number < 2**63 and b"%d" % number == word


def hash_encoding(key: bytes, value: Hash, bound: Bound) -> bytes:
    """Return listpack, listpackex or hashtable."""
    entries_max, bytes_max = bound("hash-max-listpack-entries"), bound("hash-max-listpack-value")
    if not (_is_compact(len(value), value, entries_max, bytes_max) and _are_short(value.values(), bytes_max)):
        return b"hashtable"
    return b"listpackex" if isinstance(value, TimedHash) else b"listpack"


def list_encoding(key: bytes, value: ElementList, bound: Bound) -> bytes:
    """Return listpack or quicklist."""
    size = bound("list-max-listpack-size")
    bytes_max = _LIST_BYTES_SAFE if size >= 0 else _LIST_BYTES_MAX[min(-size, len(_LIST_BYTES_MAX)) - 1]
    if size >= 0 and len(value) > max(size, 1):
        return b"quicklist"
    taken = _LISTPACK_BYTES
    for element in value:  # (Each takes two bytes at least, so a long list is not read to its end.)
        taken += element_bytes(element)
        if taken > bytes_max:
            return b"quicklist"
    return b"listpack"


def element_bytes(element: bytes) -> int:
    """Return the bytes that an element takes in a listpack."""
    if is_integer(element):
        number = int(element)
        if 0 <= number < 128:
            return 2
        bits = (number if number >= 0 else ~number).bit_length() + 1
        return next(taken for most, taken in _INTEGER_BYTES if bits <= most)
    length = len(element)
    inner = length + (1 if length < 64 else 2 if length < 4096 else 5)
    return inner + next(count for count, most in enumerate(_BACKWARDS_MAX, 1) if inner <= most)


def set_encoding(key: bytes, value: MemberSet, bound: Bound) -> bytes:
    """Return intset, listpack or hashtable."""
    integers_max, entries_max = bound("set-max-intset-entries"), bound("set-max-listpack-entries")
    # (Of a large set no member is looked at.)
    if len(value) <= max(integers_max, entries_max) and all(map(is_integer, value)):
        return b"intset" if len(value) <= integers_max else b"hashtable"
    is_compact = _is_compact(len(value), value, entries_max, bound("set-max-listpack-value"))
    return b"listpack" if is_compact else b"hashtable"


def sorted_set_encoding(key: bytes, value: SortedSet, bound: Bound) -> bytes:
    """Return listpack or skiplist."""
    entries, length = bound("zset-max-listpack-entries"), bound("zset-max-listpack-value")
    if not value.is_listed and entries <= LISTED_MEMBERS_MAX and length <= LISTED_BYTES_MAX:
        return b"skiplist"  # it was too large once
    return b"listpack" if _is_compact(len(value), value.scores, entries, length) else b"skiplist"


def _is_compact(count: int, words: Iterable[bytes], entries_max: int, bytes_max: int) -> bool:
    return count <= entries_max and _are_short(words, bytes_max)


def _are_short(words: Iterable[bytes], bytes_max: int) -> bool:
    return all(len(word) <= bytes_max for word in words)
