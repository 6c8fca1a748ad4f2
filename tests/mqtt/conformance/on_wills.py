"""Cases of wills: when they are published, when not, how often, and with what."""

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.packets import Connect, Publish, Will
from streamd.clients.mqtt.codec.properties import Property as P
from tests.mqtt.conformance.brokers import FORBIDDEN
from tests.mqtt.conformance.cases import LASTS_S, case, closed_before_connack, must, same


def will_of(scene, **more):
    return Will(scene.topic("will").encode(), b"gone", **more)


def listener(scene, qos=0):
    device = scene.client()
    device.subscribes(scene.topic("will"), qos=qos)
    return device


def ends(scene, device):
    """Let a client publish where its will would have gone: what comes behind the will, if that came."""
    device.publishes(scene.topic("will"), b"end")


@case("5:3.1.2-8", "3:3.1.2-8", "5:3.1.2-7", "5:3.1.2-10", "3:3.1.2-10")
def a_will_is_published_once_when_the_connection_breaks(scene):
    other = listener(scene)
    scene.lasting("a", will=will_of(scene)).drops()
    other.receives(b"gone", 0, False)
    again = scene.lasting("a")
    ends(scene, again)
    other.receives(b"end")
    again.drops()  # without a will of its own
    ends(scene, scene.client("a"))
    other.receives(b"end")


@case("5:3.14.4-3", "3:3.14.4-3", "5:3.1.2-10", "3:3.1.2-10", "5:§3.14.2.1")
def a_disconnect_takes_the_will_back(scene):
    other = listener(scene)
    for data in (b"\xe0\0", *((b"\xe0\1\0", b"\xe0\2\0\0") if scene.version == 5 else ())):
        device = scene.client("a", will=will_of(scene))
        device.send(data)
        device.is_closed()
        ends(scene, scene.client("a"))
        other.receives(b"end")


@case("5:3.14.4-3", "5:3.1.2-8")
def a_disconnect_with_will_publishes_it(scene):
    other = listener(scene)
    scene.client("a", will=will_of(scene)).disconnects(0x04)
    other.receives(b"gone")


@case("5:3.14.4-3")
def a_disconnect_with_an_error_publishes_the_will(scene):
    for reason in (0x80, 0x81, 0x82, 0x98):
        other = listener(scene)
        scene.client("a", will=will_of(scene)).disconnects(reason)
        other.receives(b"gone")


@case("3:3.14.4-1", "3:3.14.4-2", "5:3.14.4-1", "5:3.14.4-2")
def nothing_behind_a_disconnect_is_processed(scene):
    other = scene.client()
    other.subscribes(scene.topic("a"), qos=1)
    device = scene.client("a")
    device.send(packets.Disconnect(), Publish(scene.topic("a").encode(), b"1"), packets.Pingreq())
    device.is_closed()
    same(other.payloads_from(scene.client("a")), [])


@case("3:3.1.2-12", "3:3.1.2-11", "5:3.1.2-11")
def without_a_will_nothing_is_published(scene):
    other = listener(scene)
    scene.client("a").drops()
    ends(scene, scene.client("a"))
    other.receives(b"end")


@case("5:3.1.2-12", "3:3.1.2-14", "5:3.1.2-9", "3:3.1.2-9")
def a_will_has_its_qos(scene):
    other = listener(scene, 2)
    for qos in (0, 1, 2):
        scene.client("a", will=will_of(scene, qos=qos)).drops()
        other.receives(b"gone", qos, False)


@case("5:3.1.2-14", "3:3.1.2-16", "5:3.1.2-15", "3:3.1.2-17")
def a_will_is_retained_as_its_flag_says(scene):
    other = listener(scene, 1)
    for retain, payload in ((False, b"not"), (True, b"kept"), (False, b"not"), (True, b"")):
        scene.client("a", will=Will(scene.topic("will").encode(), payload, 1, retain)).drops()
        other.receives(payload, 1, False)
        reader = scene.client()
        reader.subscribes(scene.topic("will"))
        kept = reader.payloads_from(other)
        same(kept, {b"not": kept, b"kept": [b"kept"], b"": []}[payload])
        must(b"not" not in kept, f"retained though its flag is 0: {kept}")


