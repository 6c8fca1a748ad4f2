"""Servers change roles, die and lose power in any order; whoever follows in the end has its primary's state."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.replication.cluster import Node, World, is_level, state_of
from tests.replication.test_replica_equals_primary import small_pieces  # noqa: F401

PORTS = (1, 2, 3)
EVENTS = (
    *("write",) * 30, "settle", "settle", "lead", "follow", "follow", "kill", "stop", "power", "cut", "wait", "rewrite",
    "save",
)  # fmt: skip


class Servers:
    """Three servers; any of them may be a primary."""

    def __init__(self, seed: int, policy: str) -> None:
        self.world = World(seed)
        self.world.clock.tick_us = 700
        self.chance = random.Random(seed + 1)
        self.ring_bytes = self.chance.choice((0, 400, 20_000, 20_000))
        self.number = 0
        for port in PORTS:
            Node(self.world, port, appendfsync=policy)

    def node(self) -> Node:
        return self.world.nodes[self.chance.choice(PORTS)]

    def send(self, node: Node, *requests: bytes) -> None:
        node.run(*(request.split() for request in requests), client=node.connect())
        node.end_turn_soon()

    def write(self) -> None:
        chance, node = self.chance, self.node()
        self.number += 1
        requests = []
        for _ in range(chance.choice((1, 1, 1, 3))):
            requests.append(
                chance.choice(
                    (
                        b"SET k%d %d" % (chance.randrange(5), self.number),
                        b"INCR n",
                        b"RPUSH l %d" % self.number,
                        b"XADD s * n %d" % self.number,
                        b"XADD s IDMP p %d * n %d" % (chance.randrange(6), self.number),
                        b"SWAPDB 0 1",
                        b"SELECT 1",
                        b"LPOP l",
                    )
                )
            )
        if chance.random() < 0.2:
            requests = [b"MULTI", *requests, b"EXEC"]
        if chance.random() < 0.1:
            requests.append(chance.choice((b"SAVE", b"BGREWRITEAOF", b"REPLICAOF NO ONE", b"REPLICAOF 127.0.0.1 1")))
        self.send(node, *requests)

    def restart(self, node: Node, how: str) -> None:
        disk = None
        if how == "stop":
            node.replication.close()
            node.persistence.close()
        node.die()
        if how == "power":
            disk = node.disk.cut_power(self.chance.randrange(10**6))
        node.start_again(disk)

    def happen(self, what: str) -> None:
        world, chance = self.world, self.chance
        node = self.node()
        if what == "write":
            self.write()
        elif what == "settle":
            world.settle()
            world.clock.advance(chance.choice((100, 1_100)))
            world.settle()
        elif what == "lead":
            self.send(node, b"REPLICAOF NO ONE")
        elif what == "follow":
            self.send(node, b"REPLICAOF 127.0.0.1 %d" % chance.choice(PORTS))
        elif what in ("kill", "stop", "power"):
            self.restart(node, what)
        elif what == "cut":
            for wire in world.wires:
                wire.break_off()
        elif what == "wait":
            world.clock.advance(chance.choice((10, 1_100, 5_000)))
        else:
            self.send(node, b"BGREWRITEAOF" if what == "rewrite" else b"SAVE")
        for one in world.nodes.values():
            one.engine.state.config.values["repl-backlog-size"] = self.ring_bytes
        for _ in range(chance.choice((0, 0, 1, 3, 10, 60))):
            world.step()

    def end(self) -> None:
        """Let all follow one of them, and compare."""
        world, first = self.world, self.node()
        others = [node for node in world.nodes.values() if node is not first]
        if self.chance.random() < 0.5:
            world.settle()
        self.send(first, b"REPLICAOF NO ONE")
        for node in others:
            self.send(node, b"REPLICAOF 127.0.0.1 %d" % first.port)
        world.settle()
        for node in others:
            world.link_up(node, first)
        world.settle()
        for node in others:
            assert is_level(node, first)
            assert state_of(node) == state_of(first)
        for node in world.nodes.values():
            assert node.engine.state.stats.internal_errors == 0
            assert node.dead is None


@pytest.mark.parametrize("policy", ["everysec", "always"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**9), length=st.integers(20, 120))
def test_whoever_follows_in_the_end_has_its_primarys_state(policy, seed, length):
    servers = Servers(seed, policy)
    for _ in range(length):
        servers.happen(servers.chance.choice(EVENTS))
    servers.end()
