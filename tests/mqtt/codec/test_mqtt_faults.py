"""Bytes that MQTT does not allow, by the statement of the standard that forbids them."""

import pytest

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.decoder import FIRST_PACKET_BYTES_MAX, Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.names import check_filter, share_of

CONNECT = {4: encode(packets.Connect(4, "d7", True), 4), 5: encode(packets.Connect(5, "d7", True), 5)}
M, PE = 0x81, 0x82


def body(text):
    """Return bytes from hexadecimal digits and quoted text."""
    parts = text.split("'")
    return b"".join([one.encode() if number % 2 else bytes.fromhex(one) for number, one in enumerate(parts)])


def connect_with(rest, *, version=5, flags=0x02, properties="00", client_id="0002 'd7'"):
    made = body("0004 'MQTT'") + bytes((version, flags, 0, 10))
    made += (body(properties) if version == 5 else b"") + body(client_id) + body(rest)
    return bytes((0x10, len(made))) + made


# statement, version, bytes behind CONNECT, reason code
LATER = [
    ("5:1.5.4-1", 5, "30 06 0003 'a' eda0 00", M),
    ("5:1.5.4-1", 5, "30 05 0002 c080 00", M),
    ("5:1.5.4-1", 5, "30 07 0004 f4908080 00", M),
    ("3:1.5.3-1", 4, "30 04 0002 c080", M),
    ("5:1.5.4-2", 5, "30 05 0002 'a' 00 00", M),
    ("3:1.5.3-2", 4, "82 07 0001 0002 'a' 00 00", M),
    ("5:1.5.5-1", 5, "30 05 0001 'a' 8000", M),
    ("5:1.5.5-1", 5, "c0 8000", M),
    ("5:1.5.7-1", 5, "30 0b 0001 'a' 07 26 0001 ff 0001 'b'", M),
    ("5:1.5.7-1", 5, "30 0b 0001 'a' 07 26 0001 'b' 0001 ff", M),
    ("5:2.1.3-1", 5, "c1 00", M),
    ("5:2.1.3-1", 5, "42 02 0001", M),
    ("3:2.2.2-2", 4, "51 02 0001", M),
    ("5:3.6.1-1", 5, "60 02 0001", M),
    ("3:3.6.1-1", 4, "63 02 0001", M),
    ("5:3.8.1-1", 5, "80 07 0001 00 0001 'a' 00", M),
    ("3:3.8.1-1", 4, "83 06 0001 0001 'a' 00", M),
    ("5:3.10.1-1", 5, "a0 06 0001 00 0001 'a'", M),
    ("3:3.10.1-1", 4, "a0 05 0001 0001 'a'", M),
    ("5:3.14.1-1", 5, "e1 00", M),
    ("3:3.14.1-1", 4, "e2 00", M),
    ("5:3.15.1-1", 5, "f1 00", M),
    ("5:§2.1.4", 5, "30 ffffffff", M),
    ("3:§2.2.3", 4, "30 80808080", M),
    ("5:§1.2", 5, "c0 01 00", M),
    ("5:§1.2", 5, "40 06 0001 00 00 0000", M),
    ("3:§3.4", 4, "40 03 0001 00", M),
    ("5:§1.2", 5, "30 03 0005 'a'", M),
    ("5:§1.2", 5, "30 01 00", M),
    ("5:§2.1.2", 5, "00 00", PE),
    ("5:§2.1.2", 5, "20 03 000000", PE),
    ("5:§2.1.2", 5, "90 04 0001 00 00", PE),
    ("5:§2.1.2", 5, "b0 04 0001 00 00", PE),
    ("5:§2.1.2", 5, "d0 00", PE),
    ("3:§2.2.1", 4, "f0 00", PE),
    ("3:§2.2.1", 4, "00 00", PE),
    ("5:2.2.1-3", 5, "32 06 0001 'a' 0000 00", PE),
    ("5:2.2.1-3", 5, "82 07 0000 00 0001 'a' 00", PE),
    ("3:2.3.1-1", 4, "a2 05 0000 0001 'a'", PE),
    ("3:2.3.1-1", 4, "34 05 0001 'a' 0000", PE),
    ("5:2.2.1-3", 5, "40 02 0000", PE),
    ("5:§2.2.2.2", 5, "30 06 0001 'a' 02 7f00", M),
    ("5:§2.2.2.2", 5, "30 06 0001 'a' 02 2401", M),
    ("5:§2.2.2.2", 5, "30 08 0001 'a' 04 0101 0101", PE),
    ("5:§2.2.2.2", 5, "30 06 0001 'a' 02 0200", M),
    ("5:§2.2.2.2", 5, "30 06 0001 'a' 05 0101", M),
    ("5:§3.3.2.3.2", 5, "30 06 0001 'a' 02 0102", PE),
    ("5:3.3.1-4", 5, "36 06 0001 'a' 0001 00", M),
    ("3:3.3.1-4", 4, "36 05 0001 'a' 0001", M),
    ("5:3.3.1-2", 5, "38 04 0001 'a' 00", M),
    ("3:3.3.1-2", 4, "38 03 0001 'a'", M),
    ("5:3.3.2-2", 5, "30 06 0003 'a/+' 00", M),
    ("3:3.3.2-2", 4, "30 05 0003 'a/#'", M),
    ("5:§3.3.2.1", 5, "30 03 0000 00", PE),
    ("3:4.7.3-1", 4, "30 02 0000", PE),
    ("5:3.3.2-8", 5, "30 07 0001 'a' 03 23 0000", 0x94),
    ("5:3.3.2-14", 5, "30 08 0001 'a' 04 08 0001 '+'", PE),
    ("5:3.3.2-14", 5, "30 07 0001 'a' 03 08 0000", PE),
    ("5:3.3.4-6", 5, "30 06 0001 'a' 02 0b01", PE),
    ("5:3.4.2-1", 5, "40 03 0001 7f", PE),
    ("5:3.5.2-1", 5, "50 03 0001 92", PE),
    ("5:3.6.2-1", 5, "62 03 0001 80", PE),
    ("5:3.7.2-1", 5, "70 03 0001 10", PE),
    ("5:3.8.3-2", 5, "82 03 0001 00", PE),
    ("3:3.8.3-3", 4, "82 02 0001", PE),
    ("5:3.8.3-5", 5, "82 07 0001 00 0001 'a' 40", M),
    ("3:3.8.3-4", 4, "82 06 0001 0001 'a' 04", M),
    ("3:3.8.3-4", 4, "82 06 0001 0001 'a' 03", M),
    ("5:§3.8.3.1", 5, "82 07 0001 00 0001 'a' 03", PE),
    ("5:§3.8.3.1", 5, "82 07 0001 00 0001 'a' 30", PE),
    ("5:3.8.3-4", 5, "82 10 0001 00 000a '$share/g/a' 04", PE),
    ("5:§3.8.2.1.2", 5, "82 09 0001 02 0b00 0001 'a' 00", PE),
    ("5:§3.8.2.1.2", 5, "82 0b 0001 04 0b01 0b01 0001 'a' 00", PE),
    ("5:4.7.1-1", 5, "82 08 0001 00 0002 'a#' 00", M),
    ("3:4.7.1-2", 4, "82 0a 0001 0005 'a/#/b' 00", M),
    ("5:4.7.1-2", 5, "82 08 0001 00 0002 'a+' 00", M),
    ("5:4.7.3-1", 5, "82 06 0001 00 0000 00", M),
    ("5:4.8.2-1", 5, "82 0f 0001 00 0009 '$share//a' 00", PE),
    ("5:4.8.2-2", 5, "82 10 0001 00 000a '$share/+/a' 00", PE),
    ("5:4.8.2-2", 5, "82 0e 0001 00 0008 '$share/g' 00", PE),
    ("5:4.8.2-2", 5, "82 0f 0001 00 0009 '$share/g/' 00", PE),
    ("5:3.10.3-2", 5, "a2 03 0001 00", PE),
    ("3:3.10.3-2", 4, "a2 02 0001", PE),
    ("5:3.14.2-1", 5, "e0 01 8d", PE),
    ("5:§3.14.2.2.5", 5, "e0 06 00 04 1c 0001 'x'", PE),
    ("3:3.14.1-1", 4, "e0 01 00", M),
    ("5:3.15.2-1", 5, "f0 02 00 00", PE),
    ("5:§3.15.2", 5, "f0 00", PE),
    ("5:§3.15.2", 5, "f0 01 18", M),
    ("5:3.1.0-2", 5, CONNECT[5].hex(), PE),
    ("3:3.1.0-2", 4, CONNECT[4].hex(), PE),
]
# statement, bytes of a first packet, reason code, return code of 3.1.1
FIRST = [
    ("5:3.1.0-1", body("c0 00"), PE, None),
    ("5:3.1.0-1", body("30 04 0001 'a' 00"), PE, None),
    ("5:3.1.2-1", body("10 0f 0006 'MQIsdp' 03 02 000a 0002 'd7'"), 0x84, 1),
    ("5:3.1.2-2", connect_with("", version=6), 0x84, 1),
    ("3:3.1.2-2", connect_with("", version=3), 0x84, 1),
    ("5:3.1.2-3", connect_with("", flags=0x03), M, None),
    ("3:3.1.2-3", connect_with("", version=4, flags=0x03), M, None),
    ("5:3.1.2-9", connect_with("", flags=0x06), M, None),
    ("5:3.1.2-11", connect_with("", flags=0x0A), M, None),
    ("5:3.1.2-13", connect_with("", flags=0x22), M, None),
    ("3:3.1.2-15", connect_with("", version=4, flags=0x22), M, None),
    ("5:3.1.2-12", connect_with("00 0001 'w' 0000", flags=0x1E), M, None),
    ("3:3.1.2-14", connect_with("0001 'w' 0000", version=4, flags=0x1E), M, None),
    ("5:3.1.2-16", connect_with("0001 'u'"), M, None),
    ("5:3.1.2-17", connect_with("", flags=0x82), M, None),
    ("5:3.1.2-19", connect_with("", flags=0x42), M, None),
    ("3:3.1.2-22", connect_with("0001 'p'", version=4, flags=0x42), M, None),
    ("5:3.1.3-12", connect_with("0001 ff", flags=0x82), M, None),
    ("5:3.1.3-4", connect_with("", client_id="0001 ff"), M, None),
    ("5:1.5.4-2", connect_with("", client_id="0001 00"), M, None),
    ("5:3.1.3-11", connect_with("00 0001 '+' 0000", flags=0x06), M, None),
    ("3:3.1.3-10", connect_with("0000 0000", version=4, flags=0x06), M, None),
    ("3:3.1.3-8", connect_with("", version=4, flags=0, client_id="0000"), 0x85, 2),
    ("5:§3.1.2.11.3", connect_with("", properties="03 21 0000"), PE, None),
    ("5:§3.1.2.11.4", connect_with("", properties="05 27 00000000"), PE, None),
    ("5:§3.1.2.11.6", connect_with("", properties="02 1902"), PE, None),
    ("5:§3.1.2.11.7", connect_with("", properties="02 1702"), PE, None),
    ("5:§3.1.2.11.10", connect_with("", properties="04 16 0001 'x'"), PE, None),
    ("5:§2.2.2.2", connect_with("", properties="03 23 0001"), M, None),
    ("5:§2.2.2.2", connect_with("", properties="0a 11 00000001 11 00000001"), PE, None),
    ("5:§2.2.2.2", connect_with("00", properties="7f"), M, None),
    ("5:3.2.2-15", body("10 ffff7f"), 0x95, None),
    ("5:1.5.5-1", body("10 9000 0004 'MQTT' 05 02 000a 00 0003 'abc'"), M, None),
]
FROM_A_SERVER = [
    ("5:3.2.2-1", 5, "20 03 02 00 00", M),
    ("5:3.2.2-6", 5, "20 03 01 87 00", M),
    ("5:3.2.2-8", 5, "20 03 00 92 00", PE),
    ("3:§3.2.2.3", 4, "20 02 00 06", PE),
    ("5:3.9.3-2", 5, "90 04 0001 00 03", PE),
    ("3:3.9.3-2", 4, "90 03 0001 87", PE),
    ("5:§3.11.3", 5, "b0 03 0001 00", PE),
    ("5:3.14.2-2", 5, "e0 07 00 05 11 00000001", PE),
    ("3:§3.14", 4, "e0 00", PE),
    ("5:§2.1.2", 5, "10 00", PE),
]


