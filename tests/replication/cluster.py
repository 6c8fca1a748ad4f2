"""Replication in a world without sockets, threads or time: bytes move, links break, servers die on a test's word."""

import random
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from streamd.base.clock import Clock, ManualClock
from streamd.durability.persistence import Persistence
from streamd.net.connection import Connection
from streamd.replication.following import Link
from streamd.replication.replication import Replication
from streamd.resp.reply_ends import split_replies
from tests.crash.restartable import Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump

BEGAN_MS = 1_700_000_000_000


class TickingClock(ManualClock):
    """A clock whose microseconds go on with each look at them, so that slices of long work end."""

    tick_us = 0
    looked_us = 0

    def monotonic_us(self) -> int:
        self.looked_us += self.tick_us
        return super().monotonic_us() + self.looked_us


class NodeClock(Clock):
    """The clock of one server: that of its world, but for `skew_ms` of the wall time."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.skew_ms = 0

    def now_us(self) -> int:
        return self._world.clock.now_us() + self.skew_ms * 1_000

    def now_ms(self) -> int:
        return self._world.clock.now_ms() + self.skew_ms

    def monotonic_us(self) -> int:
        return self._world.clock.monotonic_us()


class Wire:
    """One connection of a replica to a primary: bytes under way in both directions."""

    def __init__(self, world: "World", link: Link, replica: "Node", primary: "Node") -> None:
        self.world, self.link, self.replica, self.primary = world, link, replica, primary
        self.to_primary, self.to_replica = bytearray(), bytearray()
        self.is_paused = self.is_primary_paused = False
        self.is_closed_here = self.is_closed_there = self.is_choked = False
        self.high = 0
        self.connection = Connection(primary)
        self.connection.connection_made(self)  # type: ignore[arg-type]
        world.wires.append(self)

    # -- the primary's transport ----------------------------------------------------------------------------------

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", self.primary.port)}.get(name)

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return len(self.to_replica)

    def write(self, data: bytes) -> None:
        if not self.is_closed_there:
            self.to_replica += data
            if len(self.to_replica) > self.high and not self.is_choked:
                self.is_choked = True
                self.connection.pause_writing()

    def writelines(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def pause_reading(self) -> None:
        self.is_primary_paused = True

    def resume_reading(self) -> None:
        self.is_primary_paused = False

    def close(self) -> None:
        if not self.is_closed_there:
            self.is_closed_there = True
            self.world.soon.append(lambda: self.connection.connection_lost(None))

    def abort(self) -> None:
        self.to_replica.clear()
        self.close()

    # -- the world's part -----------------------------------------------------------------------------------------

    def close_here(self) -> None:
        """The replica has closed."""
        self.is_closed_here = True
        self.close()

    def break_off(self) -> None:
        """Break the connection: what is under way is lost."""
        self.to_primary.clear()
        self.to_replica.clear()
        self.close()

    def move(self, chance: random.Random) -> bool:
        """Move some bytes in one direction; return whether there were any."""
        moved = False
        if self.to_primary and not (self.is_closed_there or self.is_primary_paused or self.primary.is_stopped):
            count = chance.choice((1, 7, 100, 10_000))
            data = bytes(self.to_primary[:count])
            del self.to_primary[:count]
            self.reach_primary(data)
            moved = True
        if self.replica.is_stopped or not self.replica.is_alive:
            return moved
        if self.to_replica and not self.is_closed_here and not self.is_paused:
            count = chance.choice((1, 30, 500, 100_000, 100_000))
            data = bytes(self.to_replica[:count])
            del self.to_replica[:count]
            if self.is_choked and len(self.to_replica) <= self.high // 4:
                self.is_choked = False
                self.connection.resume_writing()
            self.reach_replica(data)
            moved = True
        if self.is_closed_there and not self.to_replica and not self.is_closed_here:
            self.is_closed_here = True
            self.link.lost("the connection was lost")
            moved = True
        return moved

    def reach_primary(self, data: bytes) -> None:
        """Bytes arrive at the primary."""
        self.connection.data_received(data)

    def reach_replica(self, data: bytes) -> None:
        """Bytes arrive at the replica."""
        self.link.received(data)

    @property
    def is_over(self) -> bool:
        return self.is_closed_here and self.is_closed_there


class Network:
    """A replica's connections, as the link sees them."""

    def __init__(self, world: "World", node: "Node") -> None:
        self.world, self.node = world, node
        self.wire: Wire | None = None
        self._tried = 0

    def connect(self, link: Link, host: str, port: int) -> None:
        self.close()
        primary = self.world.nodes.get(port)
        self._tried += 1
        number = self._tried
        self.world.soon.append(lambda: self._connect(link, primary, number))

    def _connect(self, link: Link, primary: "Node | None", number: int) -> None:
        if link.state != "connecting" or number != self._tried or not self.node.is_alive:
            return
        if primary is None or not primary.is_alive:
            link.lost("cannot connect: refused")
            return
        self.wire = self.world.make_wire(self.world, link, self.node, primary)
        link.connected()

    def send(self, data: bytes) -> None:
        if self.wire is not None:
            self.wire.to_primary += data

    def pause_reading(self, is_paused: bool) -> None:
        if self.wire is not None:
            self.wire.is_paused = is_paused

    def close(self) -> None:
        wire, self.wire = self.wire, None
        if wire is not None:
            wire.close_here()


