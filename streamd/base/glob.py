"""Redis's glob patterns, compiled to functions that match a text."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from streamd.base.glob_words import STAR, Word, words
from streamd.base.kept import SHORT_BYTES_MAX
from streamd.base.long_glob import LongGlob

# Patterns that a server meets again and again: SCAN loops, filters.
_CACHED_PATTERNS: Final = 512

Matcher = Callable[[bytes], object]


def compile_glob(pattern: bytes, ignore_case: bool = False) -> Matcher:
    """Return a function whose result is true for the texts that match the whole of `pattern`.

    `*` any bytes, `?` one byte, `[abc]`, `[^abc]` and `[a-c]` one byte of a class, `\\x` the byte x.
    A class that is never closed ends with the pattern; `[]` matches nothing, a lone backslash at the end itself.

    The part between two stars is matched at its first place and never moved: with backtracking a pattern like
    `*a*a*a*a*b` would take minutes.
    Source: https://redis.io/docs/latest/commands/keys/
    """
    # (Long ones are not made regular expressions: to compile one of a megabyte takes seconds.)
    if len(pattern) > SHORT_BYTES_MAX:
        return LongGlob(pattern, ignore_case).matches
    return _compiled(pattern, ignore_case)


@lru_cache(maxsize=_CACHED_PATTERNS)
def _compiled(pattern: bytes, ignore_case: bool) -> Matcher:
    pieces: list[list[bytes]] = [[]]
    for word in words(pattern, ignore_case):
        if word is STAR:
            pieces.append([])
        else:
            pieces[-1].append(_regex(word, ignore_case))
    first, *others = map(b"".join, pieces)
    if others:
        *middle, last = others
        regex = first + b"".join(b"(?>.*?%b)" % piece for piece in middle) + b".*" + last
    else:
        regex = first
    return compile_bytes(regex, re.DOTALL).fullmatch


def compile_bytes(regex: bytes, flags: re.RegexFlag | int) -> re.Pattern[bytes]:
    """Return a regular expression; only short ones go into the cache of `re`, which counts patterns, not bytes."""
    made = re.compile(regex, flags)
    if len(regex) > 8 * SHORT_BYTES_MAX:
        re.purge()
    return made


def _regex(word: Word, ignore_case: bool) -> bytes:
    """Return the regular expression of a word."""
    if word.literal is not None:
        if not ignore_case:
            return re.escape(word.literal)
        return b"".join(_in_any_case(word.literal[at : at + 1]) for at in range(word.length))
    if word.members is None:
        return b".{%d}" % word.length
    if not word.members:
        return b"(?!)"
    others = frozenset(range(256)) - word.members
    if not others:
        return b"."
    some, sign = (word.members, b"") if len(word.members) < len(others) else (others, b"^")
    return b"[%b%b]" % (sign, b"".join(b"\\x%02x" % byte for byte in sorted(some)))


def _in_any_case(byte: bytes) -> bytes:
    return re.escape(byte) if byte.lower() == byte.upper() else b"[%b%b]" % (byte.lower(), byte.upper())
