"""Packets to bytes, for 3.1.1 and for 5.0."""

from collections.abc import Callable
from typing import Any

from streamd.clients.mqtt.codec import fields, packets
from streamd.clients.mqtt.codec.fields import U16
from streamd.clients.mqtt.codec.packets import NO_PROPERTIES, Packet, Properties
from streamd.clients.mqtt.codec.properties import properties, without_dispensable
from streamd.clients.mqtt.codec.reason_codes import PacketType

_DUP, _QOS = 0b1000, 0b0110
_ACKS = {PacketType.PUBACK: 0x40, PacketType.PUBREC: 0x50, PacketType.PUBREL: 0x62, PacketType.PUBCOMP: 0x70}
_PUBLISH = int(PacketType.PUBLISH)
_ACKS_OF_SUCCESS = {kind: bytes((head, 2)) for kind, head in _ACKS.items()}
PINGRESP = b"\xd0\0"


def encode(packet: Packet, version: int, packet_bytes_max: int | None = None) -> bytes:
    """Return a packet in bytes.

    packet_bytes_max: what the receiver takes; reason string and user properties of an answer are left out where they
    would make it larger. A packet that is too large even so is returned all the same: its length tells.
    """
    encoded = _ENCODERS[type(packet)](packet, version)
    if packet_bytes_max is not None and len(encoded) > packet_bytes_max and type(packet) in _ANSWERS:
        shorter = packet._replace(properties=without_dispensable(packet.properties))  # type: ignore[union-attr, call-arg]
        encoded = _ENCODERS[type(packet)](shorter, version)
    return encoded


def acknowledge(kind: PacketType, packet_id: int, version: int, reason: int = 0) -> bytes:
    """Return PUBACK, PUBREC, PUBREL or PUBCOMP without properties."""
    if version < 5 or not reason:
        return _ACKS_OF_SUCCESS[kind] + U16.pack(packet_id)
    return bytes((_ACKS[kind], 3, packet_id >> 8, packet_id & 0xFF, reason))


class PublishHead:
    """The part that all PUBLISH packets of one message have in common.

    Its bytes up to the packet identifier are made once; each receiver adds its identifier.
    """

    __slots__ = ("_before", "_behind", "whole_bytes")

    def __init__(
        self, topic: bytes, payload: bytes, qos: int, retain: bool, version: int, values: Properties = NO_PROPERTIES
    ) -> None:
        behind = properties(values) + payload if version == 5 else payload
        of_id = 2 if qos else 0
        length = 2 + len(topic) + of_id + len(behind)
        first = _PUBLISH << 4 | qos << 1 | retain
        self._before = before = b"%c%b%b%b" % (first, fields.variable(length), U16.pack(len(topic)), topic)
        self._behind = behind
        self.whole_bytes = len(before) + of_id + len(behind)

    def packet(self, packet_id: int = 0, dup: bool = False) -> bytes:
        """Return the packet with an identifier; 0 for QoS 0."""
        before = self._before
        assert bool(packet_id) == bool(before[0] & _QOS)
        if dup:
            before = bytes((before[0] | _DUP,)) + before[1:]
        if not packet_id:
            return before + self._behind
        return before + U16.pack(packet_id) + self._behind


def _framed(kind: PacketType, body: bytes, flags: int = 0) -> bytes:
    return bytes((kind << 4 | flags,)) + fields.variable(len(body)) + body


def _values(values: Properties, version: int) -> bytes:
    return properties(values) if version == 5 else b""


def _connect(packet: packets.Connect, version: int) -> bytes:
    will = packet.will
    flags = bool(packet.clean_start) << 1
    payload = fields.text(packet.client_id)
    if will is not None:
        flags |= 4 | will.qos << 3 | bool(will.retain) << 5
        payload += _values(will.properties, version) + fields.binary(will.topic) + fields.binary(will.payload)
    if packet.username is not None:
        flags |= 0x80
        payload += fields.text(packet.username)
    if packet.password is not None:
        flags |= 0x40
        payload += fields.binary(packet.password)
    head = fields.binary(b"MQTT") + bytes((packet.version, flags)) + U16.pack(packet.keep_alive_s)
    return _framed(PacketType.CONNECT, head + _values(packet.properties, version) + payload)