class Node(Restartable):
    """A server of a world; it stands for the host of its connections."""

    def __init__(self, world: "World", port: int, disk: SimulatedDisk | None = None, **options: Any) -> None:
        self.world, self.port = world, port
        self.is_alive = True
        self.is_stopped = False  # as by SIGSTOP: its connections stay
        self.connections: set[Connection] = set()
        self._ends_turn = False
        self.network = world.make_network(self)
        self.own_clock = NodeClock(world)
        self.own_clock.skew_ms = world.skews_ms.get(port, 0)
        super().__init__(
            disk, cast(ManualClock, self.own_clock), at_once=False, **{"appendfsync": "everysec", **options}
        )
        self.engine.calls.stopwatch = world.stopwatch
        self.engine.state.port = port
        self.engine.scripts.on_interrupted = lambda: world.soon.append(self._go_on)
        world.nodes[port] = self

    def _make_persistence(self) -> Persistence:
        persistence = super()._make_persistence()
        begin, engine = persistence.begin, self.engine

        def begin_as_a_server_does() -> None:
            made = Replication(
                engine.state, persistence, self.network, engine.serve, engine.serve_and_resume, engine.end_waits,
                engine.end_pause, engine.connect, self.end_turn_soon,
            )  # fmt: skip
            made.link.copy_anew = _fail  # type: ignore[method-assign]
            made.take_role(None)
            begin()
            engine.state.replication = made
            made.begin()

        persistence.begin = begin_as_a_server_does  # type: ignore[method-assign]
        return persistence

    @property
    def replication(self) -> Replication:
        return cast(Replication, self.engine.state.replication)

    @property
    def runs(self) -> bool:
        return self.is_alive and not self.is_stopped

    @property
    def offset(self) -> int:
        return self.replication.standing.history.offset

    def end_turn_soon(self) -> None:
        if not self._ends_turn:
            self._ends_turn = True
            self.world.soon.append(self._end_turn_later)

    def _go_on(self) -> None:
        if self.is_alive:
            self.engine.go_on()
            self.end_turn_soon()

    def _end_turn_later(self) -> None:
        self._ends_turn = False
        if self.is_alive:
            self.engine.end_turn()

    def end_turn(self) -> None:  # also what a connection calls
        self.end_turn_soon()

    def resume_soon(self, connection: Connection) -> None:
        def resume() -> None:
            if self.is_alive and connection.client is not None and not connection.client.closed:
                connection.resume()
                self.end_turn_soon()

        self.world.soon.append(resume)

    def die(self) -> None:
        """End as by kill -9."""
        self.is_alive = False
        self.jobs.clear()
        for wire in self.world.wires:
            if wire.primary is self:
                wire.is_closed_there = True
            if wire.replica is self and not wire.is_closed_here:
                wire.close_here()

    def start_again(self, disk: SimulatedDisk | None = None) -> "Node":
        """Return a new process on what the dead one has left."""
        return Node(self.world, self.port, disk or self.disk.kill(), **self.options)

    def begin(self, text: str, client: Any = None) -> list[bytes]:
        """Execute requests, separated by `;`, in a turn; return the list of the replies, which leave later."""
        client = client or self.connect()
        self.run(*(request.encode().split() for request in text.split(";")), client=client)
        self.end_turn_soon()
        return self.replies[client]

    def ask(self, text: str, client: Any = None) -> bytes:
        """Execute requests, separated by `;`, as one client, and let the world go on until all have been answered."""
        client = client or self.connect()
        before = len(self.replies[client])
        replies = self.begin(text, client)
        count = text.count(";") + 1
        self.world.go_on(lambda: len([*split_replies(b"".join(replies[before:]))]) >= count)
        return b"".join(replies[before:])

    def fields(self) -> dict[str, str]:
        """Return the fields of INFO's section Replication."""
        return {name: str(value) for name, value in self.replication.fields().items()}


