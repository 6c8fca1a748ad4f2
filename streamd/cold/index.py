"""The index of a segment file: where each of its blocks is, and which IDs are in it.

The footer of a file is its index, with a *row* for each block. It has
* flags u32 (1: with the columns of seqs), nodes in all u32;
* columns over rows: first ms u64, last ms u64, first seq u64 and last seq u64 (left out if all are 0), offset / 8 u32,
  size u32, entries u32, nodes u16 (its highest bit: between the first and the last ID there were entries that the block
  does not have);
* a column over the nodes of all rows: count u16.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import closing
from itertools import accumulate
from typing import Final, NamedTuple

from streamd.base.filesystem import File, FileSystem, read_exactly
from streamd.cold.block import Block
from streamd.cold.format import (
    ALIGNMENT,
    HEADER_BYTES,
    TRAILER_BYTES,
    Damaged,
    Header,
    check_footer,
    decode_header,
    decode_trailer,
    encode_trailer,
)
from streamd.stream.entry_id import SEQ_MAX

_START: Final = struct.Struct("<II")
_WITH_SEQS: Final = 1
_WITH_HOLES: Final = 0x8000
_NODES: Final = 0x7FFF
_COUNT_MAX: Final = 0xFFFF
# The bytes of a row, without its columns of seqs and the counts of its nodes.
_ROW_BYTES: Final = 8 + 8 + 3 * 4 + 2
_SEQS_BYTES: Final = 2 * 8
# The Index, its footer's object, and nine columns.
_OBJECT_BYTES: Final = 200 + 40 + 9 * 184


class Place(NamedTuple):
    """Where a block is in its file."""

    offset: int
    size: int


class Index:
    """The immutable index of one file; rows count from 0.

    A file has blocks of several streams; a stream's rows follow each other, so methods are told between which rows to
    look. Within these, IDs ascend.

    Shape: the footer's bytes and a view of each column. A million rows of one node each take 32 MB, 48 with seqs.
    """

    __slots__ = (
        "_counts", "_entries", "_first_ms", "_first_seqs", "_footer", "_last_ms", "_last_seqs", "_nodes", "_offsets",
        "_sizes", "rows",
    )  # fmt: skip

    def __init__(self, footer: bytes, rows: int) -> None:
        """Take a footer whose checksum is right. Raises: ValueError if it does not have so many rows."""
        if len(footer) < _START.size:
            raise ValueError("its columns have other lengths")
        flags, nodes = _START.unpack_from(footer)
        with_seqs = bool(flags & _WITH_SEQS)
        row_bytes = _ROW_BYTES + (_SEQS_BYTES if with_seqs else 0)
        if len(footer) != _START.size + rows * row_bytes + 2 * nodes:
            raise ValueError("its columns have other lengths")
        self.rows = rows
        self._footer = footer
        view, at = memoryview(footer), _START.size
        columns: list[memoryview] = []
        for size, code in ((8, "Q"), (8, "Q"), *([(8, "Q"), (8, "Q")] if with_seqs else []), *[(4, "I")] * 3, (2, "H")):
            columns.append(view[at : at + rows * size].cast(code))  # type: ignore[call-overload]
            at += rows * size
        self._first_ms: Sequence[int] = columns[0]
        self._last_ms: Sequence[int] = columns[1]
        self._first_seqs: Sequence[int] | None = columns[2] if with_seqs else None
        self._last_seqs: Sequence[int] | None = columns[3] if with_seqs else None
        self._offsets: Sequence[int] = columns[-4]
        self._sizes: Sequence[int] = columns[-3]
        self._entries: Sequence[int] = columns[-2]
        self._nodes: Sequence[int] = columns[-1]
        self._counts: Sequence[int] = view[at:].cast("H")
        if sum(map(_NODES.__and__, self._nodes)) != nodes or sum(self._counts) != sum(self._entries):
            raise ValueError("its sums do not add up")

    @property
    def memory_bytes(self) -> int:
        """An estimate of the memory that the index takes, in bytes."""
        return _OBJECT_BYTES + len(self._footer)

    def place(self, row: int) -> Place:
        """Return where a block is."""
        return Place(self._offsets[row] * ALIGNMENT, self._sizes[row])

    def check_places(self, blocks_end: int) -> None:
        """Return if all blocks end before that offset. Raises: ValueError."""
        ends = [offset * ALIGNMENT + size for offset, size in zip(self._offsets, self._sizes, strict=True)]
        if max(ends, default=0) > blocks_end:
            raise ValueError("a block of it ends behind the blocks")

    def first_id(self, row: int) -> int:
        """Return the first ID of a block, deleted or not."""
        seqs = self._first_seqs
        return self._first_ms[row] << 64 | (0 if seqs is None else seqs[row])

    def last_id(self, row: int) -> int:
        """Return the last ID that the nodes of a block ever had."""
        seqs = self._last_seqs
        return self._last_ms[row] << 64 | (0 if seqs is None else seqs[row])

    def find(self, entry_id: int, low: int, high: int) -> int:
        """Return the only row from `low` to before `high` whose block may hold an entry; `low - 1` if none may."""
        ms, seq = entry_id >> 64, entry_id & SEQ_MAX
        row = bisect_right(self._first_ms, ms, low, high)
        seqs = self._first_seqs
        if seqs is not None and row > low and self._first_ms[row - 1] == ms:
            row = bisect_right(seqs, seq, bisect_left(self._first_ms, ms, low, row), row)
        return row - 1

    def between(self, start: int, end: int, low: int, high: int) -> tuple[int, int]:
        """Return the rows `(from, to)` from `low` to before `high` whose blocks may hold entries from `start` to `end`;
        from == to if none may.
        """
        first = self.find(start, low, high)
        if first < low or self.last_id(first) < start:
            first += 1
        return first, max(first, self.find(end, low, high) + 1)

    def entries(self, low: int, high: int) -> int:
        """Return the number of entries, deleted or not, of the blocks from row `low` to before `high`."""
        return sum(self._entries[low:high])

    def entries_before(self, low: int, high: int) -> list[int]:
        """Return the number of entries, deleted or not, of the blocks from row `low` to before each row, and to before
        `high` at the end.
        """
        return [*accumulate(self._entries[low:high], initial=0)]

    def stored_bytes(self, low: int, high: int) -> int:
        """Return how many bytes of the file the blocks from row `low` to before `high` take."""
        return sum(self._sizes[low:high])

    def node_counts(self, low: int, high: int) -> Sequence[int]:
        """Return the number of entries, deleted or not, of each node from row `low` to before `high`."""
        before = self.nodes(0, low)
        return self._counts[before : before + self.nodes(low, high)]

    def counts_of(self, row: int, before: int) -> Sequence[int]:
        """Return the number of entries, deleted or not, of each node of a row; before: how many nodes the rows before
        it have.
        """
        return self._counts[before : before + (self._nodes[row] & _NODES)]

    def nodes(self, low: int, high: int) -> int:
        """Return the number of nodes from row `low` to before `high`."""
        return sum(map(_NODES.__and__, self._nodes[low:high]))

    def has_holes(self, row: int) -> bool:
        """Return whether there were entries between the first and the last ID of a block that the block does not have:
        they were deleted before it was written.
        """
        return bool(self._nodes[row] & _WITH_HOLES)


class Footer:
    """The index of a file that is being written."""

    def __init__(self) -> None:
        self._ms: tuple[array[int], array[int]] = array("Q"), array("Q")
        self._seqs: tuple[array[int], array[int]] = array("Q"), array("Q")
        self._offsets, self._sizes, self._entries = array("I"), array("I"), array("I")
        self._nodes, self._counts = array("H"), array("H")

    def add(self, block: Block, place: Place) -> None:
        """Add the row of a block."""
        for column, seqs, entry_id in zip(self._ms, self._seqs, (block.first_id, block.last_id), strict=True):
            column.append(entry_id >> 64)
            seqs.append(entry_id & SEQ_MAX)
        self._offsets.append(place.offset // ALIGNMENT)
        self._sizes.append(place.size)
        self._entries.append(block.entries)
        self._nodes.append(len(block.counts) | (_WITH_HOLES if block.has_holes else 0))
        self._counts.extend(block.counts)

    def add_stand_in(self, first_id: int, last_id: int, entries: int) -> None:
        """Add a row for blocks of which only the first and the last ID and the number of entries are known."""
        for column, seqs, entry_id in zip(self._ms, self._seqs, (first_id, last_id), strict=True):
            column.append(entry_id >> 64)
            seqs.append(entry_id & SEQ_MAX)
        self._offsets.append(0)
        self._sizes.append(0)
        self._entries.append(entries)
        rest = entries % _COUNT_MAX
        counts = [_COUNT_MAX] * (entries // _COUNT_MAX) + ([rest] if rest else [])
        self._nodes.append(len(counts))
        self._counts.extend(counts)

    def encode(self, blocks_end: int, salt: int) -> tuple[bytes, bytes, int]:
        """Return `(footer, trailer, checksum of the footer)`."""
        with_seqs = any(self._seqs[0]) or any(self._seqs[1])
        columns = [*self._ms, *(self._seqs if with_seqs else ()), self._offsets, self._sizes, self._entries]
        start = _START.pack(_WITH_SEQS if with_seqs else 0, len(self._counts))
        footer = b"".join([start, *[one.tobytes() for one in (*columns, self._nodes, self._counts)]])
        trailer, checksum = encode_trailer(footer, len(self._nodes), blocks_end, salt)
        return footer, trailer, checksum

    def index(self) -> Index:
        """Return the index of the blocks so far."""
        return Index(self.encode(0, 0)[0], len(self._nodes))


class Opened(NamedTuple):
    """What the header, trailer and footer of a file say."""

    header: Header
    checksum: int
    size: int
    blocks: Index


def read_index(files: FileSystem, path: str) -> Opened:
    """Return the index of a file, whose blocks are not looked at. Raises: Damaged, Unreadable, OSError."""
    with closing(files.open_to_read(path)) as file:
        return _read_index(file, path)


def _read_index(file: File, path: str) -> Opened:
    header = decode_header(read_exactly(file, 0, HEADER_BYTES), path)
    size = file.size()
    end = read_exactly(file, max(size - TRAILER_BYTES, HEADER_BYTES), TRAILER_BYTES)
    trailer = decode_trailer(end, path, size)
    footer = read_exactly(file, trailer.blocks_end, trailer.footer_bytes)
    check_footer(footer, end, trailer, header.salt, path)
    try:
        index = Index(footer, trailer.rows)
        index.check_places(trailer.blocks_end)
    except ValueError as error:
        raise Damaged(path, trailer.blocks_end, f"the footer cannot be right: {error}")
    return Opened(header, trailer.checksum, size, index)