def _connack(packet: packets.Connack, version: int) -> bytes:
    body = bytes((bool(packet.session_present), packet.reason)) + _values(packet.properties, version)
    return _framed(PacketType.CONNACK, body)


def _publish(packet: packets.Publish, version: int) -> bytes:
    head = PublishHead(packet.topic, packet.payload, packet.qos, packet.retain, version, packet.properties)
    return head.packet(packet.packet_id, packet.dup)


def _acknowledged(kind: PacketType) -> Callable[[Any, int], bytes]:
    def encoded(packet: packets.Puback | packets.Pubrec | packets.Pubrel | packets.Pubcomp, version: int) -> bytes:
        if version < 5 or not packet.properties:
            return acknowledge(kind, packet.packet_id, version, packet.reason)
        body = U16.pack(packet.packet_id) + bytes((packet.reason,)) + properties(packet.properties)
        return _framed(kind, body, 2 if kind == PacketType.PUBREL else 0)

    return encoded


def _subscribe(packet: packets.Subscribe, version: int) -> bytes:
    body = U16.pack(packet.packet_id) + _values(packet.properties, version)
    for one in packet.subscriptions:
        options = one.qos
        if version == 5:
            options |= one.no_local << 2 | one.retain_as_published << 3 | one.retain_handling << 4
        body += fields.text(one.filter) + bytes((options,))
    return _framed(PacketType.SUBSCRIBE, body, 2)


def _suback(packet: packets.Suback, version: int) -> bytes:
    body = U16.pack(packet.packet_id) + _values(packet.properties, version) + bytes(packet.reasons)
    return _framed(PacketType.SUBACK, body)


def _unsubscribe(packet: packets.Unsubscribe, version: int) -> bytes:
    body = U16.pack(packet.packet_id) + _values(packet.properties, version)
    for one in packet.filters:
        body += fields.text(one)
    return _framed(PacketType.UNSUBSCRIBE, body, 2)


def _unsuback(packet: packets.Unsuback, version: int) -> bytes:
    body = U16.pack(packet.packet_id)
    if version == 5:
        body += properties(packet.properties) + bytes(packet.reasons)
    return _framed(PacketType.UNSUBACK, body)


def _short(kind: PacketType) -> Callable[[Any, int], bytes]:
    def encoded(packet: packets.Disconnect | packets.Auth, version: int) -> bytes:
        if version < 5 or not (packet.reason or packet.properties):
            return _framed(kind, b"")
        code = bytes((packet.reason,))
        return _framed(kind, code + properties(packet.properties) if packet.properties else code)

    return encoded


_ENCODERS: dict[type, Callable[[Any, int], bytes]] = {
    packets.Connect: _connect,
    packets.Connack: _connack,
    packets.Publish: _publish,
    packets.Puback: _acknowledged(PacketType.PUBACK),
    packets.Pubrec: _acknowledged(PacketType.PUBREC),
    packets.Pubrel: _acknowledged(PacketType.PUBREL),
    packets.Pubcomp: _acknowledged(PacketType.PUBCOMP),
    packets.Subscribe: _subscribe,
    packets.Suback: _suback,
    packets.Unsubscribe: _unsubscribe,
    packets.Unsuback: _unsuback,
    packets.Pingreq: lambda packet, version: b"\xc0\0",
    packets.Pingresp: lambda packet, version: PINGRESP,
    packets.Disconnect: _short(PacketType.DISCONNECT),
    packets.Auth: _short(PacketType.AUTH),
}
_ANSWERS = {
    packets.Connack,
    packets.Puback,
    packets.Pubrec,
    packets.Pubrel,
    packets.Pubcomp,
    packets.Suback,
    packets.Unsuback,
    packets.Disconnect,
    packets.Auth,
}
