"""Whether the options of a read name a stream, also one that does not exist any more."""

import re
from collections.abc import Callable

from spark_source.connecting.topic_log import is_shard
from spark_source.settings.options import ReadOptions


def names_of(options: ReadOptions) -> Callable[[str], bool]:
    """Return a function that tells whether the options stream, streamPattern, streamRegex or log name a stream."""
    pattern, log_name = options.pattern, options.log
    if log_name is not None:
        return lambda name: is_shard(log_name, name)
    if pattern is None:
        return frozenset(options.streams).__contains__
    if options.pattern_is_regex:
        return lambda name: re.fullmatch(pattern, name) is not None
    glob = glob_regex(pattern.encode())
    return lambda name: glob.fullmatch(name.encode()) is not None


def glob_regex(pattern: bytes) -> re.Pattern[bytes]:
    """Return the regular expression of a glob pattern as a Redis server understands it: byte by byte.

    The piece behind a star is taken at its first place. A later place would leave less for the pieces behind it, so
    none is tried, and the time stays within that of a search.
    """
    pieces, place, made = [b""], 0, len(pattern)
    while place < made:
        byte = pattern[place : place + 1]
        place += 1
        if byte == b"*":
            pieces.append(b"")
        elif byte == b"[":
            chosen, place = _class(pattern, place)
            pieces[-1] += chosen
        elif byte == b"?":
            pieces[-1] += b"."
        else:
            if byte == b"\\" and place < made:
                byte = pattern[place : place + 1]
                place += 1
            pieces[-1] += re.escape(byte)
    first, *between = pieces
    last = b".*" + between.pop() if between else b""
    return re.compile(first + b"".join(b"(?>.*?" + piece + b")" for piece in between) + last, re.DOTALL)


def _class(pattern: bytes, place: int) -> tuple[bytes, int]:
    """Return the regular expression of the class that begins at `place`, behind its bracket, and the place behind it.

    A class that nothing closes ends with the pattern.
    """
    negated = pattern[place : place + 1] == b"^"
    place += negated
    chosen: set[int] = set()
    while place < len(pattern) and pattern[place] != ord("]"):
        if pattern[place] == ord("\\") and place + 1 < len(pattern):
            chosen.add(pattern[place + 1])
            place += 2
        elif pattern[place + 1 : place + 2] == b"-" and place + 2 < len(pattern):
            low, high = sorted(map(_signed, (pattern[place], pattern[place + 2])))
            chosen.update(byte % 256 for byte in range(low, high + 1))
            place += 3
        else:
            chosen.add(pattern[place])
            place += 1
    if negated:
        chosen = set(range(256)) - chosen
    inside = b"".join(b"\\x%02x" % byte for byte in sorted(chosen))
    return (b"[" + inside + b"]" if inside else b"(?!)"), place + 1


def _signed(byte: int) -> int:
    """Return a byte as C's char: Redis compares the bounds of a range so."""
    return byte - 256 if byte > 127 else byte
