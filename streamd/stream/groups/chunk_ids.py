"""The IDs of a chunk of pending entries: ints, or packed in columns."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from streamd.stream.entry_id import SEQ_MAX
from streamd.stream.id_parts import have_no_seqs, ids_of_columns, seqs_of, stamps_of, sums
from streamd.stream.log.segment import Segment
from streamd.stream.wire.entry_encoder import IdParts, split_ids
from streamd.stream.wire.packed_numbers import view


class ChunkIds:
    """Ascending IDs, one at least unless entries are being removed.

    Shape: at first `stamps` is a list of the IDs, and `seqs` is None: 56 bytes for an ID. Packed, for 2 to 8 bytes (16
    for wide ones): `stamps` has how many milliseconds each comes behind `base`, a multiple of 1000, and `seqs` the seq
    of each, or the one seq of all.
    """

    __slots__ = ("base", "seqs", "stamps")

    def __init__(self, ids: list[int]) -> None:
        self.base = 0
        self.seqs: array[int] | int | None = None
        self.stamps: array[int] | list[int] = ids

    def id_at(self, index: int) -> int:
        seqs, stamp = self.seqs, self.stamps[index]
        if seqs is None:
            return stamp
        return (self.base + stamp << 64) + (seqs if isinstance(seqs, int) else seqs[index])

    def ids(self, start: int, stop: int) -> list[int]:
        """Return the IDs from index `start` to before `stop`, a new list."""
        stamps, seqs = self.stamps[start:stop], self.seqs
        if isinstance(stamps, list):
            return stamps
        assert seqs is not None
        return ids_of_columns(self.base, stamps, seqs if isinstance(seqs, int) else seqs[start:stop])

    def place(self, entry_id: int) -> int:
        """Return the index of the first ID that is `entry_id` or more, the number of IDs if none is."""
        stamps, seqs = self.stamps, self.seqs
        if seqs is None:
            return bisect_left(stamps, entry_id)
        stamp, seq = (entry_id >> 64) - self.base, entry_id & SEQ_MAX
        at = bisect_left(stamps, stamp)
        if at == len(stamps) or stamps[at] != stamp:
            return at
        if isinstance(seqs, int):
            return at if seq <= seqs else at + 1
        return bisect_left(seqs, seq, at, bisect_right(stamps, stamp, at))

    def find(self, entry_id: int) -> int:
        """Return the index of an ID, -1 if it is not here."""
        stamps, seqs = self.stamps, self.seqs
        if isinstance(seqs, int):
            number = (entry_id >> 64) - self.base
            at = bisect_left(stamps, number) if entry_id & SEQ_MAX == seqs else len(stamps)
        elif seqs is None:
            at, number = bisect_left(stamps, entry_id), entry_id
        else:
            at = self.place(entry_id)
            return at if at < len(stamps) and self.id_at(at) == entry_id else -1
        return at if at < len(stamps) and stamps[at] == number else -1

    def pack(self) -> None:
        """Pack the IDs."""
        ids = self.stamps
        if isinstance(ids, list):
            ms = ids[0] >> 64
            base = (ms - ms % 1000) << 64
            stamps = stamps_of(base, ids)
            self.stamps = []
            self._add(base >> 64, stamps, 0 if have_no_seqs(base, ids, stamps) else seqs_of(ids))

    def add_ids(self, ids: list[int]) -> None:
        """Add IDs, all greater than those here."""
        if isinstance(self.stamps, list):
            self.stamps += ids
        else:
            self._add(self.base, stamps_of(self.base << 64, ids), seqs_of(ids))

    def add_run(self, segment: Segment, low: int, high: int) -> None:
        """Add, packed, the IDs of a segment at positions from `low` to before `high`, all greater than those here."""
        ms, seq, count = segment.first_id >> 64, segment.first_id & SEQ_MAX, segment.count
        stamps, seqs = segment.stamps, segment.seqs
        since = [ms % 1000] * (high - low) if stamps is None else view(stamps, count)[low:high]
        if seqs is not None:
            self._add(ms - ms % 1000, since, view(seqs, count)[low:high])
        else:
            self._add(ms - ms % 1000, since, range(seq + low, seq + high) if stamps is None else seq)

    def _add(self, base: int, stamps: Sequence[int], seqs: Sequence[int] | int) -> None:
        """Add IDs in columns. Hot path."""
        if not self.stamps:
            self.base, self.stamps = base, array("H")
            self.seqs = seqs if isinstance(seqs, int) else array("H")
        size, mine = len(self.stamps), self.seqs
        assert not isinstance(self.stamps, list)
        assert mine is not None
        if not isinstance(seqs, int) or seqs != mine:
            column = _grown(array("H"), [mine] * size) if isinstance(mine, int) else mine
            self.seqs = _grown(column, [seqs] * len(stamps) if isinstance(seqs, int) else list(seqs))
        self.stamps = _grown(self.stamps, list(stamps) if base == self.base else sums(base - self.base, stamps))

    def have(self, index: int, ms: int, stamps: list[int], seqs: list[int] | int) -> bool:
        """Return whether the IDs from an index on are those of columns, as `ids_of_columns` takes them."""
        some, own, behind = self.stamps[index : index + len(stamps)], self.seqs, index + len(stamps)
        if isinstance(some, list) or own is None:
            return some == ids_of_columns(ms, stamps, seqs)
        if some.tolist() != (stamps if ms == self.base else sums(ms - self.base, stamps)):
            return False
        if isinstance(seqs, int):
            return own == seqs if isinstance(own, int) else own[index:behind].count(seqs) == len(stamps)
        return seqs.count(own) == len(stamps) if isinstance(own, int) else own[index:behind].tolist() == seqs

    def unpack(self) -> list[int]:
        """Have ints, which are as easily changed as wide ones; return them."""
        if not isinstance(self.stamps, list):
            self.stamps, self.seqs = self.ids(0, len(self.stamps)), None
        return self.stamps

    def part(self, start: int, stop: int) -> "ChunkIds":
        """Return the IDs from index `start` to before `stop`."""
        part = ChunkIds([])
        part.take_ids(self, start, stop)
        return part

    def take_ids(self, other: "ChunkIds", start: int, stop: int) -> None:
        """Have the IDs of another chunk from index `start` to before `stop`."""
        seqs = other.seqs
        self.base, self.stamps = other.base, other.stamps[start:stop]
        self.seqs = seqs if seqs is None or isinstance(seqs, int) else seqs[start:stop]

    def drop_ids(self, start: int, stop: int) -> None:
        """Remove the IDs from index `start` to before `stop`."""
        del self.stamps[start:stop]
        if self.seqs is not None and not isinstance(self.seqs, int):
            del self.seqs[start:stop]

    def parts(self) -> IdParts:
        """Return the IDs as the encoder takes them."""
        stamps, seqs = self.stamps, self.seqs
        if isinstance(stamps, list):
            return split_ids(stamps)
        if isinstance(seqs, int):
            return self.base, stamps, seqs, None
        assert seqs is not None
        if stamps[0] == stamps[-1]:
            return self.base + stamps[0], None, seqs[0], seqs
        return self.base, stamps, 0, seqs


def _grown(column: "array[int]", values: list[int]) -> "array[int]":
    """Return a column with more values behind the others, which are wide enough for them."""
    try:
        column.fromlist(values)
        return column
    except OverflowError:
        return _grown(array("I" if column.itemsize == 2 else "Q", column), values)
