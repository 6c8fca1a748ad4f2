"""Cases of retained messages, and of the RETAIN flag."""

from streamd.clients.mqtt.codec.packets import Puback, Publish
from streamd.clients.mqtt.codec.properties import Property as P
from tests.mqtt.conformance.cases import case, must, same


def kept(scene, name="a", **more):
    """Return the retained messages that a new subscriber gets."""
    reader, publisher = scene.client(), scene.client()
    reader.subscribes(scene.topic(name), qos=2, **more)
    found = reader.all_from(publisher)
    must(all(one.retain for one in found), f"retained without RETAIN: {found}")
    return found


@case("5:3.3.1-5", "3:3.3.1-5", "3:3.3.1-8", "5:§3.3.1.3")
def a_retained_message_is_the_last_of_its_topic_with_its_qos(scene):
    publisher = scene.client()
    for number, qos in enumerate((1, 2, 0, 1)):
        publisher.publishes(scene.topic("a"), b"%d" % number, qos, retain=True)
        publisher.publishes(scene.topic("a/b"), b"other", 1, retain=True)  # its answer comes behind what was before
        found = kept(scene)
        if qos or found:  # of QoS 0 it may be dropped
            same([(one.payload, one.qos) for one in found], [(b"%d" % number, qos)])
        same([one.payload for one in kept(scene, "a/b")], [b"other"])


@case("3:3.3.1-7", "5:§3.3.1.3")
def a_retained_message_of_qos_0_takes_the_place_of_the_old_one(scene):
    publisher = scene.client()
    publisher.publishes(scene.topic("a"), b"old", 1, retain=True)
    publisher.publishes(scene.topic("a"), b"new", 0, retain=True)
    publisher.publishes(scene.topic("b"), b"behind it", 1)
    must([one.payload for one in kept(scene)] in ([b"new"], []), "the old one is still there")


@case("5:3.3.1-5")
def a_retained_message_has_its_properties(scene):
    publisher = scene.client()
    values = {"content_type": "text", "user_property": (("b", "1"), ("a", "2")), "correlation_data": b"\0"}
    publisher.publishes(scene.topic("a"), b"1", 1, retain=True, **values)
    (found,) = kept(scene)
    same(dict(found.properties), {P[name.upper()]: value for name, value in values.items()})


@case("5:3.3.1-6", "3:3.3.1-10", "5:3.3.1-7", "3:3.3.1-11")
def an_empty_payload_removes_what_is_retained_and_is_delivered(scene):
    publisher, subscriber = scene.client(), scene.client()
    subscriber.subscribes(scene.topic("#"), qos=1)
    for qos in (1, 0, 2):
        publisher.publishes(scene.topic("a"), b"1", 1, retain=True)
        publisher.publishes(scene.topic("a"), b"", qos, retain=True)
        same([(one.payload, one.retain) for one in subscriber.all_from(publisher)], [(b"1", False), (b"", False)])
        same(kept(scene), [])


@case("5:3.3.1-8", "3:3.3.1-12")
def without_the_flag_nothing_is_retained_or_removed(scene):
    publisher = scene.client()
    publisher.publishes(scene.topic("a"), b"not", 1)
    same(kept(scene), [])
    publisher.publishes(scene.topic("a"), b"kept", 1, retain=True)
    publisher.publishes(scene.topic("a"), b"not", 1)
    publisher.publishes(scene.topic("a"), b"", 1)
    same([one.payload for one in kept(scene)], [b"kept"])


@case("5:3.3.1-9", "3:3.3.1-6", "3:3.8.4-3", "5:3.8.4-4")
def each_subscribe_gets_what_is_retained(scene):
    publisher, device = scene.client(), scene.client()
    names = ("a", "b", "a/b")
    for name in names:
        publisher.publishes(scene.topic(name), name.encode(), 1, retain=True)
    for _ in range(2):
        device.subscribes(scene.topic("#"), qos=1)
        found = device.all_from(publisher)
        same(sorted((one.payload, one.retain) for one in found), sorted((one.encode(), True) for one in names))
    device.subscribes(scene.topic("a"), scene.topic("+/b"))
    same(sorted(device.payloads_from(publisher)), [b"a", b"a/b"])


@case("5:3.3.1-10", "5:3.3.1-11", "5:3.3.1-9", "5:3.8.4-4")
def retain_handling_says_when_what_is_retained_is_sent(scene):
    publisher = scene.client()
    publisher.publishes(scene.topic("a"), b"1", 1, retain=True)
    for handling, first, again in ((0, 1, 1), (1, 1, 0), (2, 0, 0)):
        device = scene.client()
        for count in (first, again):
            device.subscribes(scene.topic("a"), qos=1, retain_handling=handling)
            same(device.payloads_from(publisher), [b"1"] * count)
        device.unsubscribes(scene.topic("a"))
        device.subscribes(scene.topic("a"), qos=1, retain_handling=handling)
        same(device.payloads_from(publisher), [b"1"] * first)


@case("5:3.3.1-10")
def a_subscription_of_the_session_existed_before(scene):
    publisher = scene.client()
    publisher.publishes(scene.topic("a"), b"1", 1, retain=True)
    device = scene.lasting("a")
    device.subscribes(scene.topic("a"), qos=1, retain_handling=2)
    device.drops()
    device = scene.lasting("a")
    device.subscribes(scene.topic("a"), qos=1, retain_handling=1)
    same(device.payloads_from(publisher), [])


