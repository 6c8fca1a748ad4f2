"""Blocks of a segment file: consecutive segments of one stream, as they were sealed.

A block consists of
* xxh3-64 u64 of all behind it, seeded with the file's salt xor the block's offset in the file;
* a head of 64 bytes: `SBLK`, codec u8, flags u8, segments u16, entries u32, bytes of the directory u32, of the body
  u32, and of the body before compression u32; first ID (ms u64, seq u64), last ID, 8 zeros;
* a directory of 56 bytes a segment: first ID, last ID, count u16, used u16, bytes of a stamp u8 and of a seq u8 (0: the
  segment has no such column), kind u8 (1: entries have different fields; 2: values have the same lengths in each entry;
  4: the texts are large, each an object of its own), 0 u8, the place of its field names (kind 1: bytes of its column of
  fields) u32, bytes of its lengths u32, of its texts u32, of its texts before compression u32;
* tuples of field names, each once in a block: names u32, then u32 and the bytes for each;
* a body: fields (kind 1), stamps, seqs, lengths and texts of each segment.

Deletions are no part of it: a segment is written with all its entries.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from xxhash import xxh3_64, xxh3_64_intdigest

from streamd.cold.codec import AS_SEALED, ZSTD, compress, decompress, is_available
from streamd.cold.format import Damaged, Unreadable
from streamd.stream.entry_id import SEQ_MAX
from streamd.stream.log.segment import Segment
from streamd.stream.wire.packed_numbers import view

# What is read at once. Larger blocks compress hardly better, and to read a few entries costs in proportion.
BLOCK_BYTES: Final = 32 * 1024
# The size of a block that is one large segment, at most; the format has 32 bits for it.
BLOCK_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024

_MAGIC: Final = b"SBLK"
_CHECKSUM: Final = struct.Struct("<Q")
_HEAD: Final = struct.Struct("<4sBBHIIIIQQQQ8s")
_ROW: Final = struct.Struct("<QQQQHHBBBBIIII")
_NUMBER: Final = struct.Struct("<I")
_HEAD_END: Final = _CHECKSUM.size + _HEAD.size

_MIXED, _ALIKE, _APART = 1, 2, 4
# Blocks up to this size are joined before their checksum is made, which is faster than a call for each piece.
_JOINED_BYTES_MAX: Final = 1024 * 1024


class Block:
    """A block that has no place in a file yet.

    codec: how the body is to be stored. counts: the number of entries of each segment. directory: with the field names.
    body: the pieces of the body, uncompressed, body_bytes in all.
    """

    __slots__ = ("body", "body_bytes", "codec", "counts", "directory", "entries", "first_id", "has_holes", "last_id")

    def __init__(self, segments: list[Segment], codec: int = AS_SEALED, has_holes: bool = False) -> None:
        """Gather at least one segment of one stream, in order; nothing is copied but the directory.

        has_holes: whether there were others between the segments, which were deleted.

        A `codec` that compresses has the texts uncompressed first: what is lz4'd gains little from zstd.
        """
        self.codec = codec
        self.first_id, self.last_id = segments[0].first_id, segments[-1].last_id
        self.counts = [segment.count for segment in segments]
        self.has_holes = has_holes or self.counts != [segment.used for segment in segments]
        self.entries = sum(self.counts)
        self.body: list[bytes] = []
        names: dict[tuple[bytes, ...], int] = {}
        rows = [self._gather(segment, names) for segment in segments]
        for one in names:
            rows.append(_NUMBER.pack(len(one)))
            for name in one:
                rows += (_NUMBER.pack(len(name)), name)
        self.directory = b"".join(rows)
        self.body_bytes = sum(map(len, self.body))

    def _gather(self, segment: Segment, names: dict[tuple[bytes, ...], int]) -> bytes:
        """Add the columns of a segment to the body; return its row of the directory."""
        body, count = self.body, segment.count
        kind = stamp_bytes = seq_bytes = 0
        fields, lengths, texts, raw_bytes = segment.fields, segment.lengths, segment.texts, segment.raw_bytes
        if type(fields) is tuple:
            place = names.setdefault(fields, len(names))
        else:
            assert type(fields) is bytes
            kind, place = _MIXED, len(fields)
            body.append(fields)
        if segment.stamps is not None:
            stamp_bytes = len(segment.stamps) // count
            body.append(segment.stamps)
        if segment.seqs is not None:
            seq_bytes = len(segment.seqs) // count
            body.append(segment.seqs)
        if type(lengths) is tuple:
            kind |= _ALIKE
            packed = array("I", lengths).tobytes()
        else:
            assert type(lengths) is bytes
            packed = lengths
        body.append(packed)
        if type(texts) is tuple:
            kind |= _APART
            body += texts
            texts_bytes = sum(map(len, texts))
        else:
            if raw_bytes and self.codec != AS_SEALED:
                texts, raw_bytes = segment.joined(), 0
            assert type(texts) is bytes
            body.append(texts)
            texts_bytes = len(texts)
        return _ROW.pack(
            segment.first_id >> 64, segment.first_id & SEQ_MAX, segment.last_id >> 64, segment.last_id & SEQ_MAX,
            count, segment.used, stamp_bytes, seq_bytes, kind, 0, place, len(packed), texts_bytes, raw_bytes,
        )  # fmt: skip

    def placed(self, salt: int, offset: int) -> list[bytes]:
        """Return the block as pieces for its place in a file; a thread may call it."""
        codec, body = AS_SEALED, self.body
        size = self.body_bytes
        if self.codec == ZSTD:
            compressed = compress(b"".join(body))
            if len(compressed) < size:
                codec, body, size = ZSTD, [compressed], len(compressed)
        head = _HEAD.pack(
            _MAGIC, codec, 0, len(self.counts), self.entries, len(self.directory), size, self.body_bytes,
            self.first_id >> 64, self.first_id & SEQ_MAX, self.last_id >> 64, self.last_id & SEQ_MAX, bytes(8),
        )  # fmt: skip
        pieces = [head, self.directory, *body]
        if size <= _JOINED_BYTES_MAX:
            pieces = [b"".join(pieces)]
        state = xxh3_64(seed=salt ^ offset)
        for piece in pieces:
            state.update(piece)
        return [_CHECKSUM.pack(state.intdigest()), *pieces]


def stored_bytes(segment: Segment) -> int:
    """Return how many bytes of a block a segment takes as it was sealed, without its field names."""
    fields, lengths, texts = segment.fields, segment.lengths, segment.texts
    size = _ROW.size + (len(fields) if type(fields) is bytes else 0)
    size += 0 if segment.stamps is None else len(segment.stamps)
    size += 0 if segment.seqs is None else len(segment.seqs)
    size += 4 * len(lengths) if type(lengths) is tuple else len(lengths)
    return size + (sum(map(len, texts)) if type(texts) is tuple else len(texts))


def grouped(segments: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Yield the segments of each block, in order: as many as fit into BLOCK_BYTES, and at least one.

    Raises: ValueError for a segment that takes more than BLOCK_BYTES_MAX.
    """
    group: list[Segment] = []
    names: set[tuple[bytes, ...]] = set()
    size = _HEAD_END
    for segment in segments:
        own = stored_bytes(segment)
        if own > BLOCK_BYTES_MAX:
            raise ValueError(f"a segment of {own} bytes is too large for a block")
        fields = segment.fields
        if type(fields) is tuple and fields not in names:
            own += _names_bytes(fields)
        if group and size + own > BLOCK_BYTES:
            yield group
            group, names, size = [], set(), _HEAD_END
            own = stored_bytes(segment) + (_names_bytes(fields) if type(fields) is tuple else 0)
        if type(fields) is tuple:
            names.add(fields)
        group.append(segment)
        size += own
    if group:
        yield group


