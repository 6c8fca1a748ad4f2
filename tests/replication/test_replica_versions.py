"""A newer replica follows an older primary; an older replica says that it cannot follow a newer one."""

import pytest

import streamd.commands.server.replication as commands
import streamd.replication.following as following
from tests.replication.cluster import Node, World, state_of

pytestmark = pytest.mark.interpreted(reason="it replaces the version that a module knows")


@pytest.fixture
def pair():
    world = World(7)
    return world, Node(world, 1), Node(world, 2)


@pytest.mark.parametrize(("here", "there"), [("0.2.0", "0.1.9"), ("1.0.0", "0.9.0"), ("0.1.0", "0.1.7")])
def test_a_newer_replica_follows_and_one_of_the_same_version(pair, monkeypatch, here, there):
    world, primary, replica = pair
    monkeypatch.setattr(following, "VERSION", here)
    monkeypatch.setattr(commands, "VERSION", there)
    primary.ask("SET k v")
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    assert state_of(replica) == state_of(primary)


@pytest.mark.parametrize("there", ["0.2.0", "1.0.0", "of another form"])
def test_an_older_replica_says_so_and_keeps_what_it_has(pair, monkeypatch, caplog, there):
    world, primary, replica = pair
    monkeypatch.setattr(following, "VERSION", "0.1.0")
    monkeypatch.setattr(commands, "VERSION", there)
    primary.ask("SET k v")
    replica.ask("SET own v")
    replica.ask("REPLICAOF 127.0.0.1 1")
    for _ in range(70):
        world.clock.advance(1_000)
        for node in (primary, replica):
            node.engine.tick()
        world.settle()
    assert replica.ask("GET own") == b"$1\r\nv\r\n"
    assert replica.replication.link.copies == 0
    assert replica.replication.link.attempts <= 9
    said = [one.getMessage() for one in caplog.records if "newer than the 0.1.0 here" in one.getMessage()]
    assert len(said) == 2  # one a minute
    assert f"the primary is streamd {there}, newer than" in said[0]
    assert said[0].endswith("install that version here, too; again in 1 s")


def test_a_failover_to_a_newer_replica_succeeds_and_the_older_primary_then_waits(pair, monkeypatch):
    world, primary, replica = pair
    primary.ask("SET k v")
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    monkeypatch.setattr(following, "VERSION", "0.1.0")
    monkeypatch.setattr(commands, "VERSION", "0.2.0")
    assert primary.ask("FAILOVER TO 127.0.0.1 2") == b"+OK\r\n"
    world.go_on(lambda: primary.fields()["role"] == "slave")
    world.go_on(lambda: primary.fields()["master_failover_state"] == "no-failover")
    assert replica.fields()["role"] == "master"
    assert replica.ask("SET k w") == b"+OK\r\n"
    assert primary.ask("SET k x").startswith(b"-READONLY")
    assert primary.replication.link.state != "connected"
    monkeypatch.setattr(following, "VERSION", "0.2.0")  # as after its upgrade
    world.link_up(primary, replica)
    assert state_of(primary) == state_of(replica)
