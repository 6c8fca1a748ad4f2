"""Cases of flow control and of the largest packet a client takes."""

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from streamd.clients.mqtt.codec.properties import Property as P
from tests.mqtt.conformance.brokers import RECEIVE_MAXIMUM
from tests.mqtt.conformance.cases import case, must, same


def filled(scene, most, qos=1):
    """Return a publisher, and a subscriber with `most` messages in flight and more that wait."""
    subscriber, publisher = scene.lasting("a", receive_maximum=most), scene.client()
    subscriber.subscribes(scene.topic("a"), qos=2)
    for number in range(most + 5):
        publisher.publishes(scene.topic("a"), b"%d" % number, qos)
    heard = [subscriber.hears() for _ in range(most)]
    same([one.payload for one in heard], [b"%d" % number for number in range(most)])
    return publisher, subscriber, heard


@case("5:4.9.0-1", "5:4.9.0-2", "5:3.3.4-9", "5:§4.9", "5:§3.1.2.11.3")
def no_more_than_the_receive_maximum_is_in_flight(scene):
    for most in (1, 3):
        _, subscriber, heard = filled(scene, most)
        subscriber.pings()
        number = most
        while heard:
            one = heard.pop(0)
            subscriber.send(Puback(one.packet_id, 0x80 if number % 2 else 0))
            if number < most + 5:
                packet = subscriber.hears()
                same(packet.payload, b"%d" % number)
                heard.append(packet)
                number += 1
        subscriber.pings()
        subscriber.disconnects(session_expiry_interval=0)


@case("5:§4.9", "5:3.3.4-9")
def for_qos_2_the_quota_comes_back_with_pubcomp_or_a_refusal(scene):
    _, subscriber, (first,) = filled(scene, 1, 2)
    subscriber.send(Pubrec(first.packet_id))
    subscriber.expects(Pubrel, packet_id=first.packet_id)
    subscriber.pings()
    subscriber.send(Pubcomp(first.packet_id))
    second = subscriber.hears()
    same(second.payload, b"1")
    subscriber.send(Pubrec(second.packet_id, 0x83))
    subscriber.receives(b"2", 2)


@case("5:4.9.0-3", "5:3.3.4-10", "5:3.3.4-8", "5:3.12.4-1")
def all_other_packets_go_on_without_quota(scene):
    publisher, subscriber, heard = filled(scene, 1)
    subscriber.pings()
    same(subscriber.subscribes(scene.topic("b"), qos=0), (0,))
    same(subscriber.unsubscribes(scene.topic("none")), (0x11,))
    subscriber.publishes(scene.topic("c"), b"1", 1)
    subscriber.publishes(scene.topic("c"), b"1", 2)
    subscriber.send(Puback(heard[0].packet_id))
    for number in range(1, 6):
        subscriber.receives(b"%d" % number)
    publisher.pings()


@case("5:§4.9")
def unknown_acknowledgements_do_not_raise_the_quota(scene):
    _, subscriber, heard = filled(scene, 2)
    subscriber.send(Puback(heard[0].packet_id), Puback(60_000), Pubcomp(60_001))
    subscriber.hears()
    subscriber.pings()


@case("5:§3.1.2.11.3", "5:4.9.0-1", "5:3.3.4-9")
def each_connection_begins_with_its_own_quota(scene):
    _, subscriber, _ = filled(scene, 1)
    subscriber.drops()
    subscriber = scene.lasting("a", receive_maximum=10)
    same([subscriber.hears().payload for _ in range(6)], [b"%d" % number for number in range(6)])


@case("5:3.3.4-9", "5:4.9.0-1")
def what_is_sent_again_counts_too(scene):
    _, subscriber, heard = filled(scene, 3)
    subscriber.drops()
    subscriber = scene.lasting("a", receive_maximum=1)
    for one in heard:
        packet = subscriber.hears()
        same((packet.payload, packet.dup), (one.payload, True))
        subscriber.pings()
        subscriber.send(Puback(packet.packet_id))
    subscriber.receives(b"3")


@case("5:4.9.0-2", "5:§3.1.2.11.3")
def messages_of_qos_0_need_no_quota(scene):
    publisher, subscriber, _ = filled(scene, 1)
    subscriber.subscribes(scene.topic("zero"))
    publisher.publishes(scene.topic("zero"), b"zero")
    publisher.pings()
    subscriber.pings()  # it may be sent, or wait


@case("5:3.3.4-7", "5:§3.2.2.3.3")
def a_client_over_the_servers_receive_maximum_is_told_so(scene):
    device = scene.client()
    most = device.connack.properties.get(P.RECEIVE_MAXIMUM, 65_535)
    same(most, RECEIVE_MAXIMUM)
    topic = scene.topic("a").encode()
    for packet_id in range(1, most + 1):
        device.send(Publish(topic, b"1", 2, False, False, packet_id))
        device.expects(Pubrec, packet_id=packet_id)
    device.pings()
    device.send(Pubrel(1))
    device.expects(Pubcomp, packet_id=1)
    device.send(Publish(topic, b"1", 2, False, False, 1))
    device.expects(Pubrec, packet_id=1, reason=0)
    device.send(Publish(topic, b"1", 2, False, False, most + 1))
    packet = device.next_or_end()
    right = [(Pubrec, 0x97), (packets.Disconnect, 0x93)]
    must(packet is None or (type(packet), packet.reason) in right, f"{packet}")  # type: ignore[union-attr]