@pytest.mark.parametrize(("statement", "version", "sent", "reason"), LATER)
def test_a_connection_ends_with_the_reason_and_what_came_before_is_taken(statement, version, sent, reason):
    data = CONNECT[version] + b"\xc0\0" + body(sent)
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        decoder = Decoder()
        found = [one for piece in pieces for one in decoder.feed(piece)]
        assert [type(one) for one in found] == [packets.Connect, packets.Pingreq]
        assert decoder.fault is not None
        assert (decoder.fault.reason, decoder.fault.connack_3) == (reason, None)


@pytest.mark.parametrize(("statement", "sent", "reason", "connack_3"), FIRST)
def test_a_first_packet_that_cannot_be_is_refused(statement, sent, reason, connack_3):
    for pieces in ([sent], [sent[at : at + 1] for at in range(len(sent))]):
        decoder = Decoder()
        assert [one for piece in pieces for one in decoder.feed(piece)] == []
        assert decoder.fault is not None
        assert (decoder.fault.reason, decoder.fault.connack_3) == (reason, connack_3)


@pytest.mark.parametrize(("statement", "version", "sent", "reason"), FROM_A_SERVER)
def test_a_server_that_breaks_the_rules_is_noticed(statement, version, sent, reason):
    decoder = Decoder(from_client=False, version=version)
    assert decoder.feed(body(sent)) == []
    assert decoder.fault is not None
    assert decoder.fault.reason == reason


