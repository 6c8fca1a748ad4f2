"""One connection of a client: bytes to packets, packets to the parts of the gateway, and what is written back."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import PINGRESP, PublishHead, acknowledge, encode
from streamd.clients.mqtt.codec.faults import Fault, against_protocol
from streamd.clients.mqtt.codec.packets import Packet, Properties
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import PacketType, Reason
from streamd.clients.mqtt.session.incoming import Aliases
from streamd.clients.mqtt.session.outgoing import Answer

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.delivering import More
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.gateway.session import Session
    from streamd.clients.mqtt.store.stored import Stored

# A process that did nothing for so long may have lost sessions: it is less than the patience of other gateways.
STALLED_S: Final = 1.0
_NO_LIMIT: Final = 268_435_460
_HIGH_BYTES: Final = 262_144  # of output that a client does not read; then it is behind
# Packets that wait for the one before, and bytes that came meanwhile; then the socket is not read.
_QUEUED_MAX: Final = 1_000
_QUEUED_BYTES_MAX: Final = 262_144
_DRAIN_S: Final = 10.0  # in which a client that is disconnected has to read what it was sent


class Connection:
    """The asyncio.Protocol of one socket. (It has no base: compiled, one that is interpreted would slow all look-ups.)

    is_busy: a packet is being worked on, and those behind it wait. is_full: the client does not read what it is sent.
    is_ended: nothing more is read of the client; what has come of it is worked on, and then the connection is closed.
    is_lost: the socket is closed. is_let_in: CONNACK was sent. flush_every: packets that are written at once; 0: any.
    """

    __slots__ = (
        "_closed",
        "_farewell",
        "_is_reading",
        "_is_running",
        "_out",
        "_queue",
        "_queued_bytes",
        "aliases",
        "aliases_in",
        "connect_timer",
        "decoder",
        "due",
        "flush_every",
        "gateway",
        "heard_s",
        "is_busy",
        "is_clean_end",
        "is_closing",
        "is_ended",
        "is_full",
        "is_let_in",
        "is_lost",
        "is_refused",
        "keep_alive_s",
        "kind",
        "moved_s",
        "order",
        "packet_bytes_max",
        "peer",
        "session",
        "since_s",
        "tells_problems",
        "transport",
        "version",
        "alias_maximum",
    )

    def __init__(self, gateway: Gateway, kind: str) -> None:
        self.gateway, self.kind = gateway, kind
        self.transport: asyncio.Transport | None = None
        self.decoder = Decoder(packet_bytes_max=gateway.limits.packet_bytes_max)
        self.session: Session | None = None
        self.version = 0
        self.peer = ""
        self.heard_s = 0.0  # when the last whole packet came
        self.moved_s = 0.0  # when a part of a packet came that was not its end
        self.since_s = 0.0  # of its CONNECT, in Unix seconds
        self.keep_alive_s = 0.0
        self.order = 0  # of several connections of one client at several gateways, the last has the highest
        self.due = self.flush_every = 0
        self.packet_bytes_max = _NO_LIMIT
        self.tells_problems = True
        self.is_busy = self.is_full = self.is_closing = self.is_clean_end = self.is_refused = False
        self.is_ended = self.is_lost = self.is_let_in = False
        self.aliases: dict[bytes, int] | None = None
        self.aliases_in: Aliases | None = None
        self.alias_maximum = 0
        self.connect_timer: asyncio.TimerHandle | None = None
        self._queue: deque[Packet] | None = None
        self._queued_bytes = 0
        self._out: list[bytes] | None = None
        self._is_reading = True
        self._is_running = False
        self._farewell: tuple[int, str | None] | None = None  # reason and reference of the DISCONNECT at the end
        self._closed: asyncio.Future[None] | None = None

    # The socket's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new socket."""
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's are not of the class
        transport.set_write_buffer_limits(high=_HIGH_BYTES)
        self.gateway.connected(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        gateway = self.gateway
        gateway.counters.bytes_received += len(data)
        if self.is_closing or self.is_ended:
            return
        packets = self.decoder.feed(data)
        if self.is_busy:  # half a packet takes memory, too
            self._queued_bytes += len(data)
            if self._queued_bytes > _QUEUED_BYTES_MAX:
                self.stop_reading()
        if packets:
            self.heard_s = gateway.loop.time()
            gateway.counters.messages_received += len(packets)
            if self.heard_s - gateway.ticked_s > STALLED_S:
                gateway.hold_up()
            if gateway.held_up is not None and not self.is_busy:
                self.is_busy = True
                gateway.held_up.append(self)
            if self.is_busy:
                self._wait(packets)
                return
            self._run(packets)
        else:
            self.moved_s = gateway.loop.time()
        if self.decoder.fault is not None and not self.is_busy:
            self.fail(self.decoder.fault)

    def _wait(self, packets: list[Packet]) -> None:
        if self._queue is None:
            self._queue = deque()
        self._queue.extend(packets)
        if len(self._queue) > _QUEUED_MAX:
            self.stop_reading()

    def _run(self, packets: list[Packet], waits: bool = True) -> None:
        self._is_running = True
        try:
            for at, packet in enumerate(packets):
                if self.is_closing:
                    return
                if self.is_busy and waits:
                    self._wait(packets[at:])
                    return
                self._take(packet)
        except Fault as fault:
            self.fail(fault)
        finally:
            self._is_running = False

    def go_on(self) -> None:
        """Work on the packets that waited for one that is done."""
        if self.is_closing:
            return
        if self.gateway.held_up is not None:
            self.gateway.held_up.append(self)
            return
        self.is_busy = False
        self._queued_bytes = 0
        if self._is_running:  # those behind it follow at once
            return
        if self._queue is not None:
            queue, self._queue = list(self._queue), None
            self._run(queue)
        if self.is_busy or self.is_closing:
            return
        if self.decoder.fault is not None:
            self.fail(self.decoder.fault)
        elif self.is_ended:
            self._say_farewell()
        elif not self._is_reading and not self.gateway.is_congested:
            self.start_reading()

    def eof_received(self) -> bool:
        """Close when the client has closed its side, behind what it has sent; return whether something still waits."""
        if self.is_closing or not self.is_busy:
            return False
        self.is_ended = True
        return True

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self.is_full = True

    def resume_writing(self) -> None:
        """Go on with what the client had no room for."""
        self.is_full = False
        if self.session is not None and self.session.connection is self:
            self.gateway.delivery.pump(self.session)
            if self.session.shares is not None:
                self.gateway.shares.go_on(self.session)

    def connection_lost(self, error: Exception | None) -> None:
        """Note that the socket is closed; what was read of it before is worked on all the same."""
        self.is_lost = self.is_ended = self.is_full = True
        gateway = self.gateway
        gateway.paused.pop(self, None)
        if self.is_closing:
            gateway.disconnected(self)
        elif not self.is_busy or len(gateway.connections) > gateway.limits.connections_max:
            self.close()

    def stop_reading(self) -> None:
        """Read no more until `start_reading`."""
        transport = self.transport
        if self._is_reading and not self.is_ended and transport is not None and not transport.is_closing():
            self._is_reading = False
            transport.pause_reading()
            self.gateway.paused[self] = None

    def start_reading(self) -> None:
        """Read again."""
        if not self._is_reading and self.transport is not None and not self.is_closing and not self.is_ended:
            self._is_reading = True
            self.heard_s = self.gateway.loop.time()  # it may have sent something that was not read
            self.gateway.paused.pop(self, None)
            self.transport.resume_reading()

    @property
    def is_reading(self) -> bool:
        """Whether its socket is read."""
        return self._is_reading

    @property
    def upload(self) -> tuple[int, float]:
        """Size in bytes of the packet that is on its way, 0 without one; and when a part of it came last."""
        size = self.decoder.awaited_bytes
        frame_s = None if self.transport is None else self.transport.get_extra_info("frame_moved_s")
        if frame_s is not None:  # a WebSocket hands on whole frames, and does not know how much follows
            assert isinstance(frame_s, float)
            return size or self.gateway.limits.packet_bytes_max, frame_s
        return size, max(self.heard_s, self.moved_s)

    # What is written.

    def write(self, packet: bytes) -> None:
        """Send a packet with the others of this turn, behind those that wait for the session's record."""
        session = self.session
        if session is not None and session.held is not None:
            session.held.append(packet)
            return
        self.write_now(packet)

    def write_now(self, packet: bytes) -> None:
        """Send a packet with the others of this turn."""
        out = self._out
        if out is None:
            out = self._out = [packet]
            self.gateway.touch(self)
        else:
            out.append(packet)
        if self.flush_every and len(out) >= self.flush_every:
            self.flush()

    def flush(self) -> None:
        """Write the packets of this turn."""
        out, self._out = self._out, None
        if out is None or self.transport is None or self.transport.is_closing():
            return
        counters = self.gateway.counters
        counters.messages_sent += len(out)
        data = out[0] if len(out) == 1 else b"".join(out)
        counters.bytes_sent += len(data)
        self.transport.write(data)

    def answer(self, packet: Packet) -> None:
        """Send an answer, with what the client wants to know of problems, within the size that it takes."""
        properties = getattr(packet, "properties", None)
        if properties and not self.tells_problems and type(packet) not in (p.Connack, p.Disconnect):
            kept = {
                number: value
                for number, value in properties.items()
                if number not in (Property.REASON_STRING, Property.USER_PROPERTY)
            }
            packet = packet._replace(properties=kept)  # type: ignore[call-arg]
        encoded = encode(packet, self.version, self.packet_bytes_max)
        if len(encoded) <= self.packet_bytes_max:
            self.write_now(encoded)
        elif type(packet) is p.Connack:  # without it the client would wait for ever
            self.close()

    def acknowledge(self, kind: PacketType, packet_id: int, reason: int = 0) -> None:
        """Send PUBACK, PUBREC, PUBREL or PUBCOMP."""
        self.write_now(acknowledge(kind, packet_id, self.version, reason))

    def write_pubrel(self, packet_id: int) -> None:
        """Send PUBREL again, of a state that is noted."""
        self.write(acknowledge(PacketType.PUBREL, packet_id, self.version))

    def aliased_head(self, entry: Stored, qos: int, retain: bool, now_ms: int, more: More) -> PublishHead:
        """Return a message with a topic alias, which stands for its topic once the client knows it."""
        assert self.aliases is not None
        alias = self.aliases.get(entry.topic)
        values = entry.values(now_ms, more)
        if alias is not None:
            values[Property.TOPIC_ALIAS] = alias
            return PublishHead(b"", entry.payload, qos, retain, 5, values)
        if len(self.aliases) < self.alias_maximum:
            alias = len(self.aliases) + 1
            head = PublishHead(entry.topic, entry.payload, qos, retain, 5, {**values, Property.TOPIC_ALIAS: alias})
            if head.whole_bytes <= self.packet_bytes_max:  # a message that is left out tells no alias
                self.aliases[entry.topic] = alias
                return head
        return PublishHead(entry.topic, entry.payload, qos, retain, 5, values)

    # The end.

    def fail(self, fault: Fault) -> None:
        """Close because of what the client has sent."""
        self.gateway.counters.faults += 1
        self.gateway.log_fault(self, str(fault))
        if self.session is None and not self.is_busy:
            version = self.decoder.version or 0
            if version == 5:
                self.version = 5
                self.answer(p.Connack(False, fault.reason))
            elif fault.connack_3 is not None:
                self.version = 4
                self.answer(p.Connack(False, fault.connack_3))
            self.close()
            return
        self.close(fault.reason, str(fault))

    def abandon(self, why: str) -> None:
        """Close because the store does not do its part."""
        self.gateway.log_fault(self, why)
        self.close(Reason.SERVER_UNAVAILABLE if self.version < 5 else Reason.IMPLEMENTATION_SPECIFIC_ERROR)

    def close(self, reason: int | None = None, text: str = "", reference: str | None = None) -> None:
        """Close the socket behind what was written; reason, reference: for a DISCONNECT of 5.0."""
        if self.is_closing:
            return
        if self._queue:
            self.note_dropped(len(self._queue))
            self._queue = None
        if reason is not None and self.version == 5 and self.session is not None:
            properties: Properties = {Property.REASON_STRING: text[:200]} if text and self.tells_problems else {}
            if reference is not None:
                properties = {**properties, Property.SERVER_REFERENCE: reference}
            self.answer(p.Disconnect(reason, properties))
        self.is_closing = True
        self.flush()
        if self.is_lost:
            self.gateway.disconnected(self)
        else:
            if self.transport is not None and not self.transport.is_closing():  # as one is whose client of TLS is gone
                self.transport.close()
                if self.transport.get_write_buffer_size():
                    self.gateway.loop.call_later(_DRAIN_S, self.transport.abort)
            self.gateway.closing(self)
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def finish(self, within_s: float, reason: int, reference: str | None = None) -> None:
        """Close behind what the client has sent until now; after `within_s` only its messages go on to the store."""
        if not self.is_busy or (self.session is None and not self.has_more):
            self.close(reason, reference=reference)
        elif not self.is_closing:
            if self._farewell is None:
                self._farewell = reason, reference
            self.stop_reading()
            self.is_ended = True
            self.gateway.loop.call_later(within_s, self.cut)

    def cut(self) -> None:
        """Close now: of what waits, subscriptions are neither made nor ended, and the rest is worked on."""
        if self.is_closing:
            return
        if self.session is not None and self._queue:
            queue, self._queue = self._queue, None
            kept = [one for one in queue if type(one) not in (p.Subscribe, p.Unsubscribe)]
            self.note_dropped(len(queue) - len(kept))
            self._run(kept, waits=False)
        self._say_farewell()

    def _say_farewell(self) -> None:
        reason, reference = self._farewell or (None, None)
        self.close(reason, reference=reference)

    def until_closed(self) -> asyncio.Future[None]:
        """Return what is done when the connection is closed, or is being closed."""
        self._closed = self.gateway.loop.create_future()
        if self.is_closing:
            self._closed.set_result(None)
        return self._closed

    @property
    def has_more(self) -> bool:
        """Whether a packet waits that does something."""
        return self._queue is not None and any(type(one) is not p.Pingreq for one in self._queue)

    def note_dropped(self, count: int) -> None:
        """Count packets that are not worked on, as the connection ends before their turn, and say so."""
        if count and self.session is not None:
            self.gateway.counters.packets_dropped += count
            self.gateway.log_fault(self, f"the connection ended first: {count} packets that it had sent are dropped")

    # The packets.

    def _take(self, packet: Packet) -> None:
        kind = type(packet)
        if kind is p.Publish:
            self.gateway.receiving.publish(self, packet)  # type: ignore[arg-type]
        elif kind is p.Puback:
            self._puback(packet)  # type: ignore[arg-type]
        elif kind is p.Pubrec:
            self._pubrec(packet)  # type: ignore[arg-type]
        elif kind is p.Pubrel:
            self._pubrel(packet)  # type: ignore[arg-type]
        elif kind is p.Pubcomp:
            self._pubcomp(packet)  # type: ignore[arg-type]
        elif kind is p.Pingreq:
            self.write_now(PINGRESP)
        elif kind is p.Subscribe:
            self.is_busy = True
            self.gateway.subscribing.subscribe(self, packet)  # type: ignore[arg-type]
        elif kind is p.Unsubscribe:
            self.is_busy = True
            self.gateway.subscribing.unsubscribe(self, packet)  # type: ignore[arg-type]
        elif kind is p.Connect:
            self.is_busy = True
            self.version = self.decoder.version or 4
            self.gateway.connecting.connect(self, packet)  # type: ignore[arg-type]
        elif kind is p.Disconnect:
            self._disconnect(packet)  # type: ignore[arg-type]
        else:
            raise against_protocol("an AUTH, but CONNECT named no method")

    def _puback(self, packet: p.Puback) -> None:
        session = self.session
        assert session is not None
        assert session.outgoing is not None
        place = session.outgoing.puback(packet.packet_id)
        if session.pack is not None:
            self.gateway.packing.ended(session, packet.packet_id, place)
        if place is not None:
            self.gateway.acknowledged(session, place, packet.reason)

    def _pubrec(self, packet: p.Pubrec) -> None:
        session = self.session
        assert session is not None
        assert session.outgoing is not None
        place = session.outgoing.place_of(packet.packet_id)
        answer = session.outgoing.pubrec(packet.packet_id, packet.reason)
        if answer == Answer.RELEASE:
            released = acknowledge(PacketType.PUBREL, packet.packet_id, self.version)
            if session.is_recorded:
                self.gateway.delivery.hold(session, released)
            else:
                self.write_now(released)
        elif answer == Answer.UNKNOWN:
            self.acknowledge(PacketType.PUBREL, packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND)
            if session.pack is not None:
                self.gateway.packing.ended(session, packet.packet_id, None)
        elif place is not None:
            if session.pack is not None:
                self.gateway.packing.ended(session, packet.packet_id, place)
            self.gateway.acknowledged(session, place, packet.reason)

    def _pubcomp(self, packet: p.Pubcomp) -> None:
        session = self.session
        assert session is not None
        assert session.outgoing is not None
        place = session.outgoing.pubcomp(packet.packet_id)
        if session.pack is not None:
            self.gateway.packing.ended(session, packet.packet_id, place)
        if place is not None:
            self.gateway.acknowledged(session, place, packet.reason)

    def _pubrel(self, packet: p.Pubrel) -> None:
        self.gateway.receiving.release(self, packet.packet_id)

    def _disconnect(self, packet: p.Disconnect) -> None:
        session = self.session
        assert session is not None
        expiry_s = packet.properties.get(Property.SESSION_EXPIRY_INTERVAL)
        if expiry_s is not None:
            assert isinstance(expiry_s, int)
            if expiry_s and not session.expiry_s:
                raise against_protocol("a session expiry in DISCONNECT, but none in CONNECT")
            session.expiry_s = min(expiry_s, self.gateway.limits.session_expiry_max_s)
        self.is_clean_end = packet.reason == Reason.SUCCESS
        self.close()
