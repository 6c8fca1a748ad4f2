"""Cases of CONNECT and CONNACK: client IDs, users, limits that are told, and what a refused client can do."""

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import Connack, Connect, Publish, Will
from streamd.clients.mqtt.codec.properties import Property as P
from tests.mqtt.conformance.brokers import FORBIDDEN, PASSWORD, USER
from tests.mqtt.conformance.cases import LASTS_S, case, closed_before_connack, must, same
from tests.mqtt.conformance.device import StillOpen

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
BAD_CREDENTIALS = {4: (4, 5), 5: (0x86, 0x87)}
BAD_ID = {4: 2, 5: 0x85}


@case("5:3.1.3-5", "3:3.1.3-5")
def client_ids_of_23_letters_and_digits_are_accepted(scene):
    for at in range(0, len(ALPHABET), 17):
        client_id = (scene.prefix + ALPHABET[at : at + 17] + "0" * 23)[:23]
        scene.client(client_id=client_id).pings()
    scene.client(client_id="Z").disconnects()


@case("5:3.1.3-8", "3:3.1.3-9", "5:3.1.3-3", "3:3.1.3-3")
def other_client_ids_are_accepted_or_refused_with_their_code(scene):
    for rest in ("/+#$", " with blanks ", "\u00fc\u20ac\U0001f600", "x" * 200):
        device = scene.opens()
        device.send(Connect(scene.version, scene.id(rest), True))
        packet = device.take()
        if type(packet) is Connack and not packet.reason:
            device.pings()
        else:
            same((type(packet), packet.reason), (Connack, BAD_ID[scene.version]))
            device.is_closed()


@case("5:3.1.3-2", "3:3.1.3-2", "5:3.1.2-5", "5:3.1.2-6", "3:3.1.2-4", "5:3.2.2-3", "3:3.2.2-2", "3:3.2.2-3")
def a_session_belongs_to_the_exact_client_id(scene):
    first = scene.lasting("a")
    must(not first.connack.session_present, "a session that nobody began")
    first.subscribes(scene.topic("a"))
    first.disconnects()
    must(not scene.lasting("A").connack.session_present, "the session of another client ID")
    must(not scene.lasting("a ").connack.session_present, "the session of another client ID")
    again = scene.lasting("a")
    must(again.connack.session_present, "no session present")
    publisher = scene.client()
    publisher.publishes(scene.topic("a"), b"1", 1)
    again.receives(b"1")


@case("5:3.2.2-3", "3:3.2.2-2", "3:3.2.2-3", "3:3.1.2-4")
def a_session_without_subscriptions_is_present_too(scene):
    scene.lasting("a").disconnects()
    must(scene.lasting("a").connack.session_present, "no session present")


@case("5:3.1.3-6", "5:3.1.3-7", "5:3.2.2-16")
def an_empty_client_id_gets_one_that_can_be_used_again(scene):
    for clean_start in (True, False):
        device = scene.client(client_id="", clean_start=clean_start, session_expiry_interval=LASTS_S)
        must(not device.connack.session_present, "session present with a new client ID")
        given = device.connack.properties.get(P.ASSIGNED_CLIENT_IDENTIFIER)
        must(given, "no Assigned Client Identifier")
        other = scene.client(client_id="")
        must(other.connack.properties[P.ASSIGNED_CLIENT_IDENTIFIER] != given, "the same client ID twice")
        device.subscribes(scene.topic("a"), qos=1)
        device.disconnects()
        other.publishes(scene.topic("a"), b"1", 1)
        again = scene.client(client_id=given, clean_start=False)
        must(again.connack.session_present, "no session under the client ID that was given")
        again.receives(b"1")


@case("3:3.1.3-6", "3:3.1.3-7")
def empty_client_ids_with_clean_session_are_clients_of_their_own(scene):
    a, b = scene.client(client_id=""), scene.client(client_id="")
    a.subscribes(scene.topic("a"))
    b.publishes(scene.topic("a"), b"1", 1)
    a.receives(b"1")


@case("3:3.1.3-8", "3:3.2.2-5", "3:3.2.2-4")
def an_empty_client_id_without_clean_session_is_refused(scene):
    device = scene.opens()
    device.send(Connect(4, "", False))
    closed_before_connack(device, (2,))


@case("5:3.1.4-3", "3:3.1.4-2")
def the_older_connection_of_a_client_id_is_closed(scene):
    for clean_start in (True, False):
        old = scene.client("a", clean_start=clean_start)
        new = scene.client("a", clean_start=clean_start)
        old.is_closed(0x8E)
        new.pings()


@case("5:3.1.4-2", "5:3.2.2-7", "3:3.2.2-5", "3:§3.2.2.3", "5:3.2.2-6", "3:3.2.2-4", "5:4.13.2-1", "5:3.2.2-8")
def a_wrong_password_is_refused_and_the_right_one_is_not(scene):
    scene.client(username=USER, password=PASSWORD).pings()
    for username, password in ((USER, b"wrong"), (USER, None), ("nobody", PASSWORD)):
        device = scene.opens()
        device.send(Connect(scene.version, scene.id("a"), True, 0, username, password))
        packet = device.expects(Connack, session_present=False)
        must(packet.reason in BAD_CREDENTIALS[scene.version], f"{packet} to a wrong password")
        must(device.next_or_end() is None, "open after a refusal")


