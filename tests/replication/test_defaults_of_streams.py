"""A stream has the same window on all servers, whatever setting each was started with, or was given since."""

import random

import pytest

from tests.replication.cluster import Node, World, is_level, state_of


def restart(node: Node, in_order: bool, seconds: int) -> Node:
    """Start a server again with another setting."""
    if in_order:
        node.replication.close()
        node.persistence.close()
    node.die()
    node.options["stream_idmp_duration"] = seconds
    return node.start_again()


def test_replicas_that_go_on_learn_what_a_primary_was_started_again_with():
    world = World()
    primary, replica, second = Node(world, 1), Node(world, 2, stream_idmp_duration=77), Node(world, 3)
    replica.ask("REPLICAOF 127.0.0.1 1")
    second.ask("REPLICAOF 127.0.0.1 2")
    primary.ask("XADD before IDMP p 1 * f v")
    world.link_up(replica, primary)
    world.link_up(second, replica)

    primary = restart(primary, True, 9)
    primary.ask("XADD after IDMP p 1 * f v")
    world.link_up(replica, primary)
    world.link_up(second, replica)

    assert replica.engine.state.keyspace[0].values[b"after"].idmp.duration_s == 9
    assert state_of(replica) == state_of(primary) == state_of(second)
    assert (replica.replication.link.copies, second.replication.link.copies) == (1, 1)


def test_a_start_with_the_same_settings_moves_no_history():
    world = World()
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    primary.ask("XADD s * f v")
    world.link_up(replica, primary)
    before = primary.offset

    primary = restart(primary, True, 100)
    world.settle()

    assert primary.offset == before


@pytest.mark.parametrize("seed", range(25))
def test_settings_change_amid_restarts_and_roles(seed):
    chance, world = random.Random(seed), World(seed)
    nodes = [Node(world, port, stream_idmp_duration=chance.choice((10, 20, 30))) for port in (1, 2, 3)]

    def lead(leader: int) -> None:
        nodes[leader].begin("REPLICAOF NO ONE")
        for node in nodes:
            if node is not nodes[leader]:
                node.begin(f"REPLICAOF 127.0.0.1 {leader + 1}")

    primary = 0
    lead(primary)
    world.settle()
    for number in range(40):
        at, what = chance.randrange(3), chance.random()
        if what < 0.4:
            nodes[at].begin(f"XADD s{number} IDMP p 1 * f v")
        elif what < 0.6:
            nodes[at].begin(f"CONFIG SET stream-idmp-duration {chance.choice((10, 20, 30, 40))}")
        elif what < 0.7:
            nodes[at] = restart(nodes[at], chance.random() < 0.5, chance.choice((10, 20, 30)))
        elif what < 0.75:
            lead(primary := at)
        elif what < 0.85:
            nodes[at].begin("BGREWRITEAOF")
        else:
            world.clock.advance(1_000)
        for _ in range(chance.choice((0, 3, 40))):
            world.step_or_wait()
    lead(primary)
    world.settle()
    nodes[primary].ask("XADD last IDMP p 1 * f v")
    others = [node for node in nodes if node is not nodes[primary]]

    world.go_on(lambda: all(is_level(node, nodes[primary]) for node in others))

    world.settle()
    for node in others:
        assert state_of(node) == state_of(nodes[primary])
