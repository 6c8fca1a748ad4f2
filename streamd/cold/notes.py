"""The notes of a segment file: which values of one field its rows have, so that searches pass over the other rows.

Notes are no part of what a server must keep: without them, searches read blocks. A notes file consists of
* `STRMNOT` and `l` or `b` for the order of bytes, xxh3-64 u64 of all behind it, seeded with the segment file's salt;
* checksum of the segment file u64, then u32 each: bytes of the field, rows, values, sets, exceptions, bytes of the body
  before compression, 1 if the body is under lz4 or 0; and the field;
* a body: the length of each value u16, the values, how many numbers each set has u16, the numbers u16, the number of
  each row's set u32 (or one of two marks), and for each exception its row u32, ms u64, and seq u64.

A *set* has the numbers of the distinct values of a row; equal ones are there once. An *exception* is the ID of the last
entry of a row, where the file's index has a later one: of an entry that was deleted before.
"""

import struct
import sys
from array import array
from collections import OrderedDict
from itertools import accumulate, pairwise
from typing import Any, Final

from xxhash import xxh3_64_intdigest

from streamd.cold.files import SegmentFile
from streamd.stream.entry_id import SEQ_MAX
from streamd.stream.search.patterns import EntryFilter

try:
    import lz4.block as lz4_block
except ImportError:  # pragma: no cover - not on CPython, where lz4 is a dependency
    lz4_block = None  # type: ignore[assignment, unused-ignore]

_MAGIC: Final = b"STRMNOT" + sys.byteorder[:1].encode()
_START: Final = struct.Struct("<8sQ")
_HEAD: Final = struct.Struct("<Q7I")
_EXCEPTION: Final = struct.Struct("<IQQ")
_UNKNOWN: Final = 0xFFFFFFFF
_MUST_BE_READ: Final = 0xFFFFFFFE
# Numbers have two bytes.
_VALUES_MAX: Final = 0xFFFF
# A row with more values is read: to match so many with a pattern takes 2 ms. So is one with a longer value.
_VALUES_OF_ROW_MAX: Final = 2_048
_VALUE_BYTES_MAX: Final = 256
# What a value takes beside its bytes: the object, its places in a list and a dict, its number. And a set, likewise.
_VALUE_BYTES: Final = 33 + 8 + 70 + 28
_SET_BYTES: Final = 33 + 100
# Notes may take this part of their file's size, but at least so much.
_FILE_PART: Final = 4
_BYTES_MIN: Final = 64 * 1024
# So many filters are remembered, with a byte for each row and each value.
_JUDGED_MAX: Final = 4

# The set of a row that is to be read: no other one has an odd length.
READ: Final = b"r"

_UNJUDGED: Final = 0
_MATCHES: Final = 1
_FAILS: Final = 2


class Judged:
    """What one filter says of the values and rows of a file.

    rows: of each row whether it may have a match, as far as that was asked. values: the same of each value. pair: the
    number of the one value that matches as two bytes, b"" if the first `looked` values do not have it.
    """

    __slots__ = ("looked", "pair", "rows", "values")

    def __init__(self, rows: int) -> None:
        self.rows = bytearray(rows)
        self.values = bytearray()
        self.pair = b""
        self.looked = 0


