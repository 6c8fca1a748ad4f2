"""The properties of MQTT 5.0: where each may stand, its type and its values."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from streamd.clients.mqtt.codec import fields
from streamd.clients.mqtt.codec.faults import Fault, against_protocol, malformed
from streamd.clients.mqtt.codec.packets import NO_PROPERTIES, Properties, PropertyValue
from streamd.clients.mqtt.codec.reason_codes import PacketType, Reason

WILL = 0  # the place of a will's properties, which is no packet of its own
_T = PacketType
_ACKS = (_T.PUBACK, _T.PUBREC, _T.PUBREL, _T.PUBCOMP)


class Property(IntEnum):
    """A property's identifier. Source: MQTT 5.0, section 2.2.2.2."""

    PAYLOAD_FORMAT_INDICATOR = 0x01
    MESSAGE_EXPIRY_INTERVAL = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    SESSION_EXPIRY_INTERVAL = 0x11
    ASSIGNED_CLIENT_IDENTIFIER = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY_INTERVAL = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_SUBSCRIPTION_AVAILABLE = 0x28
    SUBSCRIPTION_IDENTIFIER_AVAILABLE = 0x29
    SHARED_SUBSCRIPTION_AVAILABLE = 0x2A


_P = Property


class _Kind(NamedTuple):
    """A type: how it is read, and how a value is written."""

    read: Callable[[bytes, int, int], tuple[Any, int]]
    write: Callable[[Any], bytes]


def _read_pair(data: bytes, at: int, end: int) -> tuple[tuple[str, str], int]:
    name, at = fields.read_text(data, at, end)
    value, at = fields.read_text(data, at, end)
    return (name, value), at


_BYTE = _Kind(fields.read_byte, lambda value: bytes((value,)))
_TWO = _Kind(fields.read_u16, fields.U16.pack)
_FOUR = _Kind(fields.read_u32, fields.U32.pack)
_VARIABLE = _Kind(fields.read_variable, fields.variable)
_TEXT = _Kind(fields.read_text, fields.text)
_BINARY = _Kind(fields.read_binary, fields.binary)
_PAIR = _Kind(_read_pair, lambda pair: fields.text(pair[0]) + fields.text(pair[1]))

# A property's type, the packets that may have it, and its smallest and largest value where not every one is allowed.
_TABLE: dict[int, tuple[_Kind, tuple[int, ...], tuple[int, int] | None]] = {
    _P.PAYLOAD_FORMAT_INDICATOR: (_BYTE, (_T.PUBLISH, WILL), (0, 1)),
    _P.MESSAGE_EXPIRY_INTERVAL: (_FOUR, (_T.PUBLISH, WILL), None),
    _P.CONTENT_TYPE: (_TEXT, (_T.PUBLISH, WILL), None),
    _P.RESPONSE_TOPIC: (_TEXT, (_T.PUBLISH, WILL), None),
    _P.CORRELATION_DATA: (_BINARY, (_T.PUBLISH, WILL), None),
    _P.SUBSCRIPTION_IDENTIFIER: (_VARIABLE, (_T.PUBLISH, _T.SUBSCRIBE), (1, fields.VARIABLE_MAX)),
    _P.SESSION_EXPIRY_INTERVAL: (_FOUR, (_T.CONNECT, _T.CONNACK, _T.DISCONNECT), None),
    _P.ASSIGNED_CLIENT_IDENTIFIER: (_TEXT, (_T.CONNACK,), None),
    _P.SERVER_KEEP_ALIVE: (_TWO, (_T.CONNACK,), None),
    _P.AUTHENTICATION_METHOD: (_TEXT, (_T.CONNECT, _T.CONNACK, _T.AUTH), None),
    _P.AUTHENTICATION_DATA: (_BINARY, (_T.CONNECT, _T.CONNACK, _T.AUTH), None),
    _P.REQUEST_PROBLEM_INFORMATION: (_BYTE, (_T.CONNECT,), (0, 1)),
    _P.WILL_DELAY_INTERVAL: (_FOUR, (WILL,), None),
    _P.REQUEST_RESPONSE_INFORMATION: (_BYTE, (_T.CONNECT,), (0, 1)),
    _P.RESPONSE_INFORMATION: (_TEXT, (_T.CONNACK,), None),
    _P.SERVER_REFERENCE: (_TEXT, (_T.CONNACK, _T.DISCONNECT), None),
    _P.REASON_STRING: (_TEXT, (_T.CONNACK, *_ACKS, _T.SUBACK, _T.UNSUBACK, _T.DISCONNECT, _T.AUTH), None),
    _P.RECEIVE_MAXIMUM: (_TWO, (_T.CONNECT, _T.CONNACK), (1, 65_535)),
    _P.TOPIC_ALIAS_MAXIMUM: (_TWO, (_T.CONNECT, _T.CONNACK), None),
    _P.TOPIC_ALIAS: (_TWO, (_T.PUBLISH,), None),  # 0 has a reason code of its own, see below
    _P.MAXIMUM_QOS: (_BYTE, (_T.CONNACK,), (0, 1)),
    _P.RETAIN_AVAILABLE: (_BYTE, (_T.CONNACK,), (0, 1)),
    _P.USER_PROPERTY: (_PAIR, (WILL, *(one for one in _T if one not in (_T.PINGREQ, _T.PINGRESP))), None),
    _P.MAXIMUM_PACKET_SIZE: (_FOUR, (_T.CONNECT, _T.CONNACK), (1, 2**32 - 1)),
    _P.WILDCARD_SUBSCRIPTION_AVAILABLE: (_BYTE, (_T.CONNACK,), (0, 1)),
    _P.SUBSCRIPTION_IDENTIFIER_AVAILABLE: (_BYTE, (_T.CONNACK,), (0, 1)),
    _P.SHARED_SUBSCRIPTION_AVAILABLE: (_BYTE, (_T.CONNACK,), (0, 1)),
}
# In these packets they may be repeated, and are returned as a tuple of all.
_REPEATED = {(one, _P.USER_PROPERTY) for one in (WILL, *_T)} | {(_T.PUBLISH, _P.SUBSCRIPTION_IDENTIFIER)}
_SERVERS_ONLY = {(_T.PUBLISH, _P.SUBSCRIPTION_IDENTIFIER), (_T.DISCONNECT, _P.SERVER_REFERENCE)}
_CLIENTS_ONLY = {(_T.DISCONNECT, _P.SESSION_EXPIRY_INTERVAL)}