@case("5:3.1.3-12", "3:3.1.3-11", "5:§1.5.6")
def a_password_is_any_bytes_and_a_user_name_any_text(scene):
    device = scene.opens()
    device.send(Connect(scene.version, scene.id("a"), True, 0, "\u00fc\u20ac", b"\xff\x00\xfe"))
    must(device.expects(Connack).reason in BAD_CREDENTIALS[scene.version], "refused for another reason")


@case("5:3.1.4-6", "3:3.1.4-5", "5:3.1.2-7", "3:3.1.2-8")
def nothing_of_a_refused_client_is_processed(scene):
    other = scene.client()
    other.subscribes(scene.topic("#"), qos=1)
    refused = scene.opens()
    will = Will(scene.topic("will").encode(), b"will")
    refused.send(
        Connect(scene.version, scene.id("a"), True, 0, USER, b"wrong", will),
        Publish(scene.topic("a").encode(), b"1"),
        Publish(scene.topic("a").encode(), b"2", 1, False, False, 1),
        Publish(scene.topic("a").encode(), b"3", 0, True),
    )
    closed_before_connack(refused, BAD_CREDENTIALS[4], BAD_CREDENTIALS[5])
    same(other.payloads_from(scene.client("a")), [])
    reader = scene.client()
    reader.subscribes(scene.topic("a"))
    same(reader.payloads_from(other), [])


@case("5:3.1.4-2", "3:3.1.4-5")
def a_refused_client_does_not_take_a_session_over(scene):
    first = scene.lasting("a")
    first.subscribes(scene.topic("a"), qos=1)
    refused = scene.opens()
    refused.send(Connect(scene.version, scene.id("a"), True, 0, USER, b"wrong"))
    must(refused.expects(Connack).reason, "accepted")
    first.pings()
    first.drops()
    must(scene.lasting("a").connack.session_present, "the session is gone")


@case("5:3.1.2-28", "5:§3.2.2.3.15")
def response_information_is_asked_for(scene):
    asking = scene.client(request_response_information=1)
    value = asking.connack.properties.get(P.RESPONSE_INFORMATION, "free")
    must(isinstance(value, str) and value, f"Response Information {value!r}")
    scene.client(request_response_information=0).pings()


@case("5:3.1.2-29")
def without_problem_information_answers_are_bare(scene):
    device = scene.client(request_problem_information=0)
    device.send(packets.Pubrel(4711))
    device.expects(packets.Pubcomp, packet_id=4711)
    device.subscribes(f"{FORBIDDEN}/{scene.topic('a')}")
    device.unsubscribes("never/subscribed")
    device.send(packets.Pubrec(4711))
    device.expects(packets.Pubrel, packet_id=4711)
    device.publishes(f"{FORBIDDEN}/{scene.topic('a')}", b"1", 1)


@case("5:3.1.2-30", "5:4.12.0-1", "5:4.12.0-4", "5:4.12.0-2")
def a_method_of_authentication_is_refused_or_begun(scene):
    for more in ({}, {P.AUTHENTICATION_DATA: b"\0\xff"}):
        device = scene.opens()
        values = {P.AUTHENTICATION_METHOD: "none of yours", **more}
        device.send(Connect(5, scene.id("a"), True, properties=values), packets.Pingreq())
        closed_before_connack(device, reasons=(0x8C, 0x87))


@case("5:4.12.0-7", "5:4.12.0-6")
def auth_from_a_client_that_has_no_method_is_an_error(scene):
    for auth in (b"\xf0\0", b"\xf0\2\x19\0", b"\xf0\6\x19\4\x15\0\1m", b"\xf0\6\x18\4\x15\0\1m"):
        scene.client().breaks(auth, 0x81, 0x82)


@case("5:3.2.2-19", "5:3.2.2-20")
def a_refusal_keeps_to_the_clients_maximum_packet_size(scene):
    for most in (5, 8, 40):
        device = scene.opens()
        device.send(Connect(5, scene.id("a"), True, 0, USER, b"wrong", None, {P.MAXIMUM_PACKET_SIZE: most}))
        closed_before_connack(device, reasons=BAD_CREDENTIALS[5])


@case("5:3.1.2-24", "5:3.2.2-19", "5:3.2.2-20")
def an_acceptance_keeps_to_the_clients_maximum_packet_size(scene):
    device = scene.opens()
    device.send(Connect(5, scene.id("a"), True, properties={P.MAXIMUM_PACKET_SIZE: 2}))
    must(device.next_or_end() is None, "a packet over the maximum of 2 bytes")


