"""A simulated device of the MQTT demo: a client of MQTT 5 that connects again, elsewhere, when a connection breaks."""

import asyncio
import itertools
from collections import Counter
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
SUBSCRIBE_ID = 65_535  # no reading has this packet identifier
COMMANDS = "commands"  # the log, and the first level of the topics
IN_FLIGHT_MAX = 5  # readings of a device that are not yet answered
READ_BYTES = 65_536


class Client:
    """A session that outlives its connections.

    ports: those of the gateways; each connection is to the next one. is_new: the client has no session yet.
    """

    def __init__(self, name: str, ports: Sequence[int], is_new: bool = True) -> None:
        self.name = name
        self.connections: Counter[int] = Counter()  # by port
        self._ports = itertools.cycle(ports)
        self._is_new = is_new  # until a gateway has said that it has a session of this client
        self._writer: asyncio.StreamWriter | None = None

    async def packets(self) -> AsyncIterator[Packet]:
        """Connect, and yield what comes; after a broken connection connect again. The first packet is a CONNACK."""
        while True:
            decoder = Decoder(from_client=False, version=VERSION)
            try:
                port = next(self._ports)
                reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
                properties: Properties = {Property.SESSION_EXPIRY_INTERVAL: SESSION_S}
                self.send(Connect(VERSION, self.name, self._is_new, properties=properties))
                while data := await reader.read(READ_BYTES):
                    for packet in decoder.feed(data):
                        if isinstance(packet, Connack):
                            if packet.reason:
                                break  # the gateway cannot reach the server yet
                            self._is_new = False
                            self.connections[port] += 1
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
    """Publishes its readings: with QoS 1 and a name for each reading (`iid`), or with QoS 2 and no name.

    It subscribes to its commands with QoS 2, and keeps what it has got in `commands`. has_memory: it recognises
    a command that comes again by its packet identifier.
    """

    def __init__(
        self, name: str, ports: Sequence[int], qos: int, readings: Sequence[str], pause_s: float, has_memory: bool
    ) -> None:
        super().__init__(name, ports)
        self.commands: list[str] = []
        self._is_subscribed = False
        self._has_memory = has_memory
        self._unreleased: set[int] = set()
        self.qos, self.readings, self.acknowledged = qos, readings, 0
        self._pause_s = pause_s
        self._in_flight: dict[int, Publish | Pubrel] = {}  # by packet identifier, in the order of their first sending
        self._taken = 0
        self._may_go_on = asyncio.Event()
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def run(self) -> None:
        """Publish all readings; return when each of them is acknowledged, and the subscription is."""
        measuring = asyncio.create_task(self._measure())
        packets = self.packets()
        try:
            while self.acknowledged < len(self.readings) or not self._is_subscribed:
                self._receive(await anext(packets))
        finally:
            measuring.cancel()
            await packets.aclose()  # type: ignore[attr-defined]

    async def listen(self) -> None:
        """Receive commands until it is cancelled."""
        async for packet in self.packets():
            self._receive(packet)

    async def _measure(self) -> None:
        for number, reading in enumerate(self.readings):
            await self._room.acquire()
            packet_id = number % (SUBSCRIBE_ID - 1) + 1
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
            if not packet.session_present:
                self._unreleased.clear()
            if not self._is_subscribed:
                self.send(Subscribe(SUBSCRIBE_ID, (Subscription(f"{COMMANDS}/{self.name}", 2),)))
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
        else:
            self._take(packet)

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, Suback):
            self._is_subscribed = True
        elif isinstance(packet, Publish):
            if packet.packet_id not in self._unreleased or not self._has_memory:
                self._unreleased.add(packet.packet_id)
                self.commands.append(packet.payload.decode())
            self.send(Pubrec(packet.packet_id))
        elif isinstance(packet, Pubrel):
            self._unreleased.discard(packet.packet_id)
            self.send(Pubcomp(packet.packet_id))

    def close(self) -> None:
        """Close the connection; readings wait for the next one."""
        self._may_go_on.clear()
        super().close()
