"""How a filter of entries is said in a request."""

from collections.abc import Callable
from typing import Final

from streamd.base.errors import SyntaxError_
from streamd.base.limits import SEARCH_SLICE_US
from streamd.catalog import Context
from streamd.catalog.arguments import Arguments
from streamd.stream.search.patterns import EntryFilter, entry_filter

KINDS: Final = (b"MQTT", b"GLOB", b"EQ")


def take_filter(words: Arguments) -> EntryFilter:
    """Take `FIELD field MQTT | GLOB | EQ pattern`. Raises: SyntaxError_; CommandError."""
    if not words.flag(b"FIELD", followed_by=3):
        raise SyntaxError_()
    field, kind, text = words.word(), words.word().upper(), words.word()
    if kind not in KINDS:
        raise SyntaxError_()
    return entry_filter(field, kind, text)


def slice_end(context: Context) -> Callable[[], bool]:
    """Return a function that tells whether a search has used up its time."""
    monotonic_us = context.state.clock.monotonic_us
    deadline_us = monotonic_us() + SEARCH_SLICE_US
    return lambda: monotonic_us() >= deadline_us