@case("5:§3.2.2.3.2")
def another_session_expiry_than_asked_for_is_told(scene):
    for asked in (0, 1, LASTS_S, 0xFFFFFFFF):
        device = scene.client(session_expiry_interval=asked)
        told = device.connack.properties.get(P.SESSION_EXPIRY_INTERVAL, asked)
        must(told <= asked, f"an expiry of {told} s where {asked} were asked for")


@case("5:§3.1.2.11.8")
def user_properties_of_connect_are_not_part_of_the_will(scene):
    other = scene.client()
    other.subscribes(scene.topic("will"))
    will = Will(scene.topic("will").encode(), b"gone")
    scene.client(will=will, user_property=(("a", "b"), ("a", "b"))).drops()
    same(dict(other.receives(b"gone").properties), {})


@case("5:3.2.2-21", "5:3.1.2-21", "5:3.2.2-22", takes_seconds=True)
def the_keep_alive_of_the_server_rules_and_else_that_of_the_client(scene):
    for asked in (0, 7, 65_535):
        told = scene.client(keep_alive_s=asked).connack.properties.get(P.SERVER_KEEP_ALIVE)
        must(told is None or not asked or told <= asked, f"Server Keep Alive {told} for {asked}")
    device = scene.client(keep_alive_s=1)
    told = device.connack.properties.get(P.SERVER_KEEP_ALIVE, 1)
    device.is_silent_for(1.3 * told)
    device.is_closed(0x8D, within_s=scene.broker.closes_late_s, told=False)


@case("3:3.1.2-24", "5:3.1.2-22", "3:3.1.2-23", "5:3.1.2-20", takes_seconds=True)
def silence_for_one_and_a_half_keep_alives_ends_the_connection_and_sends_the_will(scene):
    other = scene.client()
    other.subscribes(scene.topic("will"))
    device = scene.client(keep_alive_s=1, will=Will(scene.topic("will").encode(), b"gone"))
    device.is_silent_for(1.3)
    device.is_closed(0x8D, within_s=scene.broker.closes_late_s, told=False)
    other.receives(b"gone")


@case("3:3.1.2-24", "5:3.1.2-22", "3:3.1.2-23", "5:3.1.2-20", takes_seconds=True)
def any_packet_keeps_the_connection_and_half_a_packet_does_not(scene):
    topic = scene.topic("a")
    device, half = scene.client(keep_alive_s=1), scene.client(keep_alive_s=1)
    for number in range(4):
        device.is_silent_for(0.8)
        device.publishes(topic, b"1") if number % 2 else device.pings()
    device.pings()
    half.send(b"\x30\x7f")
    for _ in range(2 * round(scene.broker.closes_late_s)):
        half.send(b"\0")
        try:
            half.is_closed(0x8D, within_s=0.5, told=False)
        except StillOpen:
            continue
        return
    raise StillOpen("half a packet keeps the connection")


@case("3:3.1.2-24", "5:3.1.2-22", takes_seconds=True)
def a_large_packet_that_comes_slowly_is_taken(scene):
    """A deviation, which mosquitto has, too: no whole packet comes for longer than one and a half keep alives."""
    device = scene.client(keep_alive_s=1)
    data = encode(Publish(scene.topic("a").encode(), bytes(60_000), 1, packet_id=7), scene.version)
    for at in range(0, len(data), 6_001):
        device.is_silent_for(0.4)
        device.send(data[at : at + 6_001])
    device.expects(packets.Puback, packet_id=7)


@case("3:3.1.2-23", "5:3.1.2-22", takes_seconds=True)
def without_keep_alive_silence_is_no_fault(scene):
    device = scene.client(keep_alive_s=0)
    device.is_silent_for(3.5)
    device.pings()


@case("5:§3.1.4", "3:§3.1.4", takes_seconds=True)
def a_connection_without_connect_is_closed_in_the_end(scene):
    nothing, half = scene.opens(), scene.opens()
    half.send(b"\x10\x20\0\4MQTT")
    for device in (nothing, half):
        device.is_closed(within_s=2 * scene.deadline_s, told=False)


@case("5:3.1.4-3", "3:3.1.4-2")
def of_many_connections_with_one_client_id_one_is_left(scene):
    devices = [scene.opens() for _ in range(8)]
    for one in devices:
        one.send(Connect(scene.version, scene.id("a"), False))
    left = []
    for one in devices:
        one.send(packets.Pingreq())
        while (packet := one.next_or_end()) is not None and type(packet) is not packets.Pingresp:
            right = (Connack, 0) if type(packet) is Connack else (packets.Disconnect, 0x8E)
            same((type(packet), packet.reason), right)
        left += [one] if packet is not None else []
    # An answer may have left before a later CONNECT took the session over.
    alive = [one for one in left if _answers(one)]
    same(len(alive), 1)


def _answers(device) -> bool:
    device.send(packets.Pingreq())
    while (packet := device.next_or_end()) is not None:
        if type(packet) is packets.Pingresp:
            return True
    return False
