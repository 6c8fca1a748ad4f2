"""Cases of PUBLISH: QoS and its packets, DUP, properties, aliases and expiry."""

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel, Subscribe, Subscription
from streamd.clients.mqtt.codec.properties import Property as P
from tests.mqtt.conformance.brokers import FORBIDDEN, TOPIC_ALIAS_MAX
from tests.mqtt.conformance.cases import case, must, same

GOOD = (0x00, 0x10)


def pair(scene, qos=2):
    """Return a publisher, and a subscriber to topic a."""
    publisher, subscriber = scene.client(), scene.client()
    subscriber.subscribes(scene.topic("a"), qos=qos)
    return publisher, subscriber


@case("5:3.3.4-1", "3:3.3.4-1", "5:2.2.1-5", "3:2.3.1-6", "5:4.3.2-4", "3:4.3.2-2", "5:4.3.3-8", "3:4.3.3-2", "5:§3.4")
def each_qos_has_its_answers(scene):
    publisher, subscriber = pair(scene)
    topic = scene.topic("a").encode()
    publisher.send(Publish(topic, b"0"), Publish(topic, b"1", 1, False, False, 65_535))
    must(publisher.expects(Puback, packet_id=65_535).reason in GOOD, "refused")
    publisher.send(Publish(topic, b"2", 2, False, False, 258))
    must(publisher.expects(Pubrec, packet_id=258).reason in GOOD, "refused")
    publisher.send(Pubrel(258))
    publisher.expects(Pubcomp, packet_id=258, reason=0)
    publisher.pings()
    same([(one.payload, one.qos) for one in subscriber.all_from(publisher, 2)], [(b"0", 0), (b"1", 1), (b"2", 2)])


@case("5:§3.4")
def a_message_without_subscribers_is_a_success(scene):
    publisher = scene.client()
    for qos in (1, 2):
        must(publisher.publishes(scene.topic("nobody"), b"1", qos) in GOOD, "refused")


@case("5:3.8.4-8", "3:3.8.4-6", "5:4.3.1-1", "3:4.3.1-1", "5:4.3.2-1", "3:4.3.2-1", "5:4.3.3-1", "3:4.3.3-1")
def the_qos_of_a_delivery_is_the_lower_of_both(scene):
    publisher = scene.client()
    for granted in (0, 1, 2):
        subscriber = scene.client()
        subscriber.subscribes(scene.topic("a"), qos=granted)
        for qos in (0, 1, 2):
            publisher.publishes(scene.topic("a"), b"1", qos)
            subscriber.receives(b"1", min(qos, granted), False)


@case("5:3.3.1-3", "3:3.3.1-3", "5:4.3.2-2", "5:4.3.3-2", "5:3.3.1-2")
def the_dup_of_a_publisher_is_not_handed_on(scene):
    publisher, subscriber = pair(scene)
    topic = scene.topic("a").encode()
    publisher.send(Publish(topic, b"1", 1, False, True, 1), Publish(topic, b"2", 2, False, True, 2))
    publisher.expects(Puback, packet_id=1)
    publisher.is_answered(2, 2)
    for _ in range(2):
        must(not subscriber.receives().dup, "DUP at the first sending")


@case("5:4.3.2-5", "3:4.3.2-2", "5:§2.2.1", "3:2.3.1-3")
def behind_puback_the_same_id_is_a_new_message(scene):
    publisher, subscriber = pair(scene)
    for dup in (False, True):
        publisher.send(Publish(scene.topic("a").encode(), b"1", 1, False, dup, 1))
        publisher.expects(Puback, packet_id=1)
    same(subscriber.payloads_from(publisher), [b"1", b"1"])


@case("5:4.3.3-10", "3:4.3.3-2", "5:4.3.3-8")
def until_pubrel_the_same_id_of_qos_2_is_the_same_message(scene):
    publisher, subscriber = pair(scene)
    packet = Publish(scene.topic("a").encode(), b"1", 2, False, False, 7)
    for dup in (False, True, True):
        publisher.send(packet._replace(dup=dup))
        publisher.expects(Pubrec, packet_id=7)
    publisher.send(Pubrel(7))
    publisher.expects(Pubcomp, packet_id=7, reason=0)
    same(subscriber.payloads_from(publisher, 2), [b"1"])


