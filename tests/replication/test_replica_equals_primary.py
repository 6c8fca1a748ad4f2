"""A replica has its primary's state at each offset, whatever was written, cut, killed and rewritten before."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.property import test_journal_state as histories
from tests.replication.cluster import Node, World, is_level, state_of

SCRIPT = (
    b"redis.call('SET', KEYS[1], ARGV[1]) redis.call('XADD', 's', '*', 'f', ARGV[1]) return redis.call('INCR', 'n')"
)
FUNCTION = (
    b"#!lua name=%b\nredis.register_function('%b', function(keys, args) return redis.call('SET', keys[1], '1') end)"
)
special = st.sampled_from(
    [[b"EVAL", SCRIPT, b"1", b"k", b"7"]]
    + [[b"FUNCTION", b"LOAD", b"REPLACE", FUNCTION % (name, name)] for name in (b"one", b"two")]
    + [[b"FCALL", b"one", b"1", b"k"], [b"FUNCTION", b"DELETE", b"two"], [b"FUNCTION", b"FLUSH"]]
)
steps = st.one_of(
    histories.streams, histories.streams, histories.groups, histories.groups, histories.others,
    histories.sorted_sets, histories.lists, histories.sets, special,
)  # fmt: skip
EVENTS = ("cut", "cut", "kill client", "kill", "kill", "stop", "rewrite", "rewrite there", "wait", "wait")
PUMPS = (0, 1, 3, 10, 60, 200)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Rewrite in pieces that short histories see, and keep few frames."""
    monkeypatch.setattr("streamd.commands.stream.group_effects.SEEN_NOTED_EVERY_MS", 0)
    monkeypatch.setattr("streamd.journal.rewrite._AT_ONCE_ENTRIES_MAX", 2)
    monkeypatch.setattr("streamd.journal.base_writer._RUN_BYTES", 100)
    monkeypatch.setattr("streamd.journal.base_writer._JOB_BYTES", 250)


class Run:
    """A primary with a replica, and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.world.clock.tick_us = 700
        self.chance = random.Random(seed + 1)
        self.primary = Node(self.world, 1, stream_node_max_entries=3)
        self.world.skews_ms[2] = self.chance.choice((0, 0, 3_600_000, -3_600_000, 2_000))
        self.replica = Node(self.world, 2, stream_node_max_entries=3)
        self.primary.engine.state.config.values["repl-backlog-size"] = self.chance.choice((0, 400, 20_000, 20_000))

    def attach(self) -> None:
        if not self.replica.replication.standing.is_replica:
            self.replica.run([b"REPLICAOF", b"127.0.0.1", b"1"])
            self.replica.end_turn_soon()

    def happen(self, what: str) -> None:
        world = self.world
        if what == "cut":
            for wire in world.wires:
                wire.break_off()
        elif what == "kill client":
            self.primary.begin("CLIENT KILL TYPE replica")
            self.replica.begin("CLIENT KILL TYPE master")
        elif what in ("kill", "stop"):
            if what == "stop":
                self.replica.replication.close()
                self.replica.persistence.close()
            self.replica.die()
            self.replica = self.replica.start_again()
        elif what == "wait":
            world.clock.advance(self.chance.choice((1, 10, 1_100, 2_500)))
            for node in world.nodes.values():
                node.engine.tick()
        else:
            node = self.primary if what == "rewrite" else self.replica
            node.begin("BGREWRITEAOF")

    def play(self, history: list) -> None:
        world, primary, chance = self.world, self.primary, self.chance
        attached_at = chance.randrange(len(history))
        for number, step in enumerate(history):
            if number == attached_at:
                self.attach()
            primary.run(step)
            primary.end_turn_soon()
            if chance.random() < 0.3:
                world.clock.advance(1)
            for _ in range(chance.choice(PUMPS)):
                world.step()
            if chance.random() < 0.15:
                self.happen(chance.choice(EVENTS))
        primary.run([b"DISCARD"])
        primary.end_turn_soon()
        self.attach()

    def compare(self) -> None:
        world = self.world
        world.settle()
        world.link_up(self.replica, self.primary)
        world.settle()
        assert is_level(self.replica, self.primary)
        self.replica.own_clock.skew_ms = 0  # what is hidden, and how long ago a time was, depends on it
        assert state_of(self.replica) == state_of(self.primary)
        for node in world.nodes.values():
            assert node.engine.state.stats.internal_errors == 0


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, min_size=20, max_size=70), st.integers(0, 10**6))
def test_the_replica_has_the_primarys_state_at_the_end_and_after_its_restart(history, seed):
    run = Run(seed)
    run.play([*histories.BEGINNING, *history])
    run.compare()
    before = state_of(run.replica)

    run.replica.die()
    run.world.skews_ms.clear()
    run.replica = run.replica.start_again()

    assert state_of(run.replica) == before
    run.compare()


def test_a_note_behind_the_entries_of_a_frame_is_applied():
    """A frame of many entries for one stream is applied by columns; here other records of the turn are behind them."""
    world = World(0)
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    batches = [";".join(f"XADD {key} IDMP p {number} * f v" for number in range(9)) for key in "st"]
    primary.ask(batches[0])
    for batch in (batches[1], batches[0]):
        primary.begin(batch)
    world.settle()
    world.link_up(replica, primary)

    assert primary.engine.state.keyspace[0].values[b"s"].idmp.iids_duplicates == 9
    assert state_of(replica) == state_of(primary)
