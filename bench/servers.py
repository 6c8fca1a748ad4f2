"""The servers under test: started on free ports, asked for their CPU and memory, stopped again."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from bench.ports import free_port
from scripts import newest_redis

START_S = 120.0
# The kinds of servers, in the order of a table's columns, and what the columns are called.
KINDS = {
    "streamd": "pure",
    "compiled": "compiled",
    "redis-server": "redis-server",
    "newest-redis": f"Redis {newest_redis.VERSION}",
}
# Those that know idempotent IDs.
IDEMPOTENT = ("streamd", "compiled", "newest-redis")


def compiled_python(tree: Path) -> Path:
    """Return the Python of the environment that `make compiled` makes in a checkout."""
    return tree / ".venv-compiled" / "bin" / "python"


COMPILED = compiled_python(Path(__file__).resolve().parent.parent)


def environment(kind: str, tree: Path | None = None) -> dict[str, str]:
    """Return the variables that a process of this kind starts with; tree: as in Target."""
    # (Without compiled files in a cache, a start takes three times as long: not what a user has.)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if kind == "compiled":  # (With a path to the source it would run the source.)
        variables.pop("PYTHONPATH", None)
    elif tree and kind == "streamd":
        variables["PYTHONPATH"] = str(tree)
    return variables


class Target:
    """One server process.

    kind: "streamd", "compiled" (what `make compiled` built), "redis-server" (of PATH) or "newest-redis" (what
    scripts/newest_redis.py made). options: extra flags, the same names for all. tree: a checkout whose streamd is
    started instead of this one's. binary: of a redis-server that is not on PATH. module: what is started in place of
    streamd, with the same words.
    """

    def __init__(
        self,
        kind: str,
        options: Sequence[str] = (),
        tree: Path | None = None,
        binary: Path | None = None,
        module: str = "streamd",
    ) -> None:
        self.kind = kind
        self.tree = tree
        self.port = free_port()
        self._directory = tempfile.TemporaryDirectory(prefix="streamd-bench-")
        common = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", self._directory.name]
        if "--appendonly" not in options:
            common += ["--appendonly", "no"]
        if kind in ("streamd", "compiled"):
            installed = compiled_python(tree) if tree else COMPILED
            python = [sys.executable] if kind == "streamd" else [str(installed), "-P"]
            command = [*python, "-m", module, "serve", *common, "--loglevel", "warning", *options]
        else:
            found = newest_binary() if kind == "newest-redis" else redis_binary("redis-server")
            command = [str(binary or found), *common, "--save", "", *options]
        self._command = command
        self._start()

    @property
    def directory(self) -> Path:
        """The server's data directory."""
        return Path(self._directory.name)

    def _start(self, wait: bool = True) -> None:
        started = time.monotonic()
        self.process = subprocess.Popen(
            self._command,
            cwd=self.tree,
            env=environment(self.kind, self.tree),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        if wait:
            self._wait_for_pong()
        self.start_s = time.monotonic() - started

    def restart(self, wait: bool = True) -> None:
        """End the server and start it again on its data; `start_s` then is the time to the first PONG.

        wait: return only when it answers.
        """
        self.end()
        self._start(wait)

    def _wait_for_pong(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise SystemExit(f"bench: {self.kind} ended with exit code {self.process.returncode} at its start")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as sock:
                    sock.sendall(b"PING\r\n")
                    if sock.recv(64).startswith((b"+PONG", b"-NOAUTH")):
                        return
            except OSError:
                pass
            time.sleep(0.002)
        raise SystemExit(f"bench: {self.kind} did not answer PING within {START_S:.0f} s")

    def connect(self) -> socket.socket:
        """Return a new connection."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def cpu_s(self) -> float:
        """Return the CPU seconds that all threads of the server have used."""
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except FileNotFoundError:
                pass
        return total / 1e9

    def stay_on(self, core: int) -> None:
        """Pin all threads of the server to one core."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})

    def anonymous_bytes(self) -> int:
        """Return Pss_Anon: the server's own memory, without files that others map as well."""
        for line in Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                return int(line.split()[1]) * 1024
        raise SystemExit("bench: this kernel does not say Pss_Anon")

    def resident_bytes(self) -> int:
        """Return the RSS: memory of the server with the files that it maps, as other programs report it."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise SystemExit("bench: this kernel does not say VmRSS")

    def stop(self) -> None:
        """End the server and remove its directory."""
        self.end()
        self._directory.cleanup()

    def end(self) -> None:
        """End the server; its directory stays."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def __enter__(self) -> "Target":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def forms() -> list[str]:
    """Return the kinds of servers that are installed: streamd, redis-server, and streamd's compiled form."""
    return [
        "streamd",
        *(["compiled"] if COMPILED.is_file() else []),
        *(["redis-server"] if redis_binary("redis-server") else []),
    ]


def all_kinds() -> list[str]:
    """Return the kinds of servers that are installed, the newest Redis among them."""
    return [*forms(), *(["newest-redis"] if newest_binary() else [])]


def newest_binary() -> Path | None:
    """Return the path of the newest Redis, or None where scripts/newest_redis.py did not make it yet."""
    made = newest_redis.BUILD / "redis-server"
    return made if newest_redis.answers(made) else None


def redis_binary(name: str) -> Path | None:
    """Return the path of redis-server, redis-cli or redis-benchmark, or None."""
    found = shutil.which(name)
    return Path(found) if found else None
