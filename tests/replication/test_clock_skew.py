"""How a replica learns the difference of its clock and its primary's, and where it shows it."""

from itertools import product

import pytest

from streamd.net.exposition import expose
from streamd.replication.clock_skew import SAMPLES, ClockSkew
from tests.replication.cluster import Node, World

SHOWN_BY_MS = 2_000


class Host:
    """What /metrics are made of, without sockets."""

    measures = None

    def __init__(self, node: Node) -> None:
        self.engine = node.engine


def metrics(node: Node) -> str:
    pieces: list[str] = []
    for _ in expose(Host(node), pieces.append):
        pass
    return "".join(pieces)


def pair(skew_ms: int) -> tuple[World, Node, Node]:
    """Return a world in which a replica follows, whose clock is ahead by so much."""
    world = World()
    world.skews_ms[2] = skew_ms
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    return world, primary, replica


def pass_ms(world: World, milliseconds: int) -> None:
    until_ms = world.clock.monotonic_ms() + milliseconds
    world.go_on(lambda: world.clock.monotonic_ms() >= until_ms)


@pytest.mark.parametrize("skew_ms", [0, 999, -1_500, 3_600_000])
def test_a_replica_shows_by_how_much_its_clock_is_ahead(skew_ms):
    world, primary, replica = pair(skew_ms)
    pass_ms(world, SHOWN_BY_MS)
    assert int(replica.fields()["streamd_clock_skew_ms"]) == skew_ms
    assert list(replica.fields())[-1] == "streamd_clock_skew_ms"
    assert f"streamd_clock_skew_seconds {skew_ms / 1_000}\n" in metrics(replica)
    assert "streamd_clock_skew_ms" not in primary.fields()
    assert "streamd_clock_skew" not in metrics(primary)


def test_a_clock_that_is_set_is_noticed():
    world, _, replica = pair(0)
    pass_ms(world, SHOWN_BY_MS)
    replica.own_clock.skew_ms = -2_000
    pass_ms(world, SHOWN_BY_MS)
    assert replica.replication.clock_skew_ms == -2_000
    replica.own_clock.skew_ms = 2_000  # ahead, as by a delay: until the delay would have lasted too long
    pass_ms(world, SHOWN_BY_MS)
    assert replica.replication.clock_skew_ms == -2_000
    pass_ms(world, SAMPLES * 1_000)
    assert replica.replication.clock_skew_ms == 2_000


def test_nothing_is_shown_while_the_link_is_down_or_of_a_primary():
    world, primary, replica = pair(5_000)
    pass_ms(world, SHOWN_BY_MS)
    primary.die()
    world.go_on(lambda: replica.fields()["master_link_status"] == "down")
    assert "streamd_clock_skew_ms" not in replica.fields()
    replica.ask("REPLICAOF NO ONE")
    assert "streamd_clock_skew_ms" not in replica.fields()


def test_a_primary_that_does_not_tell_the_time_and_a_replica_that_does_not_ask_for_it_go_on():
    world, primary, replica = pair(5_000)
    (follower,) = primary.replication.feeding.followers.values()
    follower.greeting.can.discard(b"streamd-time")  # as an earlier replica
    replica.replication.side.clock_skew.forget()
    pass_ms(world, 3 * SHOWN_BY_MS)
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