def _names_bytes(names: tuple[bytes, ...]) -> int:
    return _NUMBER.size * (1 + len(names)) + sum(map(len, names))


def check(data: bytes, size: int, salt: int, offset: int, path: str) -> None:
    """Return if `data` is the whole block of `size` bytes that was written to this place. Raises: Damaged.

    It is one call over all bytes, for which a thread holds no lock.
    """
    if len(data) != size or size < _HEAD_END:
        raise Damaged(path, offset, f"{len(data)} of the {size} bytes of a block are there")
    if xxh3_64_intdigest(memoryview(data)[_CHECKSUM.size :], salt ^ offset) != _CHECKSUM.unpack_from(data)[0]:
        raise Damaged(path, offset, "a block's checksum is wrong")


def decode(data: bytes, offset: int, path: str) -> list[Segment]:
    """Return the segments of a block that `check` has passed. Raises: Damaged, Unreadable."""
    head = _HEAD.unpack_from(data, _CHECKSUM.size)
    magic, codec, _, segments, entries, directory_bytes, body_bytes, raw_bytes = head[:8]
    if magic != _MAGIC or _HEAD_END + directory_bytes + body_bytes != len(data):
        raise Damaged(path, offset, "the lengths of a block do not add up to its size")
    if not is_available(codec):
        raise Unreadable(f"{path} has a block that is compressed in a way (codec {codec}) that is not installed here")
    at = _HEAD_END + directory_bytes
    if codec == ZSTD:
        try:
            data = data[:at] + decompress(data[at:], raw_bytes)
        except ValueError as error:
            raise Damaged(path, offset, f"a block cannot be uncompressed: {error}")
    try:
        names = _names_in(data, _HEAD_END + segments * _ROW.size, at)
        found: list[Segment] = []
        for row in range(_HEAD_END, _HEAD_END + segments * _ROW.size, _ROW.size):
            segment, at = _segment_in(data, row, at, names, found[-1] if found else None)
            found.append(segment)
    except (ValueError, IndexError, struct.error) as error:
        raise Damaged(path, offset, f"a block's directory does not fit its body: {error}")
    if at != len(data) or sum([segment.count for segment in found]) != entries:
        raise Damaged(path, offset, "a block's directory does not fit its body")
    return found


