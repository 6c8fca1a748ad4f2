"""LCS: the longest common subsequence of two strings."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

from streamd.base.errors import CommandError, SyntaxError_, WrongType
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments
from streamd.data.types import STRING
from streamd.resp.plain import plain
from streamd.resp.types import Later, Reply, Sliced

# More pairs of bytes take a millisecond or more.
_SLICED_PAIRS_MIN: Final = 1_000_000
# What Redis takes for a pair of bytes.
_PAIR_BYTES: Final = 4
_BLOCK_BYTES: Final = 64 * 1024
# So many steps back through the table are gone at once.
_STEPS_AT_ONCE: Final = 500


@dataclass(slots=True)
class _Match:
    """A run of equal bytes: where it begins and ends, both included, in either string."""

    first: tuple[int, int]
    second: tuple[int, int]

    @property
    def length(self) -> int:
        return self.first[1] - self.first[0] + 1


@dataclass(slots=True)
class _Table:
    """The lengths of the common subsequences of two strings' prefixes, as differences.

    length: that of the whole strings. rows: for each byte of the shorter string the bits of the longer one, the first
    byte's lowest. A bit says whether the second string's byte there adds one to the length.
    """

    length: int
    rows: list[bytes]
    is_by_first: bool

    def adds(self, at: int, second: int) -> int:
        """Return whether the length of at + 1 and second + 1 bytes is more than that of at + 1 and second bytes."""
        if self.is_by_first:
            return self.rows[at][second >> 3] >> (second & 7) & 1
        return self.rows[second][at >> 3] >> (at & 7) & 1


def _places(text: bytes, byte: int) -> Generator[None, None, int]:
    """Return the bits of a text that say where a byte is, the first one lowest."""
    as_digits = bytes(49 if other == byte else 48 for other in range(256))
    parts: list[bytes] = []
    for at in range(0, len(text), _BLOCK_BYTES):
        digits = text[at : at + _BLOCK_BYTES].translate(as_digits)
        parts.append(int(digits[::-1], 2).to_bytes(_BLOCK_BYTES // 8, "little"))
        yield
    return int.from_bytes(b"".join(parts), "little")


def _table(one: bytes, other: bytes, keeps_rows: bool) -> Generator[None, None, _Table]:
    """Compare each byte of the shorter string with all of the longer one at once, by a sum of long numbers.

    `flat` has a bit for each byte of the longer string: 0 where it adds one to the length. (Hyyro, "Bit-parallel
    LCS-length computation revisited", 2004.)
    """
    is_by_first = len(one) <= len(other)
    short, long = (one, other) if is_by_first else (other, one)
    every = (1 << len(long)) - 1
    places: dict[int, int] = {}
    rows: list[bytes] = []
    flat = every
    for byte in short:
        if byte not in places:
            places[byte] = yield from _places(long, byte)
        hits = flat & places[byte]
        before, flat = flat, (flat + hits | flat - hits) & every
        if keeps_rows:
            # Along the shorter string a length grows between a bit that is 0 now and the next one that was 0 before.
            adds = flat ^ every if is_by_first else (flat & ~before) - (before & ~flat) & every
            rows.append(adds.to_bytes((len(long) + 7) // 8, "little"))
        yield
    return _Table((flat ^ every).bit_count(), rows, is_by_first)


def _matches(one: bytes, other: bytes, table: _Table) -> Generator[None, None, tuple[bytes, list[_Match]]]:
    """Return the longest common subsequence of the strings, and the runs that it is made of, the last one first."""
    common = bytearray()
    found: list[_Match] = []
    at, second = len(one) - 1, len(other) - 1
    while at >= 0 and second >= 0:
        if (at + second) % _STEPS_AT_ONCE == 0:
            yield
        if one[at] == other[second]:
            common.append(one[at])
            last = found[-1] if found else None
            if last is not None and last.first[0] == at + 1 and last.second[0] == second + 1:
                last.first, last.second = (at, last.first[1]), (second, last.second[1])
            else:
                found.append(_Match((at, at), (second, second)))
            at, second = at - 1, second - 1
        elif table.adds(at, second):
            at -= 1
        else:
            second -= 1
    common.reverse()
    return bytes(common), found


@dataclass(slots=True)
class _Asked:
    """The options of a request."""

    length: bool = False
    places: bool = False
    match_lengths: bool = False
    length_min: int = 0


def _steps(one: bytes, other: bytes, asked: _Asked) -> Iterator[Reply]:
    """Yield None for each step, and then the reply."""
    table = yield from _table(one, other, keeps_rows=not asked.length)
    if asked.length:
        yield table.length
        return
    common, found = yield from _matches(one, other, table)
    if not asked.places:
        yield common
        return
    shown: list[Reply] = []
    for match in found:
        if match.length >= asked.length_min:
            places: list[Reply] = [list(match.first), list(match.second)]
            shown.append([*places, match.length] if asked.match_lengths else places)
    yield {b"matches": shown, b"len": len(common)}


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
    """Return the longest common subsequence of two strings.

    Reply: the bytes; with LEN their number; with IDX a map of `matches`, the last one first, and `len`.
    """
    one, other = _string(context, args[1]), _string(context, args[2])
    words = Arguments(args, 3)
    asked = _Asked()
    while words.left():
        if words.flag(b"IDX"):
            asked.places = True
        elif words.flag(b"LEN"):
            asked.length = True
        elif words.flag(b"WITHMATCHLEN"):
            asked.match_lengths = True
        elif words.flag(b"MINMATCHLEN", followed_by=1):
            asked.length_min = words.integer()
        else:
            raise SyntaxError_()
    if asked.places and asked.length:
        raise CommandError("ERR If you want both the length and indexes, please just use IDX.")
    pairs = (len(one) + 1) * (len(other) + 1)
    if pairs * _PAIR_BYTES > context.state.config.integer("proto-max-bulk-len"):
        raise CommandError("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
    reply = Later(_steps(one, other, asked))
    return Sliced(reply, len(one) + len(other) + pairs // 8) if pairs > _SLICED_PAIRS_MIN else plain(reply)
