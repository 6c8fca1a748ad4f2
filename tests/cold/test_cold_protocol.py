"""Moves, deletions, rewrites and a backup in many orders, with a power cut before each operation of the disk."""

import pytest

from tests.cold.world import Lost, World


def test_nothing_is_lost_in_any_order():
    cuts = 0
    for seed in range(60):
        world = World(seed)
        world.run()
        cuts += world.cuts
    assert cuts > 2_000


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
        for seed in range(500):
            World(seed, fault).run()