def _names_in(data: bytes, at: int, behind: int) -> list[tuple[bytes, ...]]:
    found = []
    while at < behind:
        (width,) = _NUMBER.unpack_from(data, at)
        at += _NUMBER.size
        if width > behind - at:
            raise ValueError("more field names than bytes")
        names = []
        for _ in range(width):
            (length,) = _NUMBER.unpack_from(data, at)
            at += _NUMBER.size
            names.append(data[at : at + length])
            at += length
        found.append(tuple(names))
    if at != behind:
        raise ValueError("field names end elsewhere")
    return found


def _segment_in(
    data: bytes, row: int, at: int, names: list[tuple[bytes, ...]], like: Segment | None
) -> tuple[Segment, int]:
    """Return a segment and where its columns end; field names and lengths are shared with the one before, `like`."""
    (
        first_ms, first_seq, last_ms, last_seq, count, used, stamp_bytes, seq_bytes, kind, _, place, lengths_bytes,
        texts_bytes, raw_bytes,
    ) = _ROW.unpack_from(data, row)  # fmt: skip
    mixed_bytes = place if kind & _MIXED else 0
    if not count or at + mixed_bytes + count * (stamp_bytes + seq_bytes) + lengths_bytes + texts_bytes > len(data):
        raise ValueError("columns end behind their block")
    segment = Segment((), [], 0, None)
    segment.count = segment.live_count = count
    segment.used = used
    segment.first_id, segment.last_id = first_ms << 64 | first_seq, last_ms << 64 | last_seq
    segment.raw_bytes = raw_bytes
    if kind & _MIXED:
        mixed = segment.fields = _column(data, at, mixed_bytes, count)
        texts = sum(view(mixed, count))
        at += mixed_bytes
    else:
        segment.fields = names[place]
        texts = count * len(names[place])
    segment.stamps = segment.seqs = None
    if stamp_bytes:
        segment.stamps = _column(data, at, count * stamp_bytes, count)
        at += count * stamp_bytes
    if seq_bytes:
        segment.seqs = _column(data, at, count * seq_bytes, count)
        at += count * seq_bytes
    each: Sequence[int]
    if kind & _ALIKE:
        if lengths_bytes * count != _NUMBER.size * texts:
            raise ValueError("a column has another length")
        alike = tuple(memoryview(data)[at : at + lengths_bytes].cast("I"))
        segment.lengths = like.lengths if like is not None and like.lengths == alike else alike
        each = alike
    else:
        packed = segment.lengths = _column(data, at, lengths_bytes, texts)
        each = view(packed, texts)
    at += lengths_bytes
    if kind & _APART:
        segment.texts = _cut(data, at, [*each] * (count if kind & _ALIKE else 1), texts_bytes)
    else:
        segment.texts = data[at : at + texts_bytes]
    return segment, at + texts_bytes


def _column(data: bytes, at: int, size: int, length: int) -> bytes:
    """Return a packed column of `length` numbers."""
    if size not in (length, 2 * length, 4 * length, 8 * length) or not size:
        raise ValueError("a column has another length")
    return data[at : at + size]


def _cut(data: bytes, at: int, lengths: list[int], size: int) -> tuple[bytes, ...]:
    """Return large texts, `size` bytes in all, as objects of their own."""
    if sum(lengths) != size:
        raise ValueError("the lengths of texts do not add up")
    found = []
    for length in lengths:
        found.append(data[at : at + length])
        at += length
    return tuple(found)
