"""A client of a history: it does what steps say, acknowledges unless it holds back, tells the model what it gets."""

import asyncio
import random
from collections.abc import Callable

from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import (
    Connack,
    Connect,
    Disconnect,
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
    Unsuback,
    Unsubscribe,
    Will,
)
from streamd.clients.mqtt.codec.properties import Property
from tests.mqtt.chaos.links import Link, open_link, pause
from tests.mqtt.histories.model import Arrival, Copy, Model

ANSWER_S = 8.0
CONNECT_S = 20.0
HOLDS_ALL, HOLDS_COMP = "all", "comp"


class NoAnswer(Exception):
    """The broker did not answer, or closed the connection; the text says what was awaited."""


class Player:
    """One client. prefix: before each of its topics and filters. note: is called with a line for each packet."""

    def __init__(
        self, name: str, address: tuple[str, int], prefix: str, model: Model, note: Callable[[str], None]
    ) -> None:
        self.name, self.client_id = name, f"{prefix.rstrip('/')}-{name}"
        self.link: Link | None = None
        self.version = 5
        self.holds: str | None = None
        self.changed = asyncio.Event()
        self.open_max = 0  # how many messages were in flight at most
        self.unsettled: dict[int, Publish] = {}  # what it published and is not complete
        self._released: set[int] = set()
        self._address, self._prefix, self._model, self._note = address, prefix, model, note
        self._open: set[int] = set()
        self._answers: dict[tuple[type, int], Packet] = {}
        self._held: list[tuple[type[Packet], int]] = []
        self._ids = 0

    @property
    def is_connected(self) -> bool:
        return self.link is not None and self.link.is_open

    async def connect(
        self,
        version: int,
        clean: bool,
        expiry: int,
        receive: int,
        holds: str | None = None,
        will: tuple[str, bytes, int, bool] | None = None,
    ) -> Connack:
        """Connect; return CONNACK. will: topic, payload, QoS, retain. Raises: NoAnswer."""
        properties: dict[int, PropertyValue] = {}
        if version == 5:
            properties = {Property.SESSION_EXPIRY_INTERVAL: expiry} if expiry else {}
            if receive:
                properties[Property.RECEIVE_MAXIMUM] = receive
        self.version = version
        self.holds, self._held, self._answers = holds, [], {}
        self._open.clear()
        self.open_max = 0
        last = None
        if will is not None:
            topic, payload, qos, retain = will
            last = Will((self._prefix + topic).encode(), payload, qos, retain)
        connect = Connect(version, self.client_id, clean, 0, will=last, properties=properties)
        until = asyncio.get_running_loop().time() + CONNECT_S
        while True:
            link, connack = await open_link(
                self._address, connect, self._receive, self.changed.set, None, random.Random(self._ids)
            )
            if link is not None and connack is not None and connack.reason in (0x88, 3):
                link.disconnect()
            elif link is not None and connack is not None:
                break
            if asyncio.get_running_loop().time() > until:
                raise NoAnswer(f"{self.name}: no CONNACK")
            await pause(0.05)
        if connack.reason:
            raise NoAnswer(f"{self.name}: CONNACK {connack.reason:#04x}")
        self.link = link
        if clean or not connack.session_present:
            self.unsettled.clear()
            self._released.clear()
        return connack

    async def publish(self, topic: str, payload: bytes, qos: int, retain: bool, expiry: int, torn: int = 0) -> None:
        """Send a PUBLISH. torn: 1 for a part of it, 2 for all of it, and then the connection breaks."""
        properties: dict[int, PropertyValue] = {Property.MESSAGE_EXPIRY_INTERVAL: expiry} if expiry else {}
        packet_id = self._next_id() if qos else 0
        packet = Publish(
            (self._prefix + topic).encode(), payload, qos, retain, packet_id=packet_id, properties=properties
        )
        if qos:
            self.unsettled[packet_id] = packet
        link, data = self._link(), encode(packet, self.version)
        link.send_bytes(data[: len(data) // 2] if torn == 1 else data)
        if torn:
            link.break_off("torn")

    def resend(self) -> None:
        """Send what is not complete again, as a client does whose session goes on."""
        for packet_id, packet in self.unsettled.items():
            if packet_id in self._released:
                self._link().send(Pubrel(packet_id))
            else:
                self._link().send(packet._replace(dup=True))

    async def settled(self) -> None:
        """Wait until all that was published is complete. Raises: NoAnswer."""
        await self.until(lambda: not self.unsettled, lambda: f"answers to {list(self.unsettled)}")

    async def subscribe(self, filter: str, qos: int, nl: int, rap: int, rh: int, identifier: int) -> int:
        """Subscribe; return the reason."""
        packet_id = self._next_id()
        properties: dict[int, PropertyValue] = {Property.SUBSCRIPTION_IDENTIFIER: identifier} if identifier else {}
        subscription = Subscription(self._prefix + filter, qos, bool(nl), bool(rap), rh)
        self._link().send(Subscribe(packet_id, (subscription,), properties))
        suback = await self._answer(Suback, packet_id)
        assert isinstance(suback, Suback)
        return suback.reasons[0]

    async def unsubscribe(self, filter: str) -> int | None:
        """Unsubscribe; return the reason, None in 3.1.1."""
        packet_id = self._next_id()
        self._link().send(Unsubscribe(packet_id, (self._prefix + filter,)))
        unsuback = await self._answer(Unsuback, packet_id)
        assert isinstance(unsuback, Unsuback)
        return unsuback.reasons[0] if unsuback.reasons else None

    async def ping(self) -> None:
        """Wait for a PINGRESP: what was sent before has been read."""
        self._link().send(Pingreq())
        await self._answer(Pingresp, 0)

    def disconnect(self, expiry: int | None, reason: int) -> None:
        """Send DISCONNECT."""
        properties: dict[int, PropertyValue] = {}
        if expiry is not None:
            properties = {Property.SESSION_EXPIRY_INTERVAL: expiry}
        self._link().disconnect(Disconnect(reason, properties))

    def cut(self) -> None:
        """End the connection without DISCONNECT."""
        if self.link is not None:
            self.link.break_off("cut")

    def release(self) -> None:
        """Acknowledge what was held back, and everything from now on."""
        self.holds = None
        held, self._held = self._held, []
        for kind, packet_id in held:
            self._acknowledge(kind, packet_id)

    async def until(self, is_done: Callable[[], bool], what: Callable[[], str], seconds: float = ANSWER_S) -> None:
        """Wait until something is so. Raises: NoAnswer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not is_done():
            if not self.is_connected:
                raise NoAnswer(f"{self.name}: the connection ended: {self.link.ended if self.link else ''}; {what()}")
            if loop.time() >= deadline:
                raise NoAnswer(f"{self.name}: nothing came: {what()}")
            self.changed.clear()
            timer = loop.call_at(min(deadline, loop.time() + 0.25), self.changed.set)
            await self.changed.wait()
            timer.cancel()

    def _link(self) -> Link:
        if self.link is None or not self.link.is_open:
            raise NoAnswer(f"{self.name}: the connection ended: {self.link.ended if self.link else ''}")
        return self.link

    def _next_id(self) -> int:
        while True:
            self._ids = self._ids % 60 + 1
            if self._ids not in self.unsettled:
                return self._ids

    async def _answer(self, kind: type, packet_id: int) -> Packet:
        key = (kind, packet_id)
        await self.until(lambda: key in self._answers, lambda: f"{kind.__name__.upper()} {packet_id or ''}")
        return self._answers.pop(key)

    def _receive(self, link: Link, packet: Packet) -> None:
        self.link = link
        self.changed.set()
        if isinstance(packet, Publish):
            self._take(packet)
        elif isinstance(packet, Pubrel):
            self._note(f"{self.name} <- PUBREL {packet.packet_id}")
            self._model.released(self.name, packet.packet_id)
            self._acknowledge(Pubcomp, packet.packet_id)
        elif isinstance(packet, Puback | Pubcomp):
            self._settle(packet)
        elif isinstance(packet, Pubrec):
            if packet.reason >= 0x80 or packet.packet_id not in self.unsettled:
                self._settle(packet)
            else:
                self._released.add(packet.packet_id)
                link.send(Pubrel(packet.packet_id))
        elif isinstance(packet, Suback | Unsuback):
            self._answers[type(packet), packet.packet_id] = packet
        elif isinstance(packet, Pingresp):
            self._answers[Pingresp, 0] = packet

    def _settle(self, packet: Puback | Pubrec | Pubcomp) -> None:
        known = self.unsettled.pop(packet.packet_id, None)
        was_released = packet.packet_id in self._released
        self._released.discard(packet.packet_id)
        name = f"{type(packet).__name__.upper()} {packet.packet_id} {packet.reason:#04x}"
        is_right = isinstance(packet, Puback) == (known is not None and known.qos == 1)
        if known is None or not is_right or (packet.reason >= 0x80 and not was_released):
            self._model.faults.append(f"{self.name}: {name} for {known}")

    def _take(self, packet: Publish) -> None:
        values = packet.properties
        ids = values.get(Property.SUBSCRIPTION_IDENTIFIER, ())
        left = values.get(Property.MESSAGE_EXPIRY_INTERVAL)
        assert isinstance(ids, tuple)
        assert left is None or isinstance(left, int)
        topic = packet.topic.decode().removeprefix(self._prefix)
        copy = Copy(packet.qos, packet.retain, tuple(sorted(int(str(one)) for one in ids)))
        arrival = Arrival(packet.payload, topic, copy, packet.dup, packet.packet_id, left)
        self._note(
            f"{self.name} <- {topic} {packet.payload.decode()!r} QoS {packet.qos} packet {packet.packet_id}"
            f"{' DUP' if packet.dup else ''}{' retained' if packet.retain else ''}{f' ids {ids}' if ids else ''}"
        )
        self._model.arrive(self.name, arrival, asyncio.get_running_loop().time())
        if packet.qos:
            self._open.add(packet.packet_id)
            self.open_max = max(self.open_max, len(self._open))
            self._acknowledge(Puback if packet.qos == 1 else Pubrec, packet.packet_id)

    def _acknowledge(self, kind: type[Packet], packet_id: int) -> None:
        if self.holds == HOLDS_ALL or (self.holds == HOLDS_COMP and kind is Pubcomp):
            self._held.append((kind, packet_id))
            return
        if kind is Pubrec:
            self._model.received(self.name, packet_id)
        else:
            self._open.discard(packet_id)
            self._model.completed(self.name, packet_id)
        if self.link is not None and self.link.is_open:
            self.link.send(kind(packet_id))  # type: ignore[call-arg, arg-type]
