"""The body of each packet, parsed and judged by itself: what depends on the connection's state is not looked at."""

from streamd.clients.mqtt.codec import fields, packets
from streamd.clients.mqtt.codec.faults import Fault, against_protocol, malformed
from streamd.clients.mqtt.codec.names import check_filter, checked_topic, known_topics
from streamd.clients.mqtt.codec.packets import NO_PROPERTIES, Properties
from streamd.clients.mqtt.codec.properties import WILL, Property, read_properties
from streamd.clients.mqtt.codec.reason_codes import (
    CONNACK_3,
    FROM_CLIENT,
    FROM_SERVER,
    SUBACK_3,
    PacketType,
    Reason,
)

_USER_NAME, _PASSWORD, _WILL_RETAIN, _WILL_QOS, _WILL_FLAG, _CLEAN_START, _RESERVED = 0x80, 0x40, 0x20, 0x18, 4, 2, 1
_REFUSED_VERSION_3, _REFUSED_CLIENT_ID_3 = 1, 2  # return codes of CONNACK in 3.1.1


class Body:
    """The place of a packet's body in the bytes of a connection.

    One serves for all packets of a connection, as making one would take a good part of the time of a packet. version: 0
    before CONNECT.
    """

    __slots__ = ("at", "data", "end", "flags", "from_client", "version")

    def __init__(self, version: int, from_client: bool) -> None:
        self.data = b""
        self.at = self.end = self.flags = 0
        self.version = version
        self.from_client = from_client


def _end(body: Body, at: int) -> None:
    if at != body.end:
        raise malformed("bytes are left over behind the last field of a packet")


def _properties(body: Body, at: int, place: int) -> tuple[Properties, int]:
    if body.version < 5:
        return NO_PROPERTIES, at
    return read_properties(body.data, at, body.end, place, from_client=body.from_client)


def _packet_id(body: Body) -> tuple[int, int]:
    packet_id, at = fields.read_u16(body.data, body.at, body.end)
    if not packet_id:
        raise against_protocol("packet identifier 0")
    return packet_id, at


def _reason(body: Body, kind: PacketType, reason: int) -> int:
    if reason not in (FROM_CLIENT if body.from_client else FROM_SERVER)[kind]:
        raise against_protocol(f"{kind.name} has the reason code {reason:#04x}")
    return reason


def connect(body: Body) -> packets.Connect:
    """Return a CONNECT. Raises: Fault."""
    data, end = body.data, body.end
    name, at = fields.read_binary(data, body.at, end)
    version, at = fields.read_byte(data, at, end)
    if name != b"MQTT" or version not in (4, 5):
        text = f"protocol {name[:20]!r}, version {version}; 3.1.1 and 5.0 are served"
        raise Fault(Reason.UNSUPPORTED_PROTOCOL_VERSION, text, _refused_version_3(name, version))
    body.version = version
    flags, at = fields.read_byte(data, at, end)
    if flags & _RESERVED:
        raise malformed("the reserved flag of CONNECT is set")
    if not flags & _WILL_FLAG and flags & (_WILL_QOS | _WILL_RETAIN):
        raise malformed("CONNECT has no will, but its QoS or retain flag")
    if flags & _WILL_QOS == _WILL_QOS:
        raise malformed("the will has QoS 3")
    if version == 4 and flags & _PASSWORD and not flags & _USER_NAME:
        raise malformed("a password without a user name")
    keep_alive_s, at = fields.read_u16(data, at, end)
    properties, at = _properties(body, at, PacketType.CONNECT)
    client_id, at = fields.read_text(data, at, end)
    will = None
    if flags & _WILL_FLAG:
        will, at = _will(body, at, flags)
    username = password = None
    if flags & _USER_NAME:
        username, at = fields.read_text(data, at, end)
    if flags & _PASSWORD:
        password, at = fields.read_binary(data, at, end)
    _end(body, at)
    clean_start = bool(flags & _CLEAN_START)
    if version == 4 and not client_id and not clean_start:
        text = "no client identifier, but a session that lasts"
        raise Fault(Reason.CLIENT_IDENTIFIER_NOT_VALID, text, _REFUSED_CLIENT_ID_3)
    return packets.Connect(version, client_id, clean_start, keep_alive_s, username, password, will, properties)


