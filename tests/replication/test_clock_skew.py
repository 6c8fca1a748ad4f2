"""How a replica learns the difference of its clock and its primary's, and where it shows it."""

from itertools import product

import pytest

from streamd.replication.clock_skew import SAMPLES, ClockSkew
from tests.replication.seen_pair import TOLD_MS, linked_pair, metrics_of, pass_ms


@pytest.mark.parametrize("skew_ms", [0, 999, -1_500, 3_600_000])
def test_a_replica_shows_by_how_much_its_clock_is_ahead(skew_ms):
    world, primary, replica = linked_pair(skew_ms)
    pass_ms(world, 5 * TOLD_MS)
    assert int(replica.fields()["streamd_clock_skew_ms"]) == skew_ms
    assert list(replica.fields())[-1] == "streamd_clock_skew_ms"
    assert f"streamd_clock_skew_seconds {skew_ms / 1_000}\n" in metrics_of(replica.engine)
    assert "streamd_clock_skew_ms" not in primary.fields()
    assert "streamd_clock_skew" not in metrics_of(primary.engine)


def test_a_clock_that_is_set_is_noticed():
    world, _, replica = linked_pair(0)
    pass_ms(world, TOLD_MS)
    replica.own_clock.skew_ms = -2_000
    pass_ms(world, TOLD_MS)
    assert replica.replication.clock_skew_ms == -2_000
    replica.own_clock.skew_ms = 2_000  # ahead, as by a delay: until the delay would have lasted too long
    pass_ms(world, TOLD_MS)
    assert replica.replication.clock_skew_ms == -2_000
    pass_ms(world, SAMPLES * 1_000)
    assert replica.replication.clock_skew_ms == 2_000


def test_nothing_is_shown_while_the_link_is_down_or_of_a_primary():
    world, primary, replica = linked_pair(5_000)
    pass_ms(world, TOLD_MS)
    primary.die()
    world.go_on(lambda: replica.fields()["master_link_status"] == "down")
    assert "streamd_clock_skew_ms" not in replica.fields()
    replica.ask("REPLICAOF NO ONE")
    assert "streamd_clock_skew_ms" not in replica.fields()


def test_a_primary_that_does_not_tell_the_time_and_a_replica_that_does_not_ask_for_it_go_on():
    world, primary, replica = linked_pair(5_000)
    (follower,) = primary.replication.feeding.followers.values()
    follower.greeting.can.discard(b"streamd-time")  # as an earlier replica
    replica.replication.side.clock_skew.forget()
    pass_ms(world, 3 * TOLD_MS)
    assert replica.replication.clock_skew_ms is None
    assert replica.fields()["master_link_status"] == "up"


def test_the_least_delay_of_the_last_times_counts():
    for delays in product((0, 1, 700), repeat=4):
        skew = ClockSkew()
        assert skew.ms is None
        for second, delay in enumerate(delays):
            skew.note(second * 1_000, second * 1_000 + 42 + delay)
            assert skew.ms == 42 + min(delays[: second + 1])
        for _ in range(SAMPLES):
            skew.note(0, 7_000)
        assert skew.ms == 7_000
