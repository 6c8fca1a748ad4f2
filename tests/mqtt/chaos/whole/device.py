"""A small device, of which a process has ten thousand: it sends named readings, and takes commands of QoS 2 once."""

import asyncio
import random
from dataclasses import dataclass, field

from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import (
    Connack,
    Connect,
    Disconnect,
    Packet,
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
from tests.mqtt.chaos.records import Delivery, Message, Received, Record, key_of, payload_of

SESSION_EXPIRY_S = 3_600
KEEP_ALIVE_S = 600
ANSWER_S = 6.0
RETRY_S = (0.1, 2.0)
AT_ONCE = 64  # connections that are being made: fewer than the backlog of a listener


@dataclass
class Fleet:
    """What the devices have in common. interval_s: between two readings of one; cut: the share that is sent over a
    connection that is cut before the answer. is_over: no reading is sent any more."""

    record: Record
    places: list[tuple[str, int]]
    interval_s: float
    seed: int
    cut: float = 0.3
    is_over: bool = False
    in_flight: int = 0
    subscribed: int = 0
    delivered: int = 0
    latencies_s: list[float] = field(default_factory=list)
    making: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))


class Device:
    """One device: a reading in flight at a time, and the connection that it has now, if any."""

    def __init__(self, name: str, fleet: Fleet, received: Received) -> None:
        self.name, self.fleet, self.received = name, fleet, received
        self.links = 0
        self.in_flight: Message | None = None
        self.unreleased: set[int] = set()
        self.sent_s: dict[str, float] = {}
        self.is_subscribed = self.is_stopping = False
        self.link: Link | None = None
        self._numbers = 0
        self._chance = random.Random(f"{fleet.seed}/{name}")
        self._topic = f"chaos/{self._chance.randrange(10)}/{name}/a"
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._waiting: asyncio.TimerHandle | None = None

    def event(self, what: str, key: str = "") -> None:
        self.fleet.record.event(self.name, what, key, self.links)

    def begin(self) -> None:
        """Send readings from now on, the first at a random time."""
        self._loop.call_later(self._chance.random() * self.fleet.interval_s, self.read)

    def connect(self, after_s: float = 0.0) -> None:
        """Connect to any gateway, again and again until one takes it."""
        if not self.is_stopping:
            self._loop.call_later(after_s, self._begin_connecting)

    def stop(self) -> None:
        """End the connection."""
        self.is_stopping = True
        if self.link is not None:
            self.link.abort()

    def _begin_connecting(self) -> None:
        self._task = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        async with self.fleet.making:
            self.links += 1
            link = Link(self)
            try:
                await self._loop.create_connection(lambda: link, *self._chance.choice(self.fleet.places))
                await asyncio.wait_for(asyncio.shield(link.is_let_in), ANSWER_S)
            except (OSError, TimeoutError):
                link.abort()
                self.fleet.record.counts["connections of devices that failed"] += 1
                self.connect(self._chance.uniform(*RETRY_S))

    def connected(self, link: "Link", connack: Connack) -> None:
        """Go on where the connection before ended."""
        self.link = link
        self.fleet.record.counts["connections of devices"] += 1
        self.event(f"connected, session present {int(connack.session_present)}")
        if self.is_subscribed and not connack.session_present:
            self.fleet.record.fault(self.name, "the broker forgot the session", link=self.links)
        if not connack.session_present:
            self.unreleased.clear()
            link.send(Subscribe(1, (Subscription(self.received.filter, 2),)))
        if self.in_flight is not None:
            self._send(self.in_flight)

    def lost(self, link: "Link") -> None:
        """Connect again."""
        if self.link is link:
            self.link = None
            self.connect(self._chance.uniform(*RETRY_S))

    def read(self) -> None:
        """Send a reading, and at random times others."""
        fleet = self.fleet
        if fleet.is_over or self.is_stopping:
            return
        self._loop.call_later(self._chance.expovariate(1 / fleet.interval_s), self.read)
        if self.in_flight is not None:
            return
        self._numbers += 1
        key = f"{self.name}/{self._numbers}"
        self.in_flight = fleet.record.messages[key] = Message(key, self.name, self._topic, self._numbers, 1, True)
        fleet.in_flight += 1
        self.sent_s[key] = self._loop.time()
        self._send(self.in_flight)

    def _send(self, message: Message) -> None:
        link = self.link
        if link is None:
            return
        message.sends += 1
        self.event(f"PUBLISH, sent {message.sends} times", message.key)
        properties = {Property.USER_PROPERTY: (("iid", message.key),)}
        packet_id = (message.number - 1) % 65_535 + 1
        payload = payload_of(message.key, 40)
        link.send(Publish(message.topic.encode(), payload, 1, False, message.sends > 1, packet_id, properties))
        if self._chance.random() < self.fleet.cut and not self.fleet.is_over:
            self.event("cuts the connection", message.key)
            link.close()
            return
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = self._loop.call_later(ANSWER_S, self._give_up, link, message)

    def _give_up(self, link: "Link", message: Message) -> None:
        if self.in_flight is message and self.link is link:
            self.fleet.record.counts[f"no PUBACK within {ANSWER_S:.0f} s"] += 1
            link.abort()

    def receive(self, link: "Link", packet: Packet) -> None:
        """Take a packet of the newest connection."""
        if isinstance(packet, Publish):
            self._take(link, packet)
        elif isinstance(packet, Pubrel):
            self.unreleased.discard(packet.packet_id)
            link.send(Pubcomp(packet.packet_id))
        elif isinstance(packet, Puback):
            message = self.in_flight
            if message is None or packet.reason >= 0x80:
                self.fleet.record.fault(self.name, f"PUBACK {packet.reason:#04x} to nothing", link=self.links)
            else:
                self.event("PUBACK", message.key)
                message.is_acknowledged = True
                self.in_flight = None
                self.fleet.in_flight -= 1
        elif isinstance(packet, Suback) and not self.is_subscribed:
            self.is_subscribed = True
            self.fleet.subscribed += 1

    def _take(self, link: "Link", packet: Publish) -> None:
        key = key_of(packet.payload)
        self.event(f"command {packet.packet_id}{', DUP' if packet.dup else ''}", key)
        if packet.packet_id not in self.unreleased:
            self.unreleased.add(packet.packet_id)
            self.received.add(self.name, Delivery(key, packet.topic.decode(), self.links, packet.qos, packet.dup))
            self.fleet.delivered += 1
            if (sent_s := self.sent_s.pop(key, None)) is not None:
                self.fleet.latencies_s.append(self._loop.time() - sent_s)
        link.send(Pubrec(packet.packet_id))


