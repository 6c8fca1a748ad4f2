"""Cases of packets that may not be sent, or look odd and may, and of what a broker answers to them."""

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.encoding import encode
from tests.mqtt.codec.statements import ALLOWED, FIRST, FIRST_ALLOWED, LATER, body, connect_with
from tests.mqtt.conformance.cases import Scene, Script, case, closed_before_connack, enter, must, same
from tests.mqtt.conformance.device import PINGREQ

MALFORMED, ERROR, INVALID_FILTER, INVALID_TOPIC, NONE_EXISTED = 0x81, 0x82, 0x8F, 0x90, 0x11
# Where the standard says what is wrong, and not how it is answered: these may be refused in SUBACK or UNSUBACK, too.
OF_FILTERS = ("5:4.7", "5:4.8")
# Forms of a refusal of another version: of 3.1.1, of 5.0, or none.
WRONG_VERSION = {b"", b"\x20\x02\x00\x01", b"\x20\x03\x00\x84\x00"}
_entered: set[tuple[str, bytes]] = set()
ACCEPTED_BY_3_1 = b"\x20\x02\x00\x00"
ANSWERS = (packets.Puback, packets.Suback, packets.Unsuback)


def _named(statement: str, data: bytes) -> str:
    return f"{statement.replace('§', 'section ')} {data[:32].hex()}{'..' if len(data) > 32 else ''}"


def _enter(statement: str, data: bytes, script: Script) -> None:
    """Enter a row once."""
    if (statement, data) not in _entered:
        _entered.add((statement, data))
        enter(_named(statement, data), (statement,), script)


def _later(statement: str, data: bytes, reason: int) -> None:
    def script(scene: Scene) -> None:
        device = scene.client()
        if statement.startswith(OF_FILTERS) and data[0] in (0x82, 0xA2):
            device.send(data + PINGREQ)
            answer = device.next_or_end()
            if type(answer) in (packets.Suback, packets.Unsuback):
                right = {INVALID_FILTER} if type(answer) is packets.Suback else {INVALID_FILTER, NONE_EXISTED}
                must(set(answer.reasons) <= right, f"{answer} to a filter that is no good")  # type: ignore[union-attr]
                device.expects(packets.Pingresp)
                return
            must(answer is None or type(answer) is packets.Disconnect, f"{answer} to a filter that is no good")
            device.is_closed()
            return
        device.breaks(data, MALFORMED, ERROR, reason, *((INVALID_TOPIC,) if data[0] >> 4 == 3 else ()))

    _enter(statement, data, script)


def _first(statement: str, data: bytes, reason: int, returns: int | None) -> None:
    def script(scene: Scene) -> None:
        device = scene.opens()
        device.send(data)
        # Where the version was read a broker that says why sends a CONNACK, which 5.0 leaves free.
        reasons = (MALFORMED, ERROR, reason) if data[0] == 0x10 and len(data) > 8 else ()
        closed_before_connack(device, () if returns is None else (returns,), reasons)

    _enter(statement, data, script)


def _of_another_version(statement: str, data: bytes) -> None:
    def script(scene: Scene) -> None:
        device = scene.opens()
        device.send(data)
        answered = b""
        while answered != ACCEPTED_BY_3_1 and (more := device.stream.receive(scene.deadline_s)):
            answered += more
        right = {b"\x20\x02\x00\x01"} if statement == "3:3.1.2-2" else WRONG_VERSION
        if b"MQTT" not in data and b"MQIsdp" not in data:  # not MQTT: nobody knows its CONNACK
            right = {b"", b"\x20\x03\x00\x84\x00"} if statement[0] == "5" else {b""}
        if b"MQIsdp\3" in data:  # which is MQTT 3.1, and a broker may serve that
            right = right | {ACCEPTED_BY_3_1}
        must(answered in right, f"{answered.hex()} instead of {[one.hex() for one in right]}")

    _enter(statement, data, script)


def _allowed(statement: str, data: bytes) -> None:
    def script(scene: Scene) -> None:
        device = scene.client()
        device.send(data + PINGREQ)
        if data[0] == 0xE0:
            device.is_closed()
            return
        while type(packet := device.take()) is not packets.Pingresp:
            must(type(packet) in ANSWERS, f"{packet} to a packet that is allowed")

    _enter(statement, data, script)


def _first_allowed(statement: str, data: bytes) -> None:
    def script(scene: Scene) -> None:
        device = scene.opens()
        device.send(data)
        packet = device.take()
        must(type(packet) is packets.Connack, f"{packet}")
        # A user or password that the broker does not know is refused; the packet is well-formed all the same.
        right = {0, 0x86, 0x87} if scene.version == 5 else {0, 4, 5}
        must(packet.reason in right, f"{packet} to a CONNECT that is allowed")  # type: ignore[union-attr]

    _enter(statement, data, script)


