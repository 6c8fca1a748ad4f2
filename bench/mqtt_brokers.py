"""The brokers that the rows of MQTT compare: mosquitto, and a gateway with its store."""

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.ports import free_port
from bench.servers import COMPILED, Target, environment

START_S = 60.0
# Debian has it where only root looks by itself.
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
PLAIN, PERSISTENT, PURE, FAST = "mosquitto", "mosquitto, persistence", "streamd", "compiled"


class NotStarted(SystemExit):
    """The gateway ended before it was ready. exit_code: its own, which the benchmark does not take over."""

    def __init__(self, said: str, exit_code: int) -> None:
        super().__init__(f"bench: streamd mqtt did not start: {said}")
        self.exit_code = exit_code


class Broker:
    """A running broker. processes: those whose CPU is counted."""

    def __init__(self, kind: str, port: int, processes: list[int]) -> None:
        self.kind, self.port, self.processes = kind, port, processes


def kinds() -> list[str]:
    """Return the kinds of brokers that are installed."""
    return [
        *([PLAIN, PERSISTENT] if MOSQUITTO else []),
        PURE,
        *([FAST] if COMPILED.is_file() else []),
    ]


@contextmanager
def running(kind: str, store_options: tuple[str, ...], gateway_options: tuple[str, ...] = ()) -> Iterator[Broker]:
    """Start a broker; it is ended, and its data removed, behind the block. store_options: of the gateway's store."""
    if kind in (PLAIN, PERSISTENT):
        with _mosquitto(kind) as broker:
            yield broker
        return
    with Target(kind, store_options) as store, gateway_on(store, gateway_options) as broker:
        yield Broker(kind, broker.port, [store.process.pid, *broker.processes])


@contextmanager
def gateway_on(store: Target, options: tuple[str, ...] = ()) -> Iterator[Broker]:
    """Start a gateway of the store's form on a store that runs; it is ended behind the block. Raises: NotStarted."""
    python = [sys.executable] if store.kind == PURE else [str(COMPILED), "-P"]
    command = [*python, "-m", "streamd", "mqtt", "--url", f"redis://127.0.0.1:{store.port}", "--port", "0", *options]
    process = subprocess.Popen(
        command, env=environment(store.kind), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield Broker(store.kind, _port_of_gateway(process), [process.pid])
    finally:
        _end(process)


def _port_of_gateway(process: subprocess.Popen[str]) -> int:
    """Return the port that the gateway's first lines say, when it has said that it is ready."""
    assert process.stdout is not None
    port, lines = 0, []
    # (A gateway that says nothing at all is ended, and with it its output.)
    watch = threading.Timer(START_S, process.kill)
    watch.start()
    for line in process.stdout:
        lines.append(line.rstrip())
        words = line.split()
        if words[:1] == ["mqtt"]:
            port = int(words[1].rpartition(":")[2])
        if words == ["ready"]:
            break
    watch.cancel()
    if not port or lines[-1].split() != ["ready"]:
        raise NotStarted(" / ".join(lines[-3:]), process.wait(timeout=START_S))
    threading.Thread(target=process.stdout.read, daemon=True).start()  # so that it never waits for a reader
    return port


@contextmanager
def _mosquitto(kind: str) -> Iterator[Broker]:
    assert MOSQUITTO is not None
    with tempfile.TemporaryDirectory(prefix="streamd-bench-") as directory:
        port, lines = free_port(), ["user root", "allow_anonymous true", "max_queued_messages 0", "log_type error"]
        lines.append(f"listener {port} 127.0.0.1")
        if kind == PERSISTENT:
            lines += ["persistence true", f"persistence_location {directory}/"]
        path = Path(directory, "mosquitto.conf")
        path.write_text("\n".join(lines) + "\n")
        process = subprocess.Popen(
            [MOSQUITTO, "-c", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
        )
        try:
            _wait_for(process, port)
            yield Broker(kind, port, [process.pid])
        finally:
            _end(process)


def _wait_for(process: subprocess.Popen[str], port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise SystemExit("bench: mosquitto did not start")


def _end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
