"""Redis's glob patterns, compiled to regular expressions over bytes."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

# Patterns that a server meets again and again: subscriptions, SCAN loops.
_CACHED_PATTERNS: Final = 512

Matcher = Callable[[bytes], object]


@lru_cache(maxsize=_CACHED_PATTERNS)
def compile_glob(pattern: bytes, ignore_case: bool = False) -> Matcher:
    """Return a function whose result is true for the texts that match the whole of `pattern`.

    `*` any bytes, `?` one byte, `[abc]`, `[^abc]` and `[a-c]` one byte of a class, `\\x` the byte x.
    A class that is never closed ends with the pattern; `[]` matches nothing, a lone backslash at the end itself.

    What stands between two stars is matched at its first place and never moved again (atomic groups): with
    backtracking a pattern like `*a*a*a*a*b` would take minutes.
    Source: https://redis.io/docs/latest/commands/keys/
    """
    pieces: list[list[bytes]] = [[]]
    at = 0
    while at < len(pattern):
        byte = pattern[at : at + 1]
        if byte == b"*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append([])
            at += 1
            continue
        if byte == b"[":
            regex, at = _class(pattern, at + 1)
        elif byte == b"?":
            regex, at = b".", at + 1
        else:
            if byte == b"\\" and at + 1 < len(pattern):
                at += 1
            regex, at = re.escape(pattern[at : at + 1]), at + 1
        pieces[-1].append(regex)
    first, *others = (b"".join(piece) for piece in pieces)
    if others:
        *middle, last = others
        regex = first + b"".join(b"(?>.*?%b)" % piece for piece in middle) + b".*" + last
    else:
        regex = first
    return re.compile(regex, re.DOTALL | (re.IGNORECASE if ignore_case else 0)).fullmatch


def _class(pattern: bytes, at: int) -> tuple[bytes, int]:
    """Return the regular expression of the class whose `[` stands before `at`, and where the pattern goes on."""
    negated = pattern[at : at + 1] == b"^"
    at += negated
    members: list[bytes] = []
    while at < len(pattern):
        byte = pattern[at]
        if byte == ord("\\") and at + 1 < len(pattern):
            members.append(b"\\x%02x" % pattern[at + 1])
            at += 2
        elif byte == ord("]"):
            at += 1
            break
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((byte, pattern[at + 2]))
            members.append(b"\\x%02x-\\x%02x" % (low, high))
            at += 3
        else:
            members.append(b"\\x%02x" % byte)
            at += 1
    if not members:
        return (b"." if negated else b"(?!)"), at
    return b"[%b%b]" % (b"^" if negated else b"", b"".join(members)), at
