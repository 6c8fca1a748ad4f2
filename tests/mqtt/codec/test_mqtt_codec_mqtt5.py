"""A packet of 5.0 that mqtt5 has read and written again is the same packet."""

import pytest
from hypothesis import given

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import NO_PROPERTIES
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from tests.mqtt.codec.samples import FROM_CLIENT_5, FROM_SERVER_5, connects, later_packets

mqtt5 = pytest.importorskip("mqtt5")
# mqtt5 does not tell a property with its default value from none.
DEFAULTS = {
    Property.PAYLOAD_FORMAT_INDICATOR: 0,
    Property.SESSION_EXPIRY_INTERVAL: 0,
    Property.REQUEST_PROBLEM_INFORMATION: 1,
    Property.REQUEST_RESPONSE_INFORMATION: 0,
    Property.WILL_DELAY_INTERVAL: 0,
    Property.RECEIVE_MAXIMUM: 65_535,
    Property.TOPIC_ALIAS_MAXIMUM: 0,
    Property.RETAIN_AVAILABLE: 1,
    Property.WILDCARD_SUBSCRIPTION_AVAILABLE: 1,
    Property.SUBSCRIPTION_IDENTIFIER_AVAILABLE: 1,
    Property.SHARED_SUBSCRIPTION_AVAILABLE: 1,
}


def without_defaults(packet):
    """Return a packet, or a will, without properties that have their default values."""
    if isinstance(packet, packets.Connect) and packet.will is not None:
        packet = packet._replace(will=without_defaults(packet.will))
    if isinstance(packet, packets.Pingreq | packets.Pingresp):
        return packet
    left = {number: value for number, value in packet.properties.items() if DEFAULTS.get(number) != value}
    return packet._replace(properties=left or NO_PROPERTIES)


def is_disputed(packet):
    """Return whether a packet has the one code on which two tables of the standard disagree; mqtt5 refuses it."""
    return isinstance(packet, packets.Disconnect) and packet.reason == Reason.BAD_AUTHENTICATION_METHOD


def check_again(packet, from_client):
    """Check that a packet comes back from mqtt5."""
    data = encode(packet, 5)
    theirs, length = mqtt5.read(data)
    assert length == len(data)
    decoder = Decoder(from_client=from_client, version=None if isinstance(packet, packets.Connect) else 5)
    [found] = decoder.feed(theirs.write())
    assert type(found) is type(packet)
    assert without_defaults(found) == without_defaults(packet)


@pytest.mark.parametrize("from_client", [True, False])
def test_packets_of_every_kind_come_back_from_mqtt5(from_client):
    for packet in FROM_CLIENT_5 if from_client else FROM_SERVER_5:
        check_again(packet, from_client)


@given(connects(5))
def test_every_connect_comes_back_from_mqtt5(packet):
    check_again(packet, True)


@given(later_packets(True, 5))
def test_what_a_client_sends_comes_back_from_mqtt5(packet):
    check_again(packet, True)


@given(later_packets(False, 5).filter(lambda packet: not is_disputed(packet)))
def test_what_a_server_sends_comes_back_from_mqtt5(packet):
    check_again(packet, False)
