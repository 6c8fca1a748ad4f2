"""Keeps Python's garbage collector away from objects that it cannot free."""

import gc
import sys
from typing import Final

# From Python 3.14 on the second number divides the part of old objects that each collection visits.
THRESHOLDS: Final = (50_000, 20 if sys.version_info >= (3, 14) else 0, 500)


def pause() -> None:
    """Stop collections until `keep_out`: objects made during a start live for ever, and would be visited again."""
    gc.disable()


def keep_out() -> None:
    """Keep collections off the hot path: objects from the start live for ever, entries are in objects that the
    collector does not track, and lists of requests are freed by reference count before a young generation of 50,000 is
    full.

    A second generation of two young ones is visited in 10 ms. (One of twenty takes as long in all, but 180 at once.)

    (No collection runs before: it takes a tenth of a start, and finds some hundred objects of argparse's.)
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
