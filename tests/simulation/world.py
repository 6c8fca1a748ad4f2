"""The time of a simulation: what happens when, in an order that a seed decides, and the history that is printed."""

import random
from collections.abc import Callable
from heapq import heappop, heappush

from streamd.base.clock import ManualClock
from tests.replication.cluster import BEGAN_MS, Network, Node, World
from tests.simulation.network import LinkNetwork, Net

_LOOK_US = 700  # what passes with each look at the clock, so that slices of long work end


class EventClock(ManualClock):
    """A clock that stands still between two events, but for the looks at it within one; it never goes back."""

    looks = 0
    _last_us = 0

    def monotonic_us(self) -> int:
        self.looks += 1
        self._last_us = max(self._last_us, super().monotonic_us() + self.looks * _LOOK_US)
        return self._last_us


class Soon:
    """Stands for the queue of a world's next actions."""

    def __init__(self, world: "SimulatedWorld") -> None:
        self._world = world

    def append(self, action: Callable[[], None]) -> None:
        self._world.later(0, action)


class SimulatedWorld(World):
    """Servers, clients and a network whose events stand in one queue.

    lines: the history so far. ring_bytes: the backlog of each server. disks_ms: how slow a disk is, by port.
    has_bad_disk: a disk has failed, so replicas may have to take the whole state anew. replaced: data that a server has
    lost because it took those of one that had come back empty.
    """

    has_bad_disk = False

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.clock: EventClock = EventClock(BEGAN_MS)  # type: ignore[assignment]
        self.soon = Soon(self)  # type: ignore[assignment]
        self.net = Net(self)
        self.lines: list[str] = []
        self.replaced: list[str] = []
        self.ring_bytes = 1_000_000
        self.disks_ms: dict[int, int] = {}
        self.where = ""
        self.now_ms = 0
        self._queue: list[tuple[int, float, int, Callable[[], None]]] = []
        self._count = 0
        self.events = 0

    def make_network(self, node: Node) -> Network:
        return LinkNetwork(self.net, node)  # type: ignore[return-value]

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Let something happen after a delay; of what is due at the same time the seed decides what comes first."""
        self._count += 1
        heappush(self._queue, (self.now_ms + delay_ms, self.chance.random(), self._count, action))

    def note(self, text: str) -> None:
        """Write a line of the history."""
        self.lines.append(f"{self.now_ms:7d} {self.where:<9} {text}")

    def run(self, until_ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let things happen until a time, or until something holds; return whether it does."""
        queue = self._queue
        while queue and queue[0][0] <= until_ms:
            if until():
                return True
            at_ms, _, _, action = heappop(queue)
            if at_ms > self.now_ms:
                self.clock.advance(at_ms - self.now_ms)
                self.now_ms = at_ms
            self.clock.looks = 0
            self.where = ""
            self.events += 1
            action()
        return until()


def pick(chance: random.Random, *weighted: tuple[int, int]) -> int:
    """Return one of some numbers; each pair is a number and its weight."""
    return chance.choices([one for one, _ in weighted], [weight for _, weight in weighted])[0]
