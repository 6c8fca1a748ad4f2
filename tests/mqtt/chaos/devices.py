"""A device that publishes over connections that break, and sends again as devices do until it has its answer."""

import asyncio
import random
from typing import NamedTuple

from streamd.clients.mqtt.codec.packets import (
    Connack,
    Connect,
    Packet,
    PropertyValue,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
)
from streamd.clients.mqtt.codec.properties import Property
from tests.mqtt.chaos.links import Link, open_link, pause, random_plan
from tests.mqtt.chaos.records import NAMED, QOS2, Message, payload_of
from tests.mqtt.chaos.world import World

PACKET_IDS = 16  # few, so that each is soon used again
BACKLOG = 10  # messages that a device without a connection has ready at most
ANSWER_S = 12.0
SESSION_EXPIRY_S = 3_600
LENGTHS_BYTES = (0, 40, 200, 3_000)


class Flight(NamedTuple):
    """A message that was sent; is_released: QoS 2, PUBREC has come."""

    message: Message
    is_released: bool = False


class Device:
    """One device. kind: `named` (QoS 1, user property iid), `qos2` (a session that lasts), `plain` (QoS 1, 3.1.1)."""

    def __init__(self, name: str, kind: str, world: World) -> None:
        chance = random.Random(f"{world.seed}/{name}")
        self.name, self.kind = name, kind
        self.qos = 2 if kind == QOS2 else 1
        self.version = 5 if kind == NAMED else chance.choice((4, 5)) if kind == QOS2 else 4
        # With a session it sends again under the same packet identifiers, without one under new ones.
        self.keeps_session = kind == QOS2 or (kind != NAMED and chance.random() < 0.5)
        self.window = chance.choice((1, 2, 4, 8))
        self.topics = [f"chaos/{chance.randrange(world.zones)}/{name}/{sensor}" for sensor in "ab"]
        self.in_flight: dict[int, Flight] = {}
        self.links = 0
        self._world, self._chance = world, chance
        self._record = world.record
        self._numbers = 0
        self._last_id = 0
        self._has_session = False
        self._wake = asyncio.Event()
        self._hop: asyncio.Task[Link | None] | None = None  # a connection that is opened while there is one
        self._patience_s = ANSWER_S
        self._answered_at = 0.0
        self._next_at = 0.0

    def begin(self) -> None:
        """Set the time of the first message."""
        self._next_at = self._world.now() + self._chance.random() * self._world.interval_s

    async def run(self) -> None:
        """Publish until the world is over and each message has its answer."""
        while not (self._world.is_over and not self.in_flight):
            link = await self._next_link()
            if link is None:
                await pause(self._chance.uniform(0.02, 0.5))
                continue
            self._send_again(link)
            await self._publish(link)
            if self._hop is None:
                await pause(self._chance.expovariate(10))
        if self._hop is not None and (link := await self._next_link()) is not None:
            link.disconnect()

    def _event(self, what: str, key: str = "", link: int = 0) -> None:
        self._record.event(self.name, what, key, link or self.links)

    async def _next_link(self) -> Link | None:
        """Return the connection that is being opened already, or a new one."""
        hop, self._hop = self._hop, None
        return await (self._connect() if hop is None else hop)

    async def _connect(self) -> Link | None:
        self.links += 1
        number = self.links
        is_clean = not self.keeps_session
        expiry: dict[int, PropertyValue] = (
            {Property.SESSION_EXPIRY_INTERVAL: SESSION_EXPIRY_S} if self.version == 5 and not is_clean else {}
        )
        connect = Connect(self.version, self.name, is_clean, 0, properties=expiry)
        plan = None if self._world.is_over else random_plan(self._chance, self._world.packets_per_cut)
        self._patience_s = self._world.patience_s(self._chance, ANSWER_S)
        place = self._world.place(self._chance)
        self._event(f"connects to port {place[1]}")
        link, connack = await open_link(place, connect, self._receive, self._wake.set, plan, self._chance, number)
        if link is None or connack is None or connack.reason:
            why = "refused" if link is None else link.ended if connack is None else f"CONNACK {connack.reason:#04x}"
            self._record.counts[f"connecting: {why}"] += 1
            self._event(f"no connection: {why}", link=number)
            if link is not None:
                link.break_off("no CONNACK of success")
            return None
        self._event(f"connected, session present {int(connack.session_present)}", link=number)
        self._record.counts["connections of devices"] += 1
        if self.keeps_session and self._has_session and not connack.session_present:
            self._record.fault(self.name, "the broker forgot the session", link=number)
        self._has_session = True
        self._window_now = min(self.window, _receive_maximum(connack))
        return link

    def _send_again(self, link: Link) -> None:
        before, self._answered_at = self.in_flight, self._world.now()
        self.in_flight = {}
        for packet_id, flight in before.items():
            if not self.keeps_session:
                packet_id = self._free_id()
            self.in_flight[packet_id] = flight
            if flight.is_released:
                self._event(f"PUBREL {packet_id} again", flight.message.key, link.number)
                link.send(Pubrel(packet_id))
            else:
                self._send(link, packet_id, flight.message, dup=self.keeps_session)

    def _send(self, link: Link, packet_id: int, message: Message, dup: bool = False) -> None:
        if not link.is_open:
            return
        message.sends += 1
        properties: dict[int, PropertyValue] = {}
        if self.kind == NAMED:
            properties = {Property.USER_PROPERTY: (("iid", message.key),)}
        length = LENGTHS_BYTES[message.number % 4]
        self._event(
            f"PUBLISH {packet_id} sent{', DUP' if dup else ''}, topic {message.topic}", message.key, link.number
        )
        payload = payload_of(message.key, length)
        link.send(Publish(message.topic.encode(), payload, self.qos, False, dup, packet_id, properties))

    def _free_id(self) -> int:
        while True:
            self._last_id = self._last_id % PACKET_IDS + 1
            if self._last_id not in self.in_flight:
                return self._last_id

    async def _publish(self, link: Link) -> None:
        """Publish at this device's times until the connection is over, or there is nothing left to do."""
        world = self._world
        hops_at = world.hops_at(self._chance)
        while link.is_open:
            now = world.now()
            if self._hop is None and now >= hops_at and not world.is_over:
                self._event("connects although it is connected")
                self._record.counts["hops of devices"] += 1
                self._hop = asyncio.create_task(self._connect())
                self._hop.add_done_callback(lambda _: self._wake.set())
            elif self._hop is not None and self._hop.done():
                if self._hop.result() is not None:
                    link.forsake(lambda: world.judge_forsaken(self.name, link))
                    break
                self._hop, hops_at = None, world.hops_at(self._chance)
            if world.is_over and not self.in_flight:
                link.disconnect()
                break
            if self.in_flight and now - self._answered_at > self._patience_s:
                self._record.counts[f"no answer within {self._patience_s:.0f} s"] += 1
                link.break_off("no answer")
                break
            if not world.is_over and len(self.in_flight) < self._window_now and now >= self._next_at:
                self._next_at = max(self._next_at, now - BACKLOG * world.interval_s)
                self._next_at += self._chance.expovariate(1 / world.interval_s)
                self._publish_next(link)
                continue
            is_ready = not world.is_over and len(self.in_flight) < self._window_now
            await self._wait(max(0.0, self._next_at - now) if is_ready else 1.0)
        self._event(f"connection over: {link.ended}", link=link.number)
        self._record.counts[f"over: {link.ended}"] += 1
        world.judge_end(self.name, link, link.number)

    async def _wait(self, seconds: float) -> None:
        self._wake.clear()
        timer = asyncio.get_running_loop().call_later(min(seconds, 1.0), self._wake.set)
        await self._wake.wait()
        timer.cancel()

    def _publish_next(self, link: Link) -> None:
        self._numbers += 1
        key = f"{self.name}/{self._numbers}"
        topic = self._chance.choice(self.topics)
        is_once = self.kind == QOS2 or (self.kind == NAMED and self._world.is_gateway)
        message = Message(key, self.name, topic, self._numbers, self.qos, is_once)
        self._record.messages[key] = message
        packet_id = self._free_id()
        if not self.in_flight:
            self._answered_at = self._world.now()
        self.in_flight[packet_id] = Flight(message)
        self._send(link, packet_id, message)

    def _receive(self, link: Link, packet: Packet) -> None:
        if not isinstance(packet, Puback | Pubrec | Pubcomp):
            self._record.fault(self.name, f"{type(packet).__name__} to a publisher", link=link.number)
            return
        flight = self.in_flight.get(packet.packet_id)
        name = type(packet).__name__.upper()
        if flight is None:
            self._record.fault(self.name, f"{name} {packet.packet_id}, which is not in flight", link=link.number)
            return
        key = flight.message.key
        self._event(f"{name} {packet.packet_id} reason {packet.reason:#04x}", key, link.number)
        self._answered_at = self._world.now()
        if isinstance(packet, Puback) != (self.qos == 1) or (isinstance(packet, Pubcomp) and not flight.is_released):
            self._record.fault(self.name, f"{name} is the wrong answer", key, link.number)
        if packet.reason >= 0x80 and not (isinstance(packet, Pubcomp) and packet.reason == 0x92):
            self._record.counts[f"refused: {name} {packet.reason:#04x}"] += 1
            self._record.fault(self.name, f"refused with {name} {packet.reason:#04x}", key, link.number)
            del self.in_flight[packet.packet_id]
        elif isinstance(packet, Pubrec):
            # The message is the broker's from here on.
            flight.message.is_acknowledged = True
            self.in_flight[packet.packet_id] = flight._replace(is_released=True)
            link.send(Pubrel(packet.packet_id))
        else:
            flight.message.is_acknowledged = True
            del self.in_flight[packet.packet_id]
        self._wake.set()


def _receive_maximum(connack: Connack) -> int:
    value = connack.properties.get(Property.RECEIVE_MAXIMUM, 65_535)
    assert isinstance(value, int)
    return value
