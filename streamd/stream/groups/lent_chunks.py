"""The chunks of pending entries that snapshots may share."""

from collections.abc import Iterable
from weakref import ref

from streamd.stream.groups.pending_chunk import Chunk


class Lent(set[Chunk]):
    """The chunks that snapshots may share. holders: a reference to each snapshot's own Lent, which lives as long."""

    __slots__ = ("holders",)

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        super().__init__(chunks)
        self.holders: list[ref[Lent]] = []

    def still_held(self) -> "list[ref[Lent]]":
        """Return the holders of the snapshots that still exist."""
        return [holder for holder in self.holders if holder() is not None]
