"""Cases of SUBSCRIBE, UNSUBSCRIBE and PING: answers, options, and subscriptions that overlap."""

from collections import Counter

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.packets import Publish, Subscribe, Subscription, Unsubscribe
from streamd.clients.mqtt.codec.properties import Property as P
from tests.mqtt.conformance.brokers import FORBIDDEN, PASSWORD, USER
from tests.mqtt.conformance.cases import case, must, same


@case("5:3.8.4-1", "3:3.8.4-1", "5:3.8.4-2", "3:3.8.4-2", "5:2.2.1-6", "3:2.3.1-7", "5:3.9.3-1", "3:3.9.3-1")
def suback_has_the_id_and_a_code_for_each_filter_in_their_order(scene):
    device = scene.client()
    wanted = (2, 0, 1, 1, 0, 2)
    filters = tuple(Subscription(scene.topic(f"{number}"), qos) for number, qos in enumerate(wanted))
    device.send(Subscribe(65_535, filters))
    device.expects(packets.Suback, packet_id=65_535, reasons=wanted)


@case("5:3.8.4-5", "3:3.8.4-4", "5:3.8.4-6", "5:3.8.4-7", "3:3.8.4-5")
def a_filter_that_is_twice_in_a_packet_counts_as_its_last(scene):
    device, publisher = scene.client(), scene.client()
    device.send(Subscribe(1, (Subscription(scene.topic("a"), 2), Subscription(scene.topic("a"), 0))))
    same(device.expects(packets.Suback, packet_id=1).reasons, (2, 0))
    publisher.publishes(scene.topic("a"), b"1", 1)
    same([(one.payload, one.qos) for one in device.all_from(publisher)], [(b"1", 0)])


@case("5:3.8.4-3", "3:3.8.4-3")
def the_same_filter_again_replaces_the_subscription(scene):
    device, publisher = scene.client(), scene.client()
    for qos in (2, 0, 1):
        same(device.subscribes(scene.topic("a"), qos=qos), (qos,))
        publisher.publishes(scene.topic("a"), b"1", 2)
        same([(one.payload, one.qos) for one in device.all_from(publisher)], [(b"1", qos)])


@case("5:3.8.4-4", "3:3.8.4-3")
def replacing_a_subscription_loses_no_message(scene):
    device, publisher = scene.client(), scene.client()
    device.subscribes(scene.topic("a"), qos=1)
    for number in range(100):
        device.send(Subscribe(number + 2, (Subscription(scene.topic("a"), 1),)))
        publisher.publishes(scene.topic("a"), b"%d" % number, 1)
        device.expects(packets.Suback, packet_id=number + 2)
    found = [device.receives().payload for _ in range(100)]
    same(found, [b"%d" % number for number in range(100)])


@case("5:3.8.4-6", "5:3.9.3-2", "3:3.9.3-2", "3:3.8.4-5", "5:4.13.2-1", "5:§3.9.3")
def a_filter_that_is_not_allowed_is_refused_by_itself(scene):
    device, publisher = scene.client(), scene.client()
    found = device.subscribes(scene.topic("a"), f"{FORBIDDEN}/#", scene.topic("b"), qos=1)
    same((found[0], found[2]), (1, 1))
    must(found[1] in ((0x87, 0x8F) if scene.version == 5 else (0x80,)), f"{found}")
    for name in ("a", "b"):
        publisher.publishes(scene.topic(name), name.encode(), 1)
        device.receives(name.encode(), 1)


@case("3:3.8.3-2", "5:§3.2.2.3.11")
def filters_with_wildcards_are_granted(scene):
    device = scene.client()
    same(device.connack.properties.get(P.WILDCARD_SUBSCRIPTION_AVAILABLE, 1), 1)
    same(device.subscribes(scene.topic("#"), scene.topic("+/a"), qos=1), (1, 1))


@case("5:3.2.2-9", "5:3.2.2-10", "5:§3.2.2.3.12", "5:§3.2.2.3.13")
def what_connack_does_not_deny_is_there(scene):
    device = scene.client()
    absent = {P.MAXIMUM_QOS, P.RETAIN_AVAILABLE, P.SUBSCRIPTION_IDENTIFIER_AVAILABLE, P.SHARED_SUBSCRIPTION_AVAILABLE}
    denied = {one for one in absent if not device.connack.properties.get(one, 1)}
    same(denied, set())
    same(device.subscribes(scene.topic("a"), f"$share/g/{scene.topic('a')}", qos=2, identifier=1), (2, 2))


