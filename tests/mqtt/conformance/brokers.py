"""The brokers that the cases run on: the gateway, and mosquitto as a witness."""

import hashlib
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.ports import free_port
from tests.integration.process import ServerProcess
from tests.mqtt.access.judge import PROGRAM, Mosquitto

WITNESS = "2.0.11"  # the table of its deviations is that of this version
USER, PASSWORD = "ann", b"secret"
FORBIDDEN = "forbidden"  # nobody may publish or subscribe below it
PACKET_BYTES_MAX = 200_000
RECEIVE_MAXIMUM = 200
TOPIC_ALIAS_MAX = 10
# The limits of a gateway whose clients are to run into them.
SMALL = {
    "keep-alive-max": 1,
    "session-expiry-max": 1,
    "topic-alias-max": 0,
    "receive-maximum": 2,
    "in-flight-max": 2,
    "packet-bytes-max": 1_024,
    "subscriptions-max": 3,
}
RIGHTS = """topic readwrite #
topic read $SYS/#
topic deny forbidden/#
user ann
topic readwrite #
"""


class Broker(NamedTuple):
    """A running broker: its port, and that of WebSockets.

    says_why: it sends the DISCONNECT that 5.0 recommends before a close. closes_late_s: so long behind one and a half
    keep alives it may close.
    """

    name: str
    port: int
    ws_port: int
    says_why: bool
    closes_late_s: float


def _files(directory: Path) -> tuple[Path, Path]:
    salt = b"0123456789ab"
    digest = hashlib.pbkdf2_hmac("sha512", PASSWORD, salt, 101)
    passwords, rights = directory / "passwords", directory / "rights"
    passwords.write_text(f"{USER}:$7$101${b64encode(salt).decode()}${b64encode(digest).decode()}\n")
    rights.write_text(RIGHTS)
    return passwords, rights


@contextmanager
def mosquitto(directory: Path) -> Iterator[Broker]:
    """Start mosquitto 2.0.11; skips where it is not installed."""
    if PROGRAM is None:
        pytest.skip("mosquitto is not installed")
    said = subprocess.run([PROGRAM, "-h"], capture_output=True, text=True, timeout=60).stdout
    if WITNESS not in said.split():
        pytest.skip(f"the deviations that are listed are those of mosquitto {WITNESS}")
    port, ws_port = free_port(), free_port()
    passwords, rights = _files(directory)
    lines = (
        "user root",
        f"listener {port} 127.0.0.1",
        f"listener {ws_port} 127.0.0.1",
        "protocol websockets",
        "allow_anonymous true",
        f"password_file {passwords}",
        f"acl_file {rights}",
        f"max_packet_size {PACKET_BYTES_MAX}",
        f"max_inflight_messages {RECEIVE_MAXIMUM}",
        "max_queued_messages 0",
        "log_dest stderr",
        "log_type notice",
        "log_type error",
        "log_type information",
    )
    (directory / "mosquitto.conf").write_text("\n".join(lines) + "\n")
    words = [PROGRAM, "-c", str(directory / "mosquitto.conf")]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, errors="replace")
    try:
        broker = Mosquitto(process, port)
        assert broker.wait_for(" running"), broker.lines
        yield Broker("mosquitto", port, ws_port, says_why=False, closes_late_s=8.0)
    finally:
        process.kill()  # a SIGTERM just after its start is lost
        process.wait(20)


@contextmanager
def gateway(directory: Path) -> Iterator[Broker]:
    """Start `streamd serve` and `streamd mqtt`; skips where there is no such command."""
    passwords, rights = _files(directory)
    limits = {
        "packet-bytes-max": PACKET_BYTES_MAX,
        "receive-maximum": RECEIVE_MAXIMUM,
        "topic-alias-max": TOPIC_ALIAS_MAX,
    }
    files = ("--password-file", str(passwords), "--acl-file", str(rights), "--allow-anonymous")
    with (
        ServerProcess(directory / "store", "--bind", "127.0.0.1") as store,
        running_gateway(directory, limits, "--url", f"redis://127.0.0.1:{store.port}", *files) as (_, broker),
    ):
        yield broker


@contextmanager
def running_gateway(
    directory: Path, limits: dict[str, int], *options: str
) -> Iterator[tuple[subprocess.Popen[str], Broker]]:
    """Start `streamd mqtt`; skips where there is no such command."""
    streamd = [sys.executable, "-m", "streamd", "mqtt"]
    if subprocess.run([*streamd, "--help"], capture_output=True, timeout=60).returncode:
        pytest.skip("this version has no `streamd mqtt`")
    words = [word for name, value in limits.items() for word in (f"--{name}", str(value))]
    words += ["--bind", "127.0.0.1", "--port", "0", "--ws-port", "0", *options]
    with (directory / "gateway.log").open("w") as log:
        process = subprocess.Popen([*streamd, *words], stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        ports = _ports_of(process)
        if "mqtt" not in ports:
            raise AssertionError(f"the gateway ended at its start: {(directory / 'gateway.log').read_text()}")
        yield process, Broker("gateway", ports["mqtt"], ports.get("ws", 0), says_why=True, closes_late_s=3.0)
    finally:
        process.terminate()
        process.wait(20)


@contextmanager
def limited_gateway(directory: Path) -> Iterator[Broker]:
    """Start a gateway with small limits and a server of its own."""
    with running_gateway(directory, SMALL, "--dir", str(directory / "own")) as (_, broker):
        yield broker


def _ports_of(process: subprocess.Popen[str]) -> dict[str, int]:
    assert process.stdout is not None
    ports = {}
    for line in process.stdout:
        if found := re.match(r"\s+(mqtt|ws)\s+.*:(\d+)\b", line):
            ports[found[1]] = int(found[2])
        if line.strip() == "ready":
            break
    return ports


BROKERS = {"mosquitto": mosquitto, "gateway": gateway}
