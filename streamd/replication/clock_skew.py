"""By how much the clock of a replica differs from that of its primary."""

from collections import deque
from typing import Final

# So many seconds are looked back. A time waits behind the frames before it, so that of a replica which is behind for
# longer than that seems to differ.
SAMPLES: Final = 60


class ClockSkew:
    """The difference of two clocks, by the times that one of them sends each second.

    A time arrives late, and never early, so it makes the receiver's clock seem ahead. The least of the last differences
    is the one with the least delay.
    """

    def __init__(self) -> None:
        self._differences_ms: deque[int] = deque(maxlen=SAMPLES)

    def note(self, sent_ms: int, here_ms: int) -> None:
        """Take a time of the other clock, and what the clock here showed when it arrived."""
        self._differences_ms.append(here_ms - sent_ms)

    def forget(self) -> None:
        """Begin anew: nothing is known of the other clock any more."""
        self._differences_ms.clear()

    @property
    def ms(self) -> int | None:
        """By how many milliseconds the clock here is ahead, negative if it is behind; None if that is not known."""
        return min(self._differences_ms, default=None)