for _statement, _version, _text, _reason in LATER:
    _later(_statement, body(_text) if "'" in _text else bytes.fromhex(_text), _reason)
for _statement, _data, _reason, _returns in FIRST:
    if _reason == 0x84:
        _of_another_version(_statement, _data)
    else:
        _first(_statement, _data, _reason, _returns)
for _level in (0, 1, 2, 3, 6, 127):
    _of_another_version("3:3.1.2-2", connect_with("", version=_level))
    _of_another_version("5:3.1.2-2", connect_with("", version=_level))
_of_another_version("3:3.1.2-1", body("10 10 0006 'MQIsdp' 04 02 000a 0002 'd7'"))
for _statement, _version, _text, _packet in ALLOWED:
    if _text != "30 06 0000 03 23 0001":  # which refers to a PUBLISH before it
        _allowed(_statement, body(_text))
for _statement, _data, _packet in FIRST_ALLOWED:
    _first_allowed(_statement, _data)
# Not CONNECT as the first packet.
for _data in (b"\xc0\0", b"\xe0\0", b"\x30\3\0\1a", b"\x82\6\0\1\0\1a\0", b"\xf0\0", b"\x20\2\0\0", b"\0\0"):
    _first("3:3.1.0-1", _data, ERROR, None)
    _first("5:3.1.0-1", _data, ERROR, None)
    _first("5:3.14.0-1", _data, ERROR, None)
for _flag in (1, 2, 4, 8):
    _later("5:2.1.3-1", bytes((0xC0 | _flag, 0)), MALFORMED)
    _later("3:2.2.2-1", bytes((0xC0 | _flag, 0)), MALFORMED)
    _later("3:2.2.2-1", bytes((0xE0 | _flag, 0)), MALFORMED)
    _later("5:3.15.1-1", bytes((0xF0 | _flag, 0)), MALFORMED)
for _data in (b"\x20\2\0\0", b"\x90\3\0\1\0", b"\xb0\2\0\1", b"\xd0\0"):
    _later("3:§2.2.1", _data, ERROR)


@case("5:1.5.4-3", "3:1.5.3-3")
def a_byte_order_mark_is_a_character_like_others(scene):
    a, b, publisher = scene.client(), scene.client(), scene.client()
    with_mark, without = scene.topic("\ufeffa"), scene.topic("a")
    a.subscribes(with_mark)
    b.subscribes(without)
    publisher.publishes(with_mark, b"1", 1)
    publisher.publishes(without, b"2", 1)
    found = a.all_from(publisher)
    same([(one.topic, one.payload) for one in found], [(with_mark.encode(), b"1")])
    same(b.payloads_from(publisher), [b"2"])


@case("5:4.7.3-4", "3:4.7.3-4", "5:3.3.2-3", "3:3.3.2-3")
def topics_are_compared_character_for_character(scene):
    names = ["a", "A", "a ", " a", "/a", "a/", "\u00e9", "e\u0301", "a\u00a0", "\uff41"]
    publisher = scene.client()
    subscribers = [scene.client() for _ in names]
    for one, name in zip(subscribers, names, strict=True):
        one.subscribes(scene.topic(name))
    for name in names:
        publisher.publishes(scene.topic(name), name.encode(), 1)
    for one, name in zip(subscribers, names, strict=True):
        found = one.all_from(publisher)
        same([(found.topic.decode(), found.payload.decode()) for found in found], [(scene.topic(name), name)])


@case("5:§1.5.4", "3:§1.5.3")
def control_characters_are_handed_on_or_malformed(scene):
    for name in ("\x01", "\x7f", "\x9f", "\ufdd0", "\uffff", "\U0001ffff"):
        subscriber, publisher = scene.client(), scene.client()
        topic = scene.topic(name)
        subscriber.send(packets.Subscribe(1, (packets.Subscription(topic),)))
        packet = subscriber.next_or_end()
        if type(packet) is packets.Suback and packet.reasons[0] < 0x80:
            publisher.publishes(topic, b"1")
            same(subscriber.receives(b"1").topic, topic.encode())
        else:
            must(type(packet) in (packets.Disconnect, packets.Suback, type(None)), f"{packet} to {name!r}")


@case("5:2.2.1-2", "3:2.3.1-5", "5:3.3.4-1", "3:3.3.4-1")
def a_message_of_qos_0_has_no_packet_id_and_no_answer(scene):
    subscriber, publisher = scene.client(), scene.client()
    subscriber.subscribes(scene.topic("a"), qos=2)
    publisher.publishes(scene.topic("a"), b"\0\7")
    publisher.pings()
    subscriber.receives(b"\0\7", 0)


