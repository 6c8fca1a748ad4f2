"""Every first byte, every property in every packet and every reason code, beside a table that others wrote."""

import pytest

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.faults import Fault
from streamd.clients.mqtt.codec.fields import variable
from streamd.clients.mqtt.codec.properties import WILL, Property, properties, read_properties
from streamd.clients.mqtt.codec.reason_codes import FROM_CLIENT, FROM_SERVER, PacketType
from tests.mqtt.codec.statements import CONNECT

# The table of section 2.1.2: who sends a type in 3.1.1 and in 5.0, and its flags; None for those of PUBLISH.
TYPES = {
    1: ("c", "c", 0),
    2: ("s", "s", 0),
    3: ("cs", "cs", None),
    4: ("cs", "cs", 0),
    5: ("cs", "cs", 0),
    6: ("cs", "cs", 2),
    7: ("cs", "cs", 0),
    8: ("c", "c", 2),
    9: ("s", "s", 0),
    10: ("c", "c", 2),
    11: ("s", "s", 0),
    12: ("c", "c", 0),
    13: ("s", "s", 0),
    14: ("c", "cs", 0),
    15: ("", "cs", 0),
}
VALUES = {
    "Byte": b"\1",
    "Two Byte Integer": b"\0\1",
    "Four Byte Integer": b"\0\0\0\1",
    "Variable Byte Integer": b"\1",
    "Binary Data": b"\0\1x",
    "UTF-8 Encoded String": b"\0\1x",
    "UTF-8 String Pair": b"\0\1x\0\1y",
}
SERVERS_ONLY = {(PacketType.PUBLISH, 0x0B), (PacketType.DISCONNECT, 0x1C)}
CLIENTS_ONLY = {(PacketType.DISCONNECT, 0x11)}
PLACES = [WILL, *(one for one in PacketType if one not in (PacketType.PINGREQ, PacketType.PINGRESP))]


def reason_of_head(head, side, version):
    """Return the reason of the fault of a first byte behind CONNECT, 0 where more is awaited."""
    decoder = Decoder(from_client=side == "c", version=None if side == "c" else version)
    if side == "c":
        decoder.feed(CONNECT[version])
    assert decoder.feed(bytes((head,))) == []
    return 0 if decoder.fault is None else decoder.fault.reason


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("side", ["c", "s"])
def test_every_first_byte_is_that_of_a_packet_or_a_fault(side, version):
    for head in range(256):
        kind, flags = head >> 4, head & 15
        sides, wanted = (TYPES[kind][version - 4], TYPES[kind][2]) if kind in TYPES else ("", 0)
        if side not in sides or (side == "c" and kind == 1):
            reason = 0x82
        elif wanted is not None and flags != wanted:
            reason = 0x81
        else:
            reason = 0
        assert reason_of_head(head, side, version) == reason, hex(head)


def test_every_first_byte_but_that_of_connect_is_a_fault_before_it():
    for head in range(256):
        decoder = Decoder()
        assert decoder.feed(bytes((head,))) == []
        reason = 0 if decoder.fault is None else decoder.fault.reason
        assert reason == (0 if head == 0x10 else 0x81 if head >> 4 == 1 else 0x82), hex(head)


def reason_of(number, encoded, place, from_client):
    """Return the reason of the fault of properties, 0 where they are taken."""
    found = variable(number) + encoded
    data = variable(len(found)) + found
    try:
        values, at = read_properties(data, 0, len(data), place, from_client=from_client)
    except Fault as fault:
        return fault.reason
    assert at == len(data)
    if place:
        assert properties(values) == data
    return 0


@pytest.mark.parametrize("from_client", [True, False])
@pytest.mark.parametrize("place", PLACES, ids=["WILL", *(one.name for one in PLACES[1:])])
def test_a_property_is_taken_where_paho_has_it(place, from_client):
    paho = pytest.importorskip("paho.mqtt.properties")
    types = pytest.importorskip("paho.mqtt.packettypes").PacketTypes
    theirs = paho.Properties(types.PUBLISH)
    assert set(theirs.names.values()) == set(Property)
    for number in range(256):
        kind, places = theirs.properties.get(number, (0, ()))
        encoded = VALUES[theirs.types[kind]]
        if (place or types.WILLMESSAGE) not in places:
            wanted = 0x81
        elif (place, number) in (SERVERS_ONLY if from_client else CLIENTS_ONLY) or number == 0x16:
            wanted = 0x82  # 0x16 has no method beside it
        else:
            wanted = 0
        assert reason_of(number, encoded, place, from_client) == wanted, hex(number)
        if wanted:
            continue
        repeats = number == 0x26 or (number == 0x0B and place == PacketType.PUBLISH)
        twice = encoded + variable(number) + encoded
        assert reason_of(number, twice, place, from_client) == (0 if repeats else 0x82), hex(number)
        assert reason_of(number, encoded[:-1], place, from_client) == 0x81, hex(number)
        if theirs.types[kind].startswith("UTF-8"):
            for bad in (b"\xff", b"\0", b"\x80"):
                assert reason_of(number, encoded[:-1] + bad, place, from_client) == 0x81, hex(number)


