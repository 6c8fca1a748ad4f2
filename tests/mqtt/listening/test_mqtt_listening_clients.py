"""paho gets through each listener, and exchanges packets with a stub that answers CONNECT and PUBLISH."""

import asyncio
import ssl
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from tests.mqtt.listening.front import DEADLINE_S, Certificates, Echo, Run, front

PAYLOADS = [bytes((number,)) * 20_000 for number in range(20)]


class Stub(Echo):
    """Answers CONNECT and PUBLISH, and sends each PUBLISH back."""

    def __init__(self, kind: str, names_wanted: bool) -> None:
        super().__init__(kind, names_wanted)
        self.decoder = Decoder()

    def data_received(self, data: bytes) -> None:
        for packet in self.decoder.feed(data):
            if isinstance(packet, packets.Connect):
                self.transport.write(encode(packets.Connack(False), 4))
            elif isinstance(packet, packets.Publish):
                self.received.append(packet.payload)
                self.transport.write(encode(packets.Puback(packet.packet_id), 4))
                self.transport.write(encode(packets.Publish(packet.topic, packet.payload), 4))
            elif isinstance(packet, packets.Disconnect):
                self.transport.close()


def publish(kind: str, host: str, port: int, context: ssl.SSLContext) -> list[bytes]:
    """Publish the payloads with QoS 1; return those that came back."""
    back: list[bytes] = []
    transport = {"ws": "websockets", "wss": "websockets", "unix": "unix"}.get(kind, "tcp")
    client = paho.Client(CallbackAPIVersion.VERSION2, "d7", transport=transport)  # type: ignore[arg-type]
    client.on_message = lambda _client, _data, message: back.append(message.payload)
    if kind in ("mqtts", "wss"):
        client.tls_set_context(context)
    client.connect(host, port)
    client.loop_start()
    try:
        for payload in PAYLOADS:
            client.publish("a", payload, qos=1).wait_for_publish(DEADLINE_S)
    finally:
        client.disconnect()
        client.loop_stop()
    return back


@pytest.mark.parametrize("kind", ["mqtt", "mqtts", "ws", "wss", "unix"])
def test_paho_publishes_at_each_listener(run: Run, certificates: Certificates, tmp_path: Path, kind: str):
    path = tmp_path / "mqtt.sock"
    ports = {"port": 0, "tls_port": 0, "ws_port": 0, "tls_ws_port": 0, "unix": path}
    context = certificates.client.context(certificates.ca)

    async def main() -> None:
        async with front(Stub, **ports, tls_ca=certificates.ca.cert, **certificates.options()) as one:
            host, port = (str(path), 1) if kind == "unix" else ("localhost", one.port(kind))
            back = await asyncio.to_thread(publish, kind, host, port, context)
            assert one.made[0].received == PAYLOADS
            assert back == PAYLOADS[: len(back)]
            assert len(back) >= len(PAYLOADS) - 1
            await asyncio.wait_for(one.made[0].ended, DEADLINE_S)

    run(main)
