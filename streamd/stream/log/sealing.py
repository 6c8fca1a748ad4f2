"""The columns that a run of entries is sealed into."""

from collections.abc import Sequence
from typing import Final

from streamd.stream.wire.entry_columns import EntryColumns
from streamd.stream.wire.entry_encoder import split_fields
from streamd.stream.wire.packed_numbers import pack

try:
    from lz4.block import compress
except ImportError:  # pragma: no cover - not on CPython, where lz4 is a dependency
    compress = None

# Values up to so many bytes in all are joined. More stay as they came: what an object of its own costs each is little
# beside them, and copying a hundred large values would hold up one XADD in a hundred. It is also malloc's limit for a
# mapping of its own.
JOINED_BYTES_MAX: Final = 128 * 1024
# lz4 takes a few microseconds of a segment, so it is always tried, and kept when it saves an eighth.
_COMPRESSED_BYTES_MIN = 256


def split_entries(
    texts: list[bytes] | EntryColumns, count: int, width: int, widths: Sequence[int] | None
) -> tuple[tuple[bytes, ...] | None, Sequence[bytes], Sequence[int]]:
    """Return `(field names, values, their lengths)` of entries; if the names differ, `(None, fields and values, their
    lengths)`. The lengths are a tuple, of one entry's values, if all entries have the same lengths.

    texts: columns; or fields and values, `width` texts for each entry, or as many as `widths` says.
    """
    if isinstance(texts, EntryColumns):
        names: tuple[bytes, ...] | None = texts.names
        values: Sequence[bytes] = texts.values
        if texts.lengths is not None:
            return names, values, texts.lengths
        lengths = [*map(len, values)]
    elif widths is None:
        names, values, lengths = split_fields(texts, width, count)
    else:
        return None, texts, [*map(len, texts)]
    if names is not None and lengths == (one := lengths[: len(names)]) * count:
        return names, values, tuple(one)
    return names, values, lengths


def seal_texts(
    texts: list[bytes] | EntryColumns, count: int, width: int, widths: Sequence[int] | None
) -> tuple[tuple[bytes, ...] | bytes, tuple[int, ...] | bytes, Sequence[bytes], int]:
    """Return `(fields, lengths, texts, size of the texts)` for a Segment of `count` entries; see `split_entries`."""
    names, values, lengths = split_entries(texts, count, width, widths)
    if type(lengths) is tuple:
        assert names is not None
        return names, lengths, values, sum(lengths) * count
    packed = pack(lengths)
    fields = pack(widths if widths is not None else [width] * count) if names is None else names
    return fields, packed, values, sum(lengths)


def join_texts(texts: Sequence[bytes], size: int) -> tuple[bytes | tuple[bytes, ...], int]:
    """Return `(texts, raw_bytes)` for a Segment; size: the sum of the texts' lengths."""
    if size > JOINED_BYTES_MAX:
        return tuple(texts), 0
    joined = b"".join(texts)
    if size >= _COMPRESSED_BYTES_MIN and compress is not None:
        compressed = compress(joined, store_size=False)
        if len(compressed) < size - size // 8:
            return compressed, size
    return joined, 0
