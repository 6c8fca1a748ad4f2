"""Other codecs read what this one writes, write it again, and this one reads the same."""

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import Packet
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from tests.mqtt.codec.by_hand import read
from tests.mqtt.codec.samples import SAMPLES, first_packets, later_packets

P = Property
SIDES = list(SAMPLES)
IDS = [f"{'client' if side[0] else 'server'}-{side[1]}" for side in SIDES]
OF_5 = [side for side in SIDES if side[1] == 5]
# What the absence of a property means: codecs leave out a value that says the same.
DEFAULTS = {
    P.PAYLOAD_FORMAT_INDICATOR: 0,
    P.WILL_DELAY_INTERVAL: 0,
    P.REQUEST_PROBLEM_INFORMATION: 1,
    P.REQUEST_RESPONSE_INFORMATION: 0,
    P.RECEIVE_MAXIMUM: 65_535,
    P.TOPIC_ALIAS_MAXIMUM: 0,
    P.RETAIN_AVAILABLE: 1,
    P.WILDCARD_SUBSCRIPTION_AVAILABLE: 1,
    P.SUBSCRIPTION_IDENTIFIER_AVAILABLE: 1,
    P.SHARED_SUBSCRIPTION_AVAILABLE: 1,
}


def plain(packet: Packet) -> Packet:
    """A packet without the properties that say what their absence says."""
    if isinstance(packet, packets.Pingreq | packets.Pingresp):
        return packet
    defaults = DEFAULTS | ({P.SESSION_EXPIRY_INTERVAL: 0} if isinstance(packet, packets.Connect) else {})
    values = {one: value for one, value in packet.properties.items() if defaults.get(one, None) != value}
    if isinstance(packet, packets.Connect) and packet.will is not None:
        of_will = {one: value for one, value in packet.will.properties.items() if defaults.get(one, None) != value}
        packet = packet._replace(will=packet.will._replace(properties=of_will))
    return packet._replace(properties=values)


def packets_of(side: tuple[bool, int]) -> st.SearchStrategy:
    later = later_packets(*side)
    return st.sampled_from(SAMPLES[side]) | (first_packets(side[1]) | later if side[0] else later)


def back(data: bytes, packet: Packet, side: tuple[bool, int]) -> Packet:
    """What is read from bytes that another codec has made of a packet."""
    found = read(data, side[1], side[0], is_first=isinstance(packet, packets.Connect))
    assert isinstance(found, list), (packet, data, hex(found))
    (one,) = found
    return one


@pytest.mark.parametrize("side", OF_5, ids=[IDS[SIDES.index(side)] for side in OF_5])
def test_mqtt5_reads_each_packet_and_writes_the_same(side):
    mqtt5 = pytest.importorskip("mqtt5", reason="mqtt5 is not installed")

    @settings(max_examples=300)
    @given(packets_of(side))
    def check(packet):
        if isinstance(packet, packets.Disconnect) and packet.reason == Reason.BAD_AUTHENTICATION_METHOD:
            return  # the standard's table of codes has it in DISCONNECT, that of DISCONNECT has not
        written = encode(packet, 5)
        theirs, length = mqtt5.read(memoryview(written))
        assert length == len(written)
        assert type(theirs).__name__.lower() == f"{type(packet).__name__}Packet".lower()
        assert plain(back(theirs.write(), packet, side)) == plain(packet)

    check()


@pytest.mark.parametrize("side", SIDES, ids=IDS)
def test_zmqtt_reads_each_packet_and_writes_the_same(side):
    codec = pytest.importorskip("zmqtt._internal.packets.codec", reason="zmqtt is not installed")
    version = {4: "3.1.1", 5: "5.0"}[side[1]]

    @settings(max_examples=300)
    @given(packets_of(side))
    def check(packet):
        written = encode(packet, side[1])
        theirs, length = codec.decode(written, version=version)
        assert length == len(written)
        identifiers = packet.properties.get(P.SUBSCRIPTION_IDENTIFIER) if isinstance(packet, packets.Publish) else None
        if identifiers:  # of several it keeps the last
            packet = packet._replace(properties={**packet.properties, P.SUBSCRIPTION_IDENTIFIER: identifiers[-1:]})
        assert back(codec.encode(theirs, version=version), packet, side) == packet

    check()


