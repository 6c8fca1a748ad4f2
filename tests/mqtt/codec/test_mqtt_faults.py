"""Each way to break a statement of the standards is a fault with its reason, however the bytes are cut."""

import re

import pytest

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.decoder import FIRST_PACKET_BYTES_MAX, Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.names import check_filter, share_of
from tests.mqtt.codec.statements import (
    ALLOWED,
    CONNECT,
    FIRST,
    FIRST_ALLOWED,
    FROM_A_SERVER,
    LATER,
    ROWS,
    body,
    connect_with,
)


def ways_to_cut(data):
    """Return the bytes whole, in two pieces at every place, and one by one."""
    singles = [data[at : at + 1] for at in range(len(data))]
    return [[data], singles, *([data[:at], data[at:]] for at in range(1, len(data)))]


@pytest.mark.parametrize(("statement", "version", "sent", "reason"), LATER)
def test_a_connection_ends_with_the_reason_and_what_came_before_is_taken(statement, version, sent, reason):
    data = CONNECT[version] + b"\xc0\0" + body(sent)
    for pieces in ways_to_cut(data):
        decoder = Decoder()
        found = [one for piece in pieces for one in decoder.feed(piece)]
        assert [type(one) for one in found] == [packets.Connect, packets.Pingreq]
        assert decoder.fault is not None
        assert (decoder.fault.reason, decoder.fault.connack_3) == (reason, None)


@pytest.mark.parametrize(("statement", "sent", "reason", "connack_3"), FIRST)
def test_a_first_packet_that_cannot_be_is_refused(statement, sent, reason, connack_3):
    for pieces in ways_to_cut(sent):
        decoder = Decoder()
        assert [one for piece in pieces for one in decoder.feed(piece)] == []
        assert decoder.fault is not None
        assert (decoder.fault.reason, decoder.fault.connack_3) == (reason, connack_3)


@pytest.mark.parametrize(("statement", "version", "sent", "reason"), FROM_A_SERVER)
def test_a_server_that_breaks_the_rules_is_noticed(statement, version, sent, reason):
    for pieces in ways_to_cut(body(sent)):
        decoder = Decoder(from_client=False, version=version)
        assert [one for piece in pieces for one in decoder.feed(piece)] == []
        assert decoder.fault is not None
        assert decoder.fault.reason == reason


@pytest.mark.parametrize(("statement", "version", "sent", "packet"), ALLOWED)
def test_what_looks_odd_and_is_allowed_is_taken(statement, version, sent, packet):
    decoder = Decoder()
    found = decoder.feed(CONNECT[version] + body(sent))
    assert (found[1:], decoder.fault) == ([packet], None)
    assert type(found[1]) is type(packet)


@pytest.mark.parametrize(("statement", "sent", "packet"), FIRST_ALLOWED)
def test_a_first_packet_that_looks_odd_and_is_allowed_is_taken(statement, sent, packet):
    decoder = Decoder()
    assert (decoder.feed(sent), decoder.fault) == ([packet], None)


def test_statements_are_named_as_the_standards_name_them():
    assert [row[0] for row in ROWS if not re.fullmatch(r"[35]:(\d\.\d+\.\d+-\d+|§\d(\.\d+)+)", row[0])] == []
    assert [row for row in LATER + FROM_A_SERVER + ALLOWED if row[0][0] != {4: "3", 5: "5"}[row[1]]] == []


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
