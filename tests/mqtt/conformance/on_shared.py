"""Cases of shared subscriptions.

A broker may deliver to a group later than to plain subscriptions, so a message to the group itself marks the end.
"""

import time

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.packets import Puback, Publish, Pubrec, Pubrel
from streamd.clients.mqtt.codec.properties import Property as P
from tests.mqtt.conformance.cases import case, must, same


def members(scene, count=2, qos=1, name="g", filter_="a"):
    found = [scene.lasting(f"{name}{number}") for number in range(count)]
    for one in found:
        same(one.subscribes(f"$share/{name}/{scene.topic(filter_)}", qos=qos), (qos,))
    return found


def heard_by(scene, group, count, answers=True):
    """Return so many messages, each with the member that got it; unless `answers` is false they are acknowledged."""
    found = []
    deadline = time.monotonic() + scene.deadline_s
    while len(found) < count:
        must(time.monotonic() < deadline, f"{len(found)} of {count} messages: {[one.payload for _, one in found]}")
        for one in group:
            try:
                packet = one.take(0.02)
            except TimeoutError:
                continue
            must(type(packet) is Publish, f"{packet}")
            if answers:
                one.acknowledges(packet)
            found.append((one, packet))
    return found


def payloads(heard):
    return sorted(one.payload for _, one in heard)


@case("5:§4.8.2", "5:4.8.2-1", "5:4.8.2-2")
def each_message_reaches_one_member_of_each_group_and_each_plain_subscription(scene):
    group, others = members(scene, 3), members(scene, 1, name="h", filter_="#")
    plain, publisher = scene.client(), scene.client()
    plain.subscribes(scene.topic("a"), qos=1)
    sent = [b"%02d" % number for number in range(60)]
    for one in sent:
        publisher.publishes(scene.topic("a"), one, 1)
    same(plain.payloads_from(publisher), sent)
    same(payloads(heard_by(scene, others, 61))[:-1], sent)  # and the marker
    same(payloads(heard_by(scene, group, 60)), sent)
    publisher.publishes(scene.topic("a"), b"end", 1)
    same(payloads(heard_by(scene, group, 1)), [b"end"])
    for one in group:
        one.pings()
        must(not one.has_heard(), "a message reaches two members")


@case("5:§4.8.2", "5:§3.3.4")
def a_client_with_both_gets_both(scene):
    device, publisher = scene.client(), scene.client()
    device.subscribes(f"$share/g/{scene.topic('a')}", qos=1, identifier=2)
    device.subscribes(scene.topic("a"), qos=1, identifier=3)
    publisher.publishes(scene.topic("a"), b"1", 1)
    found: list[int] = []
    while len(found) < 2:  # in one copy or in two
        found += device.receives(b"1").properties[P.SUBSCRIPTION_IDENTIFIER]
    same(sorted(found), [2, 3])


@case("5:§4.8.2", "5:3.3.1-9")
def a_shared_subscription_gets_no_retained_messages_when_it_begins(scene):
    publisher = scene.client()
    publisher.publishes(scene.topic("a"), b"1", 1, retain=True)
    (device,) = members(scene, 1)
    publisher.publishes(scene.topic("a"), b"end", 1)
    device.receives(b"end", retain=False)


@case("5:4.8.2-3", "5:3.8.4-8")
def the_qos_of_the_receiving_member_holds(scene):
    for qos in (0, 1, 2):
        name = f"q{qos}"
        device, publisher = scene.client(), scene.client()
        device.subscribes(f"$share/{name}/{scene.topic(name)}", qos=qos)
        for published in (0, 1, 2):
            publisher.publishes(scene.topic(name), b"1", published)
            device.receives(b"1", min(qos, published))


@case("5:3.10.4-1", "5:§4.8.2")
def unsubscribe_names_the_whole_filter(scene):
    (device,), (other,), publisher = members(scene, 1), members(scene, 1, name="other"), scene.client()
    topic = scene.topic("a")
    same(device.unsubscribes(topic, f"$share/h/{topic}"), (0x11, 0x11))
    publisher.publishes(topic, b"1", 1)
    device.receives(b"1")
    same(device.unsubscribes(f"$share/g/{topic}"), (0,))
    publisher.publishes(topic, b"2", 1)
    other.receives(b"1")
    other.receives(b"2")
    device.pings()
    must(not device.has_heard(), "a message after UNSUBSCRIBE")


@case("5:§4.8.2")
def a_group_ends_with_its_last_member(scene):
    first, publisher = scene.client(), scene.client()
    first.subscribes(f"$share/g/{scene.topic('a')}", qos=1)
    first.disconnects()
    publisher.publishes(scene.topic("a"), b"1", 1)
    second = scene.client()
    second.subscribes(f"$share/g/{scene.topic('a')}", qos=1)
    publisher.publishes(scene.topic("a"), b"2", 1)
    second.receives(b"2")


@case("5:4.8.2-4", "5:§4.8.2", "5:4.4.0-1")
def what_a_member_has_begun_of_qos_2_is_finished_with_it(scene):
    group, publisher = members(scene, 2, qos=2), scene.client()
    for payload in (b"1", b"2"):
        publisher.publishes(scene.topic("a"), payload, 2)
    held = heard_by(scene, group, 2, answers=False)
    same(payloads(held), [b"1", b"2"])
    device, packet = held[0]
    device.send(Pubrec(packet.packet_id))
    device.expects(Pubrel, packet_id=packet.packet_id)
    device.drops()
    device = scene.lasting(f"g{group.index(device)}")
    same({one.packet_id for one in _until_pubrel(device) if type(one) is Pubrel}, {packet.packet_id})
    device.send(packets.Pubcomp(packet.packet_id))
    device.pings()


