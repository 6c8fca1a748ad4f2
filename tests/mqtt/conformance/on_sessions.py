"""Cases of sessions: what they hold, how long they last, and what is sent again when a client comes back."""

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel, Subscribe, Subscription, Will
from streamd.clients.mqtt.codec.properties import Property as P
from tests.mqtt.conformance.cases import LASTS_S, case, must, same


@case("5:3.1.2-4", "3:3.1.2-6", "5:3.1.4-4", "3:3.1.4-3", "5:3.2.2-2", "3:3.2.2-1")
def a_clean_start_discards_subscriptions_and_what_waits(scene):
    first, publisher = scene.lasting("a"), scene.client()
    first.subscribes(scene.topic("a"), qos=2)
    publisher.publishes(scene.topic("a"), b"in flight", 1)
    first.hears()
    first.drops()
    publisher.publishes(scene.topic("a"), b"waits", 1)
    again = scene.lasting("a", clean_start=True)
    publisher.publishes(scene.topic("a"), b"new", 1)
    same(again.payloads_from(publisher), [])


@case("5:3.1.2-4", "3:3.1.2-6", "5:4.3.3-12", "3:4.3.3-2")
def a_clean_start_discards_the_ids_of_qos_2_that_came(scene):
    other = scene.client()
    other.subscribes(scene.topic("a"), qos=2)
    topic = scene.topic("a").encode()
    first = scene.lasting("a")
    first.send(Publish(topic, b"1", 2, False, False, 7))
    first.expects(Pubrec, packet_id=7)
    first.drops()
    again = scene.lasting("a", clean_start=True)
    again.send(Publish(topic, b"2", 2, False, False, 7))
    again.is_answered(7, 2)
    # Of a session that is discarded a broker may deliver what it had not been told to release.
    payloads = other.payloads_from(again, 2)
    must(payloads in ([b"2"], [b"1", b"2"]), f"{payloads}")


@case("3:3.1.2-6", "5:3.1.2-23", "5:4.1.0-2", "5:3.2.2-3", "3:3.2.2-3")
def a_session_without_expiry_ends_with_its_connection(scene):
    first, publisher = scene.client("a"), scene.client()
    first.subscribes(scene.topic("a"), qos=1)
    first.drops()
    publisher.publishes(scene.topic("a"), b"1", 1)
    again = scene.lasting("a")
    must(not again.connack.session_present, "the session is still there")
    same(again.payloads_from(publisher), [])


@case("5:3.1.2-5", "3:3.1.2-4", "3:3.1.2-5", "5:4.5.0-1", "3:4.5.0-1", "5:§4.1", "3:§3.1.2.4", "5:4.1.0-1", "3:4.1.0-1")
def a_session_keeps_messages_of_qos_1_and_2_while_its_client_is_away(scene):
    away, here, publisher = scene.lasting("a"), scene.client(), scene.client()
    for one in (away, here):
        one.subscribes(scene.topic("a"), qos=2)
    away.disconnects()
    sent = [(b"%d" % number, 1 + number % 2) for number in range(20)]
    for payload, qos in sent:
        publisher.publishes(scene.topic("a"), payload, qos)
    same([(one.payload, one.qos) for one in here.all_from(publisher)], sent)
    away = scene.lasting("a")
    must(away.connack.session_present, "no session present")
    same([(one.payload, one.qos) for one in away.all_from(publisher)], sent)


@case("3:4.1.0-2", "5:4.1.0-1")
def a_session_keeps_its_subscriptions_and_their_options(scene):
    a, publisher = scene.lasting("a"), scene.client()
    a.subscribes(scene.topic("q0"), qos=0)
    a.subscribes(scene.topic("q1"), qos=1)
    options = {"retain_as_published": True, "identifier": 9} if scene.version == 5 else {}
    a.subscribes(scene.topic("q2"), qos=2, **options)
    a.disconnects()
    a = scene.lasting("a")
    for name in ("q0", "q1", "q2"):
        publisher.publishes(scene.topic(name), name.encode(), 2, retain=name == "q2")
    found = a.all_from(publisher, qos=2)
    same(sorted((one.payload, one.qos) for one in found), [(b"q0", 0), (b"q1", 1), (b"q2", 2)])
    if scene.version == 5:
        last = next(one for one in found if one.payload == b"q2")
        same((last.retain, last.properties.get(P.SUBSCRIPTION_IDENTIFIER)), (True, (9,)))


