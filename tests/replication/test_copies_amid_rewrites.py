"""Rewrites at any moment of a full copy, with a write in every turn: none is missing, and none is there twice."""

import pytest

from tests.replication.cluster import Node, World, is_level, state_of
from tests.replication.test_replica_equals_primary import small_pieces  # noqa: F401

STEPS = 8  # of the world, from a write to the next


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Send a copy in many parts."""
    monkeypatch.setattr("streamd.replication.feeding.READ_BYTES_MAX", 300)


class Copying:
    """A primary with some data, a replica with its own, another replica; a write in every turn."""

    def __init__(self, seed):
        self.world = World(seed)
        self.world.clock.tick_us = 700
        self.primary, self.replica, self.other = (
            Node(self.world, port, stream_node_max_entries=3) for port in (1, 2, 3)
        )
        for number in range(8):
            self.primary.begin(f"XADD s{number} IDMP p {number} * f v;XADD s{number} * f w;RPUSH l{number} a b")
            self.replica.begin(f"SET own{number} v;XADD s{number} IDMP p {number} * f own")
        self.world.settle()
        self.written = 0
        self.client = self.primary.connect()

    def write(self):
        """Have the primary write the next number, in ways that show whether it was done twice."""
        number = self.written
        self.written += 1
        key = number % 4
        requests = (
            f"RPUSH all {number}", f"INCR n{key}", f"XADD t{key} IDMP p {number} * n {number}",
            f"RENAME s{key} s{key}again;RENAME s{key}again s{key}",
        )  # fmt: skip
        self.primary.begin(";".join(requests), self.client)

    def take_turns(self, steps):
        for step in range(steps):
            if step % STEPS == 0:
                self.write()
            self.world.step_or_wait()

    def check(self, *replicas):
        for replica in replicas:
            assert replica.ask("LRANGE all 0 -1").split()[2::2] == [b"%d" % number for number in range(self.written)]
            assert state_of(replica) == state_of(self.primary)
            assert replica.engine.state.stats.internal_errors == 0


@pytest.mark.interpreted(reason="constants are replaced")
@pytest.mark.parametrize(("where", "seed"), [("primary", 1), ("primary", 2), ("replica", 3), ("both", 4)])
def test_a_rewrite_at_any_moment_of_a_copy_loses_no_write_and_doubles_none(where, seed):
    at, is_over, states = seed % 3, False, set()
    while not is_over:
        run = Copying(seed)
        world, primary, replica, other = run.world, run.primary, run.replica, run.other
        replica.begin("REPLICAOF 127.0.0.1 1")
        link = replica.replication.link
        run.take_turns(at)
        states.add((link.state, primary.persistence.is_rewriting))
        is_over = is_level(replica, primary)
        if where != "replica":
            primary.begin("BGREWRITEAOF")
        if where != "primary":
            replica.begin("BGREWRITEAOF")
        if at % 2:
            other.begin("REPLICAOF 127.0.0.1 1")
        run.take_turns(6 * STEPS)
        world.link_up(replica, primary)
        run.check(replica)
        assert link.copies == 1
        if at % 2:
            world.link_up(other, primary)
            run.check(other)
        else:
            replica.die()
            run.write()
            replica = replica.start_again()
            world.link_up(replica, primary)
            run.check(replica)
            assert replica.replication.link.copies == 0
            primary.die()
            assert state_of(primary.start_again()) == state_of(replica)
        at += 3
    assert {state for state, _ in states} >= {"handshake", "connected"}
    assert {state for state, _ in states} & {"sync", "load"}
    assert ("handshake", True) in states


@pytest.mark.interpreted(reason="a constant is replaced")
@pytest.mark.parametrize("at", range(3, 8))
def test_a_copy_that_cannot_be_read_ends_and_the_next_one_comes(at):
    run = Copying(at)
    world, primary, replica = run.world, run.primary, run.replica
    world.watch_step_ns = 10**6  # so that it is sent in many slices
    replica.begin("REPLICAOF 127.0.0.1 1")
    world.go_on(lambda: [one.is_online for one in primary.replication.feeding.followers.values()] == [False])
    primary.disk.fail_at = primary.disk.operations + at
    world.link_up(replica, primary)
    assert "read" in primary.disk.failed
    assert replica.replication.link.copies == 2
    assert primary.engine.state.stats.internal_errors == 0
    run.check(replica)


@pytest.mark.parametrize("at", range(1, 8))
def test_a_copy_is_taken_behind_a_rewrite_whose_files_cannot_be_named(at):
    run = Copying(at)
    world, primary, replica = run.world, run.primary, run.replica
    replica.begin("BGREWRITEAOF")
    world.go_on(lambda: replica.persistence.journal.rewrite is not None)
    rewrite = replica.persistence.journal.rewrite
    world.go_on(lambda: rewrite.is_switching)
    replica.disk.fail_at, replica.disk.fails_for = replica.disk.operations + at, 4
    while replica.jobs:
        replica.jobs[0].wait()
    replica.disk.fail_at = 0
    replica.begin("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    assert replica.engine.state.stats.internal_errors == 0
    run.check(replica)
    replica.die()
    assert state_of(replica.start_again()) == state_of(primary)
