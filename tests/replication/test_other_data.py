"""A replica takes other data than those that it is a copy of only right after a REPLICAOF."""

import pytest

from tests.crash.simulated_disk import SimulatedDisk
from tests.replication.cluster import Node, World


@pytest.fixture
def world():
    """Return a primary with two replicas: all have the key k."""
    world = World(3)
    primary, *replicas = (Node(world, port) for port in (1, 2, 3))
    primary.ask("SET k v")
    for replica in replicas:
        replica.ask("REPLICAOF 127.0.0.1 1")
        world.link_up(replica, primary)
    world.settle()
    return world


def lose(world, port):
    """Let a server come back without its disk."""
    world.nodes[port].die()
    return world.nodes[port].start_again(SimulatedDisk())


def refuses(replica):
    """Return whether a replica keeps what it has, though it tries to follow."""
    world, attempts = replica.world, replica.replication.link.attempts
    world.go_on(lambda: replica.replication.link.attempts >= attempts + 3)
    return replica.ask("GET k") == b"$1\r\nv\r\n" and replica.replication.link.state != "connected"


@pytest.mark.parametrize("written", ["", "SET other v", "XADD s IDMP p 1 * f v"])
def test_a_machine_without_its_disk_is_not_followed_whether_clients_write_to_it_or_not(world, written):
    primary = lose(world, 1)
    if written:
        primary.ask(written)
    replica = world.nodes[2]
    assert refuses(replica)

    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    assert replica.ask("GET k") == b"$-1\r\n"


def test_a_replicaof_does_not_count_once_the_link_was_up(world):
    new, replica = world.nodes[2], world.nodes[3]
    new.ask("REPLICAOF NO ONE")
    replica.ask("REPLICAOF 127.0.0.1 2")
    world.link_up(replica, new)
    assert replica.replication.link.copies == 1, "it went on from where it was"

    lose(world, 2)

    assert refuses(replica)


def test_what_becomes_of_servers_does_not_make_their_data_others(world):
    """A crash, a promotion, a restart of the replica and a doubt of the journal begin histories of the same data."""
    primary, replica = world.nodes[1], world.nodes[2]
    primary.die()
    primary = primary.start_again()
    primary.ask("SET k w")
    world.link_up(replica, primary)

    replica.die()
    replica = replica.start_again()
    primary.replication.doubt()
    primary.ask("SET k x")
    world.link_up(replica, primary)

    replica.ask("REPLICAOF NO ONE")
    replica.die()
    replica = replica.start_again()
    replica.ask("SET k y")
    primary.ask("REPLICAOF 127.0.0.1 2")
    world.link_up(primary, replica)
    replica.die()
    replica = replica.start_again()
    world.link_up(primary, replica)
    assert primary.ask("GET k") == b"$1\r\ny\r\n"


@pytest.mark.parametrize("how", ["killed", "ended in order"])
def test_a_machine_that_was_told_to_follow_does_so_though_it_starts_again_before_its_copy(world, how):
    primary = lose(world, 1)
    primary.ask("SET other v")
    replica = world.nodes[2]
    assert refuses(replica)  # it has asked, so what the primary has is a data set of its own
    replica.ask("REPLICAOF NO ONE")

    primary.begin("REPLICAOF 127.0.0.1 2")
    primary.end_turn_soon()
    primary.engine.end_turn()
    if how == "ended in order":
        primary.replication.close()
        primary.persistence.close()
    primary.die()
    primary = primary.start_again()

    world.link_up(primary, replica)
    assert primary.ask("GET k") == b"$1\r\nv\r\n"


def said(caplog, event):
    """Return the lines of a kind in the log."""
    return [one.getMessage() for one in caplog.records if event in one.getMessage()]


def test_a_refusal_names_both_ways_on_and_what_is_replaced_is_said(world, caplog):
    primary, replica = lose(world, 1), world.nodes[2]
    assert refuses(replica)
    line = said(caplog, "another data set")[0]
    assert "so 1 key here is kept: REPLICAOF NO ONE makes this server a primary, REPLICAOF 127.0.0.1 1 replaces" in line
    assert said(caplog, "replaces the 1 key here") == []

    history = replica.replication.standing.history
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    (line,) = said(caplog, "replaces the 1 key here")
    assert line.endswith(f"those of the history {history.replid} at offset {history.offset}")


def test_a_server_with_data_of_its_own_that_is_only_started_as_a_replica_keeps_them(caplog):
    world = World(3)
    primary, other = Node(world, 1), Node(world, 2)
    primary.ask("SET there v")
    other.ask("SET k v")
    other.die()
    other = other.start_again()
    other.replication.standing.primary = ("127.0.0.1", 1)  # as by --replicaof
    other.replication.begin()
    assert refuses(other)
    other.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(other, primary)
    assert other.ask("GET there") == b"$1\r\nv\r\n"


def test_the_same_reason_is_said_of_each_primary(world, caplog):
    replica = world.nodes[2]
    for port in (77, 78, 77):
        replica.ask(f"REPLICAOF 127.0.0.1 {port}")
        attempts = replica.replication.link.attempts
        world.go_on(lambda attempts=attempts: replica.replication.link.attempts > attempts + 1)
    assert [line.split(": ")[0] for line in said(caplog, "refused")] == [
        "the primary at 127.0.0.1:77",
        "the primary at 127.0.0.1:78",
    ]