@case("5:3.1.4-3", "5:3.1.2-8", "3:3.1.2-8", "5:§3.1.4")
def a_takeover_publishes_the_will_of_the_older_connection(scene):
    other = listener(scene)
    for clean_start in (True, False):
        old = scene.client("a", will=will_of(scene))
        scene.client("a", clean_start=clean_start)
        old.is_closed()
        other.receives(b"gone")


@case("5:3.1.3-10", "5:§3.1.3.2.3")
def the_properties_of_a_will_go_with_it(scene):
    other = listener(scene)
    values = {
        P.PAYLOAD_FORMAT_INDICATOR: 1,
        P.MESSAGE_EXPIRY_INTERVAL: 100,
        P.CONTENT_TYPE: "text",
        P.RESPONSE_TOPIC: "answers",
        P.CORRELATION_DATA: b"\0\xff",
        P.USER_PROPERTY: (("b", "1"), ("a", "2"), ("b", "1")),
    }
    scene.client("a", will=will_of(scene, properties=values)).drops()
    found = dict(other.receives(b"gone").properties)
    must(found[P.MESSAGE_EXPIRY_INTERVAL] in (99, 100), f"{found}")  # type: ignore[comparison-overlap]
    same({**found, P.MESSAGE_EXPIRY_INTERVAL: 100}, values)


@case("5:3.1.3-9", takes_seconds=True)
def a_will_waits_for_its_delay(scene):
    other = listener(scene)
    delayed = will_of(scene, properties={P.WILL_DELAY_INTERVAL: 2})
    scene.client("a", session_expiry_interval=LASTS_S, will=delayed).drops()
    other.is_silent_for(1.5)
    other.receives(b"gone")


@case("5:3.1.3-9", "5:3.1.2-8", "5:3.1.2-10", takes_seconds=True)
def a_client_that_is_back_before_the_delay_has_no_will_published(scene):
    other = listener(scene)
    delayed = will_of(scene, properties={P.WILL_DELAY_INTERVAL: 1})
    scene.client("a", session_expiry_interval=LASTS_S, will=delayed).drops()
    again = scene.client("a", clean_start=False, session_expiry_interval=LASTS_S)
    must(again.connack.session_present, "no session present")
    other.is_silent_for(2.5)


@case("5:3.1.3-9", takes_seconds=True)
def a_will_goes_out_at_the_end_of_the_session_where_that_is_first(scene):
    other = listener(scene)
    delayed = will_of(scene, properties={P.WILL_DELAY_INTERVAL: 60})
    scene.client("a", session_expiry_interval=1, will=delayed).drops()
    other.is_silent_for(0.7)
    other.receives(b"gone")


@case("5:§3.1.3.2.2")
def a_delay_is_no_delay_where_the_session_ends_with_the_connection(scene):
    other = listener(scene)
    delayed = will_of(scene, properties={P.WILL_DELAY_INTERVAL: 60})
    scene.client("a", will=delayed).drops()
    other.receives(b"gone")


@case("5:§3.1.4", "5:3.1.3-9")
def a_clean_start_ends_the_session_and_its_delayed_will_goes_out(scene):
    other = listener(scene)
    delayed = will_of(scene, properties={P.WILL_DELAY_INTERVAL: 60})
    scene.client("a", session_expiry_interval=LASTS_S, will=delayed).drops()
    scene.client("a", clean_start=True)
    other.receives(b"gone")


@case("5:§3.1.4", "5:3.1.3-9", takes_seconds=True)
def a_takeover_that_goes_on_with_the_session_cancels_a_delayed_will(scene):
    other = listener(scene)
    delayed = will_of(scene, properties={P.WILL_DELAY_INTERVAL: 1})
    old = scene.client("a", session_expiry_interval=LASTS_S, will=delayed)
    scene.client("a", clean_start=False, session_expiry_interval=LASTS_S)
    old.is_closed(0x8E)
    other.is_silent_for(2.5)


@case("5:§3.1.4", "5:3.1.3-9")
def a_takeover_with_a_clean_start_publishes_a_delayed_will(scene):
    other = listener(scene)
    delayed = will_of(scene, properties={P.WILL_DELAY_INTERVAL: 60})
    old = scene.client("a", session_expiry_interval=LASTS_S, will=delayed)
    scene.client("a", clean_start=True)
    old.is_closed(0x8E)
    other.receives(b"gone")


