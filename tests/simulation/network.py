"""The network of a simulation: connections whose bytes take their time, are held by partitions, or are lost."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamd.net.connection import Connection
from streamd.replication.following import Link

if TYPE_CHECKING:
    from tests.simulation.server import SimulatedNode
    from tests.simulation.world import SimulatedWorld

Host = int | str  # the port of a server, or the name of another machine


class Net:
    """What connects hosts. blocked: pairs (from, to) whose bytes are held. slow_ms: what each way takes longer now."""

    def __init__(self, world: "SimulatedWorld") -> None:
        self.world = world
        self.blocked: dict[tuple[Host, Host], int] = {}
        self.slow_ms = 0
        self.wires: list[Wire] = []
        self.held: list[Pipe] = []

    def latency(self) -> int:
        """Return how long the next bytes take."""
        chance = self.world.chance
        if chance.random() < 0.02:
            return chance.randrange(60) + self.slow_ms
        return chance.randrange(3) + (chance.randrange(self.slow_ms) if self.slow_ms else 0)

    def is_blocked(self, source: Host, target: Host) -> bool:
        """Return whether nothing gets from one host to another."""
        return source != target and (source, target) in self.blocked

    def block(self, pairs: list[tuple[Host, Host]]) -> None:
        """Hold what goes from one host to another."""
        for pair in pairs:
            self.blocked[pair] = self.blocked.get(pair, 0) + 1

    def unblock(self, pairs: list[tuple[Host, Host]], resets: bool) -> None:
        """Deliver what was held, or reset the connections that it was held on."""
        for pair in pairs:
            self.blocked[pair] -= 1
            if not self.blocked[pair]:
                del self.blocked[pair]
        for pipe in self.held:
            if resets and (pipe.source, pipe.target) in pairs:
                pipe.wire.reset()
        self.wake()

    def wake(self) -> None:
        """Try again to deliver what is held."""
        held, self.held = self.held, []
        for pipe in held:
            pipe.is_scheduled = False
            pipe.schedule()

    def message(self, source: Host, target: Host, action: Callable[[], None]) -> None:
        """Send a message without a connection; it is lost if the way is blocked when it arrives."""
        self.world.later(self.latency(), lambda: None if self.is_blocked(source, target) else action())

    def connect(
        self,
        host: Host,
        server: "SimulatedNode | None",
        owner: "SimulatedNode | None",
        made: "Callable[[Wire], None]",
        refused: Callable[[], None],
        received: Callable[[bytes], None],
        lost: Callable[[], None],
    ) -> None:
        """Connect to a server; nothing comes back if the way is blocked or the machine is off."""

        def arrive() -> None:
            if server is None or not server.is_alive:
                if server is not None and not server.is_off:
                    self.message(server.port, host, refused)
                return
            wire = Wire(self, host, server, owner, received, lost)
            self.wires.append(wire)
            server.do(0, wire.make_connection)
            self.message(server.port, host, lambda: made(wire))

        if server is not None:
            self.message(host, server.port, arrive)

    def clean(self) -> None:
        """Forget connections that are over."""
        self.wires = [wire for wire in self.wires if not wire.is_over]


class Pipe:
    """One direction of a connection: bytes in their order, and its end behind them."""

    def __init__(self, wire: "Wire", source: Host, target: Host, is_ready: Callable[[], bool]) -> None:
        self.wire, self.source, self.target, self._is_ready = wire, source, target, is_ready
        self.items: deque[tuple[int, bytes | None]] = deque()
        self.is_scheduled = self.is_closed = False
        self._due_ms = 0

    def send(self, data: bytes | None) -> None:
        """Send bytes; None is the end."""
        if self.is_closed:
            return
        net = self.wire.net
        self._due_ms = max(self._due_ms, net.world.now_ms + net.latency())
        self.items.append((self._due_ms, data))
        self.schedule()

    def schedule(self) -> None:
        """Have the next bytes delivered when they are due."""
        if self.items and not self.is_scheduled:
            self.is_scheduled = True
            world = self.wire.net.world
            world.later(max(0, self.items[0][0] - world.now_ms), self._deliver)

    def close(self) -> None:
        """Lose all that is under way."""
        self.is_closed = True
        self.items.clear()

    def _deliver(self) -> None:
        net = self.wire.net
        if not self.items:
            self.is_scheduled = False
            return
        if net.is_blocked(self.source, self.target) or not self._is_ready():
            net.held.append(self)
            return
        self.is_scheduled = False
        data = b""
        is_end = False
        while self.items and self.items[0][0] <= net.world.now_ms:
            piece = self.items.popleft()[1]
            if piece is None:
                is_end = True
                break
            data += piece
        if len(data) > 1 and net.world.chance.random() < 0.1:
            cut = net.world.chance.randrange(1, len(data))
            if is_end:
                self.items.appendleft((net.world.now_ms, None))
                is_end = False
            self.items.appendleft((net.world.now_ms, data[cut:]))
            data = data[:cut]
        if data:
            self.wire.deliver(self, data)
        if is_end and not self.is_closed:
            self.is_closed = True
            self.wire.end(self)
        self.schedule()


class Wire:
    """A connection to a server, and the transport of its side there.

    owner: the server whose link it is, None for one of a client. is_dark: a machine at one of its ends has lost power,
    and the other does not know.
    """

    def __init__(
        self,
        net: Net,
        host: Host,
        server: "SimulatedNode",
        owner: "SimulatedNode | None",
        received: Callable[[bytes], None],
        lost: Callable[[], None],
    ) -> None:
        self.net, self.host, self.server, self.owner = net, host, server, owner
        self._received, self._lost = received, lost
        self.is_dark = False
        self.is_paused = self.is_paused_there = False
        self.is_closed_here = self.is_closed_there = False
        self.connection: Connection | None = None
        self.to_server = Pipe(self, host, server.port, self._is_read)
        self.to_client = Pipe(self, server.port, host, lambda: (owner is None or owner.runs) and not self.is_paused)

    def _is_read(self) -> bool:
        return self.connection is not None and self.server.runs and not self.is_paused_there

    @property
    def is_over(self) -> bool:
        return self.is_closed_here and self.is_closed_there

    def make_connection(self) -> None:
        """The server takes the connection."""
        self.connection = Connection(self.server)
        self.connection.connection_made(self)  # type: ignore[arg-type]
        self.net.wake()

    # -- the server's transport -----------------------------------------------------------------------------------

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", self.server.port)}.get(name)

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        if not self.is_closed_there:
            self.to_client.send(bytes(data))

    def writelines(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def pause_reading(self) -> None:
        self.is_paused_there = True

    def resume_reading(self) -> None:
        self.is_paused_there = False
        self.net.wake()

    def close(self) -> None:
        if not self.is_closed_there:
            self.is_closed_there = True
            self.to_client.send(None)
            self.to_server.close()
            if self.connection is not None:
                self.server.do(0, lambda: self.connection.connection_lost(None))  # type: ignore[union-attr]

    abort = close

    # -- the client's side ----------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send bytes to the server."""
        if not self.is_closed_here:
            self.to_server.send(data)

    def pause(self, is_paused: bool) -> None:
        """Take no bytes of the server, or take them again."""
        self.is_paused = is_paused
        if not is_paused:
            self.net.wake()

    def close_here(self, keeps: bool = True) -> None:
        """Close; what is under way to the server gets there if that is wanted."""
        if not self.is_closed_here:
            self.is_closed_here = True
            self.to_client.close()
            if not keeps:
                self.to_server.items.clear()
            self.to_server.send(None)

    # -- what happens to it ---------------------------------------------------------------------------------------

    def deliver(self, pipe: Pipe, data: bytes) -> None:
        """Bytes have arrived."""
        world = self.net.world
        if pipe is self.to_client:
            if not self.is_closed_here:
                world.where = str(self.host)
                self._received(data)
        elif not self.is_closed_there:
            world.where = str(self.server.port)
            assert self.connection is not None
            self.connection.data_received(data)

    def end(self, pipe: Pipe) -> None:
        """The end of one direction has arrived."""
        if pipe is self.to_client:
            self._lose_here()
        else:
            self.close()

    def reset(self) -> None:
        """Break the connection: what is under way is lost, and both sides learn of it."""
        if self.is_dark:
            return
        self.to_client.close()
        self.to_server.close()
        self._lose_here()
        if self.server.is_alive:
            self.close()

    def _lose_here(self) -> None:
        if not self.is_closed_here:
            self.is_closed_here = True
            if self.owner is None:
                self._lost()
            else:
                self.owner.do(0, self._lost)

    def server_died(self, is_off: bool) -> None:
        """The server has ended: by a signal its system closes the connection; without power nobody says anything."""
        self.is_closed_there = True
        self.to_server.close()
        if is_off:
            self.is_dark = True
            self.to_client.close()
        else:
            self.to_client.send(None)

    def owner_died(self, is_off: bool) -> None:
        """The replica whose link this is has ended."""
        self.is_closed_here = True
        self.to_client.close()
        if is_off:
            self.is_dark = True
            self.to_server.close()
        else:
            self.to_server.send(None)

    def light(self) -> None:
        """The machine that had lost its power is there again, and answers with a reset."""
        if not self.is_dark:
            return
        self.is_dark = False
        self._lose_here()
        if self.server.is_alive and not self.is_closed_there:
            self.close()


