"""Decides how long requests to the store wait for each other: a turn of the store costs more than a request."""

import asyncio
from typing import Final

# While more than so many come, they wait for each other; but not where only few share a turn even so: one or two
# clients that send one request at a time would wait for nothing.
_FROM_PER_S: Final = 500
_SHARING_MIN: Final = 3
_WAIT_S: Final = 0.003
_SPAN_S: Final = 0.1


class Gathering:
    """How many requests of one kind come, counted over spans of time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._count = 0
        self._began_s = 0.0
        self._wait_s = 0.0

    def wait_s(self) -> float:
        """Return for how long a first request waits for others, in seconds; 0 for not at all."""
        now = self._loop.time()
        span_s = now - self._began_s
        if span_s > _SPAN_S:
            self._wait_s = _WAIT_S if self._count > _FROM_PER_S * span_s else 0.0
            self._began_s, self._count = now, 0
        return self._wait_s

    def left(self, count: int) -> None:
        """Note how many requests have left together."""
        self._count += count
        if count < _SHARING_MIN:
            self._wait_s = 0.0  # until the next span
