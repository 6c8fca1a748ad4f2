"""LCS: the longest sequence of bytes that two strings have in common, with gaps."""

from dataclasses import dataclass
from typing import Final

from streamd.base.errors import CommandError, SyntaxError_, WrongType
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments
from streamd.data.types import STRING
from streamd.resp.types import Reply

# So many pairs of bytes are compared at most: it takes about half a second, and nobody else is served meanwhile.
_PAIRS_MAX: Final = 4_000_000


@dataclass(slots=True)
class _Match:
    """A run of equal bytes: where it begins and ends, both included, in either string."""

    first: tuple[int, int]
    second: tuple[int, int]

    @property
    def length(self) -> int:
        return self.first[1] - self.first[0] + 1


def _table(one: bytes, other: bytes) -> list[list[int]]:
    """Return the lengths of what the first i bytes of one and the first j bytes of the other have in common."""
    rows = [[0] * (len(other) + 1)]
    for byte in one:
        above, row = rows[-1], [0]
        left = 0
        for at, second in enumerate(other):
            up = above[at + 1]
            left = above[at] + 1 if byte == second else up if up > left else left
            row.append(left)
        rows.append(row)
    return rows


def _matches(one: bytes, other: bytes, rows: list[list[int]]) -> tuple[bytes, list[_Match]]:
    """Return what the strings have in common, and the runs that it is made of, the last one first."""
    common = bytearray()
    found: list[_Match] = []
    at, second = len(one), len(other)
    while at and second:
        if one[at - 1] == other[second - 1]:
            at, second = at - 1, second - 1
            common.append(one[at])
            last = found[-1] if found else None
            if last is not None and last.first[0] == at + 1 and last.second[0] == second + 1:
                last.first, last.second = (at, last.first[1]), (second, last.second[1])
            else:
                found.append(_Match((at, at), (second, second)))
        elif rows[at - 1][second] > rows[at][second - 1]:
            at -= 1
        else:
            second -= 1
    common.reverse()
    return bytes(common), found


def _string(context: Context, key: bytes) -> bytes:
    try:
        return context.db.read_as(key, STRING) or b""
    except WrongType:
        raise CommandError("ERR The specified keys must contain string values")


@command(
    "LCS", arity=-3, flags="readonly", keys=(1, 2, 1), since="7.0.0", complexity="O(N*M), N and M the lengths",
    group="string", syntax="key1:key key2:key [LEN] [IDX] [MINMATCHLEN len:integer] [WITHMATCHLEN]",
    access="RO access",
)  # fmt: skip
def lcs(context: Context, args: list[bytes]) -> Reply:
    """Return the longest sequence of bytes that two strings have in common, with gaps.

    Reply: the bytes; with LEN their number; with IDX a map of `matches`, the last one first, and `len`.
    """
    one, other = _string(context, args[1]), _string(context, args[2])
    words = Arguments(args, 3)
    asks_length = asks_places = shows_lengths = False
    length_min = 0
    while words.left():
        if words.flag(b"IDX"):
            asks_places = True
        elif words.flag(b"LEN"):
            asks_length = True
        elif words.flag(b"WITHMATCHLEN"):
            shows_lengths = True
        elif words.flag(b"MINMATCHLEN", followed_by=1):
            length_min = words.integer()
        else:
            raise SyntaxError_()
    if asks_places and asks_length:
        raise CommandError("ERR If you want both the length and indexes, please just use IDX.")
    if len(one) * len(other) > _PAIRS_MAX:
        raise CommandError("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
    rows = _table(one, other)
    if asks_length:
        return rows[-1][-1]
    common, found = _matches(one, other, rows)
    if not asks_places:
        return common
    shown: list[Reply] = []
    for match in found:
        if match.length >= length_min:
            places: list[Reply] = [list(match.first), list(match.second)]
            shown.append([*places, match.length] if shows_lengths else places)
    return {b"matches": shown, b"len": len(common)}