@case("5:3.8.3-3", "5:3.1.3-2")
def no_local_keeps_a_clients_own_messages_from_it(scene):
    device, other = scene.client("a"), scene.client("A")
    device.subscribes(scene.topic("a"), qos=1, no_local=True)
    device.publishes(scene.topic("a"), b"own", 1)
    other.publishes(scene.topic("a"), b"other", 1)
    same(device.payloads_from(other), [b"other"])
    same(device.payloads_from(device), [])
    device.subscribes(scene.topic("b"), qos=1)
    device.publishes(scene.topic("b"), b"own", 1)
    device.receives(b"own")


@case("5:3.8.3-3")
def no_local_goes_by_the_client_id_and_not_by_the_connection(scene):
    device = scene.lasting("a")
    device.subscribes(scene.topic("a"), qos=1, no_local=True)
    device.publishes(scene.topic("a"), b"own", 1)
    device.drops()
    device = scene.lasting("a")
    device.publishes(scene.topic("a"), b"own again", 1)
    same(device.payloads_from(scene.client()), [])


@case("5:3.3.4-2", "3:3.3.5-1", "5:3.3.4-3", "5:3.3.4-4", "5:3.3.4-5", "5:§3.3.4")
def overlapping_subscriptions_deliver_the_highest_qos_and_all_identifiers(scene):
    device, publisher = scene.client(), scene.client()
    filters = (
        (scene.topic("a/b"), 0, 1),
        (scene.topic("a/+"), 2, 7),
        (scene.topic("#"), 1, 7),
        (scene.topic("+/b"), 1, 0),
    )
    for one, qos, identifier in filters:
        device.subscribes(one, qos=qos, identifier=identifier if scene.version == 5 else 0)
    publisher.publishes(scene.topic("a/b"), b"1", 2)
    found = device.all_from(publisher)
    must(found and all(one.payload == b"1" for one in found), f"{found}")
    must(len(found) in (1, len(filters)), f"{len(found)} copies for {len(filters)} subscriptions")
    same(max(one.qos for one in found), 2)
    if scene.version == 4:
        return
    identifiers = Counter(id for one in found for id in one.properties.get(P.SUBSCRIPTION_IDENTIFIER, ()))  # type: ignore[union-attr]
    same(identifiers, Counter((1, 7, 7)))
    if len(found) > 1:
        same(sorted(one.qos for one in found), sorted(qos for _, qos, _ in filters))


@case("5:§3.8.2.1.2", "5:3.3.4-3", "5:3.8.4-3")
def an_identifier_is_of_all_filters_of_its_packet_until_they_are_subscribed_again(scene):
    device, publisher = scene.client(), scene.client()
    names = ("a", "b")
    for identifier in (268_435_455, 0, 5):
        device.subscribes(*map(scene.topic, names), qos=1, identifier=identifier)
        for name in names:
            publisher.publishes(scene.topic(name), b"1", 1)
            found = device.receives(b"1").properties.get(P.SUBSCRIPTION_IDENTIFIER)
            same(found, (identifier,) if identifier else None)


@case("5:3.3.4-3", "5:3.3.1-9")
def a_retained_message_has_the_identifier_of_the_new_subscription(scene):
    device, publisher = scene.client(), scene.client()
    publisher.publishes(scene.topic("a"), b"1", 1, retain=True)
    device.subscribes(scene.topic("a"), qos=1, identifier=300)
    same(device.receives(b"1", retain=True).properties.get(P.SUBSCRIPTION_IDENTIFIER), (300,))


@case("5:3.10.4-1", "3:3.10.4-1", "5:3.10.4-2", "3:3.10.4-2", "5:3.10.4-4", "3:3.10.4-4", "5:3.10.4-5", "3:3.10.4-5")
def unsubscribe_deletes_the_filter_that_is_equal(scene):
    device, publisher = scene.client(), scene.client()
    device.subscribes(scene.topic("a/b"), scene.topic("A/b"), scene.topic("c"), qos=1)
    device.send(Unsubscribe(500, (scene.topic("a/#"), scene.topic("a/+"), scene.topic("A/b"), scene.topic("none"))))
    device.expects(packets.Unsuback, packet_id=500)
    for name in ("a/b", "A/b", "c"):
        publisher.publishes(scene.topic(name), name.encode(), 1)
    same(device.payloads_from(publisher), [b"a/b", b"c"])