@case("5:§2.1.4", "3:§2.2.3")
def packets_of_every_length_of_their_length_arrive(scene):
    subscriber, publisher = scene.client(), scene.client()
    topic = scene.topic("a")
    subscriber.subscribes(topic)
    head = 2 + len(topic) + (scene.version == 5)
    for length in (head, 127, 128, 16_383, 16_384, 190_000):
        payload = bytes(range(256)) * 800
        payload = payload[: length - head]
        publisher.publishes(topic, payload)
        must(subscriber.receives().payload == payload, f"another payload at a remaining length of {length}")
        same(len(subscriber.raw), 1 + (1 if length < 128 else 2 if length < 16_384 else 3) + length)


def _answered(device) -> None:
    """Take the answers to SUBSCRIBE, PUBLISH and PINGREQ, in any order, as they are not of one kind."""
    found = {}
    while len(found) < 3:
        packet = device.take()
        if type(packet) is packets.Publish:
            device.puts_back(packet)
        else:
            found[type(packet)] = packet
    same(set(found), {packets.Suback, packets.Puback, packets.Pingresp})
    same((found[packets.Suback].packet_id, found[packets.Suback].reasons), (7, (1,)))
    same(found[packets.Puback].packet_id, 8)


@case("5:4.2-1", "3:7.1.1-1")
def packets_may_come_byte_by_byte(scene):
    device = scene.opens()
    topic = scene.topic("a")
    parts = [
        packets.Connect(scene.version, scene.id("a"), True),
        packets.Subscribe(7, (packets.Subscription(topic, 1),)),
        packets.Publish(topic.encode(), b"x" * 130, 1, False, False, 8),
        packets.Pingreq(),
    ]
    for byte in b"".join(encode(one, scene.version) for one in parts):
        device.send(bytes((byte,)))
    device.expects(packets.Connack, reason=0)
    _answered(device)
    device.receives(b"x" * 130, 1)


@case("5:4.2-1", "3:7.1.1-1", "5:§3.1.4", "3:§3.1.4", "5:3.1.4-5", "3:3.1.4-4", "5:3.2.0-1", "3:3.2.0-1")
def packets_may_come_in_one_write_before_connack(scene):
    device, topic = scene.opens(), scene.topic("a")
    device.send(
        packets.Connect(scene.version, scene.id("a"), True),
        packets.Subscribe(7, (packets.Subscription(topic, 1),)),
        packets.Publish(topic.encode(), b"1", 1, False, False, 8),
        packets.Publish(topic.encode(), b"2"),
        packets.Pingreq(),
    )
    device.expects(packets.Connack, reason=0)
    _answered(device)
    same(sorted((device.receives().payload, device.receives().payload)), [b"1", b"2"])


@case("5:4.13.1-1", "3:4.8.0-1", "5:3.1.2-8", "3:3.1.2-8")
def a_malformed_packet_ends_its_connection_alone(scene):
    other = scene.client()
    other.subscribes(scene.topic("will"))
    broken = scene.client(will=packets.Will(scene.topic("will").encode(), b"gone"))
    broken.breaks(b"\x82\x02\x00\x01", MALFORMED, ERROR)
    other.receives(b"gone")
    other.pings()


@case("5:3.14.1-1", "3:3.14.1-1")
def a_disconnect_with_wrong_flags_does_not_take_the_will_back(scene):
    other = scene.client()
    other.subscribes(scene.topic("will"))
    broken = scene.client(will=packets.Will(scene.topic("will").encode(), b"gone"))
    broken.breaks(b"\xe1\x00", MALFORMED, ERROR)
    other.receives(b"gone")


@case("5:3.1.0-2", "3:3.1.0-2")
def a_second_connect_ends_the_connection_and_the_will_is_published(scene):
    other = scene.client()
    other.subscribes(scene.topic("will"))
    connect = packets.Connect(scene.version, scene.id("a"), True)
    twice = scene.client("a", will=packets.Will(scene.topic("will").encode(), b"gone"))
    twice.send(connect)
    twice.is_closed(ERROR)
    other.receives(b"gone")


@case("5:3.2.2-15")
def a_packet_over_the_brokers_maximum_is_refused_by_its_head(scene):
    device = scene.client()
    assert device.connack is not None
    most = device.connack.properties.get(39)
    must(most, "the broker says no Maximum Packet Size")
    topic = scene.topic("a").encode()
    head = len(topic) + 2 + 1 + 1 + 3
    device.send(packets.Publish(topic, b"x" * (most - head)), packets.Pingreq())
    device.expects(packets.Pingresp)
    device.send(b"\x30" + bytes((0x80 | (most & 0x7F), 0x80 | (most >> 7 & 0x7F), most >> 14)))
    device.is_closed(0x95, told=True)
