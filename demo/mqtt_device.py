"""A simulated device and a backend of the MQTT demo: MQTT 5 clients that connect again whenever a connection breaks."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import (
    Connack,
    Connect,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
)
from streamd.clients.mqtt.codec.properties import Property

VERSION = 5
SESSION_S = 3_600
IN_FLIGHT_MAX = 5  # readings of a device that are not yet answered
READ_BYTES = 65_536


class Client:
    """A session that outlives its connections."""

    def __init__(self, name: str, port: int) -> None:
        self.name, self.port = name, port
        self.connections = 0
        self._is_new = True  # until the gateway has said that it has a session of this client
        self._writer: asyncio.StreamWriter | None = None

    async def packets(self) -> AsyncIterator[Packet]:
        """Connect, and yield what comes; after a broken connection connect again. The first packet is a CONNACK."""
        while True:
            decoder = Decoder(from_client=False, version=VERSION)
            try:
                reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
                self.connections += 1
                properties: Properties = {Property.SESSION_EXPIRY_INTERVAL: SESSION_S}
                self.send(Connect(VERSION, self.name, self._is_new, properties=properties))
                while data := await reader.read(READ_BYTES):
                    for packet in decoder.feed(data):
                        if isinstance(packet, Connack):
                            if packet.reason:
                                break  # the gateway cannot reach the server yet
                            self._is_new = False
                        yield packet
            except OSError:
                pass
            finally:
                self.close()
            await asyncio.sleep(0.05)

    def send(self, packet: Packet) -> None:
        """Send a packet; without a connection it is lost."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(encode(packet, VERSION))

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()


class Device(Client):
    """Publishes its readings: with QoS 1 and a name for each reading (`iid`), or with QoS 2 and no name."""

    def __init__(self, name: str, port: int, qos: int, readings: Sequence[str], pause_s: float) -> None:
        super().__init__(name, port)
        self.qos, self.readings, self.acknowledged = qos, readings, 0
        self._pause_s = pause_s
        self._in_flight: dict[int, Publish | Pubrel] = {}  # by packet identifier, in the order of their first sending
        self._taken = 0
        self._may_go_on = asyncio.Event()
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def run(self) -> None:
        """Publish all readings; return when each of them is acknowledged."""
        measuring = asyncio.create_task(self._measure())
        packets = self.packets()
        try:
            while self.acknowledged < len(self.readings):
                self._receive(await anext(packets))
        finally:
            measuring.cancel()
            await packets.aclose()  # type: ignore[attr-defined]

    async def _measure(self) -> None:
        for number, reading in enumerate(self.readings):
            await self._room.acquire()
            packet_id = number % 65_535 + 1
            names = (("iid", f"reading-{number}"),) if self.qos == 1 else ()
            properties: Properties = {Property.USER_PROPERTY: names} if names else {}
            topic = f"devices/{self.name}/temperature".encode()
            packet = Publish(topic, reading.encode(), self.qos, packet_id=packet_id, properties=properties)
            self._in_flight[packet_id] = packet
            if self._may_go_on.is_set():
                self.send(packet)
            await asyncio.sleep(self._pause_s)

    def _receive(self, packet: Packet) -> None:
        if isinstance(packet, Connack):
            self._may_go_on.set()
            for one in self._in_flight.values():
                self.send(one._replace(dup=True) if isinstance(one, Publish) else one)
        elif isinstance(packet, Puback | Pubrec) and packet.reason >= 0x80:
            self.close()  # the server has refused the reading: it is sent again in the next connection
        elif isinstance(packet, Pubrec):
            if packet.packet_id in self._in_flight:
                self._in_flight[packet.packet_id] = Pubrel(packet.packet_id)
            self.send(Pubrel(packet.packet_id))
        elif isinstance(packet, Puback | Pubcomp) and self._in_flight.pop(packet.packet_id, None) is not None:
            self.acknowledged += 1
            self._room.release()

    def close(self) -> None:
        """Close the connection; readings wait for the next one."""
        self._may_go_on.clear()
        super().close()


class Backend(Client):
    """Subscribes with QoS 2, and notes each reading once.

    A reading that was published with QoS 1 may come twice, and is recognised by its name.
    """

    def __init__(self, name: str, port: int, filter: str) -> None:
        super().__init__(name, port)
        self.filter = filter
        self.readings: dict[str, list[float]] = {}
        self.count = 0
        self.is_subscribed = asyncio.Event()
        self.repeated = 0
        self._unreleased: set[int] = set()
        self._names: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Receive until it is cancelled."""
        async for packet in self.packets():
            if isinstance(packet, Connack):
                if not packet.session_present:
                    self._unreleased.clear()
                self.send(Subscribe(1, (Subscription(self.filter, 2),)))
            elif isinstance(packet, Publish):
                self._take(packet)
            elif isinstance(packet, Pubrel):
                self._unreleased.discard(packet.packet_id)
                self.send(Pubcomp(packet.packet_id))
            elif isinstance(packet, Suback):
                self.is_subscribed.set()

    def _take(self, packet: Publish) -> None:
        device = packet.topic.split(b"/")[1].decode()
        if packet.qos == 2:
            is_new = packet.packet_id not in self._unreleased
            self._unreleased.add(packet.packet_id)
            self.send(Pubrec(packet.packet_id))
        else:
            name = device, iid_of(packet)
            is_new = name not in self._names
            self._names.add(name)
            self.send(Puback(packet.packet_id))
        if is_new:
            self.readings.setdefault(device, []).append(float(packet.payload))
            self.count += 1
        else:
            self.repeated += 1


def iid_of(packet: Publish) -> str:
    """Return the name that a device has given to its message."""
    pairs = packet.properties.get(Property.USER_PROPERTY, ())
    assert isinstance(pairs, tuple)
    return dict(pairs)["iid"]  # type: ignore[arg-type]
