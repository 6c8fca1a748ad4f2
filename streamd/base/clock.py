"""Clocks: the machine's, or one that a test moves."""

import time
from collections.abc import Callable
from typing import Final

# Microseconds of Unix time are signed numbers of 64 bits, here as in Redis.
_END_MS: Final = 2**63 // 1_000

# (Compiled code finds a constant at once, and what a module has by its name.)
_time_ns: Final = time.time_ns
_monotonic_ns: Final = time.monotonic_ns

# What a ManualClock's monotonic time begins with: far from any Unix time, so that a test sees which of them was taken.
_BEGIN_US: Final = 1_000_000_000


class Clock:
    """The machine's clocks, as two readings.

    The wall time (`now_us`, `now_ms`) is Unix time, for values that are stored or shown: entry IDs, expiries, windows,
    delivery times. It leaps when the machine's clock is set. The monotonic time (`monotonic_us`, `monotonic_ms`) never
    leaps and only measures durations: timers, time-outs, retries, idle connections, slices.
    """

    def now_us(self) -> int:
        """Return the Unix time in microseconds."""
        return _time_ns() // 1_000

    def now_ms(self) -> int:
        """Return the Unix time in milliseconds."""
        return _time_ns() // 1_000_000

    def monotonic_us(self) -> int:
        """Return microseconds that never leap nor go back; their beginning is undefined."""
        return _monotonic_ns() // 1_000

    def monotonic_ms(self) -> int:
        """Return the monotonic time in milliseconds."""
        return self.monotonic_us() // 1_000


class ManualClock(Clock):
    """A clock that stands still until it is moved.

    An object that acts on a new time (an engine with blocked clients) registers with `on_move`.
    """

    def __init__(self, now_ms: int = 1_000_000_000_000) -> None:
        self._now_us = now_ms * 1_000
        self._monotonic_us = _BEGIN_US
        self._listeners: list[Callable[[], None]] = []

    def now_us(self) -> int:
        return self._now_us

    def now_ms(self) -> int:
        return self._now_us // 1_000

    def monotonic_us(self) -> int:
        return self._monotonic_us

    def advance(self, milliseconds: int) -> None:
        """Let this many milliseconds pass, by both readings; a negative number is a leap back."""
        self._move(self.now_ms() + milliseconds, max(0, milliseconds))

    def leap(self, milliseconds: int) -> None:
        """Move the wall time alone, forward or back, as when the machine's clock is set; no time passes."""
        self._move(self.now_ms() + milliseconds, 0)

    def set(self, now_ms: int) -> None:
        """Let time pass until a Unix time in milliseconds. Raises: ValueError for one before 1970, or too far."""
        self.advance(now_ms - self.now_ms())

    def _move(self, now_ms: int, passed_ms: int) -> None:
        if not 0 <= now_ms < _END_MS:
            raise ValueError(f"the clock cannot be set to {now_ms} ms: give a Unix time from 0 to {_END_MS - 1}")
        self._now_us = now_ms * 1_000
        self._monotonic_us += passed_ms * 1_000
        for listener in self._listeners:
            listener()

    def on_move(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every move."""
        self._listeners.append(listener)


class TurnTime:
    """The time that all commands of one turn see; the code that runs the turn sets it.

    ms: the wall time. monotonic_ms: the monotonic time as of the last tick, a tenth of a second ago at most (or as long
    as a turn takes). Each request notes it, and so asks one clock and not two. s: the same in seconds, one object
    for all requests until the next tick.
    """

    __slots__ = ("monotonic_ms", "ms", "s")

    def __init__(self, clock: Clock) -> None:
        self.read(clock)

    def read(self, clock: Clock) -> None:
        """Read the clock, for all commands of the turn."""
        self.ms = clock.now_ms()
        self.monotonic_ms = clock.monotonic_ms()
        self.s = self.monotonic_ms // 1000