@case("5:3.1.2-24", "5:3.1.2-25")
def a_message_over_the_clients_maximum_is_left_out_for_it(scene):
    publisher, everyone = scene.client(), scene.client()
    topic = scene.topic("a")
    for most in (40, 200, 20_000):
        name = f"c{most}"
        device = scene.lasting(name, maximum_packet_size=most)
        for one in (device, everyone):
            one.subscribes(topic, qos=1)
        lengths = 3 if most < 130 else 4 if most < 16_000 else 5
        room = most - (lengths - 1) - 2 - len(topic) - 2 - 1  # what a payload of QoS 1 may take
        payloads = [bytes((97,)) * (room + more) for more in (0, 1, -1, 50)]
        for one in payloads:
            publisher.publishes(topic, one, 1)
        found = [len(one) - room for one in device.payloads_from(publisher)]
        same(found, [0, -1])
        same([len(one) - room for one in everyone.payloads_from(publisher)], [0, 1, -1, 50])
        device.drops()
        device = scene.lasting(name)
        same(device.payloads_from(publisher), [])  # left out counts as delivered
        device.disconnects(session_expiry_interval=0)


@case("5:3.1.2-25", "5:3.1.2-24")
def messages_over_the_maximum_take_no_quota(scene):
    device, publisher = scene.client(maximum_packet_size=60, receive_maximum=1), scene.client()
    device.subscribes(scene.topic("a"), qos=2)
    for number in range(10):
        publisher.publishes(scene.topic("a"), b"x" * 100, 1 + number % 2)
    publisher.publishes(scene.topic("a"), b"small", 2)
    device.receives(b"small", 2)


@case("5:3.1.2-24")
def the_maximum_holds_for_retained_messages_and_for_those_that_wait(scene):
    publisher = scene.client()
    publisher.publishes(scene.topic("a"), b"x" * 100, 1, retain=True)
    publisher.publishes(scene.topic("b"), b"small", 1, retain=True)
    device = scene.lasting("a")
    device.subscribes(scene.topic("a"), qos=1, retain_handling=2)
    device.drops()
    publisher.publishes(scene.topic("a"), b"y" * 100, 1)
    publisher.publishes(scene.topic("a"), b"waits", 1)
    device = scene.lasting("a", maximum_packet_size=60)
    device.receives(b"waits")
    device.subscribes(scene.topic("#"), qos=1)
    same(device.payloads_from(publisher), [b"small"])


@case("5:3.1.2-24", "5:3.1.2-25", "5:4.4.0-1")
def the_maximum_holds_for_what_is_sent_again(scene):
    publisher, device = scene.client(), scene.lasting("a")
    device.subscribes(scene.topic("a"), qos=2)
    for qos in (1, 2):
        publisher.publishes(scene.topic("a"), b"x" * 100, qos)
        device.hears()
    publisher.publishes(scene.topic("a"), b"small", 1)
    small = device.hears()
    device.drops()
    device = scene.lasting("a", maximum_packet_size=60)
    same(device.hears(), small._replace(dup=True))
    device.send(Puback(small.packet_id))
    same(device.payloads_from(publisher), [])
    device.drops()
    same(scene.lasting("a").payloads_from(publisher), [])  # left out counts as delivered


@case("5:3.1.2-25", "5:3.3.2-7", "5:3.1.2-26")
def a_message_that_is_left_out_gives_its_topic_no_alias(scene):
    publisher, device = scene.client(), scene.client(maximum_packet_size=60, topic_alias_maximum=1)
    device.subscribes(scene.topic("a"), qos=1)
    for payload in (b"x" * 100, b"small", b"x" * 100, b"more"):
        publisher.publishes(scene.topic("a"), payload, 1)
    same([one.topic.decode() for one in device.all_from(publisher)], [scene.topic("a")] * 2)


@case("5:3.3.4-9", "5:§4.9", "5:4.9.0-1")
def pubcomp_of_the_connection_before_gives_no_quota(scene):
    publisher, device = scene.client(), scene.lasting("a")
    device.subscribes(scene.topic("a"), qos=2)
    publisher.publishes(scene.topic("a"), b"old", 2)
    old = device.hears()
    device.send(Pubrec(old.packet_id))
    device.expects(Pubrel)
    device.drops()
    device = scene.lasting("a", receive_maximum=1)
    device.expects(Pubrel, packet_id=old.packet_id)
    for payload in (b"1", b"2"):
        publisher.publishes(scene.topic("a"), payload, 1)
    try:
        device.puts_back(device.take(0.5))
    except TimeoutError:
        pass  # a server may send less than it is allowed to
    device.send(Pubcomp(old.packet_id))
    first = device.hears()
    for _ in range(3):
        device.pings()
    must(not device.has_heard(), "a message over the Receive Maximum")
    device.send(Puback(first.packet_id))
    device.receives(b"2")
