"""Servers and Sentinels for tests of replication: started on free ports, and ended by their pids."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis

from bench.ports import free_port

TIMEOUT_S = 30.0


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
    """Wait until a condition holds. Raises: AssertionError."""
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.02)


class Node:
    """A streamd on a port of its own, that can be killed and started again. program: Python's words for it."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.program = ["-m", "streamd"]
        self.port = free_port()
        self.client = redis.Redis(port=self.port)
        self._log = directory.with_suffix(".log").open("ab")
        self._process: subprocess.Popen[str] | None = None
        self.start(*options)

    def start(self, *options: str) -> None:
        """Start, and wait until it serves."""
        words = ["--port", str(self.port), "--dir", str(self.directory), "--appendonly", "yes", *options]
        self._process = subprocess.Popen(
            [sys.executable, *self.program, "serve", *words],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        assert any(line.startswith("Ready to accept") for line in self._process.stdout), "the server ended at its start"

    def kill(self) -> None:
        """End it by kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def stop(self) -> None:
        """End it in order."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()
            self._process = None

    def freeze(self) -> None:
        """Stop it until thaw()."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def link(self) -> dict[str, object]:
        """Return INFO replication; empty while the server does not answer."""
        try:
            return dict(self.client.info("replication"))
        except redis.ConnectionError:
            return {}

    def is_linked(self) -> bool:
        """Return whether it is a replica whose link is up."""
        return self.link().get("master_link_status") == "up"


@contextmanager
def nodes(directory: Path, replicas: int, *options: str) -> Iterator[list[Node]]:
    """Run a primary, the first one, and its replicas, linked."""
    with ExitStack() as stack:
        found = []
        for number in range(replicas + 1):
            of = ["--replicaof", "127.0.0.1", str(found[0].port)] if found else []
            found.append(Node(directory / f"node-{number}", *of, *options))
            stack.callback(found[-1].kill)
        for one in found[1:]:
            wait_until(one.is_linked, "the replica is linked")
        yield found


@contextmanager
def sentinels(
    program: Path | str,
    directory: Path,
    primary: int,
    watching: list[str] | None = None,
    down_ms: tuple[int, int, int] = (800, 900, 1_000),
) -> Iterator[list[int]]:
    """Run three Sentinels that watch a primary as `mymaster`; yield their ports when they know each other and all.

    watching: their lines about it, None for such that switch within seconds, by the down-after-milliseconds of each.
    """
    ports, processes = [], []
    try:
        for its_down_ms in down_ms:
            port = free_port()
            place = directory / f"sentinel-{port}"
            place.mkdir()
            configuration = place / "sentinel.conf"
            here = [f"port {port}", "bind 127.0.0.1", f"dir {place}", f"logfile {place}.log"]
            lines = here + (watching or _watching(primary, its_down_ms))
            configuration.write_text("".join(f"{line}\n" for line in lines))
            words = [str(program), str(configuration), "--sentinel"]
            processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL))
            ports.append(port)
        clients = [redis.Redis(port=port) for port in ports]
        for client in clients:
            wait_until(lambda client=client: _answers(client), "a Sentinel answers")
            client.execute_command("SENTINEL", "DEBUG", "info-period", 200, "ask-period", 100, "publish-period", 200)
        for client in clients:
            wait_until(lambda client=client: _knows_all(client), "a Sentinel knows all")
        yield ports
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _watching(primary: int, down_ms: int) -> list[str]:
    return [
        f"sentinel monitor mymaster 127.0.0.1 {primary} 2",
        f"sentinel down-after-milliseconds mymaster {down_ms}",
        "sentinel failover-timeout mymaster 2000",
    ]


def evidence(directory: Path) -> str:
    """Return the ends of all logs in a test's directory."""
    said = [f"{path.name}:\n{path.read_text()[-3_000:]}" for path in sorted(directory.glob("*.log"))]
    return "\n".join(said)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def _knows_all(client: redis.Redis) -> bool:
    known = [client.execute_command("SENTINEL", what, "mymaster") for what in ("REPLICAS", "SENTINELS")]
    return [len(one) for one in known] == [2, 2]