class FileNotes:
    """The notes of one segment file and one field, in memory.

    file: the segment file. sets: of each row the numbers of its values, ascending, 2 bytes each; READ if the row is to
    be read; None if nobody has looked at it. values: the values by their numbers. last_ids: the exceptions. fresh: how
    many rows were noted since these notes were written. judged: how many values were matched with patterns in all.
    memory_bytes: about the memory that all this takes, at most `bytes_max`.
    """

    def __init__(self, file: SegmentFile, field: bytes, limit_bytes: int) -> None:
        """limit_bytes: for notes of any file."""
        self.file = file
        self.field = field
        rows = file.index.rows
        self.sets: list[bytes | None] = [None] * rows
        self.values: list[bytes] = []
        self.last_ids: dict[int, int] = {}
        self.fresh = 0
        self.judged = 0
        self.bytes_max = min(limit_bytes, max(file.size // _FILE_PART, _BYTES_MIN))
        self.memory_bytes = 500 + (8 + _JUDGED_MAX) * rows
        self._numbers: dict[bytes, int] = {}
        self._known: dict[bytes, bytes] = {}
        self._filters: OrderedDict[EntryFilter, Judged] = OrderedDict()

    # Noting.

    def note(self, row: int, values: set[bytes | None], last_id: int) -> None:
        """Note the values of a row, None for entries without the field, and the ID of its last entry."""
        self.fresh += 1
        self.sets[row] = self._set_of([value for value in values if value is not None])
        if last_id != self.file.index.last_id(row):
            self.last_ids[row] = last_id
            self.memory_bytes += 150

    def _set_of(self, values: list[bytes]) -> bytes:
        if len(values) > _VALUES_OF_ROW_MAX:
            return READ
        numbers = self._numbers
        fresh = [value for value in values if value not in numbers]
        size = sum([_VALUE_BYTES + _JUDGED_MAX + len(value) for value in fresh])
        is_too_long = max(map(len, fresh), default=0) > _VALUE_BYTES_MAX
        room = self.bytes_max - self.memory_bytes - _SET_BYTES - 2 * len(values)
        if is_too_long or size > room or len(numbers) + len(fresh) > _VALUES_MAX:
            return READ
        for value in fresh:
            numbers[value] = len(self.values)
            self.values.append(value)
        found = array("H", sorted([numbers[value] for value in values])).tobytes()
        known = self._known.setdefault(found, found)
        self.memory_bytes += size + (_SET_BYTES + len(found) if known is found else 0)
        return known

    # Asking.

    def judge(self, wanted: EntryFilter) -> Judged:
        """Return what a filter of this field says, as far as it was asked."""
        found = self._filters.get(wanted)
        if found is None:
            if len(self._filters) >= _JUDGED_MAX:
                self._filters.popitem(last=False)
            found = self._filters[wanted] = Judged(len(self.sets))
        else:
            self._filters.move_to_end(wanted)
        return found

    def passes(self, row: int, wanted: EntryFilter, judged: Judged) -> bool:
        """Return whether no entry of a row can match, deleted or not."""
        known = judged.rows[row]
        if known == _UNJUDGED:
            numbers = self.sets[row]
            if numbers is None:
                return False
            known = judged.rows[row] = _MATCHES if numbers is READ or self._has(numbers, wanted, judged) else _FAILS
        return known == _FAILS

    def _has(self, numbers: bytes, wanted: EntryFilter, judged: Judged) -> bool:
        """Return whether a value of a set matches."""
        literal = wanted.pattern.literal
        if literal is not None:
            if not judged.pair and judged.looked < len(self.values):
                judged.looked = len(self.values)
                number = self._numbers.get(literal)
                judged.pair = b"" if number is None else number.to_bytes(2, sys.byteorder)
            return bool(judged.pair) and _is_in(judged.pair, numbers)
        states, values, matches = judged.values, self.values, wanted.pattern.matches
        if len(states) < len(values):
            states.extend(bytes(len(values) - len(states)))
        for number in memoryview(numbers).cast("H"):
            state = states[number]
            if state == _UNJUDGED:
                self.judged += 1
                state = states[number] = _MATCHES if matches(values[number]) else _FAILS
            if state == _MATCHES:
                return True
        return False

    # The file.

    def written(self) -> "Written":
        """Return what is written of these notes, which may change meanwhile."""
        return Written(self.file, self.field, [*self.sets], [*self.values], dict(self.last_ids))


class Written:
    """Notes as they are written, by a thread."""

    def __init__(
        self, file: SegmentFile, field: bytes, sets: list[bytes | None], values: list[bytes], last_ids: dict[int, int]
    ) -> None:
        self.file = file
        self.field = field
        self._sets = sets
        self._values = values
        self._last_ids = last_ids

    def encode(self) -> bytes:
        """Return the bytes of a notes file."""
        places: dict[bytes, int] = {}
        rows = array("I")
        for one in self._sets:
            if one is None or one is READ:
                rows.append(_UNKNOWN if one is None else _MUST_BE_READ)
            else:
                rows.append(places.setdefault(one, len(places)))
        body = b"".join(
            [
                array("H", map(len, self._values)).tobytes(),
                *self._values,
                array("H", [len(one) // 2 for one in places]).tobytes(),
                *places,
                rows.tobytes(),
                *[_EXCEPTION.pack(row, last >> 64, last & SEQ_MAX) for row, last in self._last_ids.items()],
            ]
        )
        raw_bytes, is_packed = len(body), 0
        if lz4_block is not None:
            body, is_packed = lz4_block.compress(body, store_size=False), 1
        counts = len(self._sets), len(self._values), len(places), len(self._last_ids)
        head = _HEAD.pack(self.file.checksum, len(self.field), *counts, raw_bytes, is_packed)
        rest = b"".join([head, self.field, body])
        return _START.pack(_MAGIC, xxh3_64_intdigest(rest, self.file.salt)) + rest


def decode(data: bytes, file: SegmentFile, field: bytes, limit_bytes: int) -> FileNotes:
    """Return the notes of a file. Raises: ValueError if they are damaged, of another file, or larger than allowed."""
    if len(data) < _START.size + _HEAD.size or data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("no notes")
    rest = memoryview(data)[_START.size :]
    if _START.unpack_from(data)[1] != xxh3_64_intdigest(rest, file.salt):
        raise ValueError("a wrong checksum")
    checksum, field_bytes, rows, values, sets, exceptions, raw_bytes, is_packed = _HEAD.unpack_from(rest)
    at = _HEAD.size + field_bytes
    if (checksum, rows, bytes(rest[_HEAD.size : at])) != (file.checksum, file.index.rows, field):
        raise ValueError("notes of another file or field")
    body = bytes(rest[at:])
    if is_packed:
        if lz4_block is None:
            raise ValueError("compressed in a way that is not installed here")
        try:
            body = lz4_block.decompress(body, uncompressed_size=raw_bytes)
        except lz4_block.LZ4BlockError as error:
            raise ValueError(str(error))
    found = FileNotes(file, field, limit_bytes)
    _fill(found, body, values, sets, exceptions)
    if found.memory_bytes > limit_bytes:
        raise ValueError("larger than allowed")
    return found


def _fill(notes: FileNotes, body: bytes, values: int, sets: int, exceptions: int) -> None:
    view = memoryview(body)
    lengths = _column(view, 0, values, "H")
    at = 2 * values
    ends = [*accumulate(lengths, initial=at)]
    notes.values = [body[low:high] for low, high in pairwise(ends)]
    notes._numbers = {value: number for number, value in enumerate(notes.values)}
    at = ends[-1]
    counts = _column(view, at, sets, "H")
    at += 2 * sets
    ends = [*accumulate([2 * count for count in counts], initial=at)]
    known = [body[low:high] for low, high in pairwise(ends)]
    notes._known = {one: one for one in known}
    at = ends[-1]
    rows = len(notes.sets)
    for row, number in enumerate(_column(view, at, rows, "I")):
        if number != _UNKNOWN:
            notes.sets[row] = READ if number == _MUST_BE_READ else known[number]
    at += 4 * rows
    for row, ms, seq in _EXCEPTION.iter_unpack(view[at : at + exceptions * _EXCEPTION.size]):
        notes.last_ids[row] = ms << 64 | seq
    notes.memory_bytes += (
        sum(lengths) + (_VALUE_BYTES + _JUDGED_MAX) * values + 2 * sum(counts) + _SET_BYTES * sets + 150 * exceptions
    )


def _column(view: memoryview, at: int, count: int, code: Any) -> list[int]:
    column: memoryview = view[at : at + count * (2 if code == "H" else 4)].cast("B").cast(code)
    if len(column) != count:
        raise ValueError("a column has another length")
    return column.tolist()


def _is_in(pair: bytes, numbers: bytes) -> bool:
    """Return whether a number is in a set."""
    at = numbers.find(pair)
    while at & 1:  # -1, or the halves of two numbers
        if at < 0:
            return False
        at = numbers.find(pair, at + 1)
    return True