# property, a place, a value that is no value of it, the reason
BAD_VALUES = [
    (0x01, PacketType.PUBLISH, b"\2", 0x82),
    (0x01, WILL, b"\xff", 0x82),
    (0x08, WILL, b"\0\1#", 0x82),
    (0x08, PacketType.PUBLISH, b"\0\3a/+", 0x82),
    (0x08, PacketType.PUBLISH, b"\0\0", 0x82),
    (0x0B, PacketType.SUBSCRIBE, b"\0", 0x82),
    (0x0B, PacketType.SUBSCRIBE, b"\xff\xff\xff\xff\1", 0x81),
    (0x17, PacketType.CONNECT, b"\2", 0x82),
    (0x19, PacketType.CONNECT, b"\2", 0x82),
    (0x21, PacketType.CONNECT, b"\0\0", 0x82),
    (0x21, PacketType.CONNACK, b"\0\0", 0x82),
    (0x23, PacketType.PUBLISH, b"\0\0", 0x94),
    (0x24, PacketType.CONNACK, b"\2", 0x82),
    (0x25, PacketType.CONNACK, b"\2", 0x82),
    (0x27, PacketType.CONNECT, b"\0\0\0\0", 0x82),
    (0x27, PacketType.CONNACK, b"\0\0\0\0", 0x82),
    (0x28, PacketType.CONNACK, b"\2", 0x82),
    (0x29, PacketType.CONNACK, b"\2", 0x82),
    (0x2A, PacketType.CONNACK, b"\2", 0x82),
]


@pytest.mark.parametrize(("number", "place", "encoded", "reason"), BAD_VALUES)
def test_a_property_has_only_its_values(number, place, encoded, reason):
    assert reason_of(number, encoded, place, place != PacketType.CONNACK) == reason


def test_the_reason_codes_are_those_that_paho_has():
    theirs = pytest.importorskip("paho.mqtt.reasoncodes").ReasonCode.names
    found = {}
    for code, named in theirs.items():
        for kinds in named.values():
            for kind in kinds:
                found.setdefault(kind, set()).add(code)
    found[PacketType.CONNACK].add(0x99)  # for a will; paho has left it out
    ours = {}
    for table in (FROM_CLIENT, FROM_SERVER):
        for kind, codes in table.items():
            ours.setdefault(kind, set()).update(codes)
    assert ours == found


def test_the_reason_codes_are_those_that_mqtt5_has():
    mqtt5 = pytest.importorskip("mqtt5")
    for kind, name in (
        (PacketType.CONNACK, "ConnAck"),
        (PacketType.PUBACK, "PubAck"),
        (PacketType.PUBREC, "PubRec"),
        (PacketType.PUBREL, "PubRel"),
        (PacketType.PUBCOMP, "PubComp"),
        (PacketType.SUBACK, "SubAck"),
        (PacketType.UNSUBACK, "UnsubAck"),
    ):
        assert FROM_SERVER[kind] == codes_of(getattr(mqtt5, name + "ReasonCode")), name
    both = FROM_CLIENT[PacketType.DISCONNECT] | FROM_SERVER[PacketType.DISCONNECT]
    assert both - {0x8C} == codes_of(mqtt5.DisconnectReasonCode)  # on which two tables of the standard disagree


def codes_of(codes):
    return {int(getattr(codes, name)) for name in dir(codes) if name.isupper()}


@pytest.mark.parametrize(("from_client", "codes"), [(True, FROM_CLIENT), (False, FROM_SERVER)])
def test_a_packet_has_only_its_own_reason_codes(from_client, codes):
    made = {
        PacketType.CONNACK: lambda code: packets.Connack(False, code),
        PacketType.SUBACK: lambda code: packets.Suback(1, (code,)),
        PacketType.UNSUBACK: lambda code: packets.Unsuback(1, (code,)),
        PacketType.DISCONNECT: packets.Disconnect,
        PacketType.AUTH: lambda code: packets.Auth(code, {Property.AUTHENTICATION_METHOD: "m"}),
        **{PacketType[one.__name__.upper()]: (lambda code, one=one: one(1, code)) for one in ACKS},
    }
    for kind, allowed in codes.items():
        for code in range(256):
            decoder = Decoder(from_client=from_client, version=5)
            data = encode(made[kind](code), 5)
            found = decoder.feed(data)
            assert bool(found) == (code in allowed), (kind, code)
            if not found:
                assert decoder.fault is not None
                assert decoder.fault.reason == 0x82


ACKS = (packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp)
