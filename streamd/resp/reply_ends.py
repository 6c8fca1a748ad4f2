"""Where each reply ends among many that stand one behind the other."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final

# What says how many bytes follow, and what says how many items, or pairs of them. Of all else the line is the whole.
_BULKS: Final = b"$=!"
_AGGREGATES: Final = {b"*": 1, b"~": 1, b">": 1, b"%": 2}


def split_replies(data: bytes) -> Iterator[bytes]:
    """Yield the replies and pushes that `data` is made of, each whole; they were encoded here, and are not checked."""
    start = 0
    while start < len(data):
        at, missing = start, 1
        while missing:
            kind, at_length = data[at : at + 1], at + 1
            line = data.index(b"\r\n", at)
            missing -= 1
            at = line + 2
            if kind in _BULKS:
                length = int(data[at_length:line])
                at += length + 2 if length >= 0 else 0
            elif kind in _AGGREGATES:
                missing += _AGGREGATES[kind] * max(0, int(data[at_length:line]))
        yield data[start:at]
        start = at


def deal_replies(data: bytes, counts: Sequence[int]) -> list[bytes]:
    """Return `data`, bulk strings without `$` in them, cut into pieces of so many replies each."""
    ends = [*accumulate(counts, initial=0)]
    total = ends[-1]
    if (size := len(data) // total) and data[::size] == b"$" * total:
        # All are as long, as IDs mostly are: each mark, of which there are no others, is where it would be then.
        return [data[start * size : end * size] for start, end in pairwise(ends)]
    replies = data.split(b"$")[1:]  # in front of the first one's mark is nothing
    return [b"$" + b"$".join(replies[start:end]) for start, end in pairwise(ends)]
