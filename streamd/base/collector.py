"""Keeps Python's collector of cycles away from where it has nothing to find."""

import gc


def pause() -> None:
    """Collect nothing before `keep_out`: what a start makes lives for ever, and would be looked at again and again."""
    gc.disable()


def keep_out() -> None:
    """Keep collections off the hot path: what start-up made lives for ever, entries are held in objects that the
    collector does not track, and lists of requests die by reference count before a young generation of 50,000 is full.

    (Nothing is collected before: that takes a tenth of a start, and finds some hundred objects of argparse's.)
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()
