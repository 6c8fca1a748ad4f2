"""Whatever a primary or a replica sends ends its link or is taken: the state is whole, the server alive.

Input: a byte that chooses, a byte for the sizes in which bytes come, and the rest. 0: the rest is what a primary sends
in answer to PSYNC. 1, 2: it is changes, as of the target `journal`, of what a primary has sent, with a copy of its
state, and without. 3: it is what a replica sends. 4: it is a frame's body, whose lengths and checksum are right. 5: it
is what a primary sends from the beginning on.
"""

from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

from streamd.replication.following import LINE_BYTES_MAX
from streamd.replication.frame import make_frame
from streamd.replication.history import History
from tests.crash.simulated_disk import SimulatedDisk
from tests.fuzz.targets.journal import changed
from tests.fuzz.targets.requests import LEFT_OUT
from tests.replication.cluster import Node, Wire, World, state_of

BYTES_MAX = 4096
SIZES = (1, 7, 100, BYTES_MAX)
WORDS = [b"+PONG\r\n+OK\r\n", b"+FULLRESYNC ", b"+CONTINUE ", b" streamd\r\n", b"0" * 40, b"#streamd files 1 1 ",
         b"#streamd file 9 ", b"#streamd whole ", b"#streamd ship 0 9 9 ", b"#streamd ask 7\n", b"\n", b"\r\n",
         b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n", b"#streamd note ", b"#streamd more ", b"MULTI", b"EXEC",
         b"SELECT", b"XADD", b"FLUSHALL", b"1152921504606846976", b"-1", b"-NOMASTERLINK \r\n", b"-LOADING \r\n",
         b"-NOAUTH \r\n", b"PSYNC ? -1\r\n", b"PSYNC ", b"REPLCONF ", b"REPLCONF capa streamd\r\n",
         b"REPLCONF ACK 5\r\n", b"listening-port ", b"ip-address ", b"streamd-last ", b"FACK ", b"GETACK *\r\n",
         b"FAILOVER", b"WAIT 1 0\r\n", b"SYNC\r\n"]  # fmt: skip
WRITES = ("SET k v", "XADD s IDMP p 1 1-1 f v;XADD s IDMP p 1 * f v", "MULTI;RPUSH l 1;INCR n;EXEC", "SELECT 1;SET k w",
          "XADD s 2-1 f v;XADD s 2-2 f v;XADD s 2-3 f v;XADD s 2-4 f v;XADD s 2-5 f v;XADD s 2-6 f v;XADD s 2-7 f v;"
          "XADD s 2-8 f v;XADD s 2-9 f v")  # fmt: skip


@cache
def recorded() -> tuple[SimulatedDisk, bytes, SimulatedDisk, bytes, list[Any]]:
    """Return a replica's disk before its first link and what it received, both also for its second link, and all
    states that a replica of them may have.
    """
    world = World()
    primary, replica = Node(world, 1, appendfsync="no"), Node(world, 2, appendfsync="no")
    primary.replication.standing.history = History("a" * 40)  # the same each time
    replica.ask("SET k old")
    states = [state_of(replica)]
    heard = bytearray()
    link = replica.replication.link
    take = link.received
    link.received = lambda data: heard.extend(data) or take(data)  # type: ignore[func-returns-value, method-assign]
    primary.ask("SET before v;RPUSH l 0")
    states.append(state_of(primary))
    first = replica.disk.kill()
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    for line in WRITES:
        primary.ask(line)
        world.link_up(replica, primary)
        states.append(state_of(primary))
    whole = bytes(heard)
    for wire in world.wires:
        wire.break_off()
    world.settle()
    heard.clear()
    second = replica.disk.kill()
    for line in WRITES[2:4]:
        primary.ask(line)
        states.append(state_of(primary))
    world.link_up(replica, primary)
    assert link.copies == 1
    return first, whole, second, bytes(heard), states


