"""A histogram of times, with the buckets of monitoring systems."""

from bisect import bisect_left
from threading import Lock
from typing import Final

# Upper ends in microseconds: twice to two and a half times as long each, from a quick turn to a stuck disk.
BOUNDS_US: Final = (
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 10_000_000,
)  # fmt: skip


class Histogram:
    """Counts times, from any thread."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_US) + 1)
        self._sum_us = 0.0
        self._lock = Lock()

    def observe(self, took_us: float) -> None:
        """Count one time."""
        with self._lock:
            self._counts[bisect_left(BOUNDS_US, took_us)] += 1
            self._sum_us += took_us

    def buckets(self) -> tuple[list[tuple[str, int]], float]:
        """Return (bound in seconds, number of times up to it), rising to "+Inf", and the sum of all in seconds."""
        with self._lock:
            counts, sum_us = self._counts[:], self._sum_us
        rows, below = [], 0
        for bound, count in zip([*(f"{bound / 1_000_000:g}" for bound in BOUNDS_US), "+Inf"], counts, strict=True):
            below += count
            rows.append((bound, below))
        return rows, sum_us / 1_000_000