class World:
    """Some servers, their connections, and what is to happen soon; a seed decides the order.

    make_wire: the class of its connections. watch_step_ns: by how much a stopwatch goes on with each look at it.
    skews_ms: by how much a server's wall time is wrong, by its port; for servers that start from now on.
    """

    def __init__(self, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        self.clock = TickingClock(BEGAN_MS)
        self.nodes: dict[int, Node] = {}
        self.wires: list[Wire] = []
        self.soon: deque[Callable[[], None]] = deque()
        self.skews_ms: dict[int, int] = {}
        self.make_wire = Wire
        self._watch_ns = 0
        self.watch_step_ns = 1_000

    def make_network(self, node: "Node") -> Network:
        """Return what a server's link has for its connections."""
        return Network(self, node)

    def stopwatch(self) -> int:
        self._watch_ns += self.watch_step_ns
        return self._watch_ns

    def step(self) -> bool:
        """Let one thing happen; return whether there was any."""
        kinds = ["soon", "wire", "job", "cron"]
        self.chance.shuffle(kinds)
        for kind in kinds:
            if kind == "soon" and self.soon:
                self.soon.popleft()()
                return True
            if kind == "wire":
                wires = [one for one in self.wires if not one.is_over]
                self.wires = wires[:]
                self.chance.shuffle(wires)
                if any(one.move(self.chance) for one in wires):
                    return True
            if kind == "job":
                jobs = [node.jobs[0] for node in self.nodes.values() if node.runs and node.jobs]
                if jobs:
                    self.chance.choice(jobs).wait()
                    return True
            if kind == "cron":
                for node in self.nodes.values():
                    if node.runs and node.engine.state.cold is not None:
                        node.engine.state.cold.small.clear()  # these servers have no mover, which looks through them
                    if node.runs and node.engine.cron():
                        return True
        return False

    def settle(self, steps_max: int = 100_000) -> None:
        """Let happen what there is to do without a later time."""
        for _ in range(steps_max):
            if not self.step():
                return
        raise AssertionError("the world does not come to rest")

    def go_on(self, until: Callable[[], bool], ms_max: int = 200_000) -> None:
        """Let things happen, and time pass where nothing does, until something holds."""
        ends_ms = self.clock.monotonic_ms() + ms_max
        while not until():
            assert self.clock.monotonic_ms() < ends_ms, "it does not come true"
            self.step_or_wait()

    def step_or_wait(self) -> None:
        """Let one thing happen, or some time pass if nothing does."""
        if self.step():
            return
        self.clock.advance(100)
        for node in self.nodes.values():
            if node.runs:
                node.engine.tick()

    def take_steps(self, count: int, until: Callable[[], bool]) -> bool:
        """Let so many things happen, or fewer if something holds before; return whether it does."""
        for _ in range(count):
            if until():
                return True
            self.step_or_wait()
        return until()

    def link_up(self, replica: Node, primary: Node) -> None:
        """Let things happen until a replica has all that its primary has."""
        self.go_on(lambda: is_level(replica, primary))


def _fail() -> None:
    raise AssertionError("a frame does not fit this state")


def is_level(replica: Node, primary: Node) -> bool:
    """Return whether a replica has all that its primary has."""
    here, there = replica.replication.standing.history, primary.replication.standing.history
    return (
        replica.replication.link.state == "connected"
        and (here.replid, here.offset) == (there.replid, there.offset)
        and not primary.persistence.journal.writer.has_units
    )


def state_of(node: Node) -> Any:
    """Return all that clients can see of a server's state, with its functions."""
    return dump(node.engine), sorted(node.engine.state.libraries.codes())
