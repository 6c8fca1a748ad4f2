"""A gateway as a process of its own, and clients of it that say each packet."""

import re
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import Packet

STREAMD = [sys.executable, "-m", "streamd"]
TIMEOUT_S = 20.0


class Gateway:
    """A running gateway: its ports by listener, `metrics` among them."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process, self.url = process, url
        self.ports: dict[str, int] = {}
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.match(r"\s+(\w+)\s+\S*?:(?://[^:]*:)?(\d+)(?:/metrics)?$", line):
                self.ports[found[1]] = int(found[2])
            if line.strip() == "ready":
                break

    def client(self, client_id: str, version: int = 5, username: str | None = None, **more: object) -> "Client":
        """Return a client that is connected."""
        return Client(self.ports["mqtt"], client_id, version, username, **more)


@contextmanager
def gateway(url: str, *options: str) -> Iterator[Gateway]:
    """Start `streamd mqtt` on a store."""
    words = [*STREAMD, "mqtt", "--url", url, "--port", "0", *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            running = Gateway(process, url)
            assert "mqtt" in running.ports, "the gateway has not started"
            yield running
        finally:
            process.terminate()
            process.wait(TIMEOUT_S)


class Client:
    """A client of MQTT that sends and reads packets one by one."""

    def __init__(
        self, port: int, client_id: str, version: int = 5, username: str | None = None, **more: object
    ) -> None:
        self.version = version
        self._decoder = Decoder(from_client=False, version=version)
        self._packets: deque[Packet] = deque()
        self._last_id = 0
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        password = None if username is None else b"secret"
        words = {"clean_start": True, **more}
        self.send(p.Connect(version, client_id, username=username, password=password, **words))  # type: ignore
        self.connack = self.read()
        assert isinstance(self.connack, p.Connack), self.connack

    def send(self, packet: Packet) -> None:
        self._socket.sendall(encode(packet, self.version))

    def read(self) -> Packet | None:
        """Return the next packet; None at the end of the connection."""
        while not self._packets:
            data = self._socket.recv(65_536)
            if not data:
                return None
            self._packets += self._decoder.feed(data)
            assert self._decoder.fault is None, self._decoder.fault
        return self._packets.popleft()

    def subscribe(self, filter: str, qos: int = 0, **options: object) -> tuple[int, ...]:
        self._last_id += 1
        self.send(p.Subscribe(self._last_id, (p.Subscription(filter, qos, **options),)))  # type: ignore[arg-type]
        suback = self.read()
        assert isinstance(suback, p.Suback), suback
        return suback.reasons

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> int:
        """Publish with QoS 1; return the reason in PUBACK."""
        self._last_id += 1
        self.send(p.Publish(topic.encode(), payload, 1, retain, packet_id=self._last_id))
        puback = self.read()
        assert isinstance(puback, p.Puback), puback
        return puback.reason

    def messages(self, count: int) -> list[p.Publish]:
        """Return the next messages."""
        found = [self.read() for _ in range(count)]
        assert all(isinstance(one, p.Publish) for one in found), found
        return found  # type: ignore[return-value]

    def ping(self) -> list[p.Publish]:
        """Return the messages that have come until the gateway answers a PINGREQ."""
        self.send(p.Pingreq())
        found: list[p.Publish] = []
        while isinstance(packet := self.read(), p.Publish):
            found.append(packet)
        assert isinstance(packet, p.Pingresp), packet
        return found

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
