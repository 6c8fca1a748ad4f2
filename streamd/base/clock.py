"""Where the time comes from: the machine's clock, or one that a test moves."""

import time
from collections.abc import Callable
from typing import Final

# Microseconds of Unix time are signed numbers of 64 bits, here as in Redis.
_END_MS: Final = 2**63 // 1_000

# (Compiled code finds a constant at once, and what a module has by its name.)
_time_ns: Final = time.time_ns


class Clock:
    """The machine's clock, in whole microseconds of Unix time."""

    def now_us(self) -> int:
        """Return the Unix time in microseconds."""
        return _time_ns() // 1_000

    def now_ms(self) -> int:
        """Return the Unix time in milliseconds."""
        return _time_ns() // 1_000_000

    def monotonic_us(self) -> int:
        """Return microseconds that never go back, for measuring durations."""
        return time.monotonic_ns() // 1_000


class ManualClock(Clock):
    """A clock that stands still until it is moved.

    Who wants to act on a new time (an engine with blocked clients) registers with `on_move`.
    """

    def __init__(self, now_ms: int = 1_000_000_000_000) -> None:
        self._now_us = now_ms * 1_000
        self._listeners: list[Callable[[], None]] = []

    def now_us(self) -> int:
        return self._now_us

    def now_ms(self) -> int:
        return self._now_us // 1_000

    def monotonic_us(self) -> int:
        return self._now_us

    def advance(self, milliseconds: int) -> None:
        """Move the clock by so many milliseconds; a negative number steps it back."""
        self.set(self.now_ms() + milliseconds)

    def set(self, now_ms: int) -> None:
        """Set the clock to a Unix time in milliseconds. Raises: ValueError for one before 1970, or too far from now."""
        if not 0 <= now_ms < _END_MS:
            raise ValueError(f"the clock cannot be set to {now_ms} ms: give a Unix time from 0 to {_END_MS - 1}")
        self._now_us = now_ms * 1_000
        for listener in self._listeners:
            listener()

    def on_move(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every move."""
        self._listeners.append(listener)


class TurnTime:
    """The time that all commands of one turn see; who runs the turn sets it.

    ms: Unix milliseconds. s: Unix seconds as of the last tick, a tenth of a second ago at most; one object for all who
    note it in that second.
    """

    __slots__ = ("ms", "s")

    def __init__(self, ms: int) -> None:
        self.set(ms)

    def set(self, ms: int) -> None:
        """Let both tell this time."""
        self.ms = ms
        self.s = ms // 1000
