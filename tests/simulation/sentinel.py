"""The part of the Sentinels: one that sees whether a primary is down, and chooses and promotes by their rule."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.caller import Request, encode
from tests.simulation.network import Host, Wire
from tests.simulation.server import SimulatedNode
from tests.simulation.world import SimulatedWorld

HOST = "sentinel"
_TICK_MS = 100
_ABORT_MS = 4_000
_NAME = b"sentinel-5e7a0b1c-cmd"


@dataclass
class Seen:
    """What is known of a server: its last INFO, when that came, and since when it has the role that it has.

    as_replica: its last INFO as a replica.
    """

    info: dict[str, object] = field(default_factory=dict)
    as_replica: dict[str, object] = field(default_factory=dict)
    at_ms: int = -1
    run_id: str = ""
    role_since_ms: int = 0
    told_ms: int = -10_000


class Sentinel:
    """Watches servers, as a majority of Sentinels does that agree.

    primary: the port that clients are told. switches: how often another one was chosen. wavers: how likely it is that a
    failover is given up at each of its steps, as by a leader that ends, is cut off or runs out of time.
    """

    def __init__(self, world: SimulatedWorld, ports: tuple[int, ...], down_ms: int, info_ms: int) -> None:
        self.world, self.down_ms, self.info_ms = world, down_ms, info_ms
        self.primary = ports[0]
        self.seen = {port: Seen() for port in ports}
        self.switches = 0
        self.wavers = 0.0
        self._target: int | None = None
        self._since_ms = 0
        self._next_ms = 0
        for port in ports:
            world.later(0, lambda port=port: self._poll(port))  # type: ignore[misc]
        world.later(0, self._tick)

    @property
    def is_at_rest(self) -> bool:
        """Whether no failover is under way."""
        return self._target is None

    def ask(self, host: Host, answer: Callable[[int], None]) -> None:
        """Tell a client on a host which server is the primary."""
        message = self.world.net.message
        message(host, HOST, lambda: message(HOST, host, lambda port=self.primary: answer(port)))  # type: ignore[misc]

    def _note(self, text: str) -> None:
        self.world.where = HOST
        self.world.note(text)

    # -- INFO -----------------------------------------------------------------------------------------------------

    def _poll(self, port: int) -> None:
        world = self.world
        node = world.nodes[port]
        assert isinstance(node, SimulatedNode)
        world.net.message(HOST, port, lambda: node.do(0, lambda: self._answer(node)))
        world.later(self.info_ms, lambda: self._poll(port))

    def _answer(self, node: SimulatedNode) -> None:
        info = {
            **node.replication.fields(),
            "run_id": node.engine.state.run_id,
            "down_ms": node.world.clock.monotonic_ms() - node.replication.link.down_ms,
        }
        self.world.net.message(node.port, HOST, lambda: self._take(node.port, info))

    def _take(self, port: int, info: dict[str, object]) -> None:
        seen, now_ms = self.seen[port], self.world.now_ms
        if seen.info.get("role") != info["role"] or seen.run_id != info["run_id"]:
            seen.role_since_ms = now_ms
        seen.info, seen.at_ms, seen.run_id = info, now_ms, str(info["run_id"])
        if info["role"] == "slave":
            seen.as_replica = info

    # -- decisions ------------------------------------------------------------------------------------------------

    def fail_over(self) -> None:
        """Begin a failover because an operator says so."""
        if self._target is None:
            self._begin()

    def _gives_up(self, step: str) -> bool:
        if not self.wavers or self.world.chance.random() >= self.wavers:
            return False
        self._note(f"gives up: {step}")
        self._target = None
        self._next_ms = self.world.now_ms + self.world.chance.choice((100, 500, 2_000))
        return True

    def _tick(self) -> None:
        self.world.later(_TICK_MS, self._tick)
        now_ms = self.world.now_ms
        if self._target is not None:
            self._look_at_promotion(self._target)
        elif now_ms >= self._next_ms and self._is_primary_down():
            self._begin()
        elif not self._is_primary_down():
            self._correct_others()

    def _is_up(self, port: int) -> bool:
        return self.seen[port].at_ms >= 0 and self.world.now_ms - self.seen[port].at_ms <= self.down_ms

    def _is_primary_down(self) -> bool:
        seen = self.seen[self.primary]
        if seen.info.get("role") == "slave" and self.world.now_ms - seen.role_since_ms > self.down_ms + self.info_ms:
            return True
        return not self._is_up(self.primary) and self.world.now_ms > self.down_ms

    def _begin(self) -> None:
        candidates = []
        for port, seen in self.seen.items():
            # (What a server said as a replica counts, though it says by now that it is a primary: as with Sentinel.)
            info = seen.as_replica
            if port == self.primary or not self._is_up(port) or not info or not info["slave_priority"]:
                continue
            if info["master_link_status"] != "up" and int(str(info["down_ms"])) > 10 * self.down_ms + 20_000:
                continue
            rank = int(str(info["slave_priority"])), -int(str(info["slave_repl_offset"])), seen.run_id
            candidates.append((*rank, port))
        self._next_ms = self.world.now_ms + 1_000
        if not candidates:
            self._note(f"{self.primary} is down, and there is no good replica")
            return
        self._target = min(candidates)[-1]
        self._since_ms = self.world.now_ms
        self._note(f"{self.primary} is down; promotes {self._target} of {sorted(candidates)}")
        if not self._gives_up("nobody was told"):
            self._send(self._target, None)
            self._gives_up(f"{self._target} was told")

    def _look_at_promotion(self, target: int) -> None:
        seen = self.seen[target]
        if seen.info.get("role") == "master" and seen.at_ms > self._since_ms:
            if self._gives_up(f"{target} is a primary"):
                return
            self._note(f"{target} is the primary")
            before = self.primary
            self.primary, self._target = target, None
            self.switches += 1
            for other in self.seen.values():
                other.told_ms = -10_000
            self._correct_others(at_once=True)
            if self._gives_up(f"others were told of {target}; clients are told of {before} again"):
                self.primary = before
        elif self.world.now_ms - self._since_ms > _ABORT_MS:
            self._note(f"gives up the promotion of {target}")
            self._target = None
            self._next_ms = self.world.now_ms + 500
        elif self.world.now_ms - seen.told_ms > 500:
            self._send(target, None)

    def _correct_others(self, at_once: bool = False) -> None:
        for port, seen in self.seen.items():
            if at_once and self.wavers and self.world.chance.random() < self.wavers / 2:
                continue  # it is told later, or by a Sentinel that knows another primary
            info = seen.info
            if port == self.primary or not info or not self._is_up(port):
                continue
            is_right = info["role"] == "slave" and info["master_port"] == self.primary
            is_new = self.world.now_ms - max(seen.role_since_ms, seen.told_ms) < 2 * self.info_ms + 500
            if not is_right and (at_once or not is_new):
                self._send(port, self.primary)

    def _send(self, port: int, primary: int | None) -> None:
        """Send what Sentinels send to a server that is to have another role."""
        self.seen[port].told_ms = self.world.now_ms
        where = b"NO ONE" if primary is None else b"127.0.0.1 %d" % primary
        self._note(f"tells {port}: SLAVEOF {where.decode()}")
        requests: list[Request] = [
            [b"CLIENT", b"SETNAME", _NAME],
            [b"MULTI"],
            [b"SLAVEOF", *where.split()],
            [b"CONFIG", b"REWRITE"],
            [b"CLIENT", b"KILL", b"TYPE", b"normal"],
            [b"EXEC"],
        ]

        send_once(self.world, HOST, port, requests)


def send_once(world: SimulatedWorld, host: Host, port: int, requests: list[Request]) -> None:
    """Send a pipeline on a connection of its own, and read no reply; it gets there, or is lost with the connection."""

    def made(wire: Wire) -> None:
        wire.send(encode(requests))
        world.later(1_000, wire.close_here)

    node = world.nodes[port]
    assert isinstance(node, SimulatedNode)
    world.net.connect(host, node, None, made, _nothing, lambda data: None, _nothing)


def _nothing() -> None:
    pass
