"""One sealed run of entries: columns of ID parts, lengths and values, that are not changed any more."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import compress as selected
from itertools import islice
from typing import Final

from streamd.stream.entry_id import SEQ_MAX, format_id
from streamd.stream.id_parts import ids_behind, ids_of, sums
from streamd.stream.log.places import column_places
from streamd.stream.log.sealing import JOINED_BYTES_MAX, join_texts, seal_texts
from streamd.stream.log.segment_cache import CACHE, Encoded
from streamd.stream.wire.cutting import cut, cut_alike
from streamd.stream.wire.entry_columns import EntryColumns
from streamd.stream.wire.entry_encoder import (
    WOVEN_MIN,
    encode_entry,
    entry_ends,
    join,
    split_ids,
    weave_mixed_fields,
    weave_same_fields,
)
from streamd.stream.wire.entry_writer import WRITES, write
from streamd.stream.wire.packed_numbers import index_of, lower_bound, number_at, pack, view

try:
    from lz4.block import decompress
except ImportError:  # pragma: no cover - not on CPython, where lz4 is a dependency
    decompress = None

# So many entries are encoded at once to be kept when a few of them are read. The node's default has 100.
_KEPT_BY_PARTS_MAX: Final = 256
# Written byte by byte, so many entries cost no more than out of RESP that is kept compressed.
_FEW_MAX: Final = 16

# A segment: gc's header and the object's, its slots, two IDs, and two places in the lists of the log.
_OBJECT_BYTES: Final = 16 + 16 + 8 * 16 + 2 * 48 + 2 * 8


class Segment:
    """A sealed run of entries (what Redis calls a node), at positions 0 .. count-1.

    Shape, for 1 entry per millisecond with a value of 8 bytes: 14 bytes per entry, 2 of them for its ID.
    first_id: the ID of the entry at position 0, deleted or not.
    last_id: the last ID that the node ever had, also after `rewritten`.
    stamps: None when all entries have the milliseconds of first_id; else the milliseconds of each, less those of
        first_id rounded down to a thousand.
    seqs: the seq of each; None when they count up from first_id's (stamps None) or are all the same (stamps given).
    fields: a tuple of the field names when all entries have the same ones; `texts` has values alone then. Else a packed
        column with the number of texts (fields and values) of each entry; `texts` has all of them.
    lengths: a tuple with the lengths of one entry's values if all entries have the same lengths; else a packed column.
    texts: the values (or fields and values) one behind the other; a tuple of them if they are large.
    raw_bytes: the uncompressed size of `texts` when it is compressed, else 0.
    live: a flag per entry, 1 until it is deleted; None until the first deletion.
    live_count, used: how many entries are not deleted; how many were ever put into the node.
    noted, noted_by: the note of the values of a field, and the FieldIndex that made it; b"" and None at first.
    encoded: the RESP of all entries, while the segment cache keeps it.
    touched: the record of reads in parts while there is no RESP of all, see `SegmentCache.parts_read`.
    """

    __slots__ = (
        "count",
        "encoded",
        "fields",
        "first_id",
        "last_id",
        "lengths",
        "live",
        "live_count",
        "noted",
        "noted_by",
        "raw_bytes",
        "seqs",
        "stamps",
        "texts",
        "touched",
        "used",
    )

    count: int
    encoded: Encoded | None
    fields: tuple[bytes, ...] | bytes
    first_id: int
    last_id: int
    lengths: tuple[int, ...] | bytes
    live: bytearray | None
    live_count: int
    noted: bytes
    noted_by: object
    raw_bytes: int
    seqs: bytes | None
    stamps: bytes | None
    texts: bytes | tuple[bytes, ...]
    touched: int
    used: int

    def __init__(
        self,
        ids: Sequence[int],
        texts: list[bytes] | EntryColumns,
        width: int,
        widths: Sequence[int] | None,
        like: "Segment | None" = None,
    ) -> None:
        """Seal entries. `texts`: their columns, or their fields and values: `width` texts for each entry, or as many as
        `widths` says.

        like: a segment, if any, whose field names and lengths are shared when they are the same. Without `ids` the
        other attributes are left to `copy`.
        """
        self.count = self.live_count = self.used = len(ids)
        self.live = self.encoded = self.noted_by = None
        self.noted = b""
        self.touched = 0
        if not ids:
            return
        self._seal_ids(ids)
        fields, lengths, values, size = seal_texts(texts, self.count, width, widths)
        self.fields = like.fields if like is not None and like.fields == fields else fields
        self.lengths = like.lengths if like is not None and like.lengths == lengths else lengths
        self.texts, self.raw_bytes = join_texts(values, size)

    def _seal_ids(self, ids: Sequence[int]) -> None:
        self.first_id, self.last_id = ids[0], ids[-1]
        _, stamps, _, seqs = split_ids(ids)
        self.stamps = None if stamps is None else pack(stamps)
        self.seqs = None if seqs is None else pack(seqs)

    @property
    def memory_bytes(self) -> int:
        """An estimate of the memory that the segment takes, in bytes.

        It includes neither the RESP in the cache nor the marks of deleted entries, so it stays the same while the
        segment lives.
        """
        size = _OBJECT_BYTES
        for part in (self.stamps, self.seqs):
            if part is not None:
                size += 40 + len(part)
        for column in (self.fields, self.lengths):
            if type(column) is bytes:
                size += 40 + len(column)
        if type(self.texts) is tuple:
            return size + 40 + sum(48 + len(text) for text in self.texts)
        return size + 40 + len(self.texts)

    def nth_position(self, number: int) -> int:
        """Return the position of the entry number `number` (from 0), deleted ones not counted."""
        if self.live is None:
            return number
        return next(islice(selected(range(self.count), self.live), number, None))

    def position(self, entry_id: int) -> int:
        """Return the position of the first entry, deleted or not, whose ID is `entry_id` or more.

        If no entry has such an ID, return `count`.
        """
        if entry_id <= self.first_id:
            return 0
        count = self.count
        if self.stamps is None:
            if entry_id >> 64 != self.first_id >> 64:
                return count
            if self.seqs is None:
                return min(entry_id - self.first_id, count)
            return lower_bound(self.seqs, count, entry_id & SEQ_MAX)
        ms = self.first_id >> 64
        further, seq = (entry_id >> 64) - ms, entry_id & SEQ_MAX
        if self.seqs is None and (self.last_id >> 64) - ms == count - 1:
            # An entry for each millisecond: nothing is to be looked up.
            return count if further >= count else further if seq <= self.first_id & SEQ_MAX else further + 1
        stamp = further + ms % 1000
        low = lower_bound(self.stamps, count, stamp)
        if low == count:
            return low
        stamps = view(self.stamps, count)
        if stamps[low] != stamp:
            return low
        if self.seqs is None:
            return low if seq <= self.first_id & SEQ_MAX else low + 1
        return bisect_left(view(self.seqs, count), seq, low, bisect_right(stamps, stamp, low))

    def find(self, entry_id: int) -> int:
        """Return the position of an entry; -1 if it is not here or deleted."""
        first, count = self.first_id, self.count
        position = -1
        if self.stamps is None:
            if self.seqs is None:
                position = entry_id - first
                if not 0 <= position < count:
                    return -1
            elif entry_id >> 64 == first >> 64:
                position = index_of(self.seqs, count, entry_id & SEQ_MAX, entry_id - first)
        elif self.seqs is None:
            further = entry_id - first
            if not further & SEQ_MAX:
                stamps = further >> 64
                position = index_of(self.stamps, count, stamps + (first >> 64) % 1000, stamps)
        else:
            position = self.position(entry_id)
            if position == count or self.ids(position, position + 1)[0] != entry_id:
                return -1
        return position if position < 0 or self.live is None or self.live[position] else -1

    def runs(self, low: int, high: int, reverse: bool = False) -> Iterator[tuple[int, int]]:
        """Yield the runs `(from, to)` of undeleted entries at positions from `low` to before `high`."""
        live = self.live
        if live is None:
            if low < high:
                yield low, high
        elif reverse:
            to = live.rfind(1, low, high) + 1
            while to > 0:
                start = live.rfind(0, low, to) + 1
                start = max(start, low)
                yield start, to
                to = live.rfind(1, low, start) + 1
        else:
            start = live.find(1, low, high)
            while start >= 0:
                to = live.find(0, start, high)
                if to < 0:
                    to = high
                yield start, to
                start = live.find(1, to, high)

    def count_live(self, low: int, high: int) -> int:
        """Return how many entries at positions from `low` to before `high` are not deleted."""
        return high - low if self.live is None else self.live.count(1, low, high)

    def delete(self, low: int, high: int) -> int:
        """Mark the entries at positions from `low` to before `high` as deleted.

        Return how many were not deleted before.
        """
        if self.live is None:
            self.live = bytearray(b"\1") * self.count
        removed = self.live.count(1, low, high)
        self.live[low:high] = bytes(high - low)
        self.live_count -= removed
        self.encoded = None
        return removed

    def delete_at(self, position: int) -> int:
        """Mark the entry at a position, which is not deleted yet, as deleted; return how many are left."""
        live = self.live
        if live is None:
            live = self.live = bytearray(b"\1") * self.count
        live[position] = 0
        self.encoded = None
        self.live_count = left = self.live_count - 1
        return left

    def delete_ids(self, ids: list[int]) -> list[int]:
        """Mark entries as deleted, by ascending IDs, one at least; return the IDs that were there."""
        before = bytes(self.live or b"\1" * self.count)
        places = column_places(self.first_id, self.count, self.stamps, self.seqs, ids) or [*map(self.find, ids)]
        live = self.live = bytearray(before)
        for at in places:
            if at >= 0:
                live[at] = 0
        self.encoded = None
        gone = self.live_count - live.count(1)
        self.live_count -= gone
        if gone != len(ids):
            ids = [one for one, at in zip(ids, places, strict=True) if at >= 0 and before[at]]
        return ids if gone == len(ids) else [*dict.fromkeys(ids)]  # without those named twice

    def rewritten(self) -> "Segment":
        """Return the same node with its undeleted entries alone; there must be one."""
        ids: list[int] = []
        texts: list[bytes] = []
        widths: list[int] = []
        for low, high in self.runs(0, self.count):
            ids += self.ids(low, high)
            for fields in self.entries(low, high):
                texts += fields
                widths.append(len(fields))
        same_width = widths.count(widths[0]) == len(widths)
        segment = Segment(ids, texts, widths[0], None if same_width else widths, self)
        segment.last_id, segment.used = self.last_id, self.used
        return segment

    def pack(self) -> None:
        """Have the texts as they are after sealing, when they were uncompressed since then."""
        texts = self.texts
        if type(texts) is bytes and not self.raw_bytes and len(texts) <= JOINED_BYTES_MAX:
            self.texts, self.raw_bytes = join_texts([texts], len(texts))

    def copy(self) -> "Segment":
        """Return a copy for another log; parts that never change are shared."""
        other = Segment((), [], 0, None)
        other.count, other.live_count, other.used = self.count, self.live_count, self.used
        other.first_id, other.last_id = self.first_id, self.last_id
        other.stamps, other.seqs, other.fields = self.stamps, self.seqs, self.fields
        other.lengths, other.texts, other.raw_bytes = self.lengths, self.texts, self.raw_bytes
        other.touched = self.touched
        other.live = None if self.live is None else bytearray(self.live)
        return other

    # Of all that reads: `low` is less than `high`, and deleted entries are read as others are.

    def ids(self, low: int, high: int) -> Sequence[int]:
        """Return the IDs of the entries at positions from `low` to before `high`."""
        first, count = self.first_id, self.count
        if self.stamps is None:
            if self.seqs is None:
                return range(first + low, first + high)
            base = first >> 64 << 64
            return sums(base, view(self.seqs, count)[low:high])
        ms = first >> 64
        stamps = view(self.stamps, count)[low:high]
        if self.seqs is None:
            return ids_behind((ms - ms % 1000 << 64) + (first & SEQ_MAX), stamps)
        return ids_of(sums(ms - ms % 1000, stamps), view(self.seqs, count)[low:high])

    def id_at(self, position: int) -> int:
        """Return the ID of the entry at a position."""
        stamps, seqs, ms = self.stamps, self.seqs, self.first_id >> 64
        if seqs is None and stamps is None:
            return self.first_id + position
        if stamps is not None:
            ms += number_at(stamps, self.count, position) - ms % 1000
        return (ms << 64) + (self.first_id & SEQ_MAX if seqs is None else number_at(seqs, self.count, position))

    def entries(self, low: int, high: int) -> list[list[bytes]]:
        """Return the fields and values of the entries at positions from `low` to before `high`, a new list each."""
        fields = self.fields
        if type(fields) is tuple:
            values = self.stored_texts(low, high, len(fields))[0]
            if len(fields) == 1:
                return [[fields[0], value] for value in values]
            width = 2 * len(fields)
            flat = [b""] * (width * (high - low))
            flat[::2] = fields * (high - low)
            flat[1::2] = values
            return [flat[start : start + width] for start in range(0, len(flat), width)]
        assert type(fields) is bytes
        widths = view(fields, self.count)
        flat = list(self._mixed_texts(widths, low, high)[0])
        entries = []
        start = 0
        for width in widths[low:high]:
            entries.append(flat[start : start + width])
            start += width
        return entries

    def encode(self, low: int, high: int, reverse: bool = False) -> bytes:
        """Return the RESP of the entries at positions from `low` to before `high`, the last one first if `reverse`."""
        if WRITES and not reverse and (written := self._written(low, high)) is not None:
            return written
        if high - low < WOVEN_MIN:
            encoded = [encode_entry(*entry) for entry in zip(self.ids(low, high), self.entries(low, high), strict=True)]
            return b"".join(encoded[::-1] if reverse else encoded)
        return join(self._weave(low, high, reverse)[0])

    def _written(self, low: int, high: int) -> bytes | None:
        """Return the RESP for `encode`, written byte by byte; None for segments that need another way."""
        ids, fields = (self.first_id, self.stamps, self.seqs), self.fields
        if type(fields) is not tuple or type(self.texts) is not bytes:
            return None
        return write(ids, self.count, low, high, fields, self.lengths, self.joined())

    def _weave(self, low: int, high: int, reverse: bool) -> tuple[list[bytes], int | list[int]]:
        """Return the RESP as pieces, and the number of pieces of an entry."""
        first, count = self.first_id, self.count
        ms, seq = first >> 64, first & SEQ_MAX
        seqs = stamps = None
        if self.seqs is not None:
            seqs = view(self.seqs, count)[low:high]
        elif self.stamps is None:
            seq += low
        if self.stamps is not None:
            stamps = view(self.stamps, count)[low:high]
            ms -= ms % 1000
        fields = self.fields
        if type(fields) is tuple:
            texts, lengths = self.stored_texts(low, high, len(fields))
            return weave_same_fields((ms, stamps, seq, seqs), fields, texts, lengths, reverse)
        assert type(fields) is bytes
        widths = view(fields, count)
        texts, lengths = self._mixed_texts(widths, low, high)
        return weave_mixed_fields((ms, stamps, seq, seqs), widths[low:high], texts, lengths, reverse)

    def read(self, low: int, high: int, reverse: bool = False) -> bytes:
        """Return the RESP as `encode` does, from the cache if it is there.

        The cache takes a segment at once if it is read whole and in order, and later if it is read in parts.
        """
        whole = high - low == self.count and not reverse
        encoded = self.encoded
        if WRITES and high - low <= _FEW_MAX and not (whole or reverse):
            kept_as_it_is = encoded is not None and encoded.data is not None and not encoded.raw_bytes
            if not kept_as_it_is and (written := self._written(low, high)) is not None:
                return written
        data = self.kept()
        if data is None:
            if not whole and not self.is_worth_keeping(low, high, reverse):
                return self.encode(low, high, reverse)
            data = self.encode(0, self.count)
            encoded = self.keep(data, not whole)
        elif whole and encoded is not None and encoded.raw_bytes:
            self.keep(data, False)
        if whole:
            return data
        return self.encode(low, high, reverse) if encoded is None else self._cut_out(data, encoded, low, high, reverse)

    def kept(self) -> bytes | None:
        """Return the RESP of all entries if the cache has it."""
        encoded = self.encoded
        if encoded is None or encoded.data is None:
            return None
        encoded.hot = True
        return decompress(encoded.data, uncompressed_size=encoded.raw_bytes) if encoded.raw_bytes else encoded.data

    def is_worth_keeping(self, low: int, high: int, reverse: bool = False) -> bool:
        """Note the read of a part; return whether the cache should keep all; see `SegmentCache.parts_read`."""
        if self.count > _KEPT_BY_PARTS_MAX or type(self.texts) is tuple:
            return False
        touched = CACHE.parts_read(self.touched, self.count, low, high, reverse, self.raw_bytes > 0)
        if touched is None:
            return True
        self.touched = touched
        return False

    def keep(self, data: bytes, compressed: bool) -> Encoded | None:
        """Hand the RESP of all entries to the cache; return its Encoded, None if it is too large."""
        self.touched = 0
        self.encoded = CACHE.keep(data, len(data) // self.count if self._is_regular() else 0, compressed)
        return self.encoded

    def _cut_out(self, data: bytes, encoded: Encoded, low: int, high: int, reverse: bool) -> bytes:
        """Return the RESP of some entries, cut out of the RESP of all."""
        size = encoded.entry_bytes
        if size:
            if not reverse:
                return data[low * size : high * size]
            return b"".join([data[at : at + size] for at in range((high - 1) * size, (low - 1) * size, -size)])
        ends = self.ends(encoded)
        bounds = [*ends[low - 1 : high]] if low else [0, *ends[:high]]
        if not reverse:
            return data[bounds[0] : bounds[-1]]
        return b"".join([data[start:end] for start, end in zip(bounds[-2::-1], bounds[:0:-1], strict=True)])

    def ends(self, encoded: Encoded) -> Sequence[int]:
        """Return the offset of each entry's end in the RESP of all."""
        if encoded.ends is None:
            encoded.ends = view(pack(entry_ends(*self._weave(0, self.count, False))), self.count)
        return encoded.ends

    def _is_regular(self) -> bool:
        """Whether the RESP of all entries has the same length."""
        # With one part of the IDs the same in all, the other one ascends, and so does its length.
        return (
            type(self.lengths) is tuple
            and (self.stamps is None or self.seqs is None)
            and len(format_id(self.first_id)) == len(format_id(self.ids(self.count - 1, self.count)[0]))
        )

    def stored_texts(self, low: int, high: int, width: int) -> tuple[Sequence[bytes], Sequence[int]]:
        """Return the values, `width` of each entry, and their lengths; all entries must have the same fields."""
        lengths = self.lengths
        if type(lengths) is bytes:
            return self._cut(view(lengths, self.count * width), low * width, high * width)
        assert type(lengths) is tuple
        if type(self.texts) is tuple:
            return self.texts[low * width : high * width], lengths
        return cut_alike(self.joined(), lengths, low, high), lengths

    def _mixed_texts(self, widths: Sequence[int], low: int, high: int) -> tuple[Sequence[bytes], Sequence[int]]:
        assert type(self.lengths) is bytes
        before = sum(widths[:low])
        return self._cut(view(self.lengths, sum(widths)), before, before + sum(widths[low:high]))

    def _cut(self, lengths: Sequence[int], low: int, high: int) -> tuple[Sequence[bytes], Sequence[int]]:
        picked = lengths[low:high]
        if type(self.texts) is tuple:
            return self.texts[low:high], picked
        return cut(self.joined(), picked, sum(lengths[:low])), picked

    def joined(self) -> bytes:
        """Return `texts` uncompressed; it must not be a tuple."""
        assert type(self.texts) is bytes
        if self.raw_bytes:
            return decompress(self.texts, uncompressed_size=self.raw_bytes)
        return self.texts