class Link(asyncio.Protocol):
    """A connection of a device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.is_let_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._decoder = Decoder(from_client=False, version=5)
        self._transport: asyncio.Transport | None = None
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's are no subclasses
        properties = {Property.SESSION_EXPIRY_INTERVAL: SESSION_EXPIRY_S}
        self.send(Connect(5, self._device.name, False, KEEP_ALIVE_S, properties=properties))

    def data_received(self, data: bytes) -> None:
        for packet in self._decoder.feed(data):
            if self._is_over or self._device.is_stopping:
                return
            if isinstance(packet, Connack):
                if packet.reason:
                    self.abort()
                    return
                self.is_let_in.set_result(None)
                self._device.connected(self, packet)
            elif isinstance(packet, Disconnect):
                self.abort()
            else:
                self._device.receive(self, packet)

    def connection_lost(self, error: Exception | None) -> None:
        self._end()

    def send(self, packet: Packet) -> None:
        if self._transport is not None and not self._is_over:
            self._transport.write(encode(packet, 5))

    def close(self) -> None:
        """End the connection behind what was sent."""
        if self._transport is not None:
            self._transport.close()
        self._end()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            if not self.is_let_in.done():
                self.is_let_in.set_exception(ConnectionError("not let in"))
                self.is_let_in.exception()
            else:
                self._device.lost(self)