@case("5:3.14.4-3", "5:§3.14.2.2.2", takes_seconds=True)
def a_disconnect_with_will_keeps_its_delay_and_one_without_takes_it_back(scene):
    other = listener(scene)
    delayed = will_of(scene, properties={P.WILL_DELAY_INTERVAL: 1})
    scene.client("a", session_expiry_interval=LASTS_S, will=delayed).disconnects(0x00)
    other.is_silent_for(2.0)
    scene.client("b", session_expiry_interval=LASTS_S, will=delayed).disconnects(0x04)
    other.is_silent_for(0.7)
    other.receives(b"gone")


@case("5:§3.1.3.2.3", takes_seconds=True)
def the_expiry_of_a_will_counts_from_its_publication(scene):
    other = listener(scene)
    values = {P.WILL_DELAY_INTERVAL: 2, P.MESSAGE_EXPIRY_INTERVAL: 3}
    scene.client("a", session_expiry_interval=LASTS_S, will=will_of(scene, properties=values)).drops()
    other.is_silent_for(1.5)
    must(other.receives(b"gone").properties[P.MESSAGE_EXPIRY_INTERVAL] in (2, 3), "counted from another time")


@case("5:§3.1.3.2.3")
def a_will_that_is_not_the_text_it_says_is_refused_or_handed_on(scene):
    device = scene.opens()
    will = Will(scene.topic("will").encode(), b"\xff", properties={P.PAYLOAD_FORMAT_INDICATOR: 1})
    device.send(Connect(5, scene.id("a"), True, will=will))
    packet = device.expects(packets.Connack)
    must(packet.reason in (0, 0x99), f"{packet}")


@case("5:3.1.3-11", "3:3.1.3-10")
def a_will_topic_is_a_topic_name(scene):
    for topic in ("", "+", "a/#", "a/+/b"):
        device = scene.opens()
        device.send(Connect(scene.version, scene.id("a"), True, will=Will(topic.encode(), b"1")))
        closed_before_connack(device, reasons=(0x81, 0x82, 0x90))


@case("5:3.1.2-7", "3:3.1.2-8")
def a_will_that_may_not_be_published_reaches_nobody(scene):
    other = scene.client()
    topic = scene.topic("a")
    other.subscribes(f"+/{topic}", qos=1)
    device = scene.opens()
    will = Will(f"{FORBIDDEN}/{topic}".encode(), b"gone")
    device.send(Connect(scene.version, scene.id("a"), True, will=will))
    packet = device.expects(packets.Connack)
    must(packet.reason in ((0, 0x87) if scene.version == 5 else (0, 5)), f"{packet}")
    device.drops()
    same(other.payloads_from(scene.client("a")), [])


@case("5:4.5.0-1", "3:4.5.0-1", "5:3.14.4-1", "3:3.14.4-1")
def what_was_sent_before_a_disconnect_is_processed(scene):
    other, topic = scene.client(), scene.topic("a").encode()
    other.subscribes(scene.topic("a"), qos=2)
    for number in range(10):
        device = scene.client("a")
        last = Publish(topic, b"%d" % number, number % 2, False, False, 7 if number % 2 else 0)
        device.send(last, packets.Disconnect())
        while device.next_or_end() is not None:
            pass
        other.receives(last.payload, last.qos)


@case("5:3.1.2-8", "3:3.1.2-8", "5:4.6.0-5", "3:4.6.0-6")
def a_will_comes_behind_what_its_client_has_published(scene):
    other = listener(scene)
    topic = scene.topic("will").encode()
    for number in range(6):
        device = scene.client("a", will=will_of(scene))
        device.send(*(Publish(topic, b"%d" % one) for one in range(20)))
        if number % 2:
            device.breaks(b"\xf1\0", 0x81)
        device.drops()
        same([other.receives().payload for _ in range(21)], [b"%d" % one for one in range(20)] + [b"gone"])


@case("5:3.1.2-8", "3:3.1.2-8", "5:3.1.2-14", "3:3.1.2-17", "5:3.1.2-15")
def a_retained_will_takes_the_place_of_what_its_client_retained(scene):
    other = listener(scene, 1)
    device = scene.client("a", will=will_of(scene, qos=1, retain=True))
    device.publishes(scene.topic("will"), b"here", 1, retain=True)
    device.drops()
    other.receives(b"here", 1, False)
    other.receives(b"gone", 1, False)
    reader = scene.client()
    reader.subscribes(scene.topic("will"), qos=1)
    reader.receives(b"gone", 1, True)
