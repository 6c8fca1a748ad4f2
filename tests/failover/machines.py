"""Three machines with a streamd each, and three Sentinels that watch them: destroyed, cut off, and back again."""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis
from redis.sentinel import Sentinel

from tests.failover.cable import Cable, Cables
from tests.replication.clusters import Node, evidence, sentinels, wait_until

NAME = "mymaster"
REPLICAS = 2
WHOLE_S = 60.0
LATE_MS = 30_000
# Of a replica without a link Sentinel asks INFO once a second, and takes it for fresh for three periods.
INFO_MS, OFTEN_MS = 1_000, 200
TIMEOUT_S = 1.0  # of clients: for so long they believe a primary that does not answer


class Machine:
    """A server, and the cable by which Sentinels, other servers and remote clients reach it.

    `address` is the cable's port. `node.port` is the server's own, which only clients on the machine itself use.
    """

    def __init__(self, cables: Cables, directory: Path, primary: "Machine | None") -> None:
        self.cable = Cable(cables)
        self.address = self.cable.port
        self._options = ("--replica-announce-ip", "127.0.0.1", "--replica-announce-port", str(self.address))
        self.node = Node(directory, *self._options, *_follow(primary))
        self.cable.target_port = self.node.port

    def destroy(self, directory_first: bool) -> None:
        """Remove the directory and kill the server, in either order."""
        if directory_first:
            shutil.rmtree(self.node.directory, ignore_errors=True)
        self.node.kill()
        shutil.rmtree(self.node.directory, ignore_errors=True)

    def start(self, primary: "Machine | None" = None) -> None:
        """Start the server on what its directory holds, as a replica of another or without being told."""
        self.node.start(*self._options, *_follow(primary))

    def info(self) -> dict[str, object]:
        """Return INFO replication; empty while the server does not answer."""
        return self.node.link()


def _follow(primary: Machine | None) -> tuple[str, ...]:
    return () if primary is None else ("--replicaof", "127.0.0.1", str(primary.address))