def _until_pubrel(device):
    found = [device.take()]
    while type(found[-1]) is not Pubrel:
        found.append(device.take())
    return found


@case("5:4.8.2-6", "5:4.13.2-1")
def a_message_that_a_member_refuses_goes_to_nobody_else(scene):
    group, publisher = members(scene, 2, qos=2), scene.client()
    sent = [b"%d" % number for number in range(10)]
    for number, payload in enumerate(sent):
        publisher.publishes(scene.topic("a"), payload, 1 + number % 2)
    heard = heard_by(scene, group, len(sent), answers=False)
    same(payloads(heard), sent)
    for device, packet in heard:
        device.send((Puback if packet.qos == 1 else Pubrec)(packet.packet_id, 0x83))
    publisher.publishes(scene.topic("a"), b"end", 1)
    same(payloads(heard_by(scene, group, 1)), [b"end"])
    for one in group:
        one.pings()
        must(not one.has_heard(), "a message that was refused comes again")


@case("5:4.8.2-5", takes_seconds=True)
def what_a_member_has_begun_of_qos_2_is_given_to_nobody_else_when_its_session_ends(scene):
    first, publisher = scene.client("first"), scene.client()
    first.subscribes(f"$share/g/{scene.topic('a')}", qos=2)
    publisher.publishes(scene.topic("a"), b"1", 2)
    packet = first.hears()
    first.send(Pubrec(packet.packet_id))
    first.expects(Pubrel)
    second = scene.client("second")
    second.subscribes(f"$share/g/{scene.topic('a')}", qos=2)
    first.drops()
    scene.client("first").pings()  # the session has ended
    publisher.publishes(scene.topic("a"), b"end", 1)
    second.receives(b"end")
    second.is_silent_for(1.5)


@case("5:§4.8.2", "5:4.3.2-3", takes_seconds=True)
def what_a_member_has_acknowledged_is_given_to_nobody_again(scene):
    (device,), publisher = members(scene, 1, qos=2), scene.client()
    for number in range(4):
        publisher.publishes(scene.topic("a"), b"%d" % number, number % 3)
        device.receives(b"%d" % number)
    device.pings()
    device.drops()
    device = scene.lasting("g0")
    publisher.publishes(scene.topic("a"), b"end", 1)
    device.receives(b"end")
    device.is_silent_for(1.5)


@case("5:§4.8.2", "5:4.4.0-1", takes_seconds=True)
def what_a_member_has_not_acknowledged_comes_again_once(scene):
    (device,), publisher = members(scene, 1, qos=2), scene.client()
    for qos in (1, 2):
        publisher.publishes(scene.topic("a"), b"%d" % qos, qos)
    first = [device.hears(), device.hears()]
    device.drops()
    device = scene.lasting("g0")
    again = [device.receives(), device.receives()]
    same(again, [one._replace(dup=True) for one in first])
    device.is_silent_for(1.5)


@case("5:§4.8.2", "5:3.10.4-2")
def a_member_that_unsubscribes_gets_nothing_more(scene):
    (first, second), publisher = members(scene, 2), scene.client()
    topic = scene.topic("a")
    same(first.unsubscribes(f"$share/g/{topic}"), (0,))
    sent = [b"%d" % number for number in range(10)]
    for one in sent:
        publisher.publishes(topic, one, 1)
    same(payloads(heard_by(scene, [second], 10)), sent)
    first.pings()
    must(not first.has_heard(), "a message after UNSUBSCRIBE")


@case("5:3.3.2-5", "5:§4.8.2", takes_seconds=True)
def a_message_expires_before_a_member_comes(scene):
    (device,), publisher = members(scene, 1), scene.client()
    device.drops()
    publisher.publishes(scene.topic("a"), b"gone", 1, message_expiry_interval=1)
    publisher.publishes(scene.topic("a"), b"kept", 1, message_expiry_interval=60)
    publisher.is_silent_for(2.2)
    scene.lasting("g0").receives(b"kept")


@case("5:§4.8.2")
def a_member_that_leaves_is_not_waited_for(scene):
    group, publisher = members(scene, 2), scene.client()
    group[0].disconnects(session_expiry_interval=0)
    sent = [b"%d" % number for number in range(10)]
    for one in sent:
        publisher.publishes(scene.topic("a"), one, 1)
    same(payloads(heard_by(scene, group[1:], 10)), sent)


@case("5:§4.8.2", "5:4.9.0-2", "5:3.3.4-9")
def a_member_without_quota_leaves_the_messages_to_the_others_or_lets_them_wait(scene):
    slow, quick, publisher = scene.lasting("g0", receive_maximum=1), scene.lasting("g1"), scene.client()
    for one in (slow, quick):
        one.subscribes(f"$share/g/{scene.topic('a')}", qos=1)
    sent = [b"%02d" % number for number in range(30)]
    for payload in sent:
        publisher.publishes(scene.topic("a"), payload, 1)
    same(payloads(heard_by(scene, (slow, quick), len(sent))), sent)  # Device judges the quota
