"""A mosquitto of a test's own, and clients that ask it who may do what."""

import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

DEADLINE_S = 60
# Debian has the server where only root looks by itself.
PROGRAM = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
needs_mosquitto = pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed")


class Mosquitto:
    """A running mosquitto: `port` of 127.0.0.1; `lines` are those of its log so far."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.port, self.lines, self._process = port, [], process
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, word: str, *, after: int = 0) -> bool:
        """Return whether a line with `word` came behind the first `after` lines; False when the process ended first."""

        def is_there() -> bool:
            return any(word in line for line in self.lines[after:])

        with self._news:
            assert self._news.wait_for(lambda: is_there() or not self._reader.is_alive(), DEADLINE_S), self.lines
            return is_there()

    def reload(self) -> None:
        """Have it read its files again; return when it has."""
        before = len(self.lines)
        self._process.send_signal(signal.SIGHUP)
        assert self.wait_for("Reloading config", after=before)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        self._process.wait()
        self._reader = threading.Thread()  # never started: not alive
        with self._news:
            self._news.notify_all()


@contextmanager
def mosquitto(directory: Path, files: Mapping[str, str | bytes], *options: str) -> Iterator[Mosquitto | list[str]]:
    """Start one with an `acl_file` or `password_file`, by their text; yields its log when it refuses to start."""
    assert PROGRAM is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lines = ["user root", f"listener {port} 127.0.0.1", "log_dest stderr", "log_type all", *options]
    for name, text in files.items():
        (directory / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        lines.append(f"{name} {directory / name}")
    (directory / "mosquitto.conf").write_text("\n".join(lines) + "\n")
    process = subprocess.Popen(
        [PROGRAM, "-c", str(directory / "mosquitto.conf")], stderr=subprocess.PIPE, text=True, errors="replace"
    )
    try:
        broker = Mosquitto(process, port)
        yield broker if broker.wait_for(" running") else broker.lines
    finally:
        process.kill()  # a SIGTERM just after its start is lost
        process.wait(DEADLINE_S)


class Client:
    """A connected MQTT 5 client that asks one thing at a time. Raises: ConnectionRefusedError with the reason."""

    def __init__(self, port: int, client_id: str, username: str | None = None, password: str | None = None) -> None:
        self._answers: dict[object, object] = {}
        self._news = threading.Condition()
        self.received: list[str] = []
        self._client = client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5, reconnect_on_failure=False
        )
        if username is not None:
            client.username_pw_set(username, password)
        client.on_connect = lambda _client, _data, _flags, reason, _properties: self._answer("connect", reason.value)
        client.on_disconnect = lambda _client, _data, _flags, reason, _properties: self._answer("gone", reason.value)
        client.on_publish = lambda _client, _data, mid, reason, _properties: self._answer(mid, reason.value)
        client.on_subscribe = lambda _client, _data, mid, reasons, _properties: self._answer(mid, reasons[0].value)
        client.on_message = lambda _client, _data, message: self.received.append(message.topic)
        client.max_inflight_messages_set(1_000)
        properties = Properties(PacketTypes.CONNECT)
        client.connect("127.0.0.1", port, properties=properties)
        client.loop_start()
        reason = self._wait("connect")
        if reason:
            self.close()
            raise ConnectionRefusedError(reason)

    def publish(self, topics: Iterable[str]) -> list[bool]:
        """Publish to each topic; return which of them mosquitto accepts."""
        mids = [self._client.publish(topic, topic, qos=1).mid for topic in topics]
        return [self._wait(mid) not in (0x87, "gone") for mid in mids]

    def subscribe(self, topic_filter: str) -> bool:
        """Return whether mosquitto accepts a subscription; all it sent before is in `received` then."""
        return self._wait(self._client.subscribe(topic_filter)[1]) < 0x80

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, question: object, answer: object) -> None:
        with self._news:
            self._answers[question] = answer
            self._news.notify_all()

    def _wait(self, question: object) -> object:
        with self._news:
            assert self._news.wait_for(lambda: question in self._answers or "gone" in self._answers, DEADLINE_S)
            return self._answers.pop(question, "gone")


def password_program() -> str:
    """Return where mosquitto_passwd is; skips the test where it is not."""
    return shutil.which("mosquitto_passwd") or pytest.skip("mosquitto_passwd is not installed")