class Machines:
    """The three, and the Sentinels' ports."""

    def __init__(self, machines: list[Machine], sentinel_ports: list[int], directory: Path) -> None:
        self.machines = machines
        self.ports = sentinel_ports
        self.directory = directory
        self._sentinels = [
            redis.Redis(port=port, socket_timeout=TIMEOUT_S, decode_responses=True) for port in sentinel_ports
        ]

    @property
    def url(self) -> str:
        """The address for the Spark source."""
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{port}" for port in self.ports) + f"/{NAME}"

    def remote_client(self) -> redis.Redis:
        """Return a client that asks the Sentinels for the primary, and sends nothing again by itself."""
        found = Sentinel([("127.0.0.1", port) for port in self.ports], socket_timeout=TIMEOUT_S)
        retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        return found.master_for(NAME, retry=retry, socket_timeout=TIMEOUT_S, protocol=2)

    def named(self) -> Machine | None:
        """Return the machine that all Sentinels name as the primary; None while they do not agree."""
        try:
            places = {
                tuple(one.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)) for one in self._sentinels
            }
        except redis.RedisError:
            return None
        ports = {int(port) for _, port in places}
        chosen = [machine for machine in self.machines if {machine.address} == ports]
        return chosen[0] if chosen else None

    def elected(self, but: Machine) -> Machine | None:
        """Return the primary that all Sentinels name once it is one, and is not the former."""
        chosen = self.named()
        if chosen is None or chosen is but or chosen.info().get("role") != "master":
            return None
        return chosen

    @contextmanager
    def late_sentinels(self) -> Iterator[None]:
        """Let the Sentinels take a server for gone only after a long time, and then as they did before.

        Such a Sentinel also elects a replica that has had no link for a long time, if it is told to.
        """
        before = [self._down_after(one) for one in self._sentinels]
        self._set_down_after([LATE_MS] * len(before), INFO_MS)
        try:
            yield
        finally:
            self._set_down_after(before, OFTEN_MS)

    def _down_after(self, sentinel: redis.Redis) -> int:
        return int(sentinel.execute_command("SENTINEL", "MASTER", NAME)["down-after-milliseconds"])

    def _set_down_after(self, times_ms: list[int], info_ms: int) -> None:
        for one, time_ms in zip(self._sentinels, times_ms, strict=True):
            one.execute_command("SENTINEL", "SET", NAME, "down-after-milliseconds", time_ms)
            one.execute_command("SENTINEL", "DEBUG", "info-period", info_ms)

    def _ask_for_failover(self) -> None:
        try:
            self._sentinels[0].execute_command("SENTINEL", "FAILOVER", NAME)
        except redis.RedisError:
            pass  # one is going on, or it has not heard of a replica for a moment

    def is_whole(self) -> bool:
        """Return whether a primary has two linked replicas, and each Sentinel finds all three in order."""
        primary = self.named()
        if primary is None:
            return False
        for machine in self.machines:
            info = machine.info()
            if machine is primary:
                is_well = info.get("role") == "master" and info.get("connected_slaves") == REPLICAS
            else:
                is_well = info.get("master_port") == primary.address and info.get("master_link_status") == "up"
            if not is_well:
                return False
        try:
            return all(_finds_all_well(one) for one in self._sentinels)
        except redis.RedisError:
            return False

    def wait_until_seen(self, replica: Machine, field: str, value: str) -> None:
        """Wait until all Sentinels say this of a replica. Raises: AssertionError."""

        def is_seen() -> bool:
            said = [state for one in self._sentinels for state in one.execute_command("SENTINEL", "REPLICAS", NAME)]
            its = [state[field] for state in said if int(state["port"]) == replica.address]
            return its == [value] * len(self.ports)

        wait_until(is_seen, f"Sentinels see {field} {value}")

    def wait_until_whole(self) -> None:
        """Wait for that. Raises: AssertionError, with the ends of the logs."""
        try:
            wait_until(self.is_whole, "a primary has two replicas, and the Sentinels know", WHOLE_S)
        except AssertionError as error:
            states = [str({**machine.info(), "address": machine.address}) for machine in self.machines]
            raise AssertionError("\n".join([str(error), *states, evidence(self.directory)])) from None

    def wait_for_another(self, former: Machine, *, asks: bool = False) -> tuple[Machine, float]:
        """Wait until another machine is the primary; return it, and the seconds.

        asks: have a Sentinel fail over when the former one answers: an operator does so when it has lost its data.
        """
        began = time.monotonic()

        def is_there() -> bool:
            if asks and self.named() is former:
                self._ask_for_failover()
            return self.elected(former) is not None

        try:
            wait_until(is_there, "another server is the primary", WHOLE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{evidence(self.directory)}") from None
        chosen = self.elected(former)
        assert chosen is not None
        return chosen, time.monotonic() - began


def _finds_all_well(sentinel: redis.Redis) -> bool:
    states = [sentinel.execute_command("SENTINEL", "MASTER", NAME)]
    states += sentinel.execute_command("SENTINEL", "REPLICAS", NAME)
    flags = sorted(state["flags"] for state in states)
    return flags == ["master", *["slave"] * REPLICAS]


@contextmanager
def three_machines(
    program: Path | str, directory: Path, down_ms: tuple[int, int, int] = (800, 900, 1_000)
) -> Iterator[Machines]:
    """Run three servers, the first one as the primary, and three Sentinels of a program that watch them."""
    with ExitStack() as stack:
        cables = stack.enter_context(Cables())
        machines: list[Machine] = []
        for number in range(REPLICAS + 1):
            machine = Machine(cables, directory / f"machine-{number}", machines[0] if machines else None)
            stack.callback(machine.cable.close)
            stack.callback(machine.node.kill)
            machines.append(machine)
        for machine in machines[1:]:
            wait_until(machine.node.is_linked, "the replica is linked")
        ports = stack.enter_context(sentinels(program, directory, machines[0].address, down_ms=down_ms))
        yield Machines(machines, ports, directory)
