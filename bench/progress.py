"""What a benchmark says while it runs: in one line on a terminal, in a line a second in a log."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from streamd.base.progress import ProgressLine

TICK_S = 0.2


@contextmanager
def said(what: str) -> Iterator[None]:
    """Say what is done, and for how long by now, until it is done.

    A thread says it, since what is measured often has this one: it is awake for microseconds of each tick.
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