@case("5:4.3.3-8", "3:4.3.3-2")
def each_publish_of_qos_2_gets_its_pubrec_also_before_the_first_one(scene):
    publisher, subscriber = pair(scene)
    packet = Publish(scene.topic("a").encode(), b"1", 2, False, False, 7)
    publisher.send(packet, packet._replace(dup=True))
    for _ in range(2):
        publisher.expects(Pubrec, packet_id=7)
    publisher.send(Pubrel(7))
    publisher.expects(Pubcomp, packet_id=7, reason=0)
    same(subscriber.payloads_from(publisher, 2), [b"1"])


@case("5:4.3.3-12", "3:4.3.3-2")
def behind_pubcomp_the_same_id_of_qos_2_is_a_new_message(scene):
    publisher, subscriber = pair(scene)
    for dup in (False, True):
        publisher.send(Publish(scene.topic("a").encode(), b"1", 2, False, dup, 7))
        publisher.is_answered(7, 2)
    same(subscriber.payloads_from(publisher, 2), [b"1", b"1"])


@case("5:4.3.3-11", "3:4.3.3-2", "5:3.7.2-1", "5:§2.4")
def pubrel_of_an_unknown_id_is_answered(scene):
    device = scene.client()
    for packet_id in (1, 65_535):
        device.send(Pubrel(packet_id))
        must(device.expects(Pubcomp, packet_id=packet_id).reason in (0, 0x92), "another code")
    device.pings()


@case("5:4.3.3-11", "3:4.3.3-2")
def pubrel_twice_is_answered_twice(scene):
    publisher, subscriber = pair(scene)
    publisher.publishes(scene.topic("a"), b"1", 2)
    publisher.send(Pubrel(1))
    publisher.expects(Pubcomp, packet_id=1)
    same(subscriber.payloads_from(publisher), [b"1"])


@case("5:§2.4", "3:4.8.0-1", "5:3.6.2-1")
def acknowledgements_of_unknown_ids_are_passed_over(scene):
    device = scene.client()
    device.send(Puback(9), Pubcomp(10))
    device.pings()
    device.send(Pubrec(11))
    must(device.expects(Pubrel, packet_id=11).reason in (0, 0x92), "another code")
    device.pings()


@case("5:4.3.2-3", "5:4.3.2-1", "5:4.3.3-3", "5:4.3.3-4", "5:4.3.3-5", "3:4.3.3-1", "5:3.4.2-1", "5:3.5.2-1")
def a_delivery_of_qos_2_has_its_packets(scene):
    publisher, subscriber = pair(scene)
    publisher.publishes(scene.topic("a"), b"1", 2)
    packet = subscriber.hears()
    subscriber.pings()  # nothing more before the answer
    subscriber.send(Pubrec(packet.packet_id))
    subscriber.expects(Pubrel, packet_id=packet.packet_id, reason=0)
    subscriber.send(Pubcomp(packet.packet_id))
    same(subscriber.payloads_from(publisher), [])


@case("5:4.3.3-4", "5:4.13.2-1", "5:§2.2.1")
def a_pubrec_that_refuses_ends_the_exchange(scene):
    publisher, subscriber = pair(scene)
    publisher.publishes(scene.topic("a"), b"1", 2)
    subscriber.send(Pubrec(subscriber.hears().packet_id, 0x83))
    subscriber.pings()  # without a PUBREL before the answer
    same(subscriber.payloads_from(publisher), [])


@case("5:§4.3")
def an_acknowledgement_of_the_wrong_kind_is_an_error_or_passed_over(scene):
    publisher, subscriber = pair(scene)
    publisher.publishes(scene.topic("a"), b"1", 1)
    subscriber.send(Pubrec(subscriber.hears().packet_id), packets.Pingreq())
    packet = subscriber.next_or_end()
    right = (type(None), packets.Disconnect, packets.Pingresp, Pubrel)
    must(type(packet) in right, f"{packet} to PUBREC for a message of QoS 1")