def _refused_version_3(name: bytes, version: int) -> int | None:
    """Return the code for a protocol that is not served; None for one that is not MQTT, whose form nobody knows."""
    is_mqtt = name == b"MQTT" or (name == b"MQIsdp" and version < 5)
    return _REFUSED_VERSION_3 if is_mqtt else None


def _will(body: Body, at: int, flags: int) -> tuple[packets.Will, int]:
    properties, at = _properties(body, at, WILL)
    topic, at = fields.read_binary(body.data, at, body.end)
    payload, at = fields.read_binary(body.data, at, body.end)
    qos, retain = (flags & _WILL_QOS) >> 3, bool(flags & _WILL_RETAIN)
    return packets.Will(checked_topic(topic), payload, qos, retain, properties), at


def connack(body: Body) -> packets.Connack:
    """Return a CONNACK. Raises: Fault."""
    flags, at = fields.read_byte(body.data, body.at, body.end)
    reason, at = fields.read_byte(body.data, at, body.end)
    if flags & 0xFE or (flags and reason):
        raise malformed(f"the flags of CONNACK are {flags:#04x}, its code is {reason:#04x}")
    if body.version == 4:
        if reason not in CONNACK_3:
            raise against_protocol(f"CONNACK has the return code {reason}")
    else:
        _reason(body, PacketType.CONNACK, reason)
    properties, at = _properties(body, at, PacketType.CONNACK)
    _end(body, at)
    return packets.Connack(bool(flags), reason, properties)


def publish(body: Body) -> packets.Publish:
    """Return a PUBLISH. Raises: Fault."""
    data, at, end, flags = body.data, body.at, body.end, body.flags
    qos = flags >> 1 & 3
    if qos == 3:
        raise malformed("a PUBLISH of QoS 3")
    if flags & 0b1110 == 0b1000:
        raise malformed("a PUBLISH of QoS 0 has DUP")
    topic_at = at + 2
    if topic_at > end:
        raise malformed("the length of a field is cut")
    at = topic_at + (data[at] << 8 | data[at + 1])
    if at > end:
        raise malformed("a field reaches behind the end of its packet")
    topic = data[topic_at:at]
    packet_id = 0
    if qos:
        if at + 2 > end:
            raise malformed("a number of two bytes is cut")
        packet_id = data[at] << 8 | data[at + 1]
        at += 2
        if not packet_id:
            raise against_protocol("packet identifier 0")
    properties = NO_PROPERTIES
    if body.version == 5:
        if at < end and not data[at]:
            at += 1
        else:
            properties, at = read_properties(data, at, end, PacketType.PUBLISH, from_client=body.from_client)
    if not topic:
        if Property.TOPIC_ALIAS not in properties:
            raise against_protocol("a PUBLISH has neither a topic nor an alias")
    else:
        topic = known_topics.get(topic) or checked_topic(topic)
    return packets.Publish(topic, data[at:end], qos, flags & 1 == 1, flags >= 8, packet_id, properties)


def _ack(body: Body, kind: PacketType) -> tuple[int, int, Properties]:
    packet_id, at = _packet_id(body)
    if at == body.end:
        return packet_id, 0, NO_PROPERTIES
    if body.version < 5:
        raise malformed(f"bytes are left over behind the packet identifier of {kind.name}")
    reason, at = fields.read_byte(body.data, at, body.end)
    _reason(body, kind, reason)
    properties = NO_PROPERTIES
    if at < body.end:
        properties, at = _properties(body, at, kind)
    _end(body, at)
    return packet_id, reason, properties


def puback(body: Body) -> packets.Puback:
    """Return a PUBACK. Raises: Fault."""
    at = body.at
    if body.end == at + 2:  # nearly always
        packet_id = body.data[at] << 8 | body.data[at + 1]
        if packet_id:
            return packets.Puback(packet_id)
    return packets.Puback(*_ack(body, PacketType.PUBACK))


def pubrec(body: Body) -> packets.Pubrec:
    """Return a PUBREC. Raises: Fault."""
    return packets.Pubrec(*_ack(body, PacketType.PUBREC))


def pubrel(body: Body) -> packets.Pubrel:
    """Return a PUBREL. Raises: Fault."""
    return packets.Pubrel(*_ack(body, PacketType.PUBREL))


def pubcomp(body: Body) -> packets.Pubcomp:
    """Return a PUBCOMP. Raises: Fault."""
    return packets.Pubcomp(*_ack(body, PacketType.PUBCOMP))


