"""What goes wrong in a simulation: when, and where, as far as the promise still holds then.

The promise is that an entry is not lost which all replicas have acknowledged. A server that comes back without a part
of what it had (destroyed, or without power under `everysec`) must not be chosen, nor followed, before it has got that
part again. So such a server stays away until another one is the primary, and all others are there; and until it has
got everything, nothing else is taken away. All other faults come at any time.
"""

import errno
from collections.abc import Callable, Sequence

from tests.crash.simulated_disk import SimulatedDisk
from tests.simulation.network import Host
from tests.simulation.sentinel import HOST, Sentinel, send_once
from tests.simulation.server import SimulatedNode
from tests.simulation.world import SimulatedWorld

_LOOK_MS = 200
_SETTLES_MS = 1_500  # after that a command has reached its server
INCIDENTS = (
    *("crash",) * 8, *("isolate",) * 5, "stop", "stop", "cut", "cut", "slow network", "slow disk", "slow disk",
    "bad disk", "bad disk", "leap", "lead", "lead", "follow", "failover", "failover", "rewrite", "rewrite",
    "kill clients", "end", "empty", *("crash everyone",) * 3,
)  # fmt: skip
# For a Sentinel that gives failovers up: mostly while the primary is empty.
WAVERING = (*("empty",) * 4, *("fail over",) * 6, "crash", "isolate", "stop", "cut", "lead", "slow network")


