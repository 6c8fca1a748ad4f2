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
    """Cut `data` behind so many replies, so many more, and so on.

    They are of one kind: all bulk strings without `$` in them, all integers, or all errors.
    """
    kind = data[:1]
    if kind != b"-" and counts.count(1) == len(counts):
        return [kind + reply for reply in data.split(kind)[1 : len(counts) + 1]]
    ends = [*accumulate(counts, initial=1)]  # in front of the first one's mark is nothing
    total = ends[-1] - 1
    if kind != b"-" and (size := len(data) // total) and data[::size] == kind * total:
        # All are as long, as IDs mostly are: each mark, of which there are no others, is where it would be then.
        return [data[start * size - size : end * size - size] for start, end in pairwise(ends)]
    if kind == b"-":
        errors = [b"", *split_replies(data)]
        return [b"".join(errors[start:end]) for start, end in pairwise(ends)]
    replies = data.split(kind)
    return [kind + kind.join(replies[start:end]) for start, end in pairwise(ends)]
