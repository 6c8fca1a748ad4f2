"""Disables Python's cyclic garbage collector while a page of entries becomes a batch.

A page is tens of thousands of lists that live for some milliseconds and hold no cycle. Collections during parsing took
more than half of a reading worker's time.
"""

import gc
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

T = TypeVar("T")


def undisturbed(made: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yield a generator's results; the collector is off while the generator works, and as before while results are
    used.
    """
    with closing(made):
        while True:
            with _off():
                try:
                    one = next(made)
                except StopIteration:
                    return
            yield one


@contextmanager
def _off() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
