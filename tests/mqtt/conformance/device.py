"""A client that sends packets one by one, and judges each packet that a broker sends."""

import socket
import time
from collections import deque
from typing import Any

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import Packet, Publish
from streamd.clients.mqtt.codec.properties import Property as P
from streamd.clients.mqtt.codec.reason_codes import FROM_SERVER, PacketType

SOCKET_S = 10.0
PINGREQ = encode(packets.Pingreq(), 5)
FOR_PEOPLE = (packets.Publish, packets.Connack, packets.Disconnect)
ANSWERED_BY = {packets.Suback: packets.Subscribe, packets.Unsuback: packets.Unsubscribe}
_READ_BYTES = 1 << 16


class Deviation(AssertionError):
    """The broker does otherwise than the standard says."""


class StillOpen(Deviation):
    """A connection that is not closed where it has to be."""


class Stream:
    """The bytes of a TCP connection; WebSockets have a class of their own with the same methods."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=SOCKET_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        """Send all of it; where the broker has closed already, nothing: reading shows that."""
        self._socket.settimeout(SOCKET_S)
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def receive(self, timeout_s: float) -> bytes:
        """Return what is there or comes next; empty at the end. Raises: TimeoutError."""
        self._socket.settimeout(max(timeout_s, 0.001))
        try:
            return self._socket.recv(_READ_BYTES)
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self._socket.close()


class Device:
    """A connection to a broker, and what it has seen of its session.

    `prefix` is in every topic of the case; messages of other cases, which a filter like `#` lets through, are passed
    over. `says_why`: the broker is held to the DISCONNECT that MQTT 5.0 only recommends before a close.
    """

    def __init__(self, stream: Stream, version: int, prefix: str, says_why: bool, deadline_s: float) -> None:
        self.version, self.prefix, self.says_why = version, prefix.encode(), says_why
        self.stream, self.deadline_s = stream, deadline_s
        self.connack: packets.Connack | None = None
        self.raw = b""  # the last packet
        self.asked: packets.Connect | None = None
        self._bytes = b""
        self._inbox: deque[Publish] = deque()
        self._last_id = 0
        self._in_flight: set[int] = set()
        self._requests: dict[int, type] = {}
        self._aliases: dict[int, bytes] = {}
        self._has_disconnect = False
        self._has_raw = False  # bytes were sent, which may be requests
        self._marked = False

    # What the client sends

    def send(self, *sent: Packet | bytes) -> None:
        """Send packets in one write; bytes as they are."""
        data = b""
        for one in sent:
            if isinstance(one, bytes):
                data += one
                self._has_raw = True
                continue
            match one:
                case packets.Connect():
                    self.asked = self.asked or one
                case packets.Puback() | packets.Pubcomp():
                    self._in_flight.discard(one.packet_id)
                case packets.Pubrec() if one.reason >= 0x80:
                    self._in_flight.discard(one.packet_id)
                case packets.Subscribe() | packets.Unsubscribe():
                    self._requests[one.packet_id] = type(one)
            data += encode(one, self.version)
        self.stream.send(data)

    def new_id(self) -> int:
        """Return a packet ID that this client has not used yet."""
        self._last_id += 1
        return self._last_id

    def subscribes(self, *filters: str, qos: int = 0, identifier: int = 0, **options: bool | int) -> tuple[int, ...]:
        """Subscribe; return the codes of SUBACK."""
        subscriptions = tuple(packets.Subscription(one, qos, **options) for one in filters)  # type: ignore[arg-type]
        properties = {P.SUBSCRIPTION_IDENTIFIER: identifier} if identifier else {}
        packet_id = self.new_id()
        self.send(packets.Subscribe(packet_id, subscriptions, properties))
        return self.expects(packets.Suback, packet_id=packet_id).reasons

    def unsubscribes(self, *filters: str) -> tuple[int, ...]:
        """Unsubscribe; return the codes of UNSUBACK."""
        packet_id = self.new_id()
        self.send(packets.Unsubscribe(packet_id, filters))
        return self.expects(packets.Unsuback, packet_id=packet_id).reasons

    def publishes(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False, **properties: object) -> int:
        """Publish, to the last packet of its QoS; return the code of PUBACK or PUBREC, 0 for QoS 0."""
        packet_id = self.new_id() if qos else 0
        values = {P[name.upper()]: value for name, value in properties.items()}
        self.send(Publish(topic.encode(), payload, qos, retain, False, packet_id, values))  # type: ignore[arg-type]
        return self.is_answered(packet_id, qos)

    def is_answered(self, packet_id: int, qos: int) -> int:
        """Take the answers to a PUBLISH; return the code of PUBACK or PUBREC."""
        if not qos:
            return 0
        if qos == 1:
            return self.expects(packets.Puback, packet_id=packet_id).reason
        reason = self.expects(packets.Pubrec, packet_id=packet_id).reason
        if reason < 0x80:
            self.send(packets.Pubrel(packet_id))
            self.expects(packets.Pubcomp, packet_id=packet_id)
        return reason

    def disconnects(self, reason: int = 0, **properties: int) -> None:
        """Send DISCONNECT; return when the broker has closed the connection."""
        self.send(packets.Disconnect(reason, {P[name.upper()]: value for name, value in properties.items()}))
        self.is_closed()

    def drops(self) -> None:
        """Close the connection as a failing network does, without DISCONNECT."""
        self.stream.close()

    # What the client receives

    def expects(self, kind: type, **fields: object) -> Any:
        """Return the next packet but PUBLISHes, which wait for `receives`; it is of this kind and has these fields."""
        while True:
            packet = self.take()
            if type(packet) is Publish and kind is not Publish:
                self._inbox.append(packet)
                continue
            if type(packet) is not kind:
                raise Deviation(f"{packet} instead of {kind.__name__} {fields}")
            for name, value in fields.items():
                if getattr(packet, name) != value:
                    raise Deviation(f"{packet} where {name} is to be {value!r}")
            return packet

    def puts_back(self, packet: Publish) -> None:
        """Let a PUBLISH wait for `hears`."""
        self._inbox.append(packet)

    def has_heard(self) -> bool:
        """Return whether a PUBLISH waits for `hears`."""
        return bool(self._inbox)

    def hears(self) -> Publish:
        """Return the next PUBLISH, which is not acknowledged yet."""
        return self._inbox.popleft() if self._inbox else self.expects(Publish)

    def receives(self, payload: bytes | None = None, qos: int | None = None, retain: bool | None = None) -> Publish:
        """Return the next PUBLISH, acknowledged to the end; it has this payload, QoS and flag."""
        packet = self.hears()
        if payload is not None and packet.payload != payload:
            raise Deviation(f"{packet} instead of the message {payload!r}")
        if qos is not None and packet.qos != qos:
            raise Deviation(f"{packet} where QoS {qos} is right")
        if retain is not None and packet.retain != retain:
            raise Deviation(f"{packet} where RETAIN {retain:d} is right")
        self.acknowledges(packet)
        return packet

    def acknowledges(self, packet: Publish) -> None:
        """Answer a PUBLISH to the last packet of its QoS."""
        if packet.qos == 1:
            self.send(packets.Puback(packet.packet_id))
        elif packet.qos == 2:
            self.send(packets.Pubrec(packet.packet_id))
            self.expects(packets.Pubrel, packet_id=packet.packet_id, reason=0)
            self.send(packets.Pubcomp(packet.packet_id))

    def all_from(self, publisher: "Device", qos: int = 1) -> list[Publish]:
        """Return the messages that come before a marker which the publisher sends now; all are acknowledged."""
        topic = f"{self.prefix.decode()}/marker"
        if not self._marked:
            self.subscribes(topic, qos=qos)
            self._marked = True
        payload = b"marker %d" % publisher.new_id()
        publisher.publishes(topic, payload, qos)
        found = []
        while (packet := self.receives()).payload != payload:
            if not packet.payload.startswith(b"marker"):
                found.append(packet)
        return found

    def payloads_from(self, publisher: "Device", qos: int = 1) -> list[bytes]:
        """Return the payloads of `all_from`."""
        return [one.payload for one in self.all_from(publisher, qos)]

    def pings(self) -> None:
        """Send PINGREQ, and take the answer: nothing but PUBLISHes came before it."""
        self.send(packets.Pingreq())
        self.expects(packets.Pingresp)

    def is_silent_for(self, seconds: float) -> None:
        """Wait so long for a packet, and none comes."""
        if self._inbox:
            raise Deviation(f"{self._inbox[0]} has come")
        try:
            packet = self.take(seconds)
        except TimeoutError:
            return
        raise Deviation(f"{packet} has come")

    def breaks(self, data: bytes, *reasons: int) -> None:
        """Send bytes that are no packet; the broker closes, with one of the codes where it says one."""
        self.send(data + PINGREQ)  # the answer shows that it goes on, without a wait
        self.is_closed(*reasons)

    def is_closed(self, *reasons: int, within_s: float | None = None, told: bool | None = None) -> int | None:
        """Wait until the broker closes; return the code of its DISCONNECT, None where it sends none.

        reasons: the codes that are right. told: whether DISCONNECT must come; else as the broker is held to it.
        """
        code = None
        within_s = within_s or self.deadline_s
        deadline = time.monotonic() + within_s
        while True:
            try:
                packet = self._taken(deadline - time.monotonic())
            except TimeoutError:
                raise StillOpen(f"the connection is still open after {within_s} s") from None
            if packet is None:
                break
            if type(packet) is Publish:
                self._inbox.append(packet)
            elif type(packet) is packets.Disconnect:
                code = packet.reason
            elif type(packet) is packets.Pingresp:
                raise Deviation("the broker goes on and answers PINGREQ")
            elif type(packet) is not packets.Pubrel or self.says_why:
                raise Deviation(f"{packet} where the connection is to be closed")
        self.stream.close()
        if code is None:
            if self.version == 5 and reasons and (self.says_why if told is None else told):
                raise Deviation("closed without DISCONNECT")
        elif reasons and self.says_why and code not in reasons:
            raise Deviation(f"DISCONNECT {code:#04x}, not one of {[hex(one) for one in reasons]}")
        return code

    def next_or_end(self) -> Packet | None:
        """Return the next packet; None where the broker has closed."""
        try:
            return self._taken(self.deadline_s)
        except TimeoutError:
            raise Deviation(f"nothing comes within {self.deadline_s} s, and no close") from None

    def take(self, timeout_s: float | None = None) -> Packet:
        """Return the next packet, judged. Raises: Deviation at the end; TimeoutError where a time is given."""
        try:
            packet = self._taken(self.deadline_s if timeout_s is None else timeout_s)
        except TimeoutError:
            if timeout_s is not None:
                raise
            raise Deviation(f"nothing comes within {self.deadline_s} s") from None
        if packet is None:
            raise Deviation("the broker has closed the connection")
        return packet

    def _taken(self, timeout_s: float) -> Packet | None:
        deadline = time.monotonic() + timeout_s
        while True:
            while (size := _size_of_first(self._bytes)) is None:
                data = self.stream.receive(deadline - time.monotonic())
                if not data:
                    if self._bytes:
                        raise Deviation(f"the broker closes in the middle of a packet: {self._bytes[:40].hex()}")
                    return None
                self._bytes += data
            self.raw, self._bytes = self._bytes[:size], self._bytes[size:]
            packet = self._judged(self.raw)
            if type(packet) is Publish and self.prefix not in packet.topic:
                self.acknowledges(packet)
                continue
            return packet

    # What holds for every packet of a broker

    def _judged(self, raw: bytes) -> Packet:
        decoder = Decoder(from_client=False, version=self.version)
        decoded = decoder.feed(raw)
        if decoder.fault is not None:
            raise Deviation(f"{raw[:60].hex()}: {decoder.fault}")
        (packet,) = decoded
        kind = PacketType(raw[0] >> 4)
        self._must(not self._has_disconnect, "5:3.14.4-1", packet)
        if type(packet) is packets.Connack:
            self._must(self.connack is None, "5:3.2.0-2", packet)
            self.connack = packet
        elif type(packet) is not packets.Auth:
            self._must(self.connack is not None, "5:3.2.0-1", packet)
            self._must(self.connack is not None and not self.connack.reason, "5:3.1.4-6", packet)
        if self.version == 5:
            self._judge_properties(packet, raw)
            reasons = getattr(packet, "reasons", None) or (getattr(packet, "reason", 0),)
            self._must(kind not in FROM_SERVER or set(reasons) <= FROM_SERVER[kind], "5:§2.4", packet)
        if type(packet) is packets.Disconnect:
            self._has_disconnect = True
        if type(packet) in ANSWERED_BY:
            request = self._requests.pop(packet.packet_id, None)  # type: ignore[union-attr]
            is_right = request is ANSWERED_BY[type(packet)] or (request is None and self._has_raw)
            self._must(is_right, "5:2.2.1-6", packet)
        if type(packet) is Publish:
            packet = self._judged_publish(packet)
        return packet

    def _judge_properties(self, packet: Packet, raw: bytes) -> None:
        asked = self.asked.properties if self.asked is not None else {}
        has = getattr(packet, "properties", {})
        self._must(len(raw) <= asked.get(P.MAXIMUM_PACKET_SIZE, len(raw)), "5:3.1.2-24", packet)  # type: ignore[operator]
        if asked.get(P.REQUEST_PROBLEM_INFORMATION) == 0 and type(packet) not in FOR_PEOPLE:
            self._must(not {P.REASON_STRING, P.USER_PROPERTY} & set(has), "5:3.1.2-29", packet)
        if not asked.get(P.REQUEST_RESPONSE_INFORMATION):
            self._must(P.RESPONSE_INFORMATION not in has, "5:3.1.2-28", packet)
        if type(packet) is packets.Connack:
            self._must(
                has.get(P.AUTHENTICATION_METHOD) == asked.get(P.AUTHENTICATION_METHOD) or packet.reason >= 0x80,
                "5:4.12.0-5",
                packet,
            )
        if type(packet) is packets.Auth:
            self._must(P.AUTHENTICATION_METHOD in asked, "5:4.12.0-6", packet)

    def _judged_publish(self, packet: Publish) -> Publish:
        asked = self.asked.properties if self.asked is not None else {}
        self._must(bool(packet.qos) or not packet.dup, "5:3.3.1-2", packet)
        alias = packet.properties.get(P.TOPIC_ALIAS)
        if alias is not None:
            assert isinstance(alias, int)
            self._must(0 < alias <= asked.get(P.TOPIC_ALIAS_MAXIMUM, 0), "5:3.1.2-26", packet)  # type: ignore[operator]
            if packet.topic:
                self._aliases[alias] = packet.topic
            else:
                self._must(alias in self._aliases, "5:3.3.2-7", packet)
                packet = packet._replace(topic=self._aliases[alias])
        if packet.qos:
            assert self.connack is not None
            self._must(packet.packet_id not in self._in_flight, "5:2.2.1-4", packet)
            self._must(self.connack.session_present or not packet.dup, "5:4.3.2-2", packet)
            self._in_flight.add(packet.packet_id)
            most = asked.get(P.RECEIVE_MAXIMUM, 65_535)
            self._must(len(self._in_flight) <= most, "5:3.3.4-9", packet)  # type: ignore[operator]
        return packet

    def _must(self, holds: bool, statement: str, packet: Packet) -> None:
        if not holds:
            raise Deviation(f"{statement}: {packet}")


def _size_of_first(data: bytes) -> int | None:
    """Return the length of the packet that the bytes begin with; None where it is not complete."""
    length = shift = 0
    for at, byte in enumerate(data[1:5], 2):
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at + length if len(data) >= at + length else None
        shift += 7
        if shift == 28:
            raise Deviation(f"a remaining length of more than four bytes: {data[:5].hex()}")
    return None