@case("5:3.1.2-23", "5:4.1.0-2", takes_seconds=True)
def a_session_ends_when_its_expiry_has_passed(scene):
    first, publisher = scene.client("a", session_expiry_interval=1), scene.client()
    first.subscribes(scene.topic("a"), qos=1)
    first.disconnects()
    publisher.is_silent_for(2.5)
    must(not scene.lasting("a").connack.session_present, "the session is still there")


@case("5:3.1.2-23", "5:3.1.2-5", takes_seconds=True)
def a_session_stays_until_its_expiry_and_for_ever_where_it_has_none(scene):
    for name, expiry in (("a", 10), ("b", 0xFFFFFFFF)):
        first = scene.client(name, session_expiry_interval=expiry)
        first.subscribes(scene.topic(name), qos=1)
        first.drops()
    publisher = scene.client()
    publisher.is_silent_for(2.5)
    for name in ("a", "b"):
        publisher.publishes(scene.topic(name), b"1", 1)
        again = scene.client(name, clean_start=False)
        must(again.connack.session_present, "no session present")
        again.receives(b"1", 1)


@case("5:3.1.2-23", takes_seconds=True)
def the_expiry_counts_from_the_end_of_the_last_connection(scene):
    scene.client("a", session_expiry_interval=2).drops()
    again = scene.client("a", clean_start=False, session_expiry_interval=2)
    must(again.connack.session_present, "no session present")
    again.is_silent_for(2.5)
    again.drops()
    must(scene.client("a", clean_start=False).connack.session_present, "the time of the connection was counted")


@case("5:§3.14.2.2.2", "5:3.14.4-3")
def a_disconnect_may_end_the_session_at_once(scene):
    scene.lasting("a").disconnects(session_expiry_interval=0)
    must(not scene.lasting("a").connack.session_present, "the session is still there")


@case("5:§3.14.2.2.2", takes_seconds=True)
def a_disconnect_may_change_the_expiry(scene):
    scene.client("a", session_expiry_interval=1).disconnects(session_expiry_interval=LASTS_S)
    scene.client("b", session_expiry_interval=LASTS_S).disconnects(session_expiry_interval=1)
    scene.client().is_silent_for(2.5)
    must(scene.lasting("a").connack.session_present, "the session is gone")
    must(not scene.lasting("b").connack.session_present, "the session is still there")


@case("5:§3.14.2.2.2")
def a_disconnect_may_not_make_a_session_last_that_was_to_end(scene):
    other = scene.client()
    other.subscribes(scene.topic("will"))
    device = scene.client("a", will=Will(scene.topic("will").encode(), b"gone"))
    device.send(packets.Disconnect(0, {P.SESSION_EXPIRY_INTERVAL: 5}))
    device.is_closed(0x82)
    other.receives(b"gone")
    must(not scene.lasting("a").connack.session_present, "the session is there")


@case(
    "5:4.4.0-1", "3:4.4.0-1", "5:3.3.1-1", "3:3.3.1-1", "5:§2.2.1", "3:2.3.1-3", "3:4.6.0-1", "5:4.6.0-5", "3:4.6.0-6"
)
def what_is_not_acknowledged_is_sent_again_in_its_order_when_the_client_is_back(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=2)
    for number in range(6):
        publisher.publishes(scene.topic("a"), b"%d" % number, 1 + number % 2)
    first = [device.hears() for _ in range(6)]
    must(not any(one.dup for one in first), f"DUP at the first sending: {first}")
    for _ in range(2):
        device.drops()
        device = scene.lasting("a")
        again = [device.hears() for _ in range(6)]
        same(again, [one._replace(dup=True) for one in first])
    device.send(*(Puback(one.packet_id) for one in first if one.qos == 1))
    for one in (one for one in first if one.qos == 2):
        device.acknowledges(one)
    device.drops()
    same(scene.lasting("a").payloads_from(publisher), [])