@pytest.mark.parametrize(
    ("statement", "version", "sent"),
    [
        ("3:§2.2.3", 4, "c0 8000"),  # 3.1.1 has no rule about the shortest form
        ("5:1.5.4-3", 5, "30 08 0005 efbbbf 'ab' 00"),
        ("5:2.2.1-2", 5, "30 06 0001 'a' 00 0000"),
        ("5:§1.5.4", 5, "30 07 0001 'a' 03 03 0000"),
        ("5:§2.2.2.2", 5, "30 0e 0001 'a' 0a 26 0000 0000 26 0000 0000"),
    ],
)
def test_what_looks_odd_and_is_allowed_is_taken(statement, version, sent):
    decoder = Decoder()
    assert len(decoder.feed(CONNECT[version] + body(sent))) == 2
    assert decoder.fault is None


def test_a_packet_that_is_too_large_is_refused_by_its_head():
    """5:3.2.2-15: before its body is there."""
    decoder = Decoder(packet_bytes_max=100)
    assert len(decoder.feed(CONNECT[5] + encode(packets.Publish(b"a", b"x" * 94), 5))) == 2
    assert decoder.feed(body("30 63")) == []
    assert decoder.fault is not None
    assert decoder.fault.reason == 0x95


def test_a_client_that_is_not_known_yet_gets_little_memory():
    decoder = Decoder()
    size = FIRST_PACKET_BYTES_MAX - 2
    assert decoder.feed(bytes((0x10, size & 0x7F | 0x80, size >> 7))) == []
    assert decoder.fault is not None
    assert decoder.fault.reason == 0x95


