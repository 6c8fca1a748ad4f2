"""What paho's client sends is read as it was meant, and paho reads the properties that are written here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.properties import WILL, Property, properties, read_properties
from streamd.clients.mqtt.codec.reason_codes import PacketType
from tests.mqtt.codec.samples import property_sets

paho = pytest.importorskip("paho.mqtt.client")
P = Property
NAMES = {number: name.replace(" ", "") for name, number in paho.Properties(PacketType.PUBLISH).names.items()}
PLACES = [WILL, *(one for one in PacketType if one not in (PacketType.PINGREQ, PacketType.PINGRESP))]
SERVERS_ONLY = {P.SERVER_REFERENCE, P.SUBSCRIPTION_IDENTIFIER}
# Left out: paho takes no packet size above 268,435,455, and makes a list of SUBSCRIBE's identifier; of DISCONNECT's
# properties one is the client's and one the server's.
LEFT_OUT = {
    PacketType.CONNECT: (P.MAXIMUM_PACKET_SIZE,),
    PacketType.CONNACK: (P.MAXIMUM_PACKET_SIZE,),
    PacketType.SUBSCRIBE: (P.SUBSCRIPTION_IDENTIFIER,),
    PacketType.DISCONNECT: (P.SESSION_EXPIRY_INTERVAL,),
}


def theirs(values, place):
    """Return properties as paho's."""
    made = paho.Properties(place or paho.PacketTypes.WILLMESSAGE)
    for number, value in values.items():
        setattr(made, NAMES[number], list(value) if isinstance(value, tuple) else value)
    return made


def ours(made):
    """Return paho's properties as a dict."""
    found = {}
    for number, name in NAMES.items():
        if hasattr(made, name):
            value = getattr(made, name)
            found[number] = tuple(value) if isinstance(value, list) else value
    return found


class Client:
    """A client of paho whose packets are kept instead of being sent."""

    def __init__(self, version, client_id="d7", **options):
        self.sent = []
        protocol = {4: paho.MQTTv311, 5: paho.MQTTv5}[version]
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id, protocol=protocol, **options)
        self.client._packet_queue = self._keep
        self.client._sock = object()  # for paho that is what a connected client has

    def _keep(self, command, packet, mid, qos, info=None):
        self.sent.append(bytes(packet))
        return paho.MQTT_ERR_SUCCESS

    def close(self):
        self.client._sock = None


@pytest.fixture
def client():
    made = []

    def make(*args, **options):
        made.append(Client(*args, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("place", PLACES, ids=["WILL", *(one.name for one in PLACES[1:])])
def test_paho_reads_the_properties_of_each_packet_and_writes_them_to_be_read(place):
    @given(property_sets(place, without=LEFT_OUT.get(place, ())))
    def check(values):
        written = properties(values)
        made = paho.Properties(place or paho.PacketTypes.WILLMESSAGE)
        _, length = made.unpack(written)
        assert (length, ours(made)) == (len(written), dict(values))
        packed = theirs(values, place).pack()
        from_client = not SERVERS_ONLY & values.keys()
        assert read_properties(packed, 0, len(packed), place, from_client=from_client) == (values, len(packed))

    check()


@pytest.mark.parametrize("version", [4, 5])
def test_a_conversation_of_paho_is_read(version, client):
    one = client(version)
    device, of_5 = one.client, version == 5
    device.username_pw_set("ann", "secret")
    of_will = {P.WILL_DELAY_INTERVAL: 5, P.USER_PROPERTY: (("a", "1"), ("a", "2"))} if of_5 else {}
    of_message = {P.CONTENT_TYPE: "text", P.MESSAGE_EXPIRY_INTERVAL: 60} if of_5 else {}
    device.will_set("wills/d7", b"gone", 1, True, properties=theirs(of_will, WILL) if of_5 else None)
    if of_5:
        device._clean_start, device._connect_properties = False, theirs({P.SESSION_EXPIRY_INTERVAL: 9}, 1)
    device._send_connect(60)
    device.publish("a/ü", b"x", 0, True, theirs(of_message, PacketType.PUBLISH) if of_5 else None)
    device.publish("a", b"y" * 200, 2, False)
    options = paho.SubscribeOptions(2, True, True, 1) if of_5 else None
    device.subscribe("$share/g/+", 1) if not of_5 else device.subscribe("#", options=options)
    device.unsubscribe(["a/b", "c/#"])
    device._send_pingreq()
    device._send_puback(3)
    device._send_pubrec(4)
    device._send_pubrel(5)
    device._send_pubcomp(6)
    device._send_disconnect(paho.ReasonCode(14, identifier=4) if of_5 else None)

    decoder = Decoder()
    found = decoder.feed(b"".join(one.sent))
    assert decoder.fault is None
    will = packets.Will(b"wills/d7", b"gone", 1, True, of_will)
    subscription = packets.Subscription("#", 2, True, True, 1) if of_5 else packets.Subscription("$share/g/+", 1)
    wanted = [
        packets.Connect(
            version,
            "d7",
            not of_5,
            60,
            "ann",
            b"secret",
            will,
            {P.SESSION_EXPIRY_INTERVAL: 9} if of_5 else {},
        ),
        packets.Publish("a/ü".encode(), b"x", 0, True, properties=of_message),
        packets.Publish(b"a", b"y" * 200, 2, packet_id=found[2].packet_id),
        packets.Subscribe(found[3].packet_id, (subscription,)),
        packets.Unsubscribe(found[4].packet_id, ("a/b", "c/#")),
        packets.Pingreq(),
        packets.Puback(3),
        packets.Pubrec(4),
        packets.Pubrel(5),
        packets.Pubcomp(6),
        packets.Disconnect(4 if of_5 else 0),
    ]
    assert found == wanted
    assert [type(one) for one in found] == [type(one) for one in wanted]
    if not of_5:  # 5.0 has more than one form of what says the same
        assert b"".join([encode(packet, version) for packet in found]) == b"".join(one.sent)


@pytest.mark.parametrize("version", [4, 5])
@given(message=st.tuples(st.binary(max_size=200), st.integers(0, 2), st.booleans(), st.integers(1, 65_535)))
def test_paho_hears_what_is_published(version, message):
    payload, qos, retain, packet_id = message
    one = Client(version)
    heard = []
    one.client.on_message = lambda client, data, message: heard.append(message)
    packet = packets.Publish("a/ü".encode(), payload, qos, retain, False, packet_id if qos else 0)
    if version == 5:
        packet = packet._replace(properties={P.USER_PROPERTY: (("k", "v"),)})
    one.client._in_packet = {**one.client._in_packet, **incoming(encode(packet, version))}
    assert one.client._packet_handle() == paho.MQTT_ERR_SUCCESS
    if qos == 2:
        [message] = one.client._in_messages.values()
    else:
        [message] = heard
    assert (message.topic, message.payload, message.qos, bool(message.retain)) == ("a/ü", payload, qos, retain)
    assert one.sent == [[], [encode(packets.Puback(packet_id), 4)], [encode(packets.Pubrec(packet_id), 4)]][qos]
    one.close()


def incoming(data):
    """Return a packet as paho holds one that has come whole."""
    at = 1
    while data[at] >= 0x80:
        at += 1
    return {"command": data[0], "packet": bytearray(data[at + 1 :]), "pos": 0, "remaining_length": len(data) - at - 1}
