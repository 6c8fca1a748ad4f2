"""Keeps Python's garbage collector away from objects that it cannot free."""

import gc


def pause() -> None:
    """Stop collections until `keep_out`: objects made during a start live for ever, and would be visited again."""
    gc.disable()


def keep_out() -> None:
    """Keep collections off the hot path: objects from the start live for ever, entries are in objects that the
    collector does not track, and lists of requests are freed by reference count before a young generation of 50,000 is
    full.

    (No collection runs before: it takes a tenth of a start, and finds some hundred objects of argparse's.)
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()