class Replica:
    """A replica whose primary is the input."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.world = World()
        self.node = Node(self.world, 2, disk.kill(), appendfsync="no")
        network, self.link = self.node.network, self.node.replication.link
        del self.link.copy_anew  # it is no failure here
        self.world.soon.clear()  # it would connect, as its journal says
        self.is_open = False
        network.connect = self.connect  # type: ignore[method-assign]
        network.send = lambda data: None  # type: ignore[method-assign]
        network.close = self.close  # type: ignore[method-assign]
        if not self.node.replication.standing.is_replica:
            self.node.begin("REPLICAOF 127.0.0.1 1")
        self.link.tick()

    def connect(self, link: Any, host: str, port: int) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def hear(self, data: bytes, size: int) -> None:
        """Take the input until the link has ended."""
        self.is_open = True
        self.link.connected()
        for piece in pieces(data, size):
            if not self.is_open:
                break
            self.link.received(piece)
            if self.link.state != "connected":
                self.world.settle()
            assert len(self.link._lines) <= LINE_BYTES_MAX + size
        self.world.settle()

    def state(self) -> Any:
        """Return the state, which a process that starts again has, too."""
        found = state_of(self.node)
        assert self.node.engine.state.stats.internal_errors == 0
        assert self.node.dead is None
        self.link.stop()
        self.world.settle()
        named = {part.name for part in self.node.persistence.journal.manifest.parts()}
        there = {name for name in self.node.disk.list("data/appendonlydir") if name.endswith(".aof")}
        assert there <= named, "a file that was received is left"
        self.node.die()
        assert state_of(Node(World(), 2, self.node.disk.kill(), appendfsync="no")) == found
        return found


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Yield the data in pieces of so many bytes."""
    for at in range(0, len(data), size):
        yield data[at : at + size]


def _be_a_replica(data: bytes, size: int) -> None:
    if any(word in data.lower() for word in (*LEFT_OUT, b"replicaof", b"slaveof", b"failover", b"config")):
        return
    world = World()
    node = Node(world, 1, recorded()[2].kill(), appendfsync="no")
    node.ask("REPLICAOF NO ONE")
    nobody = SimpleNamespace(is_stopped=True, is_alive=False)
    wire = Wire(world, nobody, nobody, node)  # type: ignore[arg-type]
    for piece in pieces(data, size):
        if not (wire.is_closed_there or wire.is_primary_paused):
            wire.connection.data_received(piece)
        world.settle()
    wire.close()
    world.clock.advance(2_000)
    world.settle()
    assert node.engine.state.stats.internal_errors == 0
    assert not node.replication.feeding.followers
    assert not node.replication.feeding.waiting
    assert node.ask("PING") == b"+PONG\r\n"


def check(data: bytes) -> None:
    """Raise AssertionError unless the server is alive and its state whole."""
    if not 2 <= len(data) <= BYTES_MAX:
        return
    first, whole, second, rest, states = recorded()
    hello = whole[: whole.index(b"+FULLRESYNC")]
    kind, size, data = data[0] % 6, SIZES[data[1] % len(SIZES)], data[2:]
    if kind == 3:
        _be_a_replica(data, size)
    elif kind == 4:
        replica = Replica(second)
        history = replica.node.replication.standing.history
        after = history.offset + max(1, len(data))
        frame = make_frame(history.replid, history.offset, after, data)
        replica.hear(hello + b"+CONTINUE %b streamd\r\n" % history.replid.encode() + frame.data, size)
        if replica.link.state == "connected":
            replica.state()
        else:
            assert replica.link._must_copy, "a part of a frame may have been applied"
    else:
        replica = Replica(second if kind == 2 else first)
        if kind in (1, 2):
            data = changed(whole if kind == 1 else rest, data)
        replica.hear(hello + data if kind == 0 else data, size)
        found = replica.state()
        assert kind not in (1, 2) or found in states, "a state that never was"
