"""Plays a history on a broker and holds what the clients get against the model."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from streamd.clients.mqtt.codec.packets import (
    Connect,
    Packet,
    PropertyValue,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
)
from streamd.clients.mqtt.codec.packets import Subscription as SubscriptionPacket
from streamd.clients.mqtt.codec.properties import Property
from tests.mqtt.chaos.links import Link, open_link, pause
from tests.mqtt.histories import steps as kinds
from tests.mqtt.histories.deviations import NONE, Deviations
from tests.mqtt.histories.model import Message, Model, Subscription
from tests.mqtt.histories.player import NoAnswer, Player
from tests.mqtt.histories.steps import LONG_S, Step

COME_S = 6.0  # so long a message may take
GRACE_S = 0.1  # for what should not come
Kill = Callable[[bool], Awaitable[None]]  # whether in an orderly way


@dataclass
class Played:
    """What a history came to: faults, and everything that happened, a line each."""

    faults: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


class Witness:
    """A subscriber to all of a history's topics: what it has got is in the broker, and on its way to the others."""

    def __init__(self, address: tuple[str, int], prefix: str, patience_s: float) -> None:
        self.seen: list[bytes] = []
        self._address, self._prefix, self._patience_s = address, prefix, patience_s
        self._link: Link | None = None
        self._changed = asyncio.Event()
        self._is_subscribed = False

    async def connect(self) -> None:
        """Connect, again and again, and subscribe. Raises: NoAnswer."""
        properties: dict[int, PropertyValue] = {Property.SESSION_EXPIRY_INTERVAL: LONG_S}
        connect = Connect(5, f"{self._prefix.rstrip('/')}-witness", False, 0, properties=properties)
        for _ in range(400):
            link, connack = await open_link(self._address, connect, self._receive, self._changed.set)
            if link is not None and connack is not None and not connack.reason:
                self._link = link
                break
            await pause(0.05)
        else:
            raise NoAnswer("witness: no CONNACK")
        if not connack.session_present:
            link.send(Subscribe(1, (SubscriptionPacket(f"{self._prefix}#", 2),)))
        else:
            self._is_subscribed = True
        await self._until(lambda: self._is_subscribed, "SUBACK")

    async def has(self, payloads: Sequence[bytes], topic: str) -> None:
        """Wait until messages have come. Raises: NoAnswer."""
        wanted = [payload or topic.encode() for payload in payloads]
        await self._until(lambda: all(one in self.seen for one in wanted), f"messages {wanted}")
        for one in wanted:
            self.seen.remove(one)

    def close(self) -> None:
        """End the session."""
        if self._link is not None:
            self._link.disconnect()

    async def _until(self, is_done: Callable[[], bool], what: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        while not is_done():
            if loop.time() > deadline:
                raise NoAnswer(f"witness: lost: {what}")
            if self._link is not None and not self._link.is_open:
                await self.connect()
            self._changed.clear()
            timer = loop.call_later(0.25, self._changed.set)
            await self._changed.wait()
            timer.cancel()

    def _receive(self, link: Link, packet: Packet) -> None:
        self._changed.set()
        if isinstance(packet, Publish):
            # What has no payload is known by its topic.
            self.seen.append(packet.payload or packet.topic.decode().removeprefix(self._prefix).encode())
            if packet.qos:
                link.send(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))
        elif isinstance(packet, Pubrel):
            link.send(Pubcomp(packet.packet_id))
        elif isinstance(packet, Suback):
            self._is_subscribed = True