@case("5:§2.2.1", "3:§2.3.1", "5:2.2.1-5", "3:2.3.1-6")
def the_ids_of_both_directions_are_apart(scene):
    device, publisher = scene.client(), scene.client()
    device.subscribes(scene.topic("a"), qos=2)
    publisher.publishes(scene.topic("a"), b"in", 2)
    packet = device.hears()
    packet_id = packet.packet_id
    device.send(Publish(scene.topic("a").encode(), b"out", 2, False, False, packet_id))
    device.expects(Pubrec, packet_id=packet_id)
    device.send(Pubrel(packet_id))
    device.expects(Pubcomp, packet_id=packet_id)
    device.send(Pubrec(packet_id))
    device.expects(Pubrel, packet_id=packet_id, reason=0)
    device.send(Pubcomp(packet_id))
    same(device.payloads_from(publisher, 2), [b"out"])


@case("5:§2.2.1", "3:2.3.1-2")
def an_id_of_an_open_exchange_in_another_request_ends_well_or_in_0x91(scene):
    device = scene.client()
    device.send(Publish(scene.topic("a").encode(), b"1", 2, False, False, 7))
    device.expects(Pubrec, packet_id=7)
    device.send(Subscribe(7, (Subscription(scene.topic("a")),)))
    packet = device.next_or_end()
    if type(packet) is packets.Suback:
        must(packet.reasons[0] in (0, 0x91, 0x80), f"{packet}")
        device.send(Pubrel(7))
        device.expects(Pubcomp, packet_id=7)
    else:
        must(packet is None or packet.reason in (0x81, 0x82, 0x91), f"{packet}")  # type: ignore[union-attr]


@case("5:§4.3.3", "5:§3.4")
def a_message_that_may_not_be_published_is_refused_in_its_first_answer(scene):
    subscriber = scene.client()
    topic = f"{FORBIDDEN}/{scene.topic('a')}"
    subscriber.subscribes(f"+/{scene.topic('#')}", qos=2)
    same(scene.client().publishes(topic, b"1", 1), 0x87)
    same(scene.client().publishes(topic, b"2", 2), 0x87)
    same(subscriber.payloads_from(scene.client()), [])


@case("5:4.13.2-1", "5:4.3.3-9", "5:§4.13.2")
def a_refused_message_leaves_the_connection_and_its_id_as_they_were(scene):
    publisher, subscriber = pair(scene)
    topic = scene.topic("a")
    for qos in (1, 2):
        publisher.send(Publish(f"{FORBIDDEN}/{topic}".encode(), b"1", qos, False, False, 7))
        same(publisher.is_answered(7, qos), 0x87)
        publisher.send(Publish(topic.encode(), b"2", qos, False, False, 7))
        must(publisher.is_answered(7, qos) < 0x80, "refused")
        subscriber.receives(b"2", qos)
    publisher.pings()


@case("3:3.3.5-2", "5:§3.4")
def a_message_of_qos_0_that_may_not_be_published_reaches_nobody(scene):
    publisher, subscriber = scene.client(), scene.client()
    subscriber.subscribes(f"+/{scene.topic('#')}", qos=2)
    publisher.publishes(f"{FORBIDDEN}/{scene.topic('a')}", b"1")
    same(subscriber.payloads_from(scene.client()), [])
    if scene.version == 5:
        publisher.send(packets.Pingreq())
        packet = publisher.next_or_end()
        must(type(packet) is not packets.Disconnect or packet.reason == 0x87, f"{packet}")  # type: ignore[union-attr]


