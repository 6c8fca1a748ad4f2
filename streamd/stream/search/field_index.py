"""The values of one field in each segment of a log, so that a filtered read skips segments that cannot match."""

from array import array
from collections.abc import Sequence
from sys import byteorder
from typing import Final

from streamd.stream.log.segment import Segment
from streamd.stream.search.buckets import BUCKETS, DOLLARS, bits_of, bucket
from streamd.stream.search.field_values import column, values_at
from streamd.stream.search.patterns import Pattern

# Values have numbers below those of buckets, as long as there is room; others go to buckets. What has no such field has
# the last number. Two bytes each.
_ABSENT: Final = 0xFFFF
# The note of a segment whose entries all have the field, with no value that begins with $; it takes no memory.
_ALL_PLAIN: Final = b"a"
# A longer value is no topic: it gets a bucket.
_VALUE_BYTES_MAX: Final = 256
# Of the entries' memory so much is for values and notes, in thousandths; of a segment's for its note, and for values
# as long as no note says how large notes are. With what patterns are remembered, it is 15 % in all.
_SHARE: Final = 135
_NOTE_SHARE: Final = 77
_VALUES_SHARE: Final = 70
_VALUES_BYTES_MIN: Final = 64 * 1024
# What a value takes beside its bytes: the object, its row in a dict, its place in a list, its number.
_VALUE_BYTES: Final = 33 + 45 + 8 + 28
_NOTE_BYTES: Final = 33
# How many patterns are remembered, and how many numbers of them: so many, or half of those that there are.
_PATTERNS_MAX: Final = 16
_NUMBERS_MIN: Final = 4_096
# A longer pattern is not remembered: its numbers are found anew each time.
_PATTERN_BYTES_MAX: Final = 4_096
# To find so many numbers one by one takes as long as to compare all.
_FEW: Final = 8

# The results of `judge`.
NONE_MATCHES: Final = 0
SOME_MAY_MATCH: Final = 1
ALL_MATCH: Final = 2


class Wanted:
    """The numbers of an index whose values match a pattern.

    numbers: the matching ones of the first `judged` numbers; for a pattern with `takes_plain`, the ones that do not
    match. hits: the matching numbers of the segment that was judged last. mask, bits: see `bits_of`. pair: if one value
    alone matches, the two bytes of its number once it has one.
    """

    __slots__ = ("bits", "hits", "judged", "mask", "numbers", "pair", "pattern")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.numbers: set[int] = set()
        self.hits: set[int] = set()
        self.judged = 0
        self.mask, self.bits = bits_of(pattern)
        self.pair = b""