class History:
    """One history on one broker. prefix: before all topics, filters and client identifiers; kill: kills the broker."""

    def __init__(
        self,
        steps: Sequence[Step],
        address: tuple[str, int],
        prefix: str,
        deviations: Deviations = NONE,
        kill: Kill | None = None,
        patience_s: float = COME_S,
    ) -> None:
        self.steps, self.address, self.prefix = steps, address, prefix
        self.played = Played()
        self.model = Model(deviations)
        self.players: dict[str, Player] = {}
        self.witness = Witness(address, prefix, patience_s)
        self._kill, self._patience_s = kill, patience_s
        self._numbers = 0
        self._receive: dict[str, int] = {}

    async def play(self) -> Played:
        """Do it all, and return what came of it."""
        try:
            await self.witness.connect()
            for step in self.steps:
                self._note(str(step))
                await self._do(step)
                await self._settle()
                if self.model.faults:
                    break
            else:
                await self._return_all()
        except NoAnswer as error:
            self.model.faults.append(str(error))
        finally:
            for player in self.players.values():
                player.cut()
            self.witness.close()
        self.played.faults = self.model.faults
        for fault in self.model.faults:
            self._note(f"FAULT {fault}")
        return self.played

    def _note(self, line: str) -> None:
        self.played.lines.append(line)

    def _note_packet(self, line: str) -> None:
        self._note(f"    {line}")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _player(self, who: str) -> Player:
        if who not in self.players:
            self.players[who] = Player(who, self.address, self.prefix, self.model, self._note_packet)
        return self.players[who]

    async def _do(self, step: Step) -> None:
        """Do a step; one that makes no sense, since others before it were left out, does nothing."""
        player = self._player(step.who) if step.who else None
        if player is None:
            await (pause(float(step.text("seconds"))) if step.kind == kinds.WAIT else self._end_broker(step.kind))
        elif step.kind == kinds.CONNECT:
            is_clean, topic = bool(step.number("clean")), step.text("will")
            will = None
            if topic != "-":
                self._numbers += 1
                payload = f"{self._numbers}".encode()
                is_retained = bool(step.number("wretain"))
                will = Message(
                    self._numbers, player.name, topic, step.number("wqos"), is_retained, payload, 0, self._now()
                )
            version, expiry, receive = step.number("version"), step.number("expiry"), step.number("receive")
            holds = None if step.text("hold") == "-" else step.text("hold")
            await self._connect(player, version, is_clean, expiry, receive, holds, will)
        elif player.is_connected:
            await _DOERS[step.kind](self, player, step)

    async def _connect(
        self,
        player: Player,
        version: int,
        clean: bool,
        expiry: int,
        receive: int,
        holds: str | None = None,
        will: Message | None = None,
    ) -> None:
        if player.is_connected:
            await player.ping()
        is_present = self.model.connect(player.name, version, clean, expiry, self._now(), will)
        old = player.link
        said = None if will is None else (will.topic, will.payload, will.qos, will.retain)
        connack = await player.connect(version, clean, expiry, receive, holds, said)
        self._receive[player.name] = receive
        if old is not None and old.is_open:
            old.break_off("taken over")
        if connack.session_present != is_present:
            self.model.faults.append(f"{player.name}: session present {int(connack.session_present)}")
        player.resend()
        await player.settled()

    async def _disconnect(self, player: Player, step: Step) -> None:
        await player.ping()
        expiry = None if step.number("expiry") < 0 or player.version == 4 else step.number("expiry")
        reason = step.number("reason") if player.version == 5 else 0
        self.model.gone(player.name, self._now(), expiry, has_will=reason == 4)
        player.disconnect(expiry, reason)
        await pause(0.01)

    async def _cut(self, player: Player, step: Step) -> None:
        await player.ping()
        self.model.gone(player.name, self._now())
        player.cut()
        await pause(0.01)

    async def _end_broker(self, kind: str) -> None:
        if self._kill is None:
            return
        if kind == kinds.STOP:
            for player in self.players.values():
                if player.is_connected:
                    await player.ping()
        (self.model.killed if kind == kinds.KILL else self.model.stopped)(self._now())
        await self._kill(kind == kinds.STOP)
        for player in self.players.values():
            player.cut()
        await self.witness.connect()

    async def _subscribe(self, player: Player, step: Step) -> None:
        identifier = step.number("id") if player.version == 5 else 0
        new = Subscription(
            step.text("filter"),
            step.number("qos"),
            bool(step.number("nl")),
            bool(step.number("rap")),
            identifier,
        )
        if player.version == 4:
            new = Subscription(new.filter, new.qos)
        handling = step.number("rh") if player.version == 5 else 0
        # Before it is sent: retained messages may come before SUBACK.
        self.model.subscribe(player.name, new, handling, self._now())
        reason = await player.subscribe(
            new.filter, new.qos, int(new.no_local), int(new.retain_as_published), handling, identifier
        )
        if reason != new.qos:
            self.model.faults.append(f"{player.name}: SUBACK {reason:#04x} for {new}")

    async def _unsubscribe(self, player: Player, step: Step) -> None:
        had = self.model.unsubscribe(player.name, step.text("filter"))
        reason = await player.unsubscribe(step.text("filter"))
        if reason is not None and reason != (0 if had else 0x11):
            self.model.faults.append(f"{player.name}: UNSUBACK {reason:#04x}, had one: {had}")

    async def _publish(self, player: Player, step: Step) -> None:
        session = self.model.sessions[player.name]
        topic, qos, torn = step.text("topic"), step.number("qos"), step.number("torn")
        if torn and session.expiry != LONG_S:
            torn = 0
        expiry = step.number("expiry") if player.version == 5 else 0
        messages: list[Message] = []
        for _ in range(step.number("count")):
            self._numbers += 1
            payload = b"" if step.number("empty") else f"{self._numbers}".encode()
            # Once for a copy that was acknowledged on the connection that broke, once for that which was sent again.
            is_last = len(messages) == step.number("count") - 1
            times = 2 if qos == 1 and (torn == 2 or (torn and not is_last)) else 1
            at, retain = self._now(), bool(step.number("retain"))
            messages.append(Message(self._numbers, player.name, topic, qos, retain, payload, expiry, at, times))
        if torn:
            # The connection ends with this step, and what the client had not acknowledged comes again.
            await player.ping()
        for message in messages:
            self.model.publish(message)
        for message in messages:
            breaks = torn if message is messages[-1] else 0
            await player.publish(topic, message.payload, qos, message.retain, expiry, breaks)
        if torn:
            self.model.gone(player.name, self._now())
            await pause(0.01)
            receive = self._receive[player.name]
            await self._connect(player, player.version, False, session.expiry, receive)
        await player.settled()
        await self.witness.has([message.payload for message in messages], topic)

    async def _hold(self, player: Player, step: Step) -> None:
        player.holds = step.text("what")

    async def _release(self, player: Player, step: Step) -> None:
        player.release()

    async def _settle(self) -> None:
        """Wait until each client that acknowledges has what it is to get."""
        wills, self.model.wills_out = self.model.wills_out, []
        for will in wills:
            await self.witness.has([will.payload], will.topic)
        for player in self.players.values():
            if not player.is_connected:
                if player.name in self.model.sessions and self.model.sessions[player.name].is_connected:
                    why = player.link.ended if player.link is not None else ""
                    self.model.faults.append(f"{player.name}: the connection ended: {why}")
                continue
            if player.holds is None:
                try:
                    await player.until(
                        partial(self._is_settled, player.name),
                        lambda: "",
                        self._patience_s,
                    )
                except NoAnswer as error:
                    left = self.model.left(player.name, self._now())
                    self.model.lost(player.name, left or [str(error)])
            receive = self._receive.get(player.name, 0)
            if receive and player.open_max > receive and not self.model.deviations.above_receive_maximum:
                self.model.faults.append(f"{player.name}: {player.open_max} in flight, at most {receive} are taken")

    def _is_settled(self, name: str) -> bool:
        return bool(self.model.faults) or not self.model.left(name, self._now())

    async def _return_all(self) -> None:
        """At the end each session that goes on gets what is left."""
        self._note("# the end: all release, and return")
        for player in self.players.values():
            if player.is_connected:
                player.release()
        await self._settle()
        for name, session in list(self.model.sessions.items()):
            if not session.is_connected and session.expiry == LONG_S and not self.model.faults:
                await self._connect(self._player(name), session.version, False, LONG_S, 0)
        await self._settle()
        await pause(GRACE_S)
        for player in self.players.values():
            if player.is_connected:
                await player.ping()


_DOERS = {
    kinds.DISCONNECT: History._disconnect,
    kinds.CUT: History._cut,
    kinds.SUBSCRIBE: History._subscribe,
    kinds.UNSUBSCRIBE: History._unsubscribe,
    kinds.PUBLISH: History._publish,
    kinds.HOLD: History._hold,
    kinds.RELEASE: History._release,
}
