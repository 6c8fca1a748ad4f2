"""The words of a glob pattern, in order: literal bytes, any bytes, one byte of a class."""

import re
from collections.abc import Iterator
from itertools import compress
from typing import Final

# (Possessive: nothing of a pattern is looked at twice.)
_CLASS: Final = rb"\[\^?(?:\\.|[^\]]-.|[^\]])*+\]?"
_WORD: Final = re.compile(rb"(\*+)|(\?+)|\[(\^?)((?:\\.|[^\]]-.|[^\]])*+)\]?|((?:[^*?\[\\]++|\\.|\\\Z)++)", re.DOTALL)
_PART: Final = re.compile(rb"\*++|(?:[^*\[\\]++|\\.|\\\Z|" + _CLASS + rb")++", re.DOTALL)
_OF_ONE_BYTE: Final = re.compile(rb"\\.|" + _CLASS, re.DOTALL)
_MEMBER: Final = re.compile(rb"\\(.)|([^\]])-(.)|([^\]])", re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\(.)", re.DOTALL)
_SPECIAL: Final = re.compile(rb"[*?\[\\]")
# More literal bytes of a pattern than so many say little more about what it matches.
ENDS_BYTES_MAX: Final = 64
_EVERY: Final = frozenset(range(256))


class Word:
    """Bytes that a part of a pattern matches.

    length: their number. literal: these; None: any, or one of `members` if that is not None.
    """

    __slots__ = ("length", "literal", "members")

    def __init__(self, length: int, literal: bytes | None = None, members: frozenset[int] | None = None) -> None:
        self.length = length
        self.literal = literal
        self.members = members


# Any number of any bytes.
STAR: Final = Word(0)


def words(pattern: bytes, ignore_case: bool = False) -> Iterator[Word]:
    """Yield the words of a pattern; several stars in a row are one."""
    for found in _WORD.finditer(pattern):
        kind = found.lastindex
        if kind == 1:
            yield STAR
        elif kind == 2:
            yield Word(found.end() - found.start())
        elif kind == 5:
            literal = unescaped(found[5])
            yield Word(len(literal), literal)
        else:
            yield Word(1, None, _members(found[3], found[4], ignore_case))


def unescaped(text: bytes) -> bytes:
    """Return the bytes that a literal part of a pattern stands for."""
    return _ESCAPED.sub(rb"\1", text) if b"\\" in text else text


def is_literal(pattern: bytes) -> bool:
    """Return whether a pattern matches itself and nothing else."""
    return _SPECIAL.search(pattern) is None


def parts(pattern: bytes) -> list[bytes]:
    """Return a pattern split before and behind its stars; several stars in a row stay together."""
    return _PART.findall(pattern)


def least_length(pattern: bytes) -> int:
    """Return the length of the shortest text that matches a pattern."""
    plain = _OF_ONE_BYTE.sub(b".", pattern)
    return len(plain) - plain.count(b"*")


def _members(sign: bytes, body: bytes, ignore_case: bool) -> frozenset[int]:
    """Return the bytes that a class matches. As in Redis, a byte above 127 is a negative number, so `[a-\\xff]` is all
    from \\xff to `a`; if case is ignored the ends of a range are put into lower case, and escaped bytes are not.
    """
    if b"-" not in body and b"\\" not in body and not ignore_case:
        return _EVERY.difference(body) if sign else frozenset(body)
    marks = bytearray(256)  # by byte + 128, which is from -128 to 127
    exact: set[int] = set()
    for escaped, low, high, one in set(_MEMBER.findall(body)):
        if escaped:
            exact.add(escaped[0])
        elif one:
            marks[_signed(one.lower() if ignore_case else one) + 128] = 1
        else:
            start, end = (low, high) if _signed(low) <= _signed(high) else (high, low)
            if ignore_case:
                start, end = start.lower(), end.lower()
            first, behind = _signed(start) + 128, _signed(end) + 129
            if first < behind:
                marks[first:behind] = b"\1" * (behind - first)
    marks = marks[128:] + marks[:128]
    if ignore_case:
        marks[65:91] = marks[97:123]
    exact.update(compress(range(256), marks))
    return _EVERY.difference(exact) if sign else frozenset(exact)


def _signed(byte: bytes) -> int:
    return (byte[0] ^ 128) - 128


def literal_head(pattern: bytes) -> bytes:
    """Return a few literal bytes that begin every text that matches a pattern."""
    head = pattern[:ENDS_BYTES_MAX]
    first = _SPECIAL.search(head)
    return head if first is None else head[: first.start()]


def literal_tail(pattern: bytes) -> bytes:
    """Return a few literal bytes that end every text that matches a pattern."""
    if b"[" in pattern:
        return b""  # where a class ends is not seen from the end
    tail = pattern[-ENDS_BYTES_MAX:]
    return tail[1 + max(tail.rfind(b"*"), tail.rfind(b"?"), tail.rfind(b"\\")) :]