def subscribe(body: Body) -> packets.Subscribe:
    """Return a SUBSCRIBE. Raises: Fault."""
    packet_id, at = _packet_id(body)
    properties, at = _properties(body, at, PacketType.SUBSCRIBE)
    found = []
    while at < body.end:
        text, at = fields.read_text(body.data, at, body.end)
        options, at = fields.read_byte(body.data, at, body.end)
        if options & (0b1100_0000 if body.version == 5 else 0b1111_1100):
            raise malformed("reserved options of a subscription are set")
        if options & 3 == 3:
            raise (
                malformed("a subscription of QoS 3")
                if body.version < 5
                else against_protocol("a subscription of QoS 3")
            )
        if options >> 4 == 3:
            raise against_protocol("a subscription with retain handling 3")
        is_shared = check_filter(text, body.version)
        if is_shared and options & 4:
            raise against_protocol("a shared subscription with No Local")
        found.append(packets.Subscription(text, options & 3, bool(options & 4), bool(options & 8), options >> 4))
    if not found:
        raise against_protocol("a SUBSCRIBE without a filter")
    return packets.Subscribe(packet_id, tuple(found), properties)


def suback(body: Body) -> packets.Suback:
    """Return a SUBACK. Raises: Fault."""
    packet_id, at = _packet_id(body)
    properties, at = _properties(body, at, PacketType.SUBACK)
    reasons = tuple(body.data[at : body.end])
    known = FROM_SERVER[PacketType.SUBACK] if body.version == 5 else SUBACK_3
    if not reasons or not known.issuperset(reasons):
        raise against_protocol("SUBACK has no code, or one that is not its own")
    return packets.Suback(packet_id, reasons, properties)


def unsubscribe(body: Body) -> packets.Unsubscribe:
    """Return an UNSUBSCRIBE. Raises: Fault."""
    packet_id, at = _packet_id(body)
    properties, at = _properties(body, at, PacketType.UNSUBSCRIBE)
    found = []
    while at < body.end:
        text, at = fields.read_text(body.data, at, body.end)
        check_filter(text, body.version)
        found.append(text)
    if not found:
        raise against_protocol("an UNSUBSCRIBE without a filter")
    return packets.Unsubscribe(packet_id, tuple(found), properties)


def unsuback(body: Body) -> packets.Unsuback:
    """Return an UNSUBACK. Raises: Fault."""
    packet_id, at = _packet_id(body)
    if body.version < 5:
        _end(body, at)
        return packets.Unsuback(packet_id)
    properties, at = _properties(body, at, PacketType.UNSUBACK)
    reasons = tuple(body.data[at : body.end])
    if not reasons or not FROM_SERVER[PacketType.UNSUBACK].issuperset(reasons):
        raise against_protocol("UNSUBACK has no code, or one that is not its own")
    return packets.Unsuback(packet_id, reasons, properties)


def pingreq(body: Body) -> packets.Pingreq:
    """Return a PINGREQ. Raises: Fault."""
    _end(body, body.at)
    return packets.Pingreq()


def pingresp(body: Body) -> packets.Pingresp:
    """Return a PINGRESP. Raises: Fault."""
    _end(body, body.at)
    return packets.Pingresp()


def disconnect(body: Body) -> packets.Disconnect:
    """Return a DISCONNECT. Raises: Fault."""
    if body.version < 5:
        _end(body, body.at)
        return packets.Disconnect()
    return packets.Disconnect(*_short(body, PacketType.DISCONNECT))


def auth(body: Body) -> packets.Auth:
    """Return an AUTH. Raises: Fault."""
    if body.end - body.at == 1:  # DISCONNECT may leave out the property length alone, AUTH may not
        raise malformed("an AUTH without a property length")
    reason, properties = _short(body, PacketType.AUTH)
    if Property.AUTHENTICATION_METHOD not in properties:
        raise against_protocol("an AUTH without a method")
    return packets.Auth(reason, properties)


def _short(body: Body, kind: PacketType) -> tuple[int, Properties]:
    """Return code and properties, both of which may be left out."""
    if body.at == body.end:
        return _reason(body, kind, 0), NO_PROPERTIES
    reason, at = fields.read_byte(body.data, body.at, body.end)
    _reason(body, kind, reason)
    properties = NO_PROPERTIES
    if at < body.end:
        properties, at = _properties(body, at, kind)
    _end(body, at)
    return reason, properties
