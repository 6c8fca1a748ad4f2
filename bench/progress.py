"""The progress of a benchmark: one line on a terminal, a line a second in a log."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from streamd.base.progress import ProgressLine

TICK_S = 0.2


@contextmanager
def said(what: str) -> Iterator[None]:
    """Show the present step and its time so far, until it ends.

    A thread does that, since the measurement often occupies this one: it is awake for microseconds of each tick.
    """
    line, over, started_s = ProgressLine("bench"), threading.Event(), monotonic()

    def speak() -> None:
        while not over.wait(TICK_S):
            line.say(f"{what}, {monotonic() - started_s:.0f} s")

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()
        line.end()
