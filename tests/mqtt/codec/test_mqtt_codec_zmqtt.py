"""A packet of either version that zmqtt has read and written again is the same packet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.properties import Property
from tests.mqtt.codec.by_hand import read
from tests.mqtt.codec.samples import SAMPLES, connects, later_packets

codec = pytest.importorskip("zmqtt._internal.packets.codec", reason="zmqtt is not installed")
SIDES = list(SAMPLES)
IDS = [f"{'client' if side[0] else 'server'}-{side[1]}" for side in SIDES]
VERSIONS = {4: "3.1.1", 5: "5.0"}


def check_again(packet, side):
    """Check that a packet comes back from zmqtt."""
    from_client, version = side
    written = encode(packet, version)
    theirs, length = codec.decode(written, version=VERSIONS[version])
    assert length == len(written)
    if isinstance(packet, packets.Publish) and Property.SUBSCRIPTION_IDENTIFIER in packet.properties:
        last = packet.properties[Property.SUBSCRIPTION_IDENTIFIER][-1:]  # of several it keeps that
        packet = packet._replace(properties={**packet.properties, Property.SUBSCRIPTION_IDENTIFIER: last})
    again = codec.encode(theirs, version=VERSIONS[version])
    found = read(again, version, from_client, is_first=isinstance(packet, packets.Connect))
    assert found == [packet]
    assert type(found[0]) is type(packet)


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_packets_of_every_kind_come_back_from_zmqtt(side):
    for packet in SAMPLES[side]:
        check_again(packet, side)


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_every_packet_comes_back_from_zmqtt(side):
    later = later_packets(*side)

    @given(st.one_of(connects(side[1]), later) if side[0] else later)
    def check(packet):
        check_again(packet, side)

    check()
