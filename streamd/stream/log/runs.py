"""Runs of entries in the nodes of a log."""

from collections.abc import Iterator
from typing import Final, final

from streamd.stream.log.segment import Segment
from streamd.stream.log.tail import Tail

# A node, and the positions from which and to before which its entries are meant.
NodeRun = tuple[Segment | Tail, int, int]


def ids_in(runs: list[NodeRun]) -> list[int]:
    """Return the IDs of the entries of runs, in order."""
    ids: list[int] = []
    for source, low, high in runs:
        ids += source.ids(low, high)
    return ids


@final
class Passed:
    """In place of a run: entries without a match, which the log did not read. last_id: the ID of the last one."""

    __slots__ = ("last_id",)

    def __init__(self, last_id: int) -> None:
        self.last_id: Final = last_id


def first_runs(
    runs: Iterator[tuple[Segment | Tail, int, int]], count: int, reverse: bool
) -> Iterator[tuple[Segment | Tail, int, int]]:
    """Yield the runs of the first `count` entries."""
    left = count
    for source, low, high in runs if left > 0 else ():
        if high - low >= left:
            yield (source, high - left, high) if reverse else (source, low, low + left)
            return
        yield source, low, high
        left -= high - low