@case("5:4.3.3-5", "5:4.3.3-6", "3:4.3.3-1", "5:4.4.0-1", "3:4.4.0-1")
def behind_pubrec_only_pubrel_is_sent_again(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=2)
    publisher.publishes(scene.topic("a"), b"1", 2)
    packet = device.hears()
    device.send(Pubrec(packet.packet_id))
    device.expects(Pubrel, packet_id=packet.packet_id, reason=0)
    for _ in range(2):
        device.drops()
        device = scene.lasting("a")
        same(type(device.take()), Pubrel)
    device.send(Pubcomp(packet.packet_id))
    device.pings()
    device.drops()
    same(scene.lasting("a").payloads_from(publisher), [])


@case("5:4.4.0-2", "5:4.3.3-4", "5:4.13.2-1")
def what_a_client_refused_is_not_sent_again(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=2)
    publisher.publishes(scene.topic("a"), b"1", 1)
    publisher.publishes(scene.topic("a"), b"2", 2)
    device.send(Puback(device.hears().packet_id, 0x83), Pubrec(device.hears().packet_id, 0x97))
    device.pings()
    device.drops()
    same(scene.lasting("a").payloads_from(publisher), [])


@case("5:4.4.0-1", takes_seconds=True)
def nothing_is_sent_again_while_the_client_is_connected(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=2)
    publisher.publishes(scene.topic("a"), b"1", 1)
    publisher.publishes(scene.topic("a"), b"2", 2)
    device.hears()
    device.send(Pubrec(device.hears().packet_id))
    device.expects(Pubrel)
    device.is_silent_for(3.0)


@case("5:4.3.3-10", "3:4.3.3-2", "5:4.3.3-11", "5:4.3.3-8", "5:§4.1", "3:§3.1.2.4")
def an_id_of_qos_2_that_came_is_known_when_the_client_is_back(scene):
    other, device = scene.client(), scene.lasting("a")
    other.subscribes(scene.topic("a"), qos=2)
    packet = Publish(scene.topic("a").encode(), b"1", 2, False, False, 7)
    device.send(packet)
    device.expects(Pubrec, packet_id=7)
    device.drops()
    device = scene.lasting("a")
    device.send(packet._replace(dup=True))
    device.expects(Pubrec, packet_id=7, reason=0)
    device.drops()
    device = scene.lasting("a")
    device.send(Pubrel(7))
    device.expects(Pubcomp, packet_id=7, reason=0)
    same(other.payloads_from(device, 2), [b"1"])


@case("3:3.1.2-7", "5:§4.1")
def a_retained_message_outlives_the_session_that_published_it(scene):
    publisher = scene.client("a")
    publisher.publishes(scene.topic("a"), b"1", 1, retain=True)
    publisher.disconnects()
    scene.client("a").disconnects()
    reader = scene.client()
    reader.subscribes(scene.topic("a"))
    reader.receives(b"1", retain=True)


@case("5:3.1.4-3", "3:3.1.4-2", "5:3.1.2-5", "3:3.1.2-4", "5:4.4.0-1", "3:4.4.0-1")
def a_takeover_goes_on_with_the_session(scene):
    old, publisher = scene.lasting("a"), scene.client()
    old.subscribes(scene.topic("a"), qos=1)
    publisher.publishes(scene.topic("a"), b"1", 1)
    first = old.hears()
    new = scene.lasting("a")
    must(new.connack.session_present, "no session present")
    old.is_closed(0x8E)
    same(new.hears(), first._replace(dup=True))


