"""Replicas of a primary whose entries are in segment files."""

from typing import Any

import pytest

from tests.cold.cold_server import evict, make_cold
from tests.crash.state_dump import dump
from tests.replication.cluster import Node, World

MIB = 1024 * 1024


def seen(node: Node) -> Any:
    """Return all that clients can see; blocks are read in place."""
    store = node.engine.state.cold
    if store is None:
        return dump(node.engine)
    store.in_place += 1
    try:
        return dump(node.engine)
    finally:
        store.in_place -= 1


def sweep(node: Node) -> None:
    """No list waits for the mover, which these servers do not have."""
    if node.engine.state.cold is not None:
        node.engine.state.cold.small.clear()
        node.engine.state.cold.unwritten.clear()


def segments(node: Node) -> list[str]:
    return [path for path in node.disk.names if path.endswith(".seg")]


def fill(node: Node, since: int) -> None:
    for number in range(since, since + 100):
        node.ask(f"XADD s {number}-1 f value")


def a_primary(world: World) -> Node:
    """Return a primary with 170 of 200 entries in files."""
    node = Node(world, 1, stream_memory=16 * MIB, stream_node_max_entries=10)
    fill(node, 1)
    make_cold(node.engine, b"s")
    fill(node, 101)
    make_cold(node.engine, b"s")
    evict(node.engine)
    node.ask("XGROUP CREATE s g 0;XREADGROUP GROUP g ann COUNT 3 STREAMS s >")
    node.ask("XDEL s 30-1 31-1;XTRIM s MAXLEN 193")
    return node


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("has_own", [False, True])
def test_a_replica_takes_the_files_and_what_follows(seed, has_own):
    world = World(seed)
    primary = a_primary(world)
    options = {"stream_memory": 16 * MIB} if has_own else {}
    replica = Node(world, 2, stream_node_max_entries=10, **options)
    if has_own:
        for number in range(1, 50):
            replica.ask(f"XADD own {number}-1 f own")
        make_cold(replica.engine, b"own")
        evict(replica.engine)
        replica.persistence.save()

    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)

    assert replica.engine.state.config["stream-memory"] == 16 * MIB
    assert len(replica.engine.state.cold.cache._blocks) == 0
    assert seen(replica) == seen(primary)
    evict(replica.engine)
    primary.ask("XDEL s 40-1 60-1;XADD s 900-1 f v;XTRIM s MAXLEN 180")
    world.link_up(replica, primary)
    assert len(replica.engine.state.cold.cache._blocks) == 0
    assert seen(replica) == seen(primary)
    sweep(replica)
    world.settle()
    replica.die()
    again = replica.start_again()
    assert seen(again) == seen(primary)
    assert len(segments(again)) == 2


def test_a_replica_with_an_explicit_zero_has_all_in_memory():
    world = World(1)
    primary = a_primary(world)
    replica = Node(world, 2, stream_memory=0, stream_node_max_entries=10)

    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    world.go_on(lambda: not segments(replica))

    assert replica.engine.state.cold is None
    assert seen(replica) == seen(primary)
    replica.die()
    assert seen(replica.start_again()) == seen(primary)


def test_a_replica_without_room_for_all_stays_as_it_is(caplog):
    world = World(1)
    primary = a_primary(world)
    replica = Node(world, 2, stream_memory=0, maxmemory=1_000)

    replica.ask("REPLICAOF 127.0.0.1 1")
    world.go_on(lambda: "stream-memory 0 would bring" in caplog.text)

    assert seen(replica) == {}
    assert segments(replica) == []
    assert seen(primary)
