"""The distinct values of one field in each segment of a log, so that a filtered read passes over segments."""

from array import array
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from streamd.stream.patterns import Pattern
from streamd.stream.segment import Segment

# Values have numbers below this, as long as there is room; others go to buckets by a hash, from this on. What has no
# such field has the last number. Two bytes each.
_BUCKETS: Final = 0x8000
_ABSENT: Final = 0xFFFF
# A longer value is no topic: it gets a bucket.
_VALUE_BYTES_MAX: Final = 256
# Of the entries' memory so much is for the values, and of a segment's for its note: 15 % in all.
_VALUES_SHARE: Final = 14
_NOTE_SHARE: Final = 13
_VALUES_BYTES_MIN: Final = 64 * 1024
# What a value takes beside its bytes: the object, its row in a dict, its place in a list, its number.
_VALUE_BYTES: Final = 33 + 45 + 8 + 28
_NOTE_BYTES: Final = 33
# How many patterns are remembered, and how many numbers they match in all.
_PATTERNS_MAX: Final = 16
_NUMBERS_MAX: Final = 65_536

# What is known of a segment's entries, beside what a note says: it may have some that match.
NONE_MATCHES: Final = 0
SOME_MAY_MATCH: Final = 1
ALL_MATCH: Final = 2


class Wanted:
    """Which numbers of an index a pattern matches.

    numbers, values: those that match, of the first `judged` ones. pair: where one value alone matches, the two bytes of
    its number once it has one.
    """

    __slots__ = ("judged", "numbers", "pair", "pattern", "values")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.numbers: set[int] = set()
        self.values: set[bytes] = set()
        self.judged = 0
        self.pair = b""


