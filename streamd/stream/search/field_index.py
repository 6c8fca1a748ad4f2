"""The values of one field in each segment of a log, so that a filtered read looks at nothing that cannot match."""

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
# What says of all entries of a segment that they have the field, and no value begins with $; it takes no memory.
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
# What is known of a longer pattern is found out again each time.
_PATTERN_BYTES_MAX: Final = 4_096
# To find so many numbers one by one takes as long as to compare all.
_FEW: Final = 8

# What is known of a segment's entries, beside what a note says: it may have some that match.
NONE_MATCHES: Final = 0
SOME_MAY_MATCH: Final = 1
ALL_MATCH: Final = 2


class Wanted:
    """Which numbers of an index a pattern matches.

    numbers: those that match, of the first `judged` ones; if the pattern takes nearly all, those that do not. hits:
    those that the segment has that was judged last. mask, bits: what buckets of values that match have in common.
    pair: where one value alone matches, the two bytes of its number once it has one.
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

    A note says of a sealed segment which values it has: it stands in `Segment.noted`, so it goes with the segment. It
    is made when a search comes to the segment. Entries that are deleted later leave it as it is: what it says of them
    can make a search look in vain, no more.

    Shape: a note is the number of each entry's value, 2 bytes each, behind them the greatest one, in front of that the
    next if the greatest is _ABSENT: 235 bytes for 100 entries. Where that would be a burden, or all values are the
    same: the numbers without doubles, ascending; or _ALL_PLAIN; or b"", which says nothing. _numbers: value -> number,
    each of _values its place there. Once the values have had their share of memory (`is_full`), further ones get one of
    32,767 buckets by a hash; what has one is looked at if its value may match. log_bytes: what the log takes.
    noted_bytes, noted_of_bytes: what the notes took that were made, and their segments.
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
        """log_bytes: what the log takes. until_id: its last ID."""
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

    def fits(self, log_bytes: int, first_id: int) -> bool:
        """Return whether to go on with this index: not if it is full of what was trimmed since, or now might hold more.

        log_bytes: what the log takes now. first_id: where it begins now.
        """
        self.log_bytes = log_bytes
        room_bytes = self._room_bytes()
        if not self.is_full:
            self.limit_bytes = max(self.limit_bytes, room_bytes)
            return True
        has_room = len(self._values) < BUCKETS and room_bytes >= 2 * self.limit_bytes
        return first_id <= self.until_id and not has_room

    def _room_bytes(self) -> int:
        """Return how much memory the values may take beside the notes, if all notes are as those that were made."""
        if not self.noted_of_bytes:
            return max(_VALUES_BYTES_MIN, self.log_bytes * _VALUES_SHARE // 1000)
        notes_bytes = self.log_bytes * self.noted_bytes // self.noted_of_bytes
        return max(_VALUES_BYTES_MIN, self.log_bytes * _SHARE // 1000 - notes_bytes)

    def wanted(self, pattern: Pattern) -> Wanted:
        """Return what is known of a pattern."""
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
        """Return whether none, all, or perhaps some of a segment's entries match, those deleted included."""
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
        """Return the two bytes that notes have for a value; b"" if none has it so far."""
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
        """Return which entries of a segment match, those deleted included; it is the one that was judged last."""
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
        """Return `places` without those of the `unsure` ones whose values do not match."""
        if not unsure:
            return places
        matches = wanted.pattern.matches
        values = values_at(segment, unsure, self.field)
        out = {at for at, value in zip(unsure, values, strict=True) if value is None or not matches(value)}
        return [at for at in places if at not in out] if out else places

    def _places_by_value(self, segment: Segment, wanted: Wanted) -> list[int]:
        """Return what `places` does where no note says of each entry which value it has."""
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
        """Note which values the entries of a segment have."""
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
    """Return where a note has a number, from byte `start` on, an even one; -1 if nowhere."""
    at = note.find(pair, start)
    while at >= 0 and at & 1:  # the halves of two
        at = note.find(pair, at + 1)
    return at


def _places_of(note: bytes, pair: bytes, count: int) -> list[int]:
    """Return which of the first `count` numbers of a note are this one."""
    places = []
    at = _find(note, pair, 0)
    while 0 <= at < 2 * count:
        places.append(at >> 1)
        at = _find(note, pair, at + 2)
    return places