class LinkNetwork:
    """A server's connections as a replica."""

    def __init__(self, net: Net, node: "SimulatedNode") -> None:
        self.net, self.node = net, node
        self.wire: Wire | None = None
        self._attempt = 0

    def connect(self, link: Link, host: str, port: int) -> None:
        self.close()
        attempt = self._attempt = self._attempt + 1

        def is_present() -> bool:
            return self.node.is_alive and attempt == self._attempt and link.state == "connecting"

        def made(wire: Wire) -> None:
            if not is_present():
                wire.close_here()
                return
            self.wire = wire
            link.connected()

        def refused() -> None:
            if is_present():
                link.lost("cannot connect: refused")

        def received(data: bytes) -> None:
            if attempt == self._attempt:
                link.received(data)

        def lost() -> None:
            if attempt == self._attempt:
                link.lost("the connection was lost")

        do = self.node.do
        self.net.connect(
            self.node.port, self.net.world.nodes.get(port), self.node,  # type: ignore[arg-type]
            lambda wire: do(0, lambda: made(wire)), lambda: do(0, refused), received, lost,
        )  # fmt: skip

    def send(self, data: bytes) -> None:
        if self.wire is not None:
            self.wire.send(data)

    def pause_reading(self, is_paused: bool) -> None:
        if self.wire is not None:
            self.wire.pause(is_paused)

    def close(self) -> None:
        self._attempt += 1
        wire, self.wire = self.wire, None
        if wire is not None:
            wire.close_here()
