"""One run of the simulation: a seed in, a history and what it has broken out."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tests.replication.cluster import is_level, state_of
from tests.simulation.clients import Actor, Consumer, Counter, Other, Producer
from tests.simulation.faults import INCIDENTS, WAVERING, Faults
from tests.simulation.ledger import Broken, Ledger
from tests.simulation.network import Host
from tests.simulation.sentinel import Sentinel
from tests.simulation.server import SimulatedNode
from tests.simulation.world import SimulatedWorld, pick

PORTS = (1, 2, 3)
_REST_MS = 240_000
_SMALL = {
    "commands.stream.group_effects.SEEN_NOTED_EVERY_MS": 0,
    "journal.rewrite._AT_ONCE_ENTRIES_MAX": 2,
    "journal.base_writer._RUN_BYTES": 300,
    "journal.base_writer._JOB_BYTES": 900,
}


@dataclass(frozen=True)
class Outcome:
    """The end of a run. broken: what is wrong, None if nothing is. told: how often a client was told that all replicas
    have something. switches: how often another server became the primary.
    """

    seed: int
    broken: str | None
    lines: list[str]
    told: int
    switches: int


class _Lines(logging.Handler):
    """Puts the log of the servers into the history."""

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.note(f"log: {record.getMessage()}")


@contextmanager
def _small_pieces(world: SimulatedWorld) -> Iterator[None]:
    """Rewrite in pieces that a short history sees, with the log in the history."""
    logger, handler = logging.getLogger("streamd"), _Lines(world)
    kept = logger.level, logger.propagate
    with ExitStack() as stack:
        for name, value in _SMALL.items():
            stack.enter_context(patch(f"streamd.{name}", value))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(kept[0])
            logger.propagate = kept[1]


class Simulation:
    """Three servers, clients, a Sentinel and faults. incidents: what may go wrong."""

    def __init__(self, seed: int, incidents: Sequence[str] = INCIDENTS) -> None:
        world = self.world = SimulatedWorld(seed)
        chance = world.chance
        self.length_ms = chance.choice((2_000, 3_000, 4_000))
        world.ring_bytes = chance.choice((0, 600, 20_000, 1_000_000))
        if chance.random() < 0.6:
            world.skews_ms.update({port: chance.randrange(-30_000, 30_001) for port in PORTS})
        if chance.random() < 0.6:
            world.disks_ms.update({port: chance.choice((0, 40, 400)) for port in PORTS})
        policy = chance.choice(("everysec", "everysec", "always", "always", "always", "no", ""))
        for port in PORTS:
            own = policy or chance.choice(("everysec", "always", "no"))
            SimulatedNode(
                world, port, appendfsync=own, repl_timeout=chance.choice((2, 4)), stream_idmp_duration=600,
                stream_node_max_entries=4, replica_priority=chance.choice((100, 100, 50)),
            )  # fmt: skip
        world.note(f"appendfsync {policy or 'mixed'}, backlog {world.ring_bytes}, skews {world.skews_ms}")
        self.ledger = Ledger()
        self.sentinel = Sentinel(world, PORTS, chance.choice((500, 1_200)), chance.choice((200, 200, 700)))
        hosts: list[Host] = ["clients", *PORTS]
        self.faults = Faults(world, self.sentinel, PORTS, ["clients"])
        self.actors: list[Actor] = []
        for number in range(pick(chance, (1, 2), (2, 3), (3, 1))):
            self._add(Producer, f"all{number}", chance.choice(hosts) if number else "clients", 2)
        self._add(Producer, "one", chance.choice(hosts[:3]), chance.choice((0, 1)))
        for kind, name, weight in ((Counter, "count", 0.5), (Consumer, "group", 0.6), (Consumer, "other", 0.3)):
            if chance.random() < weight:
                self._add(kind, name, chance.choice(hosts), 2)
        if chance.random() < 0.7:
            self._add(Other, "noise", chance.choice(hosts[:2]), 0)
        if incidents is WAVERING:
            self.length_ms *= 2
            self.sentinel.wavers = chance.choice((0.2, 0.5, 0.8))
            self.faults.plan(self.length_ms, 10, incidents)
        else:
            self.faults.plan(self.length_ms, pick(chance, (1, 3), (2, 3), (3, 2), (5, 1)), incidents)

    def _add(self, kind: type[Actor], name: str, host: Host, wanted: int) -> None:
        actor = kind(self.world, self.sentinel, self.ledger, name, host, wanted)
        actor.told = self.faults.told
        self.actors.append(actor)

    def run(self) -> None:
        """Let it happen. Raises: Broken."""
        world = self.world
        for node in self.faults.nodes[1:]:
            node.run([b"REPLICAOF", b"127.0.0.1", b"1"])
            node.end_turn_soon()
        world.run(self.length_ms)
        self.faults.end()
        world.run(world.now_ms + 10_000, lambda: self.faults.is_whole)
        for actor in self.actors:
            actor.end()
        if not world.run(world.now_ms + _REST_MS, self._is_at_rest):
            raise Broken(f"it does not come to rest: {self._unrest()}")
        self._compare()

    def _is_at_rest(self) -> bool:
        if not (self.world.events % 50 == 0 and self.sentinel.is_at_rest and all(one.is_idle for one in self.actors)):
            return False
        nodes, primary = self.faults.nodes, self.faults.primary
        return self.faults.is_whole and all(
            node is primary or (is_level(node, primary) and not node.persistence.journal.writer.has_units)  # type: ignore[union-attr]
            for node in nodes
        )

    def _unrest(self) -> str:
        links = [f"{node.port}: {node.replication.role()}" for node in self.faults.nodes if node.is_alive]
        busy = [one.name for one in self.actors if not one.is_idle]
        return f"{', '.join(links)}; clients that wait: {busy}"

    def _compare(self) -> None:
        nodes, primary = self.faults.nodes, self.faults.primary
        for node in nodes:
            node.own_clock.skew_ms = 0  # what is hidden depends on the time
            if node.engine.state.stats.internal_errors:
                raise Broken(f"{node.port} had an internal error")
        if self.world.replaced:
            raise Broken(self.world.replaced[0])
        expected = state_of(primary)
        for node in nodes:
            if node is not primary and (found := state_of(node)) != expected:
                raise Broken(f"{node.port} has {_difference(found, expected)} at {primary.port}")
        self.ledger.check(primary.engine)


def _difference(one: Any, other: Any) -> str:
    """Return the first place where two states differ, and what is there."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys(), key=str):
            if one.get(key) != other.get(key):
                return f"{key} {_difference(one.get(key), other.get(key))}"
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        return next(
            f"[{at}] {_difference(*two)}" for at, two in enumerate(zip(one, other, strict=True)) if two[0] != two[1]
        )
    return f"{one}, and not {other} as"


def simulate(seed: int, incidents: Sequence[str] = INCIDENTS) -> Outcome:
    """Run a seed; incidents: what may go wrong."""
    broken = None
    simulation = Simulation(seed, incidents)
    with _small_pieces(simulation.world):
        try:
            simulation.run()
        except Broken as error:
            broken = str(error)
        except Exception as error:  # what a server raises is a fault as well, and its history is wanted
            broken = f"{type(error).__name__}: {error}"
            if not isinstance(error, Broken):
                import traceback

                simulation.world.lines += traceback.format_exc().splitlines()
    lines = simulation.world.lines
    return Outcome(seed, broken, lines, simulation.ledger.told, simulation.sentinel.switches)
