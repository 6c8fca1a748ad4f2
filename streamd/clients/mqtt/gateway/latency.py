"""Histograms of times."""

from bisect import bisect_left
from typing import Final

# Upper ends in seconds, from a lone turn on a quiet machine to a store that was away for a while.
BOUNDS_S: Final = (
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip


class Latency:
    """Counts times."""

    __slots__ = ("_counts", "sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, took_s: float, count: int = 1) -> None:
        """Count a time that so many messages took."""
        self._counts[bisect_left(BOUNDS_S, took_s)] += count
        self.sum_s += took_s * count

    def buckets(self) -> list[tuple[str, float]]:
        """Return (upper end, number of times up to it), rising to "+Inf"."""
        rows, below = [], 0
        for bound, count in zip([*(f"{one:g}" for one in BOUNDS_S), "+Inf"], self._counts, strict=True):
            below += count
            rows.append((bound, float(below)))
        return rows
