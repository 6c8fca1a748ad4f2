"""The packets of MQTT 3.1.1 and 5.0 as values."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

# A property's value: a number, text, bytes; pairs of text for User Property; numbers for Subscription Identifier.
PropertyValue = int | str | bytes | tuple[tuple[str, str], ...] | tuple[int, ...]
# Values by property identifier; see properties.Property. Empty in 3.1.1.
Properties = Mapping[int, PropertyValue]
NO_PROPERTIES: Properties = MappingProxyType({})


class Will(NamedTuple):
    """The message that a server publishes when a client's connection ends without DISCONNECT."""

    topic: bytes
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(NamedTuple):
    """CONNECT. version: 4 for 3.1.1, 5 for 5.0; keep_alive_s: 0 for none; clean_start: 3.1.1's clean session."""

    version: int
    client_id: str
    clean_start: bool
    keep_alive_s: int = 0
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = NO_PROPERTIES


class Connack(NamedTuple):
    """CONNACK. reason: a reason code; a return code of 0 to 5 in 3.1.1."""

    session_present: bool
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Publish(NamedTuple):
    """PUBLISH. topic: valid UTF-8, empty where a topic alias stands for it; packet_id: 0 for QoS 0."""

    topic: bytes
    payload: bytes
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


class Puback(NamedTuple):
    """PUBACK: the answer to a PUBLISH of QoS 1."""

    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Pubrec(NamedTuple):
    """PUBREC: the first answer to a PUBLISH of QoS 2."""

    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Pubrel(NamedTuple):
    """PUBREL: the answer to PUBREC."""

    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Pubcomp(NamedTuple):
    """PUBCOMP: the answer to PUBREL."""

    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Subscription(NamedTuple):
    """A filter with its options; the last three are 5.0's."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(NamedTuple):
    """SUBSCRIBE, with one subscription or more."""

    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = NO_PROPERTIES


class Suback(NamedTuple):
    """SUBACK: a reason code for each subscription, in their order."""

    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(NamedTuple):
    """UNSUBSCRIBE, with one filter or more."""

    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class Unsuback(NamedTuple):
    """UNSUBACK: a reason code for each filter, in their order; none in 3.1.1."""

    packet_id: int
    reasons: tuple[int, ...] = ()
    properties: Properties = NO_PROPERTIES


class Pingreq(NamedTuple):
    """PINGREQ."""


class Pingresp(NamedTuple):
    """PINGRESP."""


class Disconnect(NamedTuple):
    """DISCONNECT; in 3.1.1 only from the client, and without a code."""

    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Auth(NamedTuple):
    """AUTH, of 5.0 only."""

    reason: int = 0
    properties: Properties = NO_PROPERTIES


Packet = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
