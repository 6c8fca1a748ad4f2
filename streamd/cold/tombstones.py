"""The IDs of deleted entries of one block, which the block itself does not tell."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from streamd.stream.entry_id import SEQ_MAX


class Tombstones:
    """The IDs of deleted entries of one block, ascending; they never change, so copies of a stream share them.

    Shape: 8 bytes an ID, 16 if a seq is not 0. emptied: how many nodes of the block have no other entries; -1 as long
    as that is not known.
    """

    __slots__ = ("_ms", "_seqs", "emptied")

    def __init__(self, ids: Iterable[int]) -> None:
        """ids: ascending."""
        parts = [*ids]
        self._ms = array("Q", [entry_id >> 64 for entry_id in parts])
        seqs = array("Q", [entry_id & SEQ_MAX for entry_id in parts])
        self._seqs = seqs if any(seqs) else None
        self.emptied = -1

    def __len__(self) -> int:
        return len(self._ms)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids())

    @property
    def columns(self) -> tuple[Sequence[int], Sequence[int] | None]:
        """The milliseconds of the IDs, and their seqs, None if all are 0."""
        return self._ms, self._seqs

    def ids(self) -> list[int]:
        """Return the IDs."""
        if self._seqs is None:
            return [ms << 64 for ms in self._ms]
        return [ms << 64 | seq for ms, seq in zip(self._ms, self._seqs, strict=True)]

    def __contains__(self, entry_id: int) -> bool:
        ms, seq = entry_id >> 64, entry_id & SEQ_MAX
        column, seqs = self._ms, self._seqs
        at = bisect_left(column, ms)
        while at < len(column) and column[at] == ms:
            if (0 if seqs is None else seqs[at]) == seq:
                return True
            at += 1
        return False

    def with_ids(self, ids: Iterable[int]) -> "Tombstones":
        """Return these and others."""
        return Tombstones(sorted({*self.ids(), *ids}))

    @property
    def memory_bytes(self) -> int:
        """About the memory that they take, in bytes."""
        return 250 + len(self._ms) * (8 if self._seqs is None else 16)
