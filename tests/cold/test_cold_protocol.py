"""Moves, deletions, rewrites and a backup in many orders, with a power cut before each operation of the disk."""

import pytest

from tests.cold.world import Lost, check_worlds


def test_nothing_is_lost_in_any_order():
    assert check_worlds(range(60)) > 4_000


def test_nothing_is_lost_where_writing_fails_now_and_then():
    assert check_worlds(range(100), failing=True) > 6_000


@pytest.mark.parametrize(
    "fault",
    [
        "not synced",
        "unlinked before the record is synced",
        "let go before the directory is synced",
        "a backup without holds",
    ],
)
def test_a_server_that_does_it_wrong_is_found(fault):
    with pytest.raises(Lost):
        check_worlds(range(500), fault)