@pytest.mark.parametrize(
    ("sent", "version"),
    [
        (connect_with("", flags=0x03), 5),
        (connect_with("", version=4, flags=0x03), 4),
        (connect_with("", version=4, flags=0, client_id="0000"), 4),
        (connect_with("", version=6), None),
        (body("c0 00"), None),
    ],
)
def test_a_connect_with_a_fault_has_said_its_version_where_it_has_a_known_one(sent, version):
    """So its CONNACK has the right form."""
    decoder = Decoder()
    assert decoder.feed(sent) == []
    assert decoder.version == version


@pytest.mark.parametrize("text", ["$share//a", "$share/+/a", "$share/g", "$share/g/", "$share/"])
def test_3_1_1_has_no_shared_subscriptions_that_could_be_written_wrongly(text):
    subscribe = packets.Subscribe(1, (packets.Subscription(text),))
    decoder = Decoder()
    assert decoder.feed(CONNECT[4] + encode(subscribe, 4))[1:] == [subscribe]
    assert decoder.fault is None
    assert share_of(text) == (None, text)


@pytest.mark.parametrize(
    ("text", "share", "inner"),
    [("a/#", None, "a/#"), ("$share/g/a/+", "g", "a/+"), ("$share/g//", "g", "/"), ("$share", None, "$share")],
)
def test_a_shared_subscription_has_a_name_and_a_filter(text, share, inner):
    assert share_of(text) == (share, inner)
    assert check_filter(text) is (share is not None)