class FieldIndex:
    """The values that one field has in a log.

    A note says of a sealed segment which values it has: it stands in `Segment.noted`, so it goes with the segment. It
    is made when a search has looked through the segment anyway. Entries that are deleted later leave it too long, never
    too short.

    Shape: a note is the numbers of the values, ascending, 2 bytes each: 233 bytes for 100 values; b"" says nothing, for
    a segment so small that a note would be a burden. _numbers: value -> number, each of _values its place there. Once
    the values have had their share of memory (`is_full`), further ones get one of 32,767 buckets by their hash; a
    pattern with wildcards has to look into every segment that has a bucket.
    """

    __slots__ = (
        "_numbers",
        "_values",
        "_wanted",
        "bytes",
        "field",
        "has_buckets",
        "is_full",
        "limit_bytes",
        "rivals",
        "until_id",
    )

    def __init__(self, field: bytes, log_bytes: int, until_id: int) -> None:
        """log_bytes: what the log takes. until_id: its last ID."""
        self.field = field
        self.until_id = until_id
        self.limit_bytes = max(_VALUES_BYTES_MIN, log_bytes // _VALUES_SHARE)
        self.bytes = 0
        self.rivals = 0
        self.is_full = self.has_buckets = False
        self._numbers: dict[bytes, int] = {}
        self._values: list[bytes] = []
        self._wanted: dict[Pattern, Wanted] = {}

    def fits(self, log_bytes: int, first_id: int) -> bool:
        """Return whether to go on with this index: not if it is full of what was trimmed since, or now might hold more.

        log_bytes: what the log takes now. first_id: where it begins now.
        """
        if not self.is_full:
            self.limit_bytes = max(self.limit_bytes, log_bytes // _VALUES_SHARE)
            return True
        has_room = len(self._values) < _BUCKETS and log_bytes // _VALUES_SHARE >= 2 * self.limit_bytes
        return first_id <= self.until_id and not has_room

    def wanted(self, pattern: Pattern) -> Wanted:
        """Return what is known of a pattern."""
        wanted = self._wanted.pop(pattern, None) or Wanted(pattern)
        while self._wanted and (
            len(self._wanted) >= _PATTERNS_MAX
            or sum(len(one.numbers) for one in self._wanted.values()) + len(wanted.numbers) > _NUMBERS_MAX
        ):
            del self._wanted[next(iter(self._wanted))]
        self._wanted[pattern] = wanted
        return wanted

    def judge(self, segment: Segment, wanted: Wanted) -> int:
        """Return whether none, all, or perhaps some of a segment's entries match, those deleted included."""
        note = segment.noted
        if not note or segment.noted_by is not self:
            return SOME_MAY_MATCH
        if wanted.pattern.literal is not None:
            pair = wanted.pair or self._pair(wanted, wanted.pattern.literal)
            return SOME_MAY_MATCH if pair and _has(note, pair) else NONE_MATCHES
        numbers = memoryview(note).cast("H")
        greatest = numbers[-1]
        if wanted.judged < len(self._values):
            self._judge_values(wanted, greatest)
        if greatest < _BUCKETS:
            if len(wanted.numbers) == wanted.judged or wanted.numbers.issuperset(numbers):
                return ALL_MATCH
        elif greatest < _ABSENT or (len(numbers) > 1 and numbers[-2] >= _BUCKETS):
            return SOME_MAY_MATCH
        return NONE_MATCHES if wanted.numbers.isdisjoint(numbers) else SOME_MAY_MATCH

    def _pair(self, wanted: Wanted, literal: bytes) -> bytes:
        """Return the two bytes that notes have for a value; b"" if none has it so far."""
        number = self._numbers.get(literal)
        if number is None:
            return _two_bytes(_bucket(literal)) if self.has_buckets else b""
        wanted.pair = _two_bytes(number)
        return wanted.pair

    def _judge_values(self, wanted: Wanted, greatest: int) -> None:
        """Match a pattern with the values up to number `greatest`."""
        upto = min(greatest + 1, len(self._values))
        for number in range(wanted.judged, upto):
            if wanted.pattern.matches(self._values[number]):
                wanted.numbers.add(number)
                wanted.values.add(self._values[number])
        wanted.judged = max(wanted.judged, upto)

    def places(self, segment: Segment, wanted: Wanted, column: Sequence[bytes | None]) -> list[int]:
        """Return which of some values match, of entries of a segment that was judged."""
        pattern = wanted.pattern
        if pattern.literal is not None:
            return [place for place, value in enumerate(column) if value == pattern.literal]
        matches, number_of, numbers = pattern.matches, self._numbers.get, wanted.numbers
        if not segment.noted or segment.noted_by is not self:
            return [place for place, value in enumerate(column) if value is not None and matches(value)]
        if not self.has_buckets:
            # To look values up takes a tenth of the time that the pattern does.
            hits = wanted.values.intersection(column)
            return [place for place, value in enumerate(column) if value in hits] if hits else []
        return [
            place
            for place, value in enumerate(column)
            if value is not None and (number in numbers if (number := number_of(value)) is not None else matches(value))
        ]

    def note(self, segment: Segment, values: Sequence[bytes | None]) -> None:
        """Note which values the entries of a whole segment have."""
        segment.noted, segment.noted_by = b"", self
        distinct = set(values)
        if 2 * len(distinct) + _NOTE_BYTES > segment.memory_bytes // _NOTE_SHARE:
            return
        segment.noted = array("H", sorted(map(self._number, distinct))).tobytes()

    def _number(self, value: bytes | None) -> int:
        """Return the number of a value, a new one if it has none yet."""
        if value is None:
            return _ABSENT
        known = self._numbers.get(value)
        if known is not None:
            return known
        if not self.is_full and len(value) <= _VALUE_BYTES_MAX:
            size = _VALUE_BYTES + len(value)
            if self.bytes + size <= self.limit_bytes and len(self._values) < _BUCKETS:
                self.bytes += size
                number = self._numbers[value] = len(self._values)
                self._values.append(value)
                return number
            self.is_full = True
        self.has_buckets = True
        return _bucket(value)


def _bucket(value: bytes) -> int:
    return _BUCKETS | crc32(value) % (_ABSENT - _BUCKETS)


def _two_bytes(number: int) -> bytes:
    return array("H", [number]).tobytes()


def _has(note: bytes, pair: bytes) -> bool:
    """Return whether a note has a number; a find may also hit the halves of two."""
    at = note.find(pair)
    while at >= 0 and at & 1:
        at = note.find(pair, at + 1)
    return at >= 0
