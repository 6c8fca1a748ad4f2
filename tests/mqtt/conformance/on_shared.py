"""Cases of shared subscriptions."""

from streamd.clients.mqtt.codec.packets import Puback, Pubrec, Pubrel
from tests.mqtt.conformance.cases import case, must, same


def members(scene, count=2, qos=1, name="g", filter_="a"):
    found = [scene.lasting(f"{name}{number}") for number in range(count)]
    for one in found:
        same(one.subscribes(f"$share/{name}/{scene.topic(filter_)}", qos=qos), (qos,))
    return found


@case("5:§4.8.2", "5:4.8.2-1", "5:4.8.2-2")
def each_message_reaches_one_member_of_each_group_and_each_plain_subscription(scene):
    group, others = members(scene, 3), members(scene, 1, name="h", filter_="#")
    plain, publisher = scene.client(), scene.client()
    plain.subscribes(scene.topic("a"), qos=1)
    sent = [b"%d" % number for number in range(60)]
    for one in sent:
        publisher.publishes(scene.topic("a"), one, 1)
    same(plain.payloads_from(publisher), sent)
    same([one for one in others[0].payloads_from(publisher) if not one.startswith(b"marker")], sent)
    shares = [one.payloads_from(publisher) for one in group]
    same(sorted(payload for share in shares for payload in share), sorted(sent))


@case("5:§4.8.2", "5:§3.3.4")
def a_client_with_both_gets_both(scene):
    device, publisher = scene.client(), scene.client()
    device.subscribes(f"$share/g/{scene.topic('a')}", qos=1, identifier=2)
    device.subscribes(scene.topic("a"), qos=1, identifier=3)
    publisher.publishes(scene.topic("a"), b"1", 1)
    found = device.all_from(publisher)
    must(len(found) in (1, 2), f"{found}")
    same(sorted(id for one in found for id in one.properties.get(0x0B, ())), [2, 3])


@case("5:§4.8.2", "5:3.3.1-9")
def a_shared_subscription_gets_no_retained_messages_when_it_begins(scene):
    publisher = scene.client()
    publisher.publishes(scene.topic("a"), b"1", 1, retain=True)
    (device,) = members(scene, 1)
    same(device.payloads_from(publisher), [])


@case("5:4.8.2-3", "5:3.8.4-8")
def the_qos_of_the_receiving_member_holds(scene):
    for qos in (0, 1, 2):
        name = f"q{qos}"
        device, publisher = scene.client(), scene.client()
        device.subscribes(f"$share/{name}/{scene.topic(name)}", qos=qos)
        publisher.publishes(scene.topic(name), b"1", 2)
        device.receives(b"1", qos)


@case("5:3.10.4-1", "5:§4.8.2")
def unsubscribe_names_the_whole_filter(scene):
    (device,), publisher = members(scene, 1), scene.client()
    topic = scene.topic("a")
    same(device.unsubscribes(topic, f"$share/h/{topic}"), (0x11, 0x11))
    publisher.publishes(topic, b"1", 1)
    device.receives(b"1")
    same(device.unsubscribes(f"$share/g/{topic}"), (0,))
    publisher.publishes(topic, b"2", 1)
    same(device.payloads_from(publisher), [])


@case("5:§4.8.2")
def a_group_ends_with_its_last_member(scene):
    first, publisher = scene.client(), scene.client()
    first.subscribes(f"$share/g/{scene.topic('a')}", qos=1)
    first.disconnects()
    publisher.publishes(scene.topic("a"), b"1", 1)
    second = scene.client()
    second.subscribes(f"$share/g/{scene.topic('a')}", qos=1)
    same(second.payloads_from(publisher), [])
    publisher.publishes(scene.topic("a"), b"2", 1)
    second.receives(b"2")


@case("5:4.8.2-4", "5:§4.8.2")
def what_a_member_has_begun_of_qos_2_is_finished_with_it(scene):
    group, publisher = members(scene, 2, qos=2), scene.client()
    publisher.publishes(scene.topic("a"), b"1", 2)
    publisher.publishes(scene.topic("a"), b"2", 2)
    held = []
    for number, one in enumerate(group):
        for _ in range(2):
            packet = _heard(one)
            if packet is not None:
                held.append((number, packet))
    same(sorted(packet.payload for _, packet in held), [b"1", b"2"])
    number, packet = held[0]
    device = group[number]
    device.send(Pubrec(packet.packet_id))
    device.expects(Pubrel, packet_id=packet.packet_id)
    device.drops()
    device = scene.lasting(f"g{number}")
    device.expects(Pubrel, packet_id=packet.packet_id)


def _heard(device):
    try:
        return device.take(0.5)
    except TimeoutError:
        return None


@case("5:4.8.2-6", "5:4.13.2-1")
def a_message_that_a_member_refuses_goes_to_nobody_else(scene):
    group, publisher = members(scene, 2), scene.client()
    for number in range(10):
        publisher.publishes(scene.topic("a"), b"%d" % number, 1)
    refused, taken = [], []
    for one in group:
        one.subscribes(scene.topic("end"), qos=1)
    publisher.publishes(scene.topic("end"), b"end", 1)
    first, second = group
    while (packet := first.hears()).payload != b"end":
        refused.append(packet.payload)
        first.send(Puback(packet.packet_id, 0x83))
    first.acknowledges(packet)
    while (packet := second.receives()).payload != b"end":
        taken.append(packet.payload)
    same(sorted(refused + taken), [b"%d" % number for number in range(10)])
    must(refused, "no message for the first member")
    same((first.payloads_from(publisher), second.payloads_from(publisher)), ([], []))


@case("5:4.8.2-5")
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
    same(second.payloads_from(publisher), [])


@case("5:§4.8.2")
def a_member_that_leaves_is_not_waited_for(scene):
    group, publisher = members(scene, 2), scene.client()
    group[0].disconnects(session_expiry_interval=0)
    sent = [b"%d" % number for number in range(10)]
    for one in sent:
        publisher.publishes(scene.topic("a"), one, 1)
    same(group[1].payloads_from(publisher), sent)
