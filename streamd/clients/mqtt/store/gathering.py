"""Decides how long requests to the store wait for each other: a turn of the store costs more than a request."""

import asyncio
from typing import Final

# While more than so many come, they wait for each other; a client that sends one at a time does not wait for others.
_FROM_PER_S: Final = 500
_WAIT_S: Final = 0.003
_SPAN_S: Final = 0.1


class Gathering:
    """How many requests of one kind come. count: since the span began; their owner adds to it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.count = 0
        self._began_s = 0.0
        self._rate = 0.0

    def wait_s(self) -> float:
        """Return for how long the first request waits, in seconds; 0 while few come."""
        now = self._loop.time()
        span_s = now - self._began_s
        if span_s > _SPAN_S:
            self._rate = self.count / span_s
            self._began_s, self.count = now, 0
        return _WAIT_S if self._rate > _FROM_PER_S else 0.0
