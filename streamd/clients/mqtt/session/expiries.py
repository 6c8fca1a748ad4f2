"""When retained messages expire, and removals are forgotten."""

import heapq
from collections.abc import Callable, Iterator
from typing import Final

_SPARE: Final = 1_000


class Expiries:
    """Topics by the times at which to look whether their messages have expired.

    A topic whose message was replaced by one that expires later is looked at too early, and added again.
    """

    def __init__(self) -> None:
        self._times: list[tuple[int, bytes]] = []

    def add(self, expires_ms: int, topic: bytes) -> None:
        """Look at a topic when that time has come."""
        heapq.heappush(self._times, (expires_ms, topic))

    def has_due(self, now_ms: int) -> bool:
        """Return whether there are topics to look at."""
        return bool(self._times) and self._times[0][0] <= now_ms

    def due(self, now_ms: int, most: int) -> Iterator[bytes]:
        """Yield topics to look at, and forget them."""
        times = self._times
        while most and times and times[0][0] <= now_ms:
            most -= 1
            yield heapq.heappop(times)[1]

    def tidy(self, topics: int, expires_ms: Callable[[bytes], int | None]) -> None:
        """Drop the times of messages that are gone, once these are more than the topics with a message."""
        if len(self._times) > 2 * topics + _SPARE:
            found = {topic: expires_ms(topic) for _, topic in self._times}
            self._times = [(time, topic) for topic, time in found.items() if time is not None]
            heapq.heapify(self._times)
