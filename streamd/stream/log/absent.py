"""The signal that entries are needed which are not in memory."""

from collections.abc import Sequence
from typing import Protocol


class Fetch(Protocol):
    """Blocks that are missing."""

    def fetch(self, rows: Sequence[tuple[object, int]]) -> None:
        """Read blocks, and wait for the disk; the accesses that follow at once find them."""


class Absent(Exception):
    """A command needs blocks that are not in memory; it has changed nothing yet, and is to be executed again.

    store: what can read them. rows: (file, row) of each, in ascending order.
    """

    def __init__(self, store: Fetch, rows: Sequence[tuple[object, int]]) -> None:
        super().__init__(f"{len(rows)} blocks are not in memory")
        self.store = store
        self.rows = rows

    def fetch(self) -> None:
        """Read the blocks, and wait for the disk; the accesses that follow at once find them."""
        self.store.fetch(self.rows)
