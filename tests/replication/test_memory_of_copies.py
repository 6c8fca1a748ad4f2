"""A replica keeps nothing of the data sets that later copies have replaced, nor of one that it could not take."""

import gc
import sys
from collections.abc import Callable
from contextlib import contextmanager
from weakref import ref

import pytest

from streamd.connected.state import State
from streamd.replication.taking_over import TakingOver
from tests.replication.cluster import Node, World, state_of

PARTS = ("used_s", "expires_ms", "deadlines", "field_times")
FILLING = (
    "SET k{0} v",
    "SET e{0} v PX 100000000",
    "HSET h{0} f v",
    "HPEXPIRE h{0} 100000000 FIELDS 1 f",
    "XADD s{0} IDMP p i * f v",
    "ZADD z 1 m{0}",
    "RPUSH l m{0}",
)
# That of a list, and that of the call which counts.
REFERENCES = 2


class Parts:
    """What a data set consists of, without a reference to its values."""

    def __init__(self, state: State) -> None:
        db = state.keyspace[0]
        self._window = ref(db.values[b"s7"].idmp)
        self._parts = [state.sweeper, *(getattr(db, name) for name in PARTS)]

    def kept(self) -> list[str]:
        """Return the parts that somebody else still has."""
        names, parts = ["sweeper", *PARTS], self._parts
        found = [names[at] for at in range(len(parts)) if sys.getrefcount(parts[at]) > REFERENCES]
        return found + ["values"] * (self._window() is not None)


@contextmanager
def no_collections():
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def copied(world: World, replica: Node, primary: Node) -> Parts:
    """Have a replica take a whole copy; return what its data set consists of then."""
    replica.ask("REPLICAOF NO ONE")
    replica.ask("SET own v")  # so that it cannot go on where it was
    copies = replica.replication.link.copies
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    assert replica.replication.link.copies == copies + 1
    assert state_of(replica) == state_of(primary)
    return Parts(replica.engine.state)


def test_what_a_copy_replaces_is_freed_without_a_collection_of_cycles():
    world = World(3)
    primary, replica = Node(world, 1), Node(world, 2)
    for number in range(1_100):
        for text in FILLING:
            primary.begin(text.format(number))
    primary.ask("PING")
    with no_collections():
        first = copied(world, replica, primary)
        copied(world, replica, primary)
        world.settle()
        assert first.kept() == []


@pytest.mark.interpreted(reason="the step of a load is made to fail")
def test_what_was_loaded_of_a_copy_that_cannot_be_taken_is_freed(monkeypatch):
    world = World(3)
    primary, replica = Node(world, 1), Node(world, 2)
    for number in range(1_100):
        for text in FILLING:
            primary.begin(text.format(number))
    primary.ask("PING")
    loaded: list[Parts] = []

    def fail(taking: TakingOver, note: list[bytes]) -> Callable[[], None]:
        if not loaded:
            loaded.append(Parts(taking._other))
            raise OSError(5, "the disk fails")
        return finish(taking, note)

    finish = TakingOver.finish
    monkeypatch.setattr(TakingOver, "finish", fail)
    with no_collections():
        replica.begin("REPLICAOF 127.0.0.1 1")
        world.go_on(lambda: bool(loaded) and replica.replication.link.state == "connect")
        world.settle()
        assert loaded[0].kept() == []