@case("3:3.3.5-2")
def in_3_1_1_what_may_not_be_published_is_acknowledged_or_the_connection_closed(scene):
    subscriber = scene.client()
    subscriber.subscribes(f"+/{scene.topic('#')}", qos=2)
    for qos, answer in ((1, Puback), (2, Pubrec)):
        publisher = scene.client()
        topic = f"{FORBIDDEN}/{scene.topic('a')}".encode()
        publisher.send(Publish(topic, b"1", qos, False, False, 3))
        packet = publisher.next_or_end()
        must(packet is None or type(packet) is answer, f"{packet}")
    same(subscriber.payloads_from(scene.client()), [])


@case("5:3.3.2-4", "5:3.3.2-13", "5:3.3.2-15", "5:3.3.2-16", "5:3.3.2-17", "5:3.3.2-18", "5:3.3.2-19", "5:3.3.2-20")
def properties_are_handed_on_unchanged(scene):
    publisher, subscriber = pair(scene)
    values = {
        P.PAYLOAD_FORMAT_INDICATOR: 1,
        P.CONTENT_TYPE: "text/\u00e9",
        P.RESPONSE_TOPIC: "answers/\u20ac",
        P.CORRELATION_DATA: b"\0\xff",
        P.USER_PROPERTY: (("b", "1"), ("a", "2"), ("b", "1"), ("b", ""), ("", "")),
    }
    several = [
        values,
        {P.PAYLOAD_FORMAT_INDICATOR: 0},
        {P.CONTENT_TYPE: "", P.CORRELATION_DATA: b""},
        {P.USER_PROPERTY: (("z", "1"), ("a", "2"), ("m", "\u20ac"))},
        {},
    ]
    for qos in (0, 1, 2):
        for one in several:
            publisher.publishes(scene.topic("a"), b"1", qos, **{key.name: value for key, value in one.items()})
            found = dict(subscriber.receives(b"1", qos).properties)
            if one == {P.PAYLOAD_FORMAT_INDICATOR: 0}:
                found = {P.PAYLOAD_FORMAT_INDICATOR: 0, **found}  # which is what its absence says
            same(found, one)


@case("5:3.3.2-4")
def a_payload_that_is_not_the_text_it_says_is_refused_or_handed_on(scene):
    publisher, subscriber = pair(scene)
    if publisher.publishes(scene.topic("a"), b"\xff", 1, payload_format_indicator=1) != 0x99:
        same(subscriber.receives(b"\xff").properties.get(P.PAYLOAD_FORMAT_INDICATOR), 1)


@case("5:§3.3.4")
def a_client_of_3_1_1_gets_the_message_without_properties(scene):
    publisher, old = scene.client(), scene.client(version=4)
    old.subscribes(scene.topic("a"), qos=1)
    user = (("a", "b"),)
    publisher.publishes(scene.topic("a"), b"1", 1, user_property=user, topic_alias=1, message_expiry_interval=100)
    publisher.publishes("", b"2", 1, topic_alias=1)
    same((old.receives(b"1").topic, old.receives(b"2").topic), (scene.topic("a").encode(),) * 2)
    new = scene.client()
    new.subscribes(scene.topic("a"), qos=1)
    old.publishes(scene.topic("a"), b"3", 1)
    same(dict(new.receives(b"3").properties), {})


@case("5:3.3.2-12", "5:§3.3.4", "5:§3.3.2.3.4", "5:§3.3.2.1", "5:3.1.2-27", "5:3.3.2-11")
def an_alias_stands_for_its_topic_until_it_gets_another(scene):
    publisher, subscriber = scene.client(), scene.client()
    subscriber.subscribes(scene.topic("#"), qos=1)
    most = publisher.connack.properties.get(P.TOPIC_ALIAS_MAXIMUM, 0)
    same(most, TOPIC_ALIAS_MAX)
    for number in range(1, most + 1):
        publisher.publishes(scene.topic(f"{number}"), b"set", 1, topic_alias=number)
        same(subscriber.receives(b"set").topic.decode(), scene.topic(f"{number}"))
    for number in range(1, most + 1):
        publisher.publishes("", b"used", number % 2, topic_alias=number)
        found = subscriber.receives(b"used")
        same((found.topic.decode(), dict(found.properties)), (scene.topic(f"{number}"), {}))
    publisher.publishes(scene.topic("other"), b"set", 1, topic_alias=1)
    publisher.publishes("", b"used", 1, topic_alias=1)
    for payload in (b"set", b"used"):
        same(subscriber.receives(payload).topic.decode(), scene.topic("other"))