@case("5:3.11.3-1", "5:3.11.3-2", "5:3.10.4-6", "3:3.10.4-6", "5:2.2.1-6", "3:2.3.1-7", "5:3.10.4-5", "3:3.10.4-5")
def unsuback_has_a_code_for_each_filter_in_their_order(scene):
    device = scene.client()
    device.subscribes(scene.topic("a"), scene.topic("b"))
    device.send(Unsubscribe(501, tuple(scene.topic(name) for name in ("none", "a", "nor", "b", "b"))))
    found = device.expects(packets.Unsuback, packet_id=501)
    same(found.reasons, (0x11, 0, 0x11, 0, 0x11) if scene.version == 5 else ())
    device.pings()


@case("5:3.10.4-3", "3:3.10.4-3")
def what_is_in_flight_is_finished_after_unsubscribe(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=2)
    publisher.publishes(scene.topic("a"), b"1", 2)
    packet = device.hears()
    device.unsubscribes(scene.topic("a"))
    device.drops()
    device = scene.lasting("a")
    again = device.hears()
    same(again, packet._replace(dup=True))
    device.acknowledges(again)
    same(device.payloads_from(publisher), [])


@case("5:3.12.4-1", "3:3.12.4-1")
def each_pingreq_has_its_answer(scene):
    device = scene.client()
    device.send(*[packets.Pingreq()] * 20)
    for _ in range(20):
        device.expects(packets.Pingresp)
        same(device.raw, b"\xd0\0")


@case("5:3.8.4-1", "3:3.8.4-1")
def a_packet_has_as_many_filters_as_fit(scene):
    device, publisher = scene.client(), scene.client()
    names = [f"{number}" for number in range(300)]
    same(device.subscribes(*map(scene.topic, names), qos=1), (1,) * 300)
    publisher.publishes(scene.topic("299"), b"1", 1)
    device.receives(b"1")
    same(device.unsubscribes(*map(scene.topic, names)), (0,) * 300 if scene.version == 5 else ())


@case("5:3.8.4-8", "3:3.8.4-6")
def a_client_gets_its_own_messages(scene):
    device = scene.client()
    device.subscribes(scene.topic("a"), qos=1)
    device.send(Publish(scene.topic("a").encode(), b"1", 1, False, False, 1))
    device.expects(packets.Puback, packet_id=1)
    device.receives(b"1", 1)


@case("5:3.9.2-1", "5:3.9.2-2", "5:3.11.2-1", "5:3.11.2-2", "5:3.4.2-2", "5:3.4.2-3", "5:3.5.2-2", "5:3.5.2-3")
def answers_keep_to_the_clients_maximum_packet_size(scene):
    device = scene.client(maximum_packet_size=24)  # CONNACK has its numbers, and little room for words
    device.subscribes(f"{FORBIDDEN}/a")
    device.unsubscribes(f"{FORBIDDEN}/a")
    device.publishes(f"{FORBIDDEN}/a", b"1", 1)


@case("5:3.6.2-2", "5:3.6.2-3", "5:3.7.2-2", "5:3.7.2-3", "5:3.14.2-3", "5:3.14.2-4")
def answers_to_unknown_ids_and_errors_keep_to_the_clients_maximum_packet_size(scene):
    device = scene.client(maximum_packet_size=24)
    device.send(packets.Pubrel(9))
    device.expects(packets.Pubcomp, packet_id=9)
    device.send(packets.Pubrec(9))
    device.expects(packets.Pubrel, packet_id=9)
    device.breaks(b"\x82\x02\x00\x01", 0x81, 0x82)


@case("3:3.9.3-2", "5:3.9.3-2", "5:§3.4", "3:3.3.5-2")
def a_filter_that_is_allowed_gets_nothing_that_its_client_may_not_read(scene):
    device, publisher = scene.client(), scene.client(username=USER, password=PASSWORD)
    topic = f"{FORBIDDEN}/{scene.topic('a')}"
    for retain in (True, False):
        must(publisher.publishes(topic, b"secret", 1, retain=retain) in (0, 0x10), "refused to a user that may")
    device.subscribes(f"+/{scene.prefix}/#", qos=1)
    if scene.version == 5:
        device.subscribes(f"$share/g/+/{scene.prefix}/#", qos=1)
    publisher.publishes(topic, b"secret", 1)
    same(device.payloads_from(publisher), [])
    if scene.version == 5:  # of the group, which comes later
        publisher.publishes(f"free/{scene.prefix}/end", b"end", 1)
        same({device.receives().payload, device.receives().payload}, {b"end"})
    reader = scene.client(username=USER, password=PASSWORD)
    reader.subscribes(topic, qos=1)
    reader.receives(b"secret", retain=True)