class Gateway:
    """paho's client at one end of a pair of sockets, this codec at the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
        self.paho = pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
        ours, theirs = socket.socketpair()
        self.version, self.socket, self.decoder = version, ours, Decoder()
        ours.setblocking(False)
        self.client = self.paho.Client(self.paho.CallbackAPIVersion.VERSION2, client_id="d7", protocol=version)
        monkeypatch.setattr(self.client, "_create_socket", lambda: theirs)

    def came(self) -> list[Packet]:
        """The packets that the client has sent since."""
        while self.client.want_write():
            self.client.loop_write()
        try:
            data = self.socket.recv(1 << 20)
        except BlockingIOError:
            data = b""
        found = self.decoder.feed(data)
        assert self.decoder.fault is None
        return found

    def send(self, *answers: Packet) -> None:
        """Send packets to the client, which takes them."""
        self.socket.sendall(b"".join([encode(one, self.version) for one in answers]))
        for _ in answers:
            assert self.client.loop_read() == 0


@pytest.fixture(params=[4, 5])
def gateway(request, monkeypatch):
    made = Gateway(monkeypatch, request.param)
    yield made
    made.socket.close()
    made.client.loop_read()  # which closes its end


def in_paho(kind: str, **values: object) -> object:
    """Properties as paho has them."""
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    made = Properties(getattr(PacketTypes, kind))
    for name, value in values.items():
        setattr(made, name, value)
    return made


def test_paho_and_this_codec_understand_a_connection_of_either_version(gateway):
    client, version = gateway.client, gateway.version
    is_5 = version == 5
    seen: list[object] = []
    client.on_connect = lambda client, data, flags, reason, values: seen.append((flags.session_present, reason.value))
    client.on_subscribe = lambda client, data, number, reasons, values: seen.append([one.value for one in reasons])
    client.on_unsubscribe = lambda client, data, number, reasons, values: seen.append([one.value for one in reasons])
    client.on_publish = lambda client, data, number, reason, values: seen.append(("published", reason.value))
    client.on_message = lambda client, data, message: seen.append((message.topic, message.payload, message.qos))
    client.username_pw_set("ann", "secret")
    expiry = {"properties": in_paho("WILLMESSAGE", WillDelayInterval=5, UserProperty=("a", "b"))} if is_5 else {}
    client.will_set("wills/d7", b"gone", 1, True, **expiry)
    lasting = {"clean_start": False, "properties": in_paho("CONNECT", SessionExpiryInterval=9)} if is_5 else {}
    client.connect("unused", keepalive=30, **lasting)
    of_will = {P.WILL_DELAY_INTERVAL: 5, P.USER_PROPERTY: (("a", "b"),)} if is_5 else {}
    will = packets.Will(b"wills/d7", b"gone", 1, True, of_will)
    lasts = {P.SESSION_EXPIRY_INTERVAL: 9} if is_5 else {}
    assert gateway.came() == [packets.Connect(version, "d7", not is_5, 30, "ann", b"secret", will, lasts)]

    gateway.send(packets.Connack(is_5, 0, {P.SERVER_KEEP_ALIVE: 30, P.USER_PROPERTY: (("x", "y"),)} if is_5 else {}))
    assert seen.pop() == (is_5, 0)

    client.subscribe([("a/+", 1), ("$share/g/b", 2)] if not is_5 else "a/+", 1)
    (subscribe,) = gateway.came()
    filters = [(one.filter, one.qos) for one in subscribe.subscriptions]
    assert filters == ([("a/+", 1)] if is_5 else [("a/+", 1), ("$share/g/b", 2)])
    codes = (1,) if is_5 else (1, 0x80)
    gateway.send(packets.Suback(subscribe.packet_id, codes, {P.REASON_STRING: "ü"} if is_5 else {}))
    assert seen.pop() == list(codes)

    for qos in range(3):
        values = {"properties": in_paho("PUBLISH", MessageExpiryInterval=7, ContentType="t")} if is_5 else {}
        client.publish("a/ü", b"x" * 200, qos, True, **values)
        (message,) = gateway.came()
        told = {P.MESSAGE_EXPIRY_INTERVAL: 7, P.CONTENT_TYPE: "t"} if is_5 else {}
        number = message.packet_id
        assert message == packets.Publish("a/ü".encode(), b"x" * 200, qos, True, False, number, told)
        assert bool(number) == bool(qos)
        if qos == 1:
            gateway.send(packets.Puback(number, 0x10 if is_5 else 0))
        if qos == 2:
            gateway.send(packets.Pubrec(number))
            assert gateway.came() == [packets.Pubrel(number)]
            gateway.send(packets.Pubcomp(number, 0, {P.REASON_STRING: "late"} if is_5 else {}))
        assert seen.pop() == ("published", 0x10 if is_5 and qos == 1 else 0)

    identified = {P.SUBSCRIPTION_IDENTIFIER: (1, 200, 1), P.USER_PROPERTY: (("a", "b"), ("a", "c"))} if is_5 else {}
    gateway.send(packets.Publish(b"a/b", b"one", 1, False, False, 7, identified))
    assert seen.pop() == ("a/b", b"one", 1)
    assert gateway.came() == [packets.Puback(7)]
    gateway.send(packets.Publish(b"a/b", b"two", 2, False, True, 8))
    assert gateway.came() == [packets.Pubrec(8)]
    gateway.send(packets.Pubrel(8))
    assert seen.pop() == ("a/b", b"two", 2)
    assert gateway.came() == [packets.Pubcomp(8)]

    client.unsubscribe(["a/+", "b"])
    (unsubscribe,) = gateway.came()
    assert unsubscribe.filters == ("a/+", "b")
    gateway.send(packets.Unsuback(unsubscribe.packet_id, (0, 0x11) if is_5 else ()))
    assert seen.pop() == ([0, 0x11] if is_5 else [])
    client.disconnect()
    assert gateway.came() == [packets.Disconnect()]
    assert seen == []


def test_paho_is_told_why_its_connection_ends(gateway):
    seen: list[int] = []
    gateway.client.on_connect = lambda client, data, flags, reason, values: seen.append(reason.value)
    gateway.client.on_disconnect = lambda client, data, flags, reason, values: seen.append(reason.value)
    gateway.client.connect("unused")
    gateway.came()
    if gateway.version == 4:
        gateway.socket.sendall(encode(packets.Connack(False, 5), 4))
        gateway.client.loop_read()
        assert seen[0] == 0x87  # as paho says it in the words of 5.0
        return
    gateway.send(packets.Connack(False))
    gateway.socket.sendall(encode(packets.Disconnect(0x8E, {P.REASON_STRING: "elsewhere"}), 5))
    gateway.client.loop_read()
    assert seen == [0, 0x8E]
