"""Many latencies in little memory: their mean, and percentiles to a hundredth of a millisecond."""

from collections import defaultdict

_STEPS_A_SECOND = 100_000


class Latencies:
    """A histogram of equal steps, of which only those that occur take memory."""

    __slots__ = ("_counts", "count", "total_s")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self._counts: defaultdict[int, int] = defaultdict(int)
        self.count, self.total_s = 0, 0.0

    def add(self, latency_s: float) -> None:
        """Enter one."""
        self._counts[int(latency_s * _STEPS_A_SECOND)] += 1
        self.count += 1
        self.total_s += latency_s

    @property
    def mean_ms(self) -> float:
        """The mean; 0 without any."""
        return self.total_s / self.count * 1e3 if self.count else 0.0

    def percentile_ms(self, share: float) -> float:
        """Return the latency that this share of all does not exceed, rounded up to a step; 0 without any."""
        wanted, passed = share * self.count, 0
        for step in sorted(self._counts):
            passed += self._counts[step]
            if passed >= wanted:
                return (step + 1) / _STEPS_A_SECOND * 1e3
        return 0.0