class _Rule(NamedTuple):
    """A property in one packet of one side."""

    read: Callable[[bytes, int, int], tuple[Any, int]]
    allowed: tuple[int, int] | None
    is_checked: bool  # has values that are not allowed
    is_repeated: bool
    is_of_other_side: bool


def _rules(place: int, from_client: bool) -> dict[int, _Rule]:
    others = _SERVERS_ONLY if from_client else _CLIENTS_ONLY
    return {
        int(number): _Rule(
            kind.read,
            allowed,
            allowed is not None or number in (_P.RESPONSE_TOPIC, _P.TOPIC_ALIAS),
            (place, number) in _REPEATED,
            (place, number) in others,
        )
        for number, (kind, places, allowed) in _TABLE.items()
        if place in places
    }


# The table again by packet and side: what has to be looked up for each property of each PUBLISH.
_RULES = {(place, side): _rules(place, side) for place in (WILL, *_T) for side in (True, False)}
# What a server leaves out of an answer that would be too large for its client.
_DISPENSABLE = (_P.USER_PROPERTY, _P.REASON_STRING)


def read_properties(data: bytes, at: int, end: int, place: int, *, from_client: bool) -> tuple[Properties, int]:
    """Return the properties of a packet, or of a will, and the place behind them. Raises: Fault."""
    length, at = fields.read_variable(data, at, end)
    if not length:
        return NO_PROPERTIES, at
    stop = at + length
    if stop > end:
        raise malformed("the properties reach behind the end of their packet")
    found: dict[int, Any] = {}
    repeated: dict[int, list[Any]] = {}
    rules = _RULES[place, from_client]
    while at < stop:
        number, at = fields.read_variable(data, at, stop) if data[at] >= 0x80 else (data[at], at + 1)
        rule = rules.get(number)
        if rule is None:
            raise malformed(f"property {number:#04x} is not allowed here")
        read, allowed, is_checked, is_repeated, is_of_other_side = rule
        value, at = read(data, at, stop)
        if is_checked:
            _check_value(number, value, allowed)
        if is_of_other_side:
            raise against_protocol(f"property {number:#04x} is not one of this sender")
        if is_repeated:
            # A list until all are there: a longer tuple for each would copy those before it every time.
            repeated.setdefault(number, []).append(value)
        elif number in found:
            raise against_protocol(f"property {number:#04x} is there twice")
        else:
            found[number] = value
    if _P.AUTHENTICATION_DATA in found and _P.AUTHENTICATION_METHOD not in found:
        raise against_protocol("authentication data without a method")
    for number, values in repeated.items():
        found[number] = tuple(values)
    return found, stop


def _check_value(number: int, value: PropertyValue, allowed: tuple[int, int] | None) -> None:
    if allowed is not None:
        assert isinstance(value, int)
        if not allowed[0] <= value <= allowed[1]:
            raise against_protocol(f"property {number:#04x} has the value {value}")
    elif number == _P.RESPONSE_TOPIC:
        assert isinstance(value, str)
        if not value or "+" in value or "#" in value:
            raise against_protocol("the response topic is no topic name")
    elif number == _P.TOPIC_ALIAS and not value:
        raise Fault(Reason.TOPIC_ALIAS_INVALID, "topic alias 0")


def properties(values: Properties) -> bytes:
    """Return properties with their length before them."""
    if not values:
        return b"\0"
    parts = []
    for number, value in values.items():
        head, write = bytes((number,)), _TABLE[number][0].write
        if isinstance(value, tuple):
            parts += [head + write(one) for one in value]
        else:
            parts.append(head + write(value))
    encoded = b"".join(parts)
    return fields.variable(len(encoded)) + encoded


def without_dispensable(values: Properties) -> Properties:
    """Return properties without those that are only for people."""
    return {number: value for number, value in values.items() if number not in _DISPENSABLE}
