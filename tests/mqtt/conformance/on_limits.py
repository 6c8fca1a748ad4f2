"""Cases of limits that a server tells its clients, and holds them to: they need a gateway with small ones."""

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.packets import Connect, Puback, Publish, Pubrec
from streamd.clients.mqtt.codec.properties import Property as P
from tests.mqtt.conformance.brokers import SMALL
from tests.mqtt.conformance.cases import LASTS_S, case, closed_before_connack, must, same

limited = {"limited": True}


@case("5:3.2.2-21", "5:3.1.2-21", "5:3.1.2-22", takes_seconds=True, **limited)
def the_keep_alive_that_the_server_tells_rules(scene):
    devices = [scene.client(keep_alive_s=asked) for asked in (0, 60, 65_535)]
    same([one.connack.properties.get(P.SERVER_KEEP_ALIVE) for one in devices], [SMALL["keep-alive-max"]] * 3)
    devices[0].is_silent_for(1.3)
    for one in devices:
        one.is_closed(0x8D, within_s=scene.broker.closes_late_s, told=False)
    same(scene.client(keep_alive_s=1).connack.properties.get(P.SERVER_KEEP_ALIVE, 1), 1)


@case("3:3.1.2-24", takes_seconds=True, **limited)
def the_keep_alive_of_3_1_1_is_the_clients(scene):
    device = scene.client(keep_alive_s=0)
    device.is_silent_for(3.0)
    device.pings()


@case("5:§3.2.2.3.2", "5:3.1.2-23", "5:4.1.0-2", "3:3.1.2-4", takes_seconds=True, **limited)
def a_session_lasts_as_long_as_the_server_tells(scene):
    for asked in (LASTS_S, 0xFFFFFFFF):
        expiry = {"session_expiry_interval": asked} if scene.version == 5 else {}
        device = scene.client(f"a{asked}", clean_start=False, **expiry)
        told = device.connack.properties.get(P.SESSION_EXPIRY_INTERVAL)
        same(told, SMALL["session-expiry-max"] if scene.version == 5 else None)
        device.disconnects()
        must(scene.client(f"a{asked}", clean_start=False, **expiry).connack.session_present, "no session present")
        if scene.version == 5:  # more than the server gives cannot be asked for at the end either
            device = scene.client(f"a{asked}", clean_start=False, **expiry)
            device.disconnects(session_expiry_interval=asked)
        else:
            scene.client(f"a{asked}", clean_start=False).disconnects()
    scene.client(keep_alive_s=1).is_closed()
    scene.opens().is_silent_for(1.5)
    for asked in (LASTS_S, 0xFFFFFFFF):
        expiry = {"session_expiry_interval": asked} if scene.version == 5 else {}
        again = scene.client(f"a{asked}", clean_start=False, **expiry)
        must(not again.connack.session_present, "the session is still there")


@case("5:3.2.2-18", "5:3.2.2-17", **limited)
def without_topic_aliases_each_is_too_large(scene):
    device = scene.client()
    same(device.connack.properties.get(P.TOPIC_ALIAS_MAXIMUM, 0), 0)
    device.send(Publish(scene.topic("a").encode(), b"1", 0, properties={P.TOPIC_ALIAS: 1}), packets.Pingreq())
    device.is_closed(0x94)


@case("5:3.3.4-7", "5:§3.2.2.3.3", **limited)
def one_more_than_the_receive_maximum_is_an_error(scene):
    device = scene.client()
    same(device.connack.properties.get(P.RECEIVE_MAXIMUM), SMALL["receive-maximum"])
    sent = [Publish(scene.topic("a").encode(), b"1", 2, False, False, one) for one in (1, 2, 3)]
    device.send(*sent[:2])
    device.expects(Pubrec, packet_id=1)
    device.expects(Pubrec, packet_id=2)
    device.publishes(scene.topic("a"), b"1")  # QoS 0 is not counted
    device.pings()
    device.send(sent[2])
    device.is_closed(0x93)


@case("5:3.2.2-15", "3:4.8.0-1", **limited)
def larger_packets_than_the_server_takes_are_refused(scene):
    most = SMALL["packet-bytes-max"]
    device = scene.client()
    if scene.version == 5:
        same(device.connack.properties.get(P.MAXIMUM_PACKET_SIZE), most)
    topic = scene.topic("a")
    room = most - 3 - 2 - len(topic) - (scene.version == 5)
    device.publishes(topic, b"x" * room)
    device.pings()
    device.publishes(topic, b"x" * (room + 1))
    device.send(packets.Pingreq())
    device.is_closed(0x95)
    device = scene.opens()
    device.send(Connect(scene.version, scene.id("x" * most), True))
    closed_before_connack(device)  # of what version it is was not read


@case("5:3.9.3-2", "3:3.9.3-2", "5:3.8.4-6", "3:3.8.4-5", **limited)
def subscriptions_over_the_limit_are_refused_by_themselves(scene):
    device, publisher = scene.client(), scene.client()
    most = SMALL["subscriptions-max"]
    found = device.subscribes(*(f"{scene.prefix}/{one}" for one in range(most + 1)), qos=1)
    same(found, (1,) * most + (0x97 if scene.version == 5 else 0x80,))
    publisher.publishes(scene.topic("0"), b"1", 1)
    device.receives(b"1")
    same(device.subscribes(scene.topic("0"), qos=2), (2,))  # which is not one more
    device.unsubscribes(scene.topic("1"))
    same(device.subscribes(scene.topic("new"), qos=0), (0,))


@case("3:4.3.2-1", "3:4.6.0-6", "5:4.9.0-2", **limited)
def the_server_may_have_fewer_messages_in_flight_than_the_client_takes(scene):
    device, publisher = scene.client(), scene.client()
    device.subscribes(scene.topic("a"), qos=1)
    for number in range(6):
        publisher.publishes(scene.topic("a"), b"%d" % number, 1)
    most = SMALL["in-flight-max"]
    heard = [device.hears() for _ in range(most)]
    device.pings()
    for number in range(most, 6):
        device.send(Puback(heard.pop(0).packet_id))
        heard.append(device.hears())
        same(heard[-1].payload, b"%d" % number)