class FieldIndex:
    """The values that one field has in a log.

    A note has the values of a sealed segment. It stands in `Segment.noted`, so it is freed with the segment. It is made
    when a search comes to the segment. Later deletions do not change it: a deleted entry in it can make a search look
    in vain, no more.

    Shape: a note has the number of each entry's value, in 2 bytes, and the greatest number at its end; if that is
    _ABSENT, the next greatest stands in front of it: 235 bytes for 100 entries. If this takes too much memory, or all
    values are the same, the note has a number for each distinct value, ascending; or it is _ALL_PLAIN; or b"", which
    tells nothing. _numbers: value -> number, which is its place in _values. Once the values have used their share of
    memory (`is_full`), each new value gets one of 32,767 buckets by a hash; a search looks at an entry with a bucket if
    its value may match. log_bytes: the memory of the log. noted_bytes, noted_of_bytes: the memory of all notes that
    were made, and of their segments.
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
        "log_bytes",
        "noted_bytes",
        "noted_of_bytes",
        "rivals",
        "until_id",
    )

    def __init__(self, field: bytes, log_bytes: int, until_id: int) -> None:
        """log_bytes: the memory of the log. until_id: its last ID."""
        self.field = field
        self.until_id = until_id
        self.log_bytes = log_bytes
        self.noted_bytes = self.noted_of_bytes = 0
        self.limit_bytes = self._room_bytes()
        self.bytes = 0
        self.rivals = 0
        self.is_full = self.has_buckets = False
        self._numbers: dict[bytes, int] = {}
        self._values: list[bytes] = []
        self._wanted: dict[Pattern, Wanted] = {}

    def fits(self, log_bytes: int, is_past: bool) -> bool:
        """Return whether to keep this index: not a full one if all entries of its beginning are trimmed, or its room
        has doubled.

        log_bytes: the memory of the log now. is_past: whether it begins behind `until_id` now.
        """
        self.log_bytes = log_bytes
        room_bytes = self._room_bytes()
        if not self.is_full:
            self.limit_bytes = max(self.limit_bytes, room_bytes)
            return True
        has_room = len(self._values) < BUCKETS and room_bytes >= 2 * self.limit_bytes
        return not is_past and not has_room

    def _room_bytes(self) -> int:
        """Return how many bytes the values may take beside the notes, if all notes are like the ones made so far."""
        if not self.noted_of_bytes:
            return max(_VALUES_BYTES_MIN, self.log_bytes * _VALUES_SHARE // 1000)
        notes_bytes = self.log_bytes * self.noted_bytes // self.noted_of_bytes
        return max(_VALUES_BYTES_MIN, self.log_bytes * _SHARE // 1000 - notes_bytes)

    def wanted(self, pattern: Pattern) -> Wanted:
        """Return the matching numbers of a pattern as far as they are known, and remember the pattern."""
        wanted = self._wanted.pop(pattern, None) or Wanted(pattern)
        numbers_max = max(_NUMBERS_MIN, len(self._values) // 2)
        if len(pattern.text) > _PATTERN_BYTES_MAX:
            return wanted
        while self._wanted and (
            len(self._wanted) >= _PATTERNS_MAX
            or sum(len(one.numbers) for one in self._wanted.values()) + len(wanted.numbers) > numbers_max
        ):
            del self._wanted[next(iter(self._wanted))]
        self._wanted[pattern] = wanted
        return wanted

    # Asking.

    def judge(self, segment: Segment, wanted: Wanted) -> int:
        """Return whether none, all, or perhaps some of a segment's entries match, deleted ones included."""
        note, pattern = segment.noted, wanted.pattern
        if not note or segment.noted_by is not self:
            return SOME_MAY_MATCH
        if len(note) & 1:
            return ALL_MATCH if pattern.takes_plain else SOME_MAY_MATCH
        if pattern.literal is not None:
            pair = wanted.pair or self._pair(wanted, pattern.literal)
            if not pair or _find(note, pair, 0) < 0:
                return NONE_MATCHES
            return ALL_MATCH if note == wanted.pair else SOME_MAY_MATCH
        numbers = memoryview(note).cast("H")
        greatest = numbers[-1]
        if wanted.judged < len(self._values):
            self._judge_values(wanted, greatest)
        if pattern.takes_plain:
            if greatest < DOLLARS and wanted.numbers.isdisjoint(numbers):
                return ALL_MATCH
            return SOME_MAY_MATCH
        wanted.hits = hits = wanted.numbers.intersection(numbers)
        if greatest < BUCKETS:
            if hits and (len(wanted.numbers) == wanted.judged or wanted.numbers.issuperset(numbers)):
                return ALL_MATCH
        elif _has_buckets(numbers):
            return SOME_MAY_MATCH
        return SOME_MAY_MATCH if hits else NONE_MATCHES

    def _pair(self, wanted: Wanted, literal: bytes) -> bytes:
        """Return the two bytes that stand for a value in notes; b"" if no note can have it so far."""
        number = self._numbers.get(literal)
        if number is None:
            return _two_bytes(bucket(literal)) if self.has_buckets else b""
        wanted.pair = _two_bytes(number)
        return wanted.pair

    def _judge_values(self, wanted: Wanted, greatest: int) -> None:
        """Match a pattern with the values up to number `greatest`."""
        matches, values, is_kept = wanted.pattern.matches, self._values, not wanted.pattern.takes_plain
        upto = min(greatest + 1, len(values))
        wanted.numbers.update([at for at in range(wanted.judged, upto) if bool(matches(values[at])) is is_kept])
        wanted.judged = max(wanted.judged, upto)

    def places(self, segment: Segment, wanted: Wanted) -> list[int]:
        """Return the positions of matching entries, deleted ones included, in the segment that was judged last."""
        note, count, pattern = segment.noted, segment.count, wanted.pattern
        if not note or segment.noted_by is not self or len(note) <= 2 * count:
            return self._places_by_value(segment, wanted)
        if pattern.literal is not None:
            pair = wanted.pair or self._pair(wanted, pattern.literal)
            places = _places_of(note, pair, count) if pair else []
            return places if wanted.pair else self._checked(segment, wanted, places, places)
        numbers = memoryview(note).cast("H")
        has_buckets = _has_buckets(numbers)
        if pattern.takes_plain:
            misses = wanted.numbers
            places = [at for at, number in enumerate(numbers) if number < _ABSENT and number not in misses]
        elif has_buckets:
            hits, mask, bits = wanted.hits, wanted.mask, wanted.bits
            places = [
                at
                for at, number in enumerate(numbers)
                if number in hits or (number & mask == bits and number < _ABSENT)
            ]
        elif len(wanted.hits) <= _FEW:
            places = []
            for number in wanted.hits:
                places += _places_of(note, _two_bytes(number), count)
            if len(wanted.hits) > 1:
                places.sort()
            return places
        else:
            hits = wanted.hits
            places = [at for at, number in enumerate(numbers) if number in hits]
        # The greatest one stands behind those of the entries once more.
        while places and places[-1] >= count:
            del places[-1]
        if not has_buckets:
            return places
        unsure = DOLLARS if pattern.takes_plain else BUCKETS
        return self._checked(segment, wanted, places, [at for at in places if numbers[at] >= unsure])

    def _checked(self, segment: Segment, wanted: Wanted, places: list[int], unsure: list[int]) -> list[int]:
        """Return `places` without the positions in `unsure` whose values do not match."""
        if not unsure:
            return places
        matches = wanted.pattern.matches
        values = values_at(segment, unsure, self.field)
        out = {at for at, value in zip(unsure, values, strict=True) if value is None or not matches(value)}
        return [at for at in places if at not in out] if out else places

    def _places_by_value(self, segment: Segment, wanted: Wanted) -> list[int]:
        """Return the result of `places` for a segment whose note does not have the value of each entry."""
        values = column(segment, 0, segment.count, self.field)
        pattern, note = wanted.pattern, segment.noted
        if pattern.literal is not None:
            return [at for at, value in enumerate(values) if value == pattern.literal]
        matches = pattern.matches
        is_told = note and segment.noted_by is self and not len(note) & 1
        if is_told and not pattern.takes_plain and not _has_buckets(memoryview(note).cast("H")):
            # To look values up takes a tenth of the time that the pattern does.
            hits = {self._values[number] for number in wanted.hits}
            return [at for at, value in enumerate(values) if value in hits]
        return [at for at, value in enumerate(values) if value is not None and matches(value)]

    # Noting.

    def note(self, segment: Segment) -> None:
        """Make the note of a segment's values."""
        values = column(segment, 0, segment.count, self.field)
        size = segment.memory_bytes
        segment.noted, segment.noted_by = b"", self
        room_bytes = size * min(_NOTE_SHARE, max(_SHARE - 1000 * self.bytes // max(self.log_bytes, 1), 0)) // 1000
        distinct = set(values)
        entries = segment.count + (2 if None in distinct else 1)
        if 2 * len(distinct) + _NOTE_BYTES > room_bytes:
            if not any(value is None or value[:1] == b"$" for value in distinct):
                segment.noted = _ALL_PLAIN
        elif len(distinct) == 1 or 2 * entries + _NOTE_BYTES > room_bytes:
            segment.noted = array("H", sorted(map(self._number, distinct))).tobytes()
        else:
            numbers = list(map(self._number, values))
            greatest = max(numbers)
            if greatest == _ABSENT:
                numbers.append(max([number for number in numbers if number < _ABSENT], default=_ABSENT))
            numbers.append(greatest)
            segment.noted = array("H", numbers).tobytes()
        self.noted_of_bytes += size
        if len(segment.noted) > 1:
            self.noted_bytes += len(segment.noted) + _NOTE_BYTES
        if not self.is_full:
            self.limit_bytes = max(self.limit_bytes, self._room_bytes())

    def _number(self, value: bytes | None) -> int:
        """Return the number of a value, a new one if it has none yet."""
        if value is None:
            return _ABSENT
        known = self._numbers.get(value)
        if known is not None:
            return known
        if not self.is_full and len(value) <= _VALUE_BYTES_MAX:
            size = _VALUE_BYTES + len(value)
            if self.bytes + size <= self.limit_bytes and len(self._values) < BUCKETS:
                self.bytes += size
                number = self._numbers[value] = len(self._values)
                self._values.append(value)
                return number
            self.is_full = True
        self.has_buckets = True
        return bucket(value)


def _two_bytes(number: int) -> bytes:
    return number.to_bytes(2, byteorder)


def _has_buckets(numbers: Sequence[int]) -> bool:
    """Return whether a note has numbers of buckets."""
    greatest = numbers[-1]
    return greatest >= BUCKETS and (greatest < _ABSENT or (len(numbers) > 1 and numbers[-2] >= BUCKETS))


def _find(note: bytes, pair: bytes, start: int) -> int:
    """Return the offset of a number in a note from byte `start`, an even one, on; -1 if it is not there."""
    at = note.find(pair, start)
    while at >= 0 and at & 1:  # the halves of two
        at = note.find(pair, at + 1)
    return at


def _places_of(note: bytes, pair: bytes, count: int) -> list[int]:
    """Return the positions of one number among the first `count` numbers of a note."""
    places = []
    at = _find(note, pair, 0)
    while 0 <= at < 2 * count:
        places.append(at >> 1)
        at = _find(note, pair, at + 2)
    return places