@case("5:3.2.0-1", "3:3.2.0-1")
def connack_comes_before_the_messages_that_wait(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=1)
    device.drops()
    for number in range(30):
        publisher.publishes(scene.topic("a"), b"%d" % number, 1)
    device = scene.opens()
    properties = {P.SESSION_EXPIRY_INTERVAL: LASTS_S} if scene.version == 5 else {}
    connect = packets.Connect(scene.version, scene.id("a"), False, properties=properties)
    device.send(connect, Subscribe(9, (Subscription(scene.topic("b")),)))
    same(type(device.take()), packets.Connack)
    device.expects(packets.Suback, packet_id=9)
    for number in range(30):
        device.receives(b"%d" % number)


@case("5:§2.2.1", "3:2.3.1-3", "5:2.2.1-4", "3:2.3.1-4")
def an_id_in_flight_is_not_given_again_after_a_reconnect(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=1)
    publisher.publishes(scene.topic("a"), b"old", 1)
    device.hears()
    device.drops()
    publisher.publishes(scene.topic("a"), b"waits", 1)
    device = scene.lasting("a")
    publisher.publishes(scene.topic("a"), b"new", 1)
    found = [device.hears() for _ in range(3)]  # Device judges that their IDs differ
    same([(one.payload, one.dup) for one in found], [(b"old", True), (b"waits", False), (b"new", False)])


@case("5:3.1.2-5", "3:3.1.2-4")
def a_session_goes_on_with_a_client_of_the_other_version(scene):
    other = 9 - scene.version
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=2)
    publisher.publishes(scene.topic("a"), b"1", 1)
    first = device.hears()
    publisher.publishes(scene.topic("a"), b"2", 2)
    device.hears()
    device.drops()
    publisher.publishes(scene.topic("a"), b"3", 1)
    device = scene.lasting("a", version=other)
    must(device.connack.session_present, "no session present")
    same(device.hears(), first._replace(dup=True))
    device.send(Puback(first.packet_id))
    device.receives(b"2", 2)
    device.receives(b"3", 1)


@case("5:4.5.0-1", "3:4.5.0-1", "5:3.8.4-2", "3:3.8.4-2")
def a_subscription_gets_nothing_that_was_published_before_it(scene):
    publisher = scene.client()
    for number in range(10):
        publisher.publishes(scene.topic("a"), b"before", 1)
        device = scene.lasting(f"a{number}")
        device.subscribes(scene.topic("a"), qos=1)
        same(device.payloads_from(publisher), [])


@case("5:4.6.0-5", "3:4.6.0-6", "3:4.6.0-5", "5:4.6.0-6")
def what_waits_comes_in_its_order_though_messages_go_on_coming(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), qos=1)
    device.drops()
    topic = scene.topic("a").encode()
    for half in range(2):
        sent = [Publish(topic, b"%d" % (half * 150 + one), 1, False, False, one + 1) for one in range(150)]
        publisher.send(*sent)
        if half == 0:
            for _ in sent:
                publisher.expects(Puback)
            device = scene.lasting("a")
    same([device.receives(qos=1).payload for _ in range(300)], [b"%d" % number for number in range(300)])


@case("5:3.10.4-1", "3:3.10.4-1", "5:4.1.0-1", "3:4.1.0-1", "3:3.1.2-4")
def a_session_forgets_the_filters_that_its_client_unsubscribed(scene):
    device, publisher = scene.lasting("a"), scene.client()
    device.subscribes(scene.topic("a"), scene.topic("b"), qos=1)
    device.unsubscribes(scene.topic("a"))
    device.drops()
    for name in ("a", "b"):
        publisher.publishes(scene.topic(name), b"away " + name.encode(), 1)
    device = scene.lasting("a")
    for name in ("a", "b"):
        publisher.publishes(scene.topic(name), b"here " + name.encode(), 1)
    same(device.payloads_from(publisher), [b"away b", b"here b"])