@case("5:3.3.2-7", "5:§3.3.4")
def an_alias_ends_with_its_connection(scene):
    publisher = scene.lasting("a")
    publisher.publishes(scene.topic("a"), b"1", 1, topic_alias=1)
    publisher.drops()
    publisher = scene.lasting("a")
    publisher.send(Publish(b"", b"2", 1, False, False, 1, {P.TOPIC_ALIAS: 1}))
    publisher.is_closed(0x82, 0x94)


@case("5:3.3.2-8", "5:3.3.2-9", "5:3.2.2-17", "5:3.2.2-18", "5:§3.3.4")
def an_alias_out_of_range_or_unknown_is_an_error(scene):
    topic = scene.topic("a").encode()
    for name, alias, reasons in ((topic, 0, (0x94,)), (topic, TOPIC_ALIAS_MAX + 1, (0x94,)), (topic, 65_535, (0x94,))):
        device = scene.client()
        device.send(Publish(name, b"1", 0, properties={P.TOPIC_ALIAS: alias}), packets.Pingreq())
        device.is_closed(*reasons)
    device = scene.client()
    device.send(Publish(b"", b"1", 0, properties={P.TOPIC_ALIAS: 2}), packets.Pingreq())
    device.is_closed(0x82, 0x94)


@case("5:3.1.2-26", "5:3.1.2-27", "5:3.3.2-11", "5:3.3.2-7")
def the_broker_keeps_to_the_clients_alias_maximum(scene):
    publisher = scene.client()
    for most in (0, 1, 2):
        subscriber = scene.lasting("a", topic_alias_maximum=most)  # Device judges each alias
        subscriber.subscribes(scene.topic("#"), qos=1)
        for number in range(8):
            publisher.publishes(scene.topic(f"{number % 4}"), b"1", number % 2)
            same(subscriber.receives(b"1").topic.decode(), scene.topic(f"{number % 4}"))
        subscriber.drops()


@case("5:3.3.2-5", "5:3.3.2-6", takes_seconds=True)
def a_message_expires_for_a_client_that_is_away(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=1)
    device.drops()
    for payload, expiry in ((b"1", 1), (b"2", 10), (b"3", 1)):
        publisher.publishes(scene.topic("a"), payload, 1, message_expiry_interval=expiry)
    publisher.publishes(scene.topic("a"), b"4", 1)
    publisher.is_silent_for(2.2)
    (first, second) = scene.lasting("a").all_from(publisher)
    same((first.payload, second.payload), (b"2", b"4"))
    must(first.properties[P.MESSAGE_EXPIRY_INTERVAL] in (7, 8), f"{first}")  # type: ignore[comparison-overlap]
    same(dict(second.properties), {})


@case("5:3.3.2-6")
def a_message_that_is_handed_on_at_once_has_its_whole_expiry(scene):
    publisher, subscriber = pair(scene)
    for expiry in (100, 2**32 - 1):
        publisher.publishes(scene.topic("a"), b"1", 1, message_expiry_interval=expiry)
        found = subscriber.receives(b"1").properties[P.MESSAGE_EXPIRY_INTERVAL]
        must(found in (expiry, expiry - 1), f"{found} instead of {expiry}")


