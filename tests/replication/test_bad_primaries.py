"""Primaries that cannot be followed: a line in the log for each reason and minute, and growing pauses."""

import logging
import socket
from itertools import pairwise

import pytest

from streamd.testing import Clock, EmbeddedServer
from tests.replication.cluster import Node, World, state_of
from tests.replication.clusters import wait_until

PAUSES_S = [1, 2, 4, 8, 16, 30, 30, 30]


def attempts_of(node):
    """Return a list of the seconds at which a server connects, from now on."""
    found = []
    connect = node.network.connect

    def noting(link, host, port):
        found.append(node.world.clock.monotonic_ms() / 1_000)
        connect(link, host, port)

    node.network.connect = noting
    return found


def pass_s(world, seconds):
    for _ in range(seconds * 10):
        world.settle()
        world.clock.advance(100)
        for node in world.nodes.values():
            if node.runs:
                node.engine.tick()
    world.settle()


def lines_of(caplog, text):
    return [one.getMessage() for one in caplog.records if text in one.getMessage()]


@pytest.fixture(autouse=True)
def _all_lines(caplog):
    caplog.set_level(logging.INFO, "streamd")


def test_a_primary_that_is_not_there_is_tried_after_growing_pauses_and_told_of_once_a_minute(caplog):
    world = World()
    node = Node(world, 1)
    node.ask("SET k v")
    before = state_of(node)
    attempts = attempts_of(node)
    node.ask("REPLICAOF 127.0.0.1 9")
    pass_s(world, 130)
    assert [round(b - a) for a, b in pairwise(attempts)] == PAUSES_S[: len(attempts) - 1]
    assert len(attempts) >= 7
    assert len(lines_of(caplog, "refused")) == 3
    assert state_of(node) == before


def test_the_pauses_begin_again_after_a_link_that_held(caplog):
    world = World()
    primary, replica = Node(world, 1), Node(world, 2)
    attempts = attempts_of(replica)
    replica.ask("REPLICAOF 127.0.0.1 9")
    pass_s(world, 20)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    pass_s(world, 70)
    del attempts[:]
    for _ in range(3):
        world.wires[-1].break_off()
        at = world.clock.monotonic_ms() / 1_000
        world.go_on(lambda: bool(attempts))
        assert attempts.pop() - at <= 1.1
        world.link_up(replica, primary)
        pass_s(world, 3)


@pytest.mark.parametrize("length", [2, 3, 4])
def test_a_ring_of_replicas_keeps_its_data_sends_nothing_round_and_asks_without_haste(caplog, length):
    """(Redis 8.10.2 shows all links of such a ring as up, too.)"""
    world = World()
    first, *others = nodes = [Node(world, port) for port in range(1, length + 1)]
    first.ask("SET k v")
    for node, primary in zip(others, nodes, strict=False):
        node.ask(f"REPLICAOF 127.0.0.1 {primary.port}")
        world.link_up(node, primary)
    before, offset = state_of(first), first.offset
    attempts = [attempts_of(node) for node in nodes]
    first.ask(f"REPLICAOF 127.0.0.1 {nodes[-1].port}")
    pass_s(world, 60)
    for node, tried in zip(nodes, attempts, strict=True):
        assert state_of(node) == before
        assert node.offset == offset
        assert node.fields()["role"] == "slave"
        assert len(tried) <= 61
        assert node.engine.state.stats.internal_errors == 0
    assert len(lines_of(caplog, "NOMASTERLINK")) <= 2 * length
    nodes[-1].ask("REPLICAOF NO ONE")
    nodes[-1].ask("SET k w")
    for node in nodes[:-1]:
        world.link_up(node, nodes[-1])
        assert state_of(node) == state_of(nodes[-1])


@pytest.mark.parametrize("auth", ["wrong", ""])
def test_a_wrong_password_keeps_data_and_a_right_one_is_taken_at_the_next_try(caplog, auth):
    world = World()
    primary, replica = Node(world, 1, requirepass="secret"), Node(world, 2, masterauth=auth)
    admin = primary.connect()
    primary.ask("AUTH secret;SET k new", admin)
    replica.ask("SET k old")
    before = state_of(replica)
    attempts = attempts_of(replica)
    replica.ask("REPLICAOF 127.0.0.1 1")
    pass_s(world, 30)
    assert state_of(replica) == before
    assert [round(b - a) for a, b in pairwise(attempts)] == PAUSES_S[: len(attempts) - 1]
    said = lines_of(caplog, "the primary at 127.0.0.1:1")
    assert len(said) == 1
    assert "masterauth" in said[0]
    assert not any(word == "wrong" or "secret" in word for line in said for word in line.split())
    replica.engine.state.config.values["masterauth"] = "secret"
    world.link_up(replica, primary)
    assert replica.ask("GET k") == b"$3\r\nnew\r\n"


def test_a_name_that_stops_resolving_is_one_reason_and_a_name_that_resolves_again_is_followed(
    tmp_path, monkeypatch, caplog
):
    resolve, names = socket.getaddrinfo, {"primary.example": "127.0.0.1"}

    def resolved(host, *rest, **more):
        if host == "primary.example" or host == b"primary.example":
            if "primary.example" not in names:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            host = names["primary.example"]
        return resolve(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with (
        EmbeddedServer(clock=Clock(), appendonly=True, dir=str(tmp_path / "a")) as primary,
        EmbeddedServer(clock=Clock(), appendonly=True, dir=str(tmp_path / "b")) as replica,
    ):
        there, here = primary.client(), replica.client()
        there.set("k", "v")
        here.execute_command("REPLICAOF", "primary.example", primary.port)
        wait_until(lambda: here.info("replication")["master_link_status"] == "up", "it is linked")
        del names["primary.example"]
        there.client_kill_filter(_type="replica")
        wait_until(lambda: bool(lines_of(caplog, "Name or service not known")), "the name does not resolve")
        assert here.get("k") == b"v"
        assert here.info("replication")["master_host"] == "primary.example"
        names["primary.example"] = "127.0.0.1"
        there.set("k", "w")
        wait_until(lambda: here.get("k") == b"w", "it is linked again")
        assert len(lines_of(caplog, "Name or service not known")) == 1
