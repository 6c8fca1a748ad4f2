"""Counting how often a row came before: the set and the table give what a dict would."""

from itertools import product

import pytest

from spark_source.naming.occurrences import COUNT_MAX, Occurrences


def counted(hashes: list[int], chunk: int, exact_rows: int) -> list[int]:
    """Return what `Occurrences` says of hashes that come in chunks."""
    occurrences = Occurrences(exact_rows)
    found: list[int] = []
    for at in range(0, len(hashes), chunk):
        part = hashes[at : at + chunk]
        found += occurrences.count(part) or [0] * len(part)
    return found


def expected(hashes: list[int]) -> list[int]:
    return [hashes[:i].count(number) for i, number in enumerate(hashes)]


@pytest.mark.parametrize("exact_rows", [0, 1, 2, 100])
@pytest.mark.parametrize("chunk", [1, 2, 3, 6])
def test_every_short_history_is_counted_right(chunk: int, exact_rows: int) -> None:
    """8 and 16 and 24 want the same slot of a small table, 2**64 - 1 the last one, from where the search goes round."""
    for hashes in product([8, 16, 24, 2**64 - 1], repeat=6):
        assert counted(list(hashes), chunk, exact_rows) == expected(list(hashes)), hashes


@pytest.mark.parametrize("exact_rows", [0, 100, 1000])
def test_a_table_grows_and_forgets_nothing(exact_rows: int) -> None:
    hashes = [(n * 0x9E3779B97F4A7C15) % 2**64 for n in range(2000)]
    twice = hashes + hashes[::2]

    assert counted(twice, 500, exact_rows) == [0] * 2000 + [1] * 1000


@pytest.mark.parametrize("exact_rows", [0, COUNT_MAX - 1, 10_000])
def test_a_row_may_come_more_often_than_a_byte_counts(exact_rows: int) -> None:
    """The others make the set give way to the table when the row has already come more often than that."""
    hashes = [7] * (COUNT_MAX + 20) + list(range(10, 10 + exact_rows)) + [7] * 3

    assert counted(hashes, 50, exact_rows)[-3:] == [COUNT_MAX + 20, COUNT_MAX + 21, COUNT_MAX + 22]


def test_0_which_marks_a_free_slot_is_counted_too() -> None:
    assert counted([0, 0, 5, 0], 1, 0) == [0, 1, 0, 2]


def test_nothing_repeated_is_said_without_a_list() -> None:
    for exact_rows in (0, 100):
        occurrences = Occurrences(exact_rows)
        assert occurrences.count([1, 2]) is None
        assert occurrences.count([3]) is None
        assert occurrences.count([3]) == [1]