@case("5:4.3.3-7", "5:4.3.3-13", takes_seconds=True)
def a_message_of_qos_2_that_was_sent_does_not_expire(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=2)
    publisher.publishes(scene.topic("a"), b"1", 2, message_expiry_interval=1)
    publisher.publishes(scene.topic("a"), b"2", 2, message_expiry_interval=1)
    first = device.hears()
    second = device.hears()
    device.send(Pubrec(second.packet_id))
    device.expects(Pubrel)
    device.drops()
    publisher.is_silent_for(2.2)
    device = scene.lasting("a")
    found = {type(one): one.packet_id for one in (device.take(), device.take())}  # type: ignore[union-attr]
    same(found, {Publish: first.packet_id, Pubrel: second.packet_id})
    device.send(Pubrec(first.packet_id))
    device.expects(Pubrel, packet_id=first.packet_id)
    device.send(Pubcomp(first.packet_id), Pubcomp(second.packet_id))
    same(device.payloads_from(publisher), [])


@case("5:4.4.0-1", takes_seconds=True)
def a_message_of_qos_1_that_was_sent_does_not_expire(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=1)
    publisher.publishes(scene.topic("a"), b"1", 1, message_expiry_interval=1)
    first = device.hears()
    device.drops()
    publisher.publishes(scene.topic("a"), b"2", 1, message_expiry_interval=1)
    publisher.is_silent_for(2.2)
    device = scene.lasting("a")
    again = device.take()
    same((again.packet_id, again.payload, again.dup), (first.packet_id, b"1", True))
    same(again.properties[P.MESSAGE_EXPIRY_INTERVAL], 0)
    device.send(Puback(again.packet_id))
    same(device.payloads_from(publisher), [])


@case("5:4.3.3-13", takes_seconds=True)
def an_exchange_with_the_publisher_is_finished_after_the_expiry(scene):
    device = scene.client()
    device.send(Publish(scene.topic("a").encode(), b"1", 2, False, False, 7, {P.MESSAGE_EXPIRY_INTERVAL: 1}))
    device.expects(Pubrec, packet_id=7)
    device.is_silent_for(2.2)
    device.send(Pubrel(7))
    device.expects(Pubcomp, packet_id=7, reason=0)


@case("5:4.6.0-5", "5:4.6.0-6", "3:4.6.0-5", "3:4.6.0-6", "3:4.6.0-2", "3:4.6.0-3", "3:4.6.0-4")
def messages_and_answers_keep_their_order(scene):
    publisher, subscriber = pair(scene)
    topic = scene.topic("a").encode()
    for qos in (0, 1, 2):
        sent = [Publish(topic, b"%d" % one, qos, False, False, one if qos else 0) for one in range(1, 101)]
        publisher.send(*sent)
        answers = {1: (Puback,), 2: (Pubrec, Pubcomp)}.get(qos, ())
        for kind in answers:
            if kind is Pubcomp:
                publisher.send(*(Pubrel(one.packet_id) for one in sent))
            same([publisher.expects(kind).packet_id for _ in sent], [one.packet_id for one in sent])
        heard = [subscriber.hears() for _ in sent]
        same([one.payload for one in heard], [one.payload for one in sent])
        if qos == 2:
            subscriber.send(*(Pubrec(one.packet_id) for one in heard))
            same([subscriber.expects(Pubrel).packet_id for _ in heard], [one.packet_id for one in heard])
        subscriber.send(*({1: Puback, 2: Pubcomp}[qos](one.packet_id) for one in heard if qos))


@case("5:2.2.1-4", "3:2.3.1-4", takes_seconds=True)
def an_id_that_is_in_flight_is_jumped_over(scene):
    subscriber, publishers = scene.client(), [scene.client() for _ in range(4)]
    subscriber.subscribes(scene.topic("#"), qos=1)
    publishers[0].publishes(scene.topic("first"), b"first", 1)
    first = subscriber.hears()
    topic = scene.topic("a").encode()
    sent = [Publish(topic, b"", 1, False, False, one) for one in range(1, 129)]
    left = 65_600
    while left > 0:
        for one in publishers:
            one.send(*sent)
        for one in publishers:
            for _ in sent:
                one.expects(Puback)
        for _ in range(len(publishers) * len(sent)):
            subscriber.send(Puback(subscriber.hears().packet_id))  # Device judges that no ID is in use
        left -= len(publishers) * len(sent)
    subscriber.send(Puback(first.packet_id))
