"""Packets become bytes and packets again, however the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import PublishHead, acknowledge, encode
from streamd.clients.mqtt.codec.fields import read_variable, variable
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import PacketType
from tests.mqtt.codec.samples import SAMPLES, USER, connects, later_packets

SIDES = list(SAMPLES)
IDS = [f"{'client' if side[0] else 'server'}-{side[1]}" for side in SIDES]


def decoder(side):
    return Decoder(from_client=side[0], version=None if side[0] else side[1])


def conversations(side):
    """Whole sequences from one side: from a client, each CONNECT begins one."""
    if not side[0]:
        return [SAMPLES[side]]
    later = [one for one in SAMPLES[side] if type(one) is not packets.Connect]
    return [[one, *later] for one in SAMPLES[side] if type(one) is packets.Connect]


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_packets_come_back_whole_in_two_pieces_and_byte_by_byte(side):
    for sent in conversations(side):
        data = b"".join([encode(one, side[1]) for one in sent])
        cuts = [[data], [data[at : at + 1] for at in range(len(data))]]
        cuts += [[data[:at], data[at:]] for at in range(1, len(data))]
        for pieces in cuts:
            reader = decoder(side)
            found = [one for piece in pieces for one in reader.feed(piece)]
            assert reader.fault is None
            assert found == sent
            assert [type(one) for one in found] == [type(one) for one in sent]
            assert reader.version == side[1]


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_any_packet_comes_back(side):
    first = connects(side[1]).map(lambda one: [one]) if side[0] else st.just([])

    @given(first, st.lists(later_packets(*side), max_size=6), st.lists(st.integers(1, 60), min_size=1))
    def check(first, later, sizes):
        sent = first + later
        data = b"".join([encode(one, side[1]) for one in sent])
        reader = decoder(side)
        found, at, turn = [], 0, 0
        while at < len(data):
            size = sizes[turn % len(sizes)]
            found += reader.feed(data[at : at + size])
            at, turn = at + size, turn + 1
        assert (found, reader.fault) == (sent, None)
        assert [type(one) for one in found] == [type(one) for one in sent]

    check()


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_whatever_comes_is_packets_or_one_fault(side):
    starts = [encode(one, side[1]) for one in SAMPLES[side]]

    @given(
        st.sampled_from(starts), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4), st.binary()
    )
    def check(start, changes, more):
        changed = bytearray(start + more)
        for at, byte in changes:
            if at < len(changed):
                changed[at] = byte
        whole, single = decoder(side), decoder(side)
        found = whole.feed(bytes(changed))
        assert found == [one for byte in changed for one in single.feed(bytes((byte,)))]
        # What was taken can be said again, and is the same then.
        again = decoder(side)
        assert again.feed(b"".join([encode(one, side[1]) for one in found])) == found
        assert again.fault is None
        assert str(whole.fault) == str(single.fault)
        if whole.fault is not None:
            assert (whole.fault.reason, whole.fault.connack_3) == (single.fault.reason, single.fault.connack_3)
            assert "\n" not in str(whole.fault)
            assert whole.feed(encode(packets.Pingreq(), 5)) == []

    check()


@pytest.mark.parametrize("number", [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455])
def test_variable_byte_integers_have_the_shortest_form(number):
    encoded = variable(number)
    assert len(encoded) == 1 + (number > 127) + (number > 16_383) + (number > 2_097_151)
    assert read_variable(encoded, 0, len(encoded)) == (number, len(encoded))


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(("qos", "packet_id"), [(0, 0), (1, 1), (2, 65_535)])
def test_the_head_of_a_message_makes_the_packets_of_all_its_receivers(version, qos, packet_id):
    values = {Property.USER_PROPERTY: USER} if version == 5 else {}
    head = PublishHead(b"a/b", b"x" * 300, qos, True, version, values)
    for dup in (False, True) if qos else (False,):
        packet = packets.Publish(b"a/b", b"x" * 300, qos, True, dup, packet_id, values)
        assert head.packet(packet_id, dup) == encode(packet, version)
        assert len(head.packet(packet_id, dup)) == head.whole_bytes


def test_answers_leave_out_what_is_for_people_where_the_client_takes_no_more():
    said = {Property.REASON_STRING: "because", Property.USER_PROPERTY: USER}
    for packet in (
        packets.Puback(1, 0x87, said),
        packets.Suback(1, (0x87,), said),
        packets.Disconnect(0x82, said),
        packets.Connack(False, 0x87, {**said, Property.SERVER_KEEP_ALIVE: 9}),
    ):
        whole = encode(packet, 5)
        assert encode(packet, 5, len(whole)) == whole
        left = {one: value for one, value in packet.properties.items() if one not in said}
        shorter = packet._replace(properties=left)
        assert encode(packet, 5, len(whole) - 1) == encode(shorter, 5)
    message = packets.Publish(b"t", b"", 0, False, False, 0, said)
    assert encode(message, 5, 5) == encode(message, 5)


def test_an_acknowledgement_of_success_is_its_identifier_alone():
    assert acknowledge(PacketType.PUBACK, 258, 5) == b"\x40\x02\x01\x02"
    assert acknowledge(PacketType.PUBREL, 258, 5, 0x92) == b"\x62\x03\x01\x02\x92"
    assert acknowledge(PacketType.PUBREC, 258, 4, 0x97) == b"\x50\x02\x01\x02"


def test_a_topic_that_is_known_is_the_same_object():
    data = encode(packets.Publish(b"devices/d7/temperature", b"1"), 4)
    first, second = [Decoder(from_client=False, version=4).feed(data)[0].topic for _ in range(2)]
    assert first is second


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_a_packet_whose_body_is_cut_or_longer_is_another_whole_packet_or_a_fault(side):
    first = encode(SAMPLES[side][0], side[1]) if side[0] else b""
    for packet in SAMPLES[side]:
        before = b"" if type(packet) is packets.Connect else first
        _, at = read_variable(encode(packet, side[1]), 1, 5)
        whole = encode(packet, side[1])[at:]
        for body in [whole[:end] for end in range(len(whole))] + [whole + b"\0", whole + b"\xff\xff\xff"]:
            data = encode(packet, side[1])[:1] + variable(len(body)) + body
            reader = decoder(side)
            found = reader.feed(before + data)
            if reader.fault is None:
                assert encode(found[-1], side[1]) in (data, encode(packet, side[1])) or is_long_form(data)
            else:
                assert reader.fault.reason in (0x81, 0x82)
                assert len(found) == bool(before)


def is_long_form(data):
    """Return whether a packet says success, or no properties, where it could leave that out."""
    return data[0] >> 4 in (4, 5, 6, 7, 14) and data[-1] == 0
