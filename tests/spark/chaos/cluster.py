"""The processes of the chaos test: a master, two workers, what they start, and the end of them all."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyspark

from bench.ports import free_port
from demo.processes import session_members
from spark_source.java import spark_environment
from tests.spark.sessions import ROOT

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class Started:
    """A process in a session of its own, with a log; whatever it starts is in that session too."""

    def __init__(self, words: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                words,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """End the process and all that it started with signal 9."""
        while members := session_members(self.process.pid):
            for pid in members:
                send(pid, signal.SIGKILL)
            self.process.poll()
        self.process.wait()

    def last_lines(self, count: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])


class Cluster:
    """A standalone Spark cluster on the loopback device: one master and two workers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.environment = {
            **spark_environment(),
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(directory),
            "SPARK_LOCAL_DIRS": str(directory / "local"),
            "SPARK_LOG_DIR": str(directory),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{JAVA} -Djava.io.tmpdir={directory}",
            # A worker gives up an application whose executors keep dying; here that is nobody's fault.
            "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        }
        self.daemons: list[Started] = []

    def start(self) -> None:
        self._daemon("master.Master", "127.0.0.1", "--port", str(self.port))
        for number in (1, 2):
            # Cores for two executors: those of a killed driver may still be there when its successor comes. Spark
            # starts no speculative copy on the host of the first attempt, so the workers have addresses of their own.
            address = f"127.0.0.{number + 1}" if sys.platform == "linux" else "127.0.0.1"
            size = ("--cores", "2", "--memory", "2g", "--work-dir", str(self.directory / f"worker-{number}"))
            self._daemon("worker.Worker", address, *size, self.url)

    def _daemon(self, name: str, address: str, *words: str) -> None:
        log = self.directory / f"{name}-{len(self.daemons)}.log"
        place = ("--host", address, "--webui-port", "0")
        words = (str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", *place, *words)
        self.daemons.append(Started(words, log, {**self.environment, "SPARK_LOCAL_IP": address}))

    def executors(self) -> list[int]:
        """Return the processes that run as executors."""
        return [pid for pid, line in self._members() if "CoarseGrainedExecutorBackend" in line]

    def python_workers(self) -> list[int]:
        """Return the Python processes that work for executors: those that a daemon of an executor has forked."""
        daemons = {pid for pid, line in self._members() if "pyspark.daemon" in line}
        return [pid for pid in daemons if parent(pid) in daemons]

    def _members(self) -> Iterator[tuple[int, str]]:
        for daemon in self.daemons[1:]:
            for pid in session_members(daemon.process.pid):
                try:
                    yield pid, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:
                    continue

    def check(self) -> None:
        """Raise AssertionError when the master or a worker has ended."""
        for daemon in self.daemons:
            assert not daemon.ended, daemon.last_lines()

    def stop(self) -> None:
        """End every process of the cluster."""
        for daemon in reversed(self.daemons):
            daemon.kill()


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; return whether there was such a process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def parent(pid: int) -> int:
    """Return the process ID of a process's parent, 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0