class Faults:
    """The faults of a run. clients: the hosts of clients."""

    def __init__(self, world: SimulatedWorld, sentinel: Sentinel, ports: tuple[int, ...], clients: list[Host]) -> None:
        self.world, self.sentinel, self.ports, self.clients = world, sentinel, ports, clients
        self.chance = world.chance
        self.is_over = False
        self._on_told: list[Callable[[], None]] = []
        self._ends: list[Callable[[], None]] = []
        self._changed_ms = 0
        self._marks: dict[int, int] = {}
        self._commanded_ms = -_SETTLES_MS
        world.later(_LOOK_MS, self._look)

    def node(self, port: int) -> SimulatedNode:
        """Return the server at a port."""
        node = self.world.nodes[port]
        assert isinstance(node, SimulatedNode)
        return node

    @property
    def nodes(self) -> list[SimulatedNode]:
        """All servers."""
        return [self.node(port) for port in self.ports]

    @property
    def primary(self) -> SimulatedNode:
        """The server that clients are told."""
        return self.node(self.sentinel.primary)

    def plan(self, length_ms: int, count: int, incidents: Sequence[str]) -> None:
        """Decide when something happens. Half of it waits for a client that is told that all replicas have an entry."""
        for _ in range(count):
            at_ms = self.chance.randrange(700, length_ms)
            what = self.chance.choice(incidents)

            def happen(what: str = what) -> None:
                if not self.is_over:
                    self._happen(what)

            if self.chance.random() < 0.5:
                self.world.later(at_ms, lambda happen=happen: self._on_told.append(happen))  # type: ignore[misc]
            else:
                self.world.later(at_ms, happen)

    def told(self) -> None:
        """A client was told that all replicas have what it has written."""
        happens, self._on_told = self._on_told, []
        for happen in happens:
            self.world.later(self.chance.choice((0, 0, 1, 3)), happen)

    def note(self, text: str) -> None:
        """Write a line of the history."""
        self.world.where = "-- fault"
        self.world.note(text)

    def end(self) -> None:
        """Let everything be whole again; what was lost stays lost."""
        self.is_over = True
        self.sentinel.wavers = 0.0
        self.note("no more faults")
        for end in list(self._ends):
            if self.chance.random() < 0.3:
                end()

    @property
    def is_whole(self) -> bool:
        """Whether all that was begun has ended, and all servers are there."""
        return not self._ends and all(node.runs and not node.has_lost for node in self.nodes)

    # -- what the promise allows ----------------------------------------------------------------------------------

    @property
    def _may_take_away(self) -> bool:
        return not any(node.has_lost and node.is_alive for node in self.nodes)

    @property
    def _may_lose(self) -> bool:
        return not any(node.has_lost for node in self.nodes)

    def _is_calm(self, besides: SimulatedNode) -> bool:
        """Return whether all other servers are there, one of them as the primary."""
        primary = self.primary
        return (
            self.sentinel.is_at_rest
            and primary is not besides
            and not self._ends
            and not primary.replication.standing.is_replica
            and all(node.runs and not node.has_lost for node in self.nodes if node is not besides)
            and all(
                node.replication.link.state == "connected" and node.replication.standing.primary[1] == primary.port
                for node in self.nodes
                if node is not besides and node is not primary and node.replication.standing.primary is not None
            )
            and all(node.replication.standing.is_replica for node in self.nodes if node not in (besides, primary))
            and self.world.now_ms - self._changed_ms > 2 * self.sentinel.down_ms
        )

    def _had_no_copy(self, lost: SimulatedNode) -> bool:
        """Return whether no other server has ever had the data of a lost one: then nobody was told that all have them,
        Sentinel elects none of the others, and an operator starts the lost one.
        """
        others = [node for node in self.nodes if node is not lost]
        return all(node.runs and not node.replication.standing.history.is_shared for node in others)

    def _look(self) -> None:
        """Let servers come back that have lost something, and see whether they have got it again."""
        self.world.later(_LOOK_MS, self._look)
        for node in self.nodes:
            if not node.has_lost:
                continue
            if not node.is_alive:
                if self._had_no_copy(node):
                    node.has_lost = node.began_with_loss = False
                    self._return(node)
                elif self._is_calm(node):
                    self._return(node)
                continue
            link, primary = node.replication.link, self.primary
            if link.state != "connected" or node.replication.standing.primary != ("127.0.0.1", primary.port):
                self._marks.pop(node.port, None)
            elif node.port not in self._marks:
                self._marks[node.port] = primary.offset
            elif node.offset >= self._marks[node.port]:
                del self._marks[node.port]
                node.has_lost = node.began_with_loss = False
                self.note(f"{node.port} has everything again")

    def _return(self, node: SimulatedNode, disk: SimulatedDisk | None = None) -> None:
        if node.is_alive or self.world.nodes[node.port] is not node:
            return  # it runs, or has been started for another reason
        self.note(f"{node.port} starts")
        self._changed_ms = self.world.now_ms
        node.start_again(disk)

    def _lasts(self, end: Callable[[], None], ms: int) -> None:
        """Have something that was begun end after a while, or with the faults."""
        is_ended = False

        def end_once() -> None:
            nonlocal is_ended
            if not is_ended:
                is_ended = True
                if end_once in self._ends:
                    self._ends.remove(end_once)
                self._changed_ms = self.world.now_ms
                end()

        self._ends.append(end_once)
        self.world.later(ms, end_once)

    # -- incidents ------------------------------------------------------------------------------------------------

    def _happen(self, what: str) -> None:
        chance = self.chance
        self._changed_ms = self.world.now_ms
        primary, others = self.primary, [node for node in self.nodes if node is not self.primary]
        node = primary if chance.random() < 0.6 else chance.choice(others)
        if what == "crash":
            self._crash(primary, others)
        elif what == "crash everyone":
            self._on_told.append(self._crash_everyone)
        elif what == "isolate":
            if self._may_take_away:
                self._isolate(node)
        elif what == "stop":
            if self._may_take_away and node.runs:
                self.note(f"{node.port} is stopped")
                node.stop()
                self._lasts(lambda: self._go_on(node), chance.choice((50, 500, 3_000, 6_000)))
        elif what == "cut":
            self.note("connections are reset")
            for wire in list(self.world.net.wires):
                if chance.random() < 0.5:
                    wire.reset()
        elif what == "slow network":
            self.note("the network is slow")
            self.world.net.slow_ms = chance.choice((10, 80, 400))
            self._lasts(self._be_quick, chance.randrange(3_000))
        elif what in ("slow disk", "bad disk"):
            self._hurt_disk(node, what)
        elif what == "leap":
            node.own_clock.skew_ms = chance.randrange(-30_000, 30_001)
            self.note(f"the clock of {node.port} leaps")
        elif what == "end":
            self._stop_in_order(node)
        elif what == "empty":
            self._come_back_empty(primary)
        elif what == "fail over":
            self.note("Sentinel is told to fail over")
            self.sentinel.fail_over()
        else:
            self._command(what, node, others)

    def _crash(self, primary: SimulatedNode, others: list[SimulatedNode], is_everyone: bool = False) -> None:
        """Let some servers end at once; at most one of them, or all under `always`, lose what they may lose."""
        chance = self.chance
        if not self._may_take_away:
            return
        first, second = chance.sample(others, 2)
        if is_everyone:  # the one with the slower disk comes back first
            first, second = sorted((first, second), key=lambda one: -one.slow_disk_ms)
        everyone = [primary, first, second]
        some = [primary], [primary], [first], [primary, first], [first, second], everyone, everyone
        dying = everyone if is_everyone else chance.choice(some)
        may_lose = self._may_lose and chance.random() < 0.8
        loser = (dying[0] if chance.random() < 0.8 else chance.choice(dying)) if may_lose else None
        is_dark = chance.random() < 0.6  # all others by power, where the disk has all that was acknowledged
        # (One of the replicas is there before the other: the one that lacks something must not become the primary.)
        away_ms = {first.port: chance.choice((0, 30, 300)), second.port: chance.choice((300, 2_000, 5_000))}
        away_ms[primary.port] = self._away_ms()
        for node in dying:
            if not node.runs:
                continue
            is_always = node.options["appendfsync"] == "always"
            if node is loser and (not is_always or chance.random() < 0.8):
                self._lose(node)
            elif is_always and is_dark:
                self.note(f"{node.port} has no power")
                node.die(is_off=True)
                disk = node.disk.cut_power(chance.randrange(10**6))
                self._lasts(lambda node=node, disk=disk: self._return(node, disk), away_ms[node.port])  # type: ignore[misc]
            elif chance.random() < 0.2:
                node.kills_at_turn = chance.randrange(1, 4)
                self._lasts(lambda node=node: self._return_killed(node), 300 + away_ms[node.port])  # type: ignore[misc]
            else:
                self.note(f"{node.port} is killed")
                node.die()
                self._lasts(lambda node=node: self._return(node), away_ms[node.port])  # type: ignore[misc]

    def _crash_everyone(self) -> None:
        if not self.is_over:
            self._crash(self.primary, [node for node in self.nodes if node is not self.primary], is_everyone=True)

    def _away_ms(self) -> int:
        return self.chance.choice((0, 30, 300, 300, 2_000, 5_000))

    def _return_killed(self, node: SimulatedNode) -> None:
        if not node.is_alive:
            self._return(node)
        node.kills_at_turn = 0

    def _lose(self, node: SimulatedNode) -> None:
        """Destroy a machine, or let its disk lose what was not synced."""
        if self.chance.random() < 0.5:
            self.note(f"{node.port} is destroyed")
            disk = SimulatedDisk()
        else:
            self.note(f"{node.port} has no power, and loses what was not synced")
            disk = node.disk.cut_power(self.chance.randrange(10**6))
        node.has_lost = True
        node.die(is_off=self.chance.random() < 0.5)
        node.disk = disk

    def _come_back_empty(self, node: SimulatedNode) -> None:
        """Destroy the primary's machine, and let it start again before Sentinel has seen that; later somebody ends it.

        Its replicas must not follow it, though clients write to it and a Sentinel may tell them to. (An operator may
        have said that a replica takes other data: so that is over before.)
        """
        if (
            not self._may_lose
            or self.world.now_ms - self._commanded_ms < _SETTLES_MS
            or not all(
                one.runs and one.replication.standing.history.is_shared and not one.replication.may_replace
                for one in self.nodes
            )
        ):
            return
        self.note(f"{node.port} is destroyed, and starts again at once")
        node.has_lost = True
        node.die()
        after = node.start_again(SimulatedDisk())
        after.is_emptied = True

        def end() -> None:
            if after.is_alive and after.has_lost:  # else it has become a replica that is as good as others
                self.note(f"{after.port} is ended by hand")
                after.die(is_off=True)

        self._lasts(end, self.chance.choice((2_500, 6_000) if self.sentinel.wavers else (700, 2_500)))

    def _isolate(self, node: SimulatedNode) -> None:
        """Hold what goes between a server and some of the others, both ways or one."""
        chance, port = self.chance, node.port
        peers: list[Host] = [*(one for one in self.ports if one != port), HOST, *self.clients]
        some = chance.choice((peers, peers, peers, peers[:2], [HOST], peers[:1], peers[-1:], peers[:3]))
        ways = [(port, peer) for peer in some], [(peer, port) for peer in some]
        pairs = [*ways[0], *ways[1]] if chance.random() < 0.7 else chance.choice(ways)
        resets = chance.random() < 0.5
        self.note(f"{port} is cut off from {some}: {len(pairs)} ways")
        net = self.world.net
        net.block(pairs)  # type: ignore[arg-type]

        def heal() -> None:
            self.note(f"{port} is reached again; {'connections are reset' if resets else 'what was held arrives'}")
            net.unblock(pairs, resets)  # type: ignore[arg-type]

        self._lasts(heal, chance.choice((200, 1_500, 3_000, 4_500)))

    def _go_on(self, node: SimulatedNode) -> None:
        if node.is_alive:
            self.note(f"{node.port} goes on")
            node.go_on()

    def _be_quick(self) -> None:
        self.world.net.slow_ms = 0

    def _mend_disk(self, node: SimulatedNode) -> None:
        node.slow_disk_ms = self.world.disks_ms.get(node.port, 0)

    def _hurt_disk(self, node: SimulatedNode, what: str) -> None:
        if not node.runs:
            return
        chance = self.chance
        if chance.random() < 0.5:
            self._on_told.append(self._crash_everyone)
        if what == "slow disk":
            node.slow_disk_ms = chance.choice((30, 500, 2_500))
            self.note(f"the disk of {node.port} is slow")
            self._lasts(lambda: self._mend_disk(node), chance.randrange(4_000))
            return
        self.world.has_bad_disk = True
        disk = node.disk
        disk.failure = chance.choice((errno.EIO, errno.ENOSPC, "short"))
        disk.fail_at, disk.fails_for = disk.operations + 1 + chance.randrange(3), chance.choice((1, 3, 10**9))
        self.note(f"the disk of {node.port} fails: {disk.failure}, {disk.fails_for} times")

        def heal() -> None:
            disk.fail_at = 0
            if not node.is_alive and not node.has_lost and self.node(node.port) is node:
                self._return(node)

        self._lasts(heal, chance.randrange(200, 3_000))

    def _stop_in_order(self, node: SimulatedNode) -> None:
        if not node.runs or not self._may_take_away:
            return
        self.note(f"{node.port} ends in order")
        node.replication.close()
        node.persistence.close()
        node.die()
        self._lasts(lambda: self._return(node), self._away_ms())

    def _command(self, what: str, node: SimulatedNode, others: list[SimulatedNode]) -> None:
        """Send a command by hand."""
        chance = self.chance
        if what in ("lead", "follow", "failover") and not self._may_lose:
            return
        if what == "lead":
            node = chance.choice(others)
            words = b"REPLICAOF NO ONE"
        elif what == "follow":
            words = b"REPLICAOF 127.0.0.1 %d" % chance.choice(self.ports)
        elif what == "failover":
            node = self.primary
            to = b" TO 127.0.0.1 %d" % chance.choice(others).port if chance.random() < 0.5 else b""
            words = b"FAILOVER%b TIMEOUT %d" % (to, chance.choice((100, 2_000)))
        elif what == "rewrite":
            words = b"BGREWRITEAOF"
        else:
            words = b"CLIENT KILL TYPE " + chance.choice((b"normal", b"replica", b"master"))
        self._commanded_ms = self.world.now_ms
        self.note(f"{node.port} gets {words.decode()}")
        send_once(self.world, node.port, node.port, [words.split()])
