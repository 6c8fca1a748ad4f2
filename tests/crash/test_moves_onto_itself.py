"""A list that gives itself all its elements keeps its expiry, also after a restart, and at a replica."""

import pytest

from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump
from tests.replication.cluster import Node, World, state_of

MOVES = [
    "RPOPLPUSH l l",
    "BRPOPLPUSH l l 0",
    "LMOVE l l LEFT RIGHT",
    "LMOVE l l RIGHT RIGHT",
    "BLMOVE l l LEFT LEFT 0",
    "LMOVEM l l LEFT RIGHT COUNT 9 OBO",
    "LMOVEM l l LEFT RIGHT COUNT 9 BULK",
    "LMOVEM l l LEFT LEFT COUNT 9 OBO",
    "LMOVEM l l RIGHT RIGHT COUNT 2 OBO",
    "BLMOVEM l l RIGHT LEFT 0 COUNT 9 OBO",
    "BLMOVEM l l RIGHT LEFT 0 COUNT 9 BULK",
]


@pytest.mark.parametrize("elements", ["a", "a b c"])
@pytest.mark.parametrize("move", MOVES)
def test_a_restart_keeps_the_expiry(move, elements):
    server = Restartable()
    for request in (f"RPUSH l {elements}", "PEXPIRE l 100000", move):
        reply = server.send(*request.split())
        assert reply is not None
        assert not reply.startswith(b"-")
    before = dump(server.engine)
    assert before[0, b"l"][1] is not None

    assert dump(server.restart().engine) == before


@pytest.mark.interpreted(reason="its world has a class of clocks of its own")
def test_a_replica_keeps_the_expiry():
    world = World()
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    primary.ask("RPUSH l a;PEXPIRE l 100000")
    world.link_up(replica, primary)

    primary.ask("RPOPLPUSH l l")
    world.link_up(replica, primary)

    assert state_of(replica) == state_of(primary)
