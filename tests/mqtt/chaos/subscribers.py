"""A subscriber with a session that lasts: it goes away and returns, or is slow, and notes what it gets."""

import asyncio
import random
from dataclasses import dataclass

from streamd.clients.mqtt.codec.packets import (
    Connect,
    Packet,
    Pingreq,
    Pingresp,
    PropertyValue,
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
from tests.mqtt.chaos.links import Link, Plan, open_link, pause, random_plan
from tests.mqtt.chaos.records import Delivery, Received, key_of
from tests.mqtt.chaos.world import World

PING_S = 4.0
ANSWER_S = 15.0
SESSION_EXPIRY_S = 3_600


@dataclass(frozen=True)
class Manner:
    """How a subscriber behaves. packets_per_cut: how many packets its connections last on average; 0: they never break.

    answers_after_s: how long it works before it acknowledges. stops_reading_s: for so long it reads nothing, now and
    then. away_s: for so long it is gone, at most, each few seconds. receive_maximum: 0 for none (3.1.1 has none).
    """

    packets_per_cut: float = 0.0
    answers_after_s: float = 0.0
    stops_reading_s: float = 0.0
    away_s: float = 0.0
    receive_maximum: int = 0


class Subscriber:
    """One client with one subscription."""

    def __init__(
        self, name: str, version: int, qos: int, filter: str, manner: Manner, world: World, received: Received
    ) -> None:
        self.name, self.version, self.qos, self.filter, self.manner = name, version, qos, filter, manner
        self.received = received
        self.links = 0
        self.subscribed = asyncio.Event()
        self.link: Link | None = None
        self._world, self._record = world, world.record
        self._chance = random.Random(f"{world.seed}/{name}")
        self._has_session = False
        self._unreleased: dict[int, str] = {}  # QoS 2: packet identifiers whose PUBREL has not come, with the key
        self._unsent: list[Packet] = []  # answers that wait
        self._keys: dict[int, str] = {}  # of the last message with each packet identifier
        self._open: set[int] = set()  # packet identifiers of this connection that are not complete
        self._changed = asyncio.Event()
        self._hop: asyncio.Task[Link | None] | None = None  # a connection that is opened while there is one
        self._patience_s = ANSWER_S
        self._heard_at = 0.0
        self._is_stopping = False

    async def run(self) -> None:
        """Receive until `stop`."""
        while not self._is_stopping:
            link = await self._next_link()
            if link is None:
                await pause(self._chance.uniform(0.02, 0.3))
                continue
            await self._stay(link)
            if self._hop is not None:
                continue
            if self._is_stopping:
                return
            is_away = self.manner.away_s and not self._world.is_over
            await pause(self._chance.uniform(0.5, self.manner.away_s) if is_away else self._chance.expovariate(10))
        if self._hop is not None and (link := await self._next_link()) is not None:
            link.disconnect()

    def stop(self) -> None:
        """End the connection and the run."""
        self._is_stopping = True
        self._changed.set()

    def _event(self, what: str, key: str = "", link: int = 0) -> None:
        self._record.event(self.name, what, key, link or self.links)

    async def _next_link(self) -> Link | None:
        """Return the connection that is being opened already, or a new one."""
        hop, self._hop = self._hop, None
        return await (self._connect() if hop is None else hop)

    def _switch(self, link: Link) -> None:
        """Go on with a connection, and forget what belonged to the one before."""
        before, self.link = self.link, link
        if before is not None and before.is_open:
            before.forsake(lambda: self._world.judge_forsaken(self.name, before))
        self._unsent.clear()
        self._open.clear()

    async def _connect(self) -> Link | None:
        self.links += 1
        number = self.links
        properties: dict[int, PropertyValue] = {}
        if self.version == 5:
            properties = {Property.SESSION_EXPIRY_INTERVAL: SESSION_EXPIRY_S}
            if self.manner.receive_maximum:
                properties[Property.RECEIVE_MAXIMUM] = self.manner.receive_maximum
        plan: Plan | None = None
        if self.manner.packets_per_cut and self.subscribed.is_set() and not self._world.is_over:
            plan = random_plan(self._chance, self.manner.packets_per_cut)
        connect = Connect(self.version, self.name, False, 60, properties=properties)
        self._patience_s = self._world.patience_s(self._chance, ANSWER_S)
        place = self._world.place(self._chance)
        self._event(f"connects to port {place[1]}")
        link, connack = await open_link(place, connect, self._receive, self._changed.set, plan, self._chance, number)
        if link is None or connack is None or connack.reason:
            why = "refused" if link is None else link.ended if connack is None else f"CONNACK {connack.reason:#04x}"
            self._record.counts[f"connecting: {why}"] += 1
            self._event(f"no connection: {why}", link=number)
            if link is not None:
                link.break_off("no CONNACK of success")
            return None
        if link is not self.link:
            self._switch(link)
        self._event(f"connected, session present {int(connack.session_present)}", link=number)
        self._record.counts["connections of subscribers"] += 1
        if self._has_session and not connack.session_present:
            self._record.fault(self.name, "the broker forgot the session", link=number)
        if not connack.session_present:
            self._unreleased.clear()
        self._has_session = True
        if not (connack.session_present and self.subscribed.is_set()):
            link.send(Subscribe(1, (Subscription(self.filter, self.qos),)))
        return link

    async def _stay(self, link: Link) -> None:
        """Keep a connection until it is over."""
        loop, chance = asyncio.get_running_loop(), self._chance
        self._heard_at = loop.time()
        leaves_at = loop.time() + chance.uniform(2.0, 6.0) if self.manner.away_s else float("inf")
        pings_at = loop.time() + PING_S
        hops_at = self._world.hops_at(chance)
        while link.is_open:
            self._changed.clear()
            timer = loop.call_later(0.25, self._changed.set)
            await self._changed.wait()
            timer.cancel()
            now = loop.time()
            if self._hop is not None and self._hop.done() and self._hop.result() is None:
                self._hop, hops_at = None, self._world.hops_at(chance)
            if self._hop is None and now >= hops_at and not (self._is_stopping or self._world.is_over):
                self._event("connects although it is connected")
                self._record.counts["hops of subscribers"] += 1
                self._hop = asyncio.create_task(self._connect())
            if self._is_stopping or (now >= leaves_at and not self._world.is_over):
                if self._is_stopping or chance.random() < 0.5:
                    link.disconnect()
                else:
                    link.break_off("goes away")
            elif now - self._heard_at > self._patience_s:
                self._record.counts[f"a subscriber heard nothing for {self._patience_s:.0f} s"] += 1
                link.break_off("no PINGRESP")
            elif now >= pings_at:
                pings_at = now + PING_S
                link.send(Pingreq())
                if self.manner.stops_reading_s and not self._world.is_over and chance.random() < 0.5:
                    self._event(f"reads nothing for {self.manner.stops_reading_s} s")
                    link.hold_reading(self.manner.stops_reading_s)
        self._event(f"connection over: {link.ended}", link=link.number)
        self._record.counts[f"over: {link.ended}"] += 1
        self._world.judge_end(self.name, link, link.number)

    def _receive(self, link: Link, packet: Packet) -> None:
        if link is not self.link:
            if self.link is not None and link.number < self.link.number:
                return
            self._switch(link)  # the first packet behind CONNACK may come before the task that waits for that goes on
        self._heard_at = self._world.now()
        if isinstance(packet, Publish):
            self._take(link, packet)
        elif isinstance(packet, Pubrel):
            key = self._unreleased.pop(packet.packet_id, "")
            self._event(f"PUBREL {packet.packet_id} reason {packet.reason:#04x}", key, link.number)
            self._answer(link, Pubcomp(packet.packet_id))
        elif isinstance(packet, Suback):
            if packet.reasons != (self.qos,):
                self._record.fault(self.name, f"SUBACK {packet.reasons}", link=link.number)
            self._event(f"subscribed to {self.filter}", link=link.number)
            self.subscribed.set()
        elif not isinstance(packet, Pingresp):
            self._record.fault(self.name, f"{type(packet).__name__} to a subscriber", link=link.number)

    def _take(self, link: Link, packet: Publish) -> None:
        key, packet_id = key_of(packet.payload), packet.packet_id
        self._event(f"PUBLISH {packet_id} QoS {packet.qos}{', DUP' if packet.dup else ''} received", key, link.number)
        if packet_id in self._open:
            self._record.fault(self.name, f"packet identifier {packet_id} is in flight already", key, link.number)
        self._open.add(packet_id)
        self._keys[packet_id] = key
        maximum = self.manner.receive_maximum if self.version == 5 else 0
        if maximum and len(self._open) > maximum:
            what = f"{len(self._open)} in flight, at most {maximum} are taken"
            if self._world.is_gateway:
                self._record.fault(self.name, what, key, link.number)
            else:  # mosquitto 2.0.11 does that now and then
                self._record.counts["more in flight than the receive maximum"] += 1
        delivery = Delivery(key, packet.topic.decode(), link.number, packet.qos, packet.dup)
        if packet.qos != 2:
            self.received.add(self.name, delivery)
            self._answer(link, Puback(packet_id))
            return
        before = self._unreleased.get(packet_id)
        if before is None:
            self.received.add(self.name, delivery)
            self._unreleased[packet_id] = key
        elif before != key:
            what = f"packet identifier {packet_id} is that of {before}, whose PUBREL has not come"
            self._record.fault(self.name, what, key, link.number)
        self._answer(link, Pubrec(packet_id))

    def _answer(self, link: Link, packet: Puback | Pubrec | Pubcomp) -> None:
        if not self.manner.answers_after_s or self._world.is_over:
            self._send_answers(link)
            self._send_answer(link, packet)
            return
        if not self._unsent:
            delay = self._chance.uniform(0.0, 2 * self.manner.answers_after_s)
            asyncio.get_running_loop().call_later(delay, self._send_answers, link)
        self._unsent.append(packet)

    def _send_answers(self, link: Link) -> None:
        if link.is_open:
            packets, self._unsent = self._unsent, []
            for packet in packets:
                self._send_answer(link, packet)

    def _send_answer(self, link: Link, packet: Packet) -> None:
        assert isinstance(packet, Puback | Pubrec | Pubcomp)
        if not isinstance(packet, Pubrec):
            # From here on the broker may use the identifier again: its next PUBLISH may be on its way at once.
            self._open.discard(packet.packet_id)
        self._event(
            f"{type(packet).__name__.upper()} {packet.packet_id} sent",
            self._keys.get(packet.packet_id, ""),
            link.number,
        )
        link.send(packet)
