"""An action at a steady rate, in steps of a millisecond, whatever the event loop is held up by."""

import asyncio
from collections.abc import Callable
from time import monotonic

from streamd.clients.mqtt.bench.latencies import Latencies

_STEP_S = 0.001


class Pacer:
    """Calls `action`, with the time, `per_second` times a second until it is stopped.

    What the loop was late with is done at once, as the next step comes. late: by how much the first action of each step
    was late.
    """

    def __init__(self, per_second: float, action: Callable[[float], None]) -> None:
        self.late = Latencies()
        self._per_second, self._action, self._done = per_second, action, 0
        self._loop = asyncio.get_running_loop()
        self._begun_s = monotonic()
        self._next = self._loop.call_soon(self._step)

    def stop(self) -> None:
        """Call no more."""
        self._next.cancel()

    def _step(self) -> None:
        now_s = monotonic()
        due = int((now_s - self._begun_s) * self._per_second) - self._done
        if due > 0:
            self.late.add(now_s - self._due_s())
            for _ in range(due):
                self._action(now_s)
            self._done += due
        self._next = self._loop.call_later(max(_STEP_S, self._due_s() - now_s), self._step)

    def _due_s(self) -> float:
        """Return when the next action is due."""
        return self._begun_s + (self._done + 1) / self._per_second
