"""Where each reply ends among many that stand one behind the other."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

# What says how many bytes follow, and what says how many items, or pairs of them. Of all else the line is the whole.
_BULKS = b"$=!"
_AGGREGATES = {b"*": 1, b"~": 1, b">": 1, b"%": 2}


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


def deal_bulks(data: bytes, counts: Sequence[int]) -> list[bytes]:
    """Cut `data`, which is bulk strings without `$`, a line each: behind so many of them, so many more, and so on."""
    count = sum(counts)
    size = len(data) // count
    if data[::size] == b"$" * count and data.count(b"$") == count:
        # All are of one size, mostly: 0.03 us for each instead of 0.2.
        ends = [*accumulate(counts, lambda end, number: end + number * size, initial=0)]
        return [data[start:end] for start, end in pairwise(ends)]
    lines = data.split(b"\r\n")
    replies = [b"%b\r\n%b\r\n" % pair for pair in zip(lines[:-1:2], lines[1::2], strict=True)]
    ends = [*accumulate(counts, initial=0)]
    return [b"".join(replies[start:end]) for start, end in pairwise(ends)]
