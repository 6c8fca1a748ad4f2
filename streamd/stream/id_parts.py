"""The parts of many entry IDs at once, and entry IDs of many parts.

These are plain loops, in a file of their own because it is not compiled: mypyc's integers have 64 bits and those of
entry IDs 128, so that a compiled loop over these takes twice as long as Python's own.
"""

from collections.abc import Iterable, Sequence
from typing import Final

_SEQ_MAX: Final = (1 << 64) - 1


def parts_of(ids: Iterable[int]) -> tuple[list[int], list[int]]:
    """Return the milliseconds and the seqs of some entry IDs."""
    return [entry_id >> 64 for entry_id in ids], [entry_id & _SEQ_MAX for entry_id in ids]


def seqs_of(ids: Iterable[int]) -> list[int]:
    """Return the seqs of some entry IDs."""
    return [entry_id & _SEQ_MAX for entry_id in ids]


def stamps_of(base: int, ids: Iterable[int]) -> list[int]:
    """Return how many milliseconds entry IDs come behind `base`, an ID with a seq of 0."""
    return [entry_id - base >> 64 for entry_id in ids]


def have_no_seqs(base: int, ids: Sequence[int], stamps: Sequence[int]) -> bool:
    """Return whether all seqs of entry IDs are 0; `stamps` is the result of `stamps_of`.

    All seqs are 0 if their sum is 0, and two sums take half the time of a look at each seq.
    """
    return not (ids[-1] | ids[len(ids) // 2]) & _SEQ_MAX and sum(ids) - base * len(ids) == sum(stamps) << 64


def ids_of(milliseconds: Iterable[int], seqs: Iterable[int]) -> list[int]:
    """Return the entry IDs of their parts."""
    return [(ms << 64) + seq for ms, seq in zip(milliseconds, seqs)]  # noqa: B905 (equally long)


def ids_behind(first_id: int, stamps: Iterable[int]) -> list[int]:
    """Return for each stamp the entry ID so many milliseconds behind `first_id`."""
    return [first_id + (stamp << 64) for stamp in stamps]


def ids_of_columns(ms: int, stamps: Iterable[int], seqs: Iterable[int] | int) -> list[int]:
    """Return entry IDs: `ms` is to be added to the milliseconds of each; seqs: one for all, or the seq of each."""
    if isinstance(seqs, int):
        return ids_behind((ms << 64) + seqs, stamps)
    return [(ms + stamp << 64) + seq for stamp, seq in zip(stamps, seqs)]  # noqa: B905 (equally long)


def runs_of(ids: Iterable[int]) -> list[tuple[int, int]]:
    """Return some entry IDs, in their order, as runs that count up by one: `(the first ID, the number of IDs)`."""
    runs: list[tuple[int, int]] = []
    first = expected = -1
    for entry_id in ids:
        if entry_id != expected:
            if first >= 0:
                runs.append((first, expected - first))
            first = entry_id
        expected = entry_id + 1
    if first >= 0:
        runs.append((first, expected - first))
    return runs


def sums(number: int, others: Iterable[int]) -> list[int]:
    """Return the sum of a number and each of some others."""
    return [number + other for other in others]


def format_parts(milliseconds: Sequence[int], seqs: Sequence[int]) -> list[bytes]:
    """Return the texts of entry IDs given by their parts."""
    if seqs.count(0) == len(seqs):
        # One operation for all takes two thirds of the time.
        return (b"%d-0 " * len(seqs) % tuple(milliseconds)).split()
    return [b"%d-%d" % parts for parts in zip(milliseconds, seqs)]  # noqa: B905 (equally long)