@case("5:3.3.1-12", "3:3.3.1-9", "5:3.3.1-13")
def messages_on_a_subscription_have_retain_as_it_was_asked_for(scene):
    publisher, device = scene.client(), scene.client()
    device.subscribes(scene.topic("a"), qos=1)
    asked = [(device, False)]
    if scene.version == 5:
        other = scene.client()
        other.subscribes(scene.topic("a"), qos=1, retain_as_published=True)
        asked.append((other, True))
    for retain in (True, False):
        publisher.publishes(scene.topic("a"), b"1", 1, retain=retain)
        for one, is_kept in asked:
            one.receives(b"1", retain=retain and is_kept)


@case("5:3.3.1-12", "3:3.3.1-9", "3:3.1.2-5", "3:4.5.0-1")
def a_retained_message_that_a_session_waited_with_comes_once_and_without_the_flag(scene):
    publisher, device = scene.client(), scene.lasting("a")
    device.subscribes(scene.topic("a"), qos=1)
    device.drops()
    publisher.publishes(scene.topic("a"), b"1", 1, retain=True)
    found = scene.lasting("a").all_from(publisher)
    same([(one.payload, one.retain) for one in found], [(b"1", False)])


@case("5:§3.3.1.3", "5:3.3.2-6", takes_seconds=True)
def a_retained_message_expires(scene):
    publisher = scene.client()
    publisher.publishes(scene.topic("a"), b"1", 1, retain=True, message_expiry_interval=1)
    publisher.publishes(scene.topic("b"), b"2", 1, retain=True, message_expiry_interval=10)
    publisher.is_silent_for(2.2)
    same(kept(scene), [])
    (found,) = kept(scene, "b")
    must(found.properties[P.MESSAGE_EXPIRY_INTERVAL] in (7, 8), f"{found}")


@case("3:3.3.1-8", "3:3.8.4-6", "5:3.8.4-8")
def a_retained_message_has_the_lower_qos_of_both(scene):
    publisher = scene.client()
    publisher.publishes(scene.topic("a"), b"1", 2, retain=True)
    for qos in (0, 1, 2):
        device = scene.client()
        device.subscribes(scene.topic("a"), qos=qos)
        device.receives(b"1", qos, True)


@case("5:4.4.0-1", "3:4.4.0-1", "3:3.3.1-8", "5:§3.3.1.3")
def a_retained_message_that_is_sent_again_is_the_same_packet(scene):
    publisher, device = scene.client(), scene.lasting("a")
    publisher.publishes(scene.topic("a"), b"1", 1, retain=True)
    publisher.publishes(scene.topic("b"), b"2", 2, retain=True)
    for name in ("a", "b"):
        device.subscribes(scene.topic(name), qos=2)
    first = [device.hears(), device.hears()]
    must(all(one.retain for one in first), f"{first}")
    device.drops()
    device = scene.lasting("a")
    same([device.hears(), device.hears()], [one._replace(dup=True) for one in first])


@case("5:3.3.1-13", "5:§3.3.1.3")
def because_of_a_new_subscription_retain_is_1_however_it_was_asked_for(scene):
    publisher = scene.client()
    publisher.publishes(scene.topic("a"), b"1", 1, retain=True)
    for asked in (True, False):
        device = scene.client()
        device.subscribes(scene.topic("a"), qos=1, retain_as_published=asked)
        device.receives(b"1", 1, True)


@case("5:4.7.2-1", "3:4.7.2-1", "5:4.7.1-1", "3:4.7.1-2", "5:§4.7.1", "3:§4.7.1")
def retained_messages_match_filters_as_live_ones_do(scene):
    publisher = scene.client()
    names = ("", "a", "a/", "a/b", "a/b/c", "/", "b/a", "$a/b")
    for name in names:
        publisher.publishes(scene.topic(name), b"=" + name.encode(), 1, retain=True)
    matches = {
        "#": set(names),
        "a/#": {"a", "a/", "a/b", "a/b/c"},
        "+": {"", "a"},
        "+/+": {"a/", "a/b", "/", "b/a", "$a/b"},
        "a/+": {"a/", "a/b"},
        "+/a/#": {"b/a"},
        "a": {"a"},
    }
    for filter_, right in matches.items():
        same({one.payload[1:].decode() for one in kept(scene, filter_)}, right)


@case("5:3.3.1-9", "3:3.3.1-6", "5:4.9.0-2")
def many_retained_messages_all_come(scene):
    publisher, device = scene.client(), scene.client()
    names = [f"{number}" for number in range(1_500)]
    for at in range(0, len(names), 150):
        sent = [
            Publish(scene.topic(name).encode(), name.encode(), 1, True, False, number)
            for number, name in enumerate(names[at : at + 150], 1)
        ]
        publisher.send(*sent)
        for _ in sent:
            publisher.expects(Puback)
    device.subscribes(scene.topic("+"), qos=1)
    same(sorted(device.receives(retain=True).payload.decode() for _ in names), sorted(names))


@case("5:4.7.2-1", "3:4.7.2-1")
def a_leading_wildcard_gets_no_retained_message_of_a_name_with_a_dollar(scene):
    publisher, device = scene.client(), scene.client()
    publisher.publishes(f"$own/{scene.prefix}", b"1", retain=True)
    device.subscribes("#", f"+/{scene.prefix}")
    same(device.payloads_from(scene.client()), [])


@case("5:§4.1", "5:4.1.0-1")
def retained_messages_that_wait_for_quota_outlive_the_connection(scene):
    publisher, device = scene.client(), scene.lasting("a", receive_maximum=1)
    names = [b"%d" % number for number in range(5)]
    for name in names:
        publisher.publishes(scene.topic(name.decode()), name, 1, retain=True)
    device.subscribes(scene.topic("+"), qos=1)
    first = device.hears()
    device.send(Puback(first.packet_id))
    second = device.hears()
    device.drops()
    found = [one.payload for one in scene.lasting("a").all_from(publisher)]
    same(sorted([first.payload, *found]), names)
    must(second.payload in found, "what was in flight is not sent again")
