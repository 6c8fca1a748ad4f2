"""Which chunks of pending entries snapshots may have, too."""

from collections.abc import Iterable
from weakref import ref

from streamd.stream.groups.pending_chunk import Chunk


class Lent(set[Chunk]):
    """Chunks that snapshots may have, too. holders: of each snapshot its own empty Lent, which lives as long."""

    __slots__ = ("holders",)

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        super().__init__(chunks)
        self.holders: list[ref[Lent]] = []

    def still_held(self) -> "list[ref[Lent]]":
        """Return the holders of snapshots that are still there."""
        return [holder for holder in self.holders if holder() is not None]
