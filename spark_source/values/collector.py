"""Keeping Python's collector of cycles away while a page of entries is made into a batch.

A page is tens of thousands of lists that live for some milliseconds and hold no cycle. Looking through them again and
again, while the parser makes more, took more than half of a reading worker's time.
"""

import gc
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

T = TypeVar("T")


def undisturbed(made: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yield what a generator yields; while it works the collector is off, while results are used as it was."""
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
