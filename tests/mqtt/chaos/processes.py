"""The processes of a broker under test, which are killed and started again: store and gateway, or mosquitto."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import redis

from bench.ports import free_port
from scripts.newest_redis import newest_redis
from streamd.clients.topics import TopicLog
from tests.mqtt.chaos.records import Stored, key_of

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
ROOT = Path(__file__).resolve().parents[3]
STARTS_MAX = 40
PAUSE_S = 0.25
STOP_S = 30
LOG = "mqtt"


class Ended(Exception):
    """A process ended that nobody has killed; the text has its last words."""


class Killable:
    """A process on a port that stays. `kill` ends it as a power failure does, `start` starts it again."""

    name = ""
    ready = ""  # what a line of its output has when it is ready
    is_ready_on_stderr = False

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, free_port()
        directory.mkdir(parents=True, exist_ok=True)
        self.kills = self.freezes = self.stops = 0
        self.is_frozen = False
        self.failed_starts = 0
        self._errors = directory / f"{self.name}.err"
        self._process: subprocess.Popen[str] | None = None

    def words(self) -> list[str]:
        """Return the command."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the process and wait until it is ready. Raises: Ended, when it ends instead, again and again."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # this checkout, and no other one that is installed
        for _ in range(STARTS_MAX):
            with self._errors.open("a") as errors:
                other = subprocess.STDOUT if self.is_ready_on_stderr else errors
                process = subprocess.Popen(
                    self.words(), cwd=self.directory, stdout=subprocess.PIPE, stderr=other, text=True, env=environment
                )
            self._process = process
            assert process.stdout is not None
            for line in process.stdout:
                if self.ready in line:
                    # A pipe that nobody reads would stop the process when it is full.
                    threading.Thread(target=_drain, args=(process.stdout,), daemon=True).start()
                    return
            process.wait()
            self.failed_starts += 1
            threading.Event().wait(PAUSE_S)
        raise Ended(f"{self.name} does not start: {self.last_words()}")

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self.check()
        self.kills += 1
        self.stop()

    def terminate(self) -> None:
        """Let the process end in an orderly way. Raises: TimeoutExpired."""
        assert self._process is not None
        self.check()
        self.stops += 1
        self._process.terminate()
        self._process.wait(STOP_S)

    def freeze(self) -> None:
        """SIGSTOP: the process does nothing, and its connections stay open."""
        assert self._process is not None
        self.check()
        self.freezes += 1
        self.is_frozen = True
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self.is_frozen = False

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def check(self) -> None:
        """Raise Ended, if the process has ended by itself."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise Ended(f"{self.name} ended by itself with code {code}: {self.last_words()}")

    def last_words(self) -> str:
        """Return the end of what it wrote to stderr."""
        return self._errors.read_text(errors="replace")[-2_000:] if self._errors.exists() else ""


def _drain(pipe: IO[str]) -> None:
    for _ in pipe:
        pass


class Streamd(Killable):
    """A server whose journal is synced before each reply."""

    name, ready = "streamd", "Ready to accept connections"

    def words(self) -> list[str]:
        """Return the command."""
        options = ["--port", str(self.port), "--dir", str(self.directory / "data")]
        return [sys.executable, "-m", "streamd", "serve", *options, "--appendonly", "yes", "--appendfsync", "always"]


class Redis(Killable):
    """Redis 8.10.2 with the same promise."""

    name, ready = "redis", "Ready to accept connections"

    def words(self) -> list[str]:
        """Return the command."""
        options = f"--port {self.port} --bind 127.0.0.1 --appendonly yes --appendfsync always --save".split()
        return [str(newest_redis()), *options, ""]


STORES: dict[str, type[Killable]] = {"streamd": Streamd, "redis": Redis}


class Gateway(Killable):
    """`streamd mqtt` before a store."""

    name, ready = "gateway", "  ready"

    def __init__(self, directory: Path, store: Killable, *options: str, name: str = name) -> None:
        self.name = name
        super().__init__(directory)
        self._store, self._options = store, options

    def words(self) -> list[str]:
        """Return the command."""
        url = f"redis://127.0.0.1:{self._store.port}"
        return [sys.executable, "-m", "streamd", "mqtt", "--url", url, "--port", str(self.port), *self._options]


class Mosquitto(Killable):
    """mosquitto that keeps whatever its sessions have not had."""

    name, ready = "mosquitto", " running"
    is_ready_on_stderr = True  # its stdout has a buffer

    def words(self) -> list[str]:
        """Return the command."""
        assert MOSQUITTO is not None
        lines = [f"listener {self.port} 127.0.0.1", "allow_anonymous true", "user root", "log_dest stderr"]
        lines += ["max_queued_messages 0", "max_inflight_messages 20"]
        (self.directory / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        return [MOSQUITTO, "-c", str(self.directory / "mosquitto.conf")]


def read_log(port: int, name: str = LOG) -> list[Stored]:
    """Return all entries of a store's log."""
    client = redis.Redis(port=port)
    log = TopicLog.open(client, name)
    iterator, found = log.iterator(), []
    while True:
        entries, iterator, state = log.next(iterator, 1_000)
        found += [Stored(key_of(entry.payload), entry.topic, entry.publisher, entry.place) for entry in entries]
        if state == "live" and not entries:
            client.close()
            return found
