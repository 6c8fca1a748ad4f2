"""A primary with its linked replica, and the metrics that they show."""

from collections.abc import Iterator
from typing import Any

from streamd.net.exposition import expose
from streamd.net.measures import Measures
from tests.replication.cluster import Node, World

TOLD_MS = 2_000


class Host:
    """What /metrics are made of, without sockets."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.measures = Measures()


def metrics_of(engine: Any) -> str:
    """Return the text of /metrics."""
    pieces: list[str] = []
    for _ in expose(Host(engine), pieces.append):
        pass
    return "".join(pieces)


def linked_pair(skew_ms: int = 0) -> tuple[World, Node, Node]:
    """Return a world in which a replica follows, whose clock is ahead by so much."""
    world = World()
    world.skews_ms[2] = skew_ms
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    return world, primary, replica


def pass_ms(world: World, milliseconds: int) -> None:
    """Let time pass."""
    until_ms = world.clock.monotonic_ms() + milliseconds
    world.go_on(lambda: world.clock.monotonic_ms() >= until_ms)


def names_of_a_pair() -> set[str]:
    """Return the names of all metrics that a primary or its replica has."""
    world, primary, replica = linked_pair()
    primary.ask("CONFIG SET min-replicas-to-write 1")
    pass_ms(world, TOLD_MS)
    return {name for node in (primary, replica) for name in _names(metrics_of(node.engine))}


def _names(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.startswith(("#", "streamd_turn", "streamd_barrier", "streamd_fsync")):
            yield line.partition("{")[0].partition(" ")[0]
