"""Counts how often this process did nothing for so long that others may have taken its sessions."""

from time import monotonic
from typing import Final

# Others wait for 2 s until a gateway lets a client go; the last beat may be some tenths of a second old.
_STALL_S: Final = 1.5


class Stalls:
    """The stalls of a process: it was stopped, or its machine was, or one turn of its loop took very long."""

    def __init__(self) -> None:
        self._count = 0
        self._beat_s = monotonic()

    def beat(self) -> None:
        """Note that the process runs; to be called several times a second."""
        self.count()

    def count(self) -> int:
        """Return how many stalls there were; one that has just ended counts already."""
        now_s = monotonic()
        if now_s - self._beat_s > _STALL_S:
            self._count += 1
        self._beat_s = now_s
        return self._count
