"""Packets of every kind, in both versions and from both sides, and Hypothesis strategies that make more."""

from hypothesis import strategies as st

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.packets import NO_PROPERTIES
from streamd.clients.mqtt.codec.properties import _TABLE, WILL, Property
from streamd.clients.mqtt.codec.reason_codes import CONNACK_3, FROM_CLIENT, FROM_SERVER, SUBACK_3, PacketType

P = Property
USER = (("a", "1"), ("", ""), ("a", "2"))
WILL_PROPERTIES = {P.WILL_DELAY_INTERVAL: 5, P.CONTENT_TYPE: "text/ü", P.USER_PROPERTY: USER}
OF_PUBLISH = {
    P.PAYLOAD_FORMAT_INDICATOR: 1,
    P.MESSAGE_EXPIRY_INTERVAL: 2**32 - 1,
    P.RESPONSE_TOPIC: "answers",
    P.CORRELATION_DATA: b"\xff\0",
    P.TOPIC_ALIAS: 1,
    P.USER_PROPERTY: USER,
}
FROM_CLIENT_5 = [
    packets.Connect(5, "", True),
    packets.Connect(5, "d7", False, 65_535, None, b"p"),
    packets.Connect(
        5,
        "ü" * 40,
        True,
        60,
        "ann",
        b"\xff",
        packets.Will(b"wills/d7", b"gone", 2, True, WILL_PROPERTIES),
        {P.SESSION_EXPIRY_INTERVAL: 7, P.RECEIVE_MAXIMUM: 1, P.AUTHENTICATION_METHOD: "m", P.AUTHENTICATION_DATA: b""},
    ),
    packets.Publish(b"a/b", b""),
    packets.Publish(b"a/b", b"\0\0", 1, True, True, 65_535),
    packets.Publish(b"", b"x" * 200, 2, False, False, 1, OF_PUBLISH),
    packets.Puback(1),
    packets.Puback(1, 0x80, {P.REASON_STRING: "no", P.USER_PROPERTY: USER}),
    packets.Pubrec(65_535, 0x97),
    packets.Pubrel(7),
    packets.Pubrel(7, 0x92),
    packets.Pubcomp(7, 0, {P.USER_PROPERTY: USER}),
    packets.Subscribe(1, (packets.Subscription("#", 2), packets.Subscription("a/+", 1, True, True, 2))),
    packets.Subscribe(
        1, (packets.Subscription("$share/g/a", 0, False, True),), {P.SUBSCRIPTION_IDENTIFIER: (268_435_455)}
    ),
    packets.Unsubscribe(9, ("a", "$share/g/#")),
    packets.Pingreq(),
    packets.Disconnect(),
    packets.Disconnect(4, {P.SESSION_EXPIRY_INTERVAL: 0}),
    packets.Auth(0x18, {P.AUTHENTICATION_METHOD: "m"}),
]
FROM_CLIENT_3 = [
    packets.Connect(4, "", True),
    packets.Connect(4, "d7", False, 1, "ann", b"p", packets.Will(b"w", b"", 1)),
    packets.Publish(b"a/b", b"x"),
    packets.Publish(b"a/b", b"x", 2, False, True, 3),
    packets.Puback(1),
    packets.Pubrec(2),
    packets.Pubrel(3),
    packets.Pubcomp(4),
    packets.Subscribe(5, (packets.Subscription("a", 1), packets.Subscription("+/b"))),
    packets.Unsubscribe(6, ("a", "+/b")),
    packets.Pingreq(),
    packets.Disconnect(),
]
FROM_SERVER_5 = [
    packets.Connack(True, 0, {P.ASSIGNED_CLIENT_IDENTIFIER: "x", P.MAXIMUM_QOS: 1, P.SERVER_KEEP_ALIVE: 0}),
    packets.Connack(False, 0x88),
    packets.Publish(b"a", b"x", 1, False, False, 2, {P.SUBSCRIPTION_IDENTIFIER: (1, 200, 1)}),
    packets.Puback(1, 0x10),
    packets.Suback(1, (0, 1, 2, 0x80)),
    packets.Unsuback(1, (0, 0x11)),
    packets.Pingresp(),
    packets.Disconnect(0x8E, {P.SERVER_REFERENCE: "b:1883", P.REASON_STRING: "elsewhere"}),
    packets.Auth(0, {P.AUTHENTICATION_METHOD: "m"}),
]
FROM_SERVER_3 = [
    packets.Connack(True),
    packets.Connack(False, 5),
    packets.Publish(b"a", b"x", 1, True, False, 2),
    packets.Suback(1, (0, 1, 2, 0x80)),
    packets.Unsuback(1),
    packets.Pingresp(),
]
# (from a client, version) -> packets. A client's first packet, and only that, is CONNECT.
SAMPLES = {(True, 5): FROM_CLIENT_5, (True, 4): FROM_CLIENT_3, (False, 5): FROM_SERVER_5, (False, 4): FROM_SERVER_3}

_text = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=8)
_topic = _text.map(lambda text: text.replace("+", "").replace("#", "") or "t")
_payload = st.binary(max_size=300)
_packet_ids = st.integers(1, 65_535)
_KINDS = {
    "_BYTE": st.integers(0, 1),
    "_TWO": st.integers(1, 65_535),
    "_FOUR": st.integers(1, 2**32 - 1),
    "_VARIABLE": st.integers(1, 268_435_455),
    "_TEXT": _topic,
    "_BINARY": st.binary(max_size=8),
}


def _values(number: int, place: int) -> st.SearchStrategy:
    from streamd.clients.mqtt.codec import properties

    if number == P.USER_PROPERTY:
        return st.lists(st.tuples(_text, _text), min_size=1, max_size=3).map(tuple)
    if (place, number) == (PacketType.PUBLISH, P.SUBSCRIPTION_IDENTIFIER):
        return st.lists(_KINDS["_VARIABLE"], min_size=1, max_size=3).map(tuple)
    kind = _TABLE[number][0]
    return next(one for name, one in _KINDS.items() if getattr(properties, name) is kind)


def property_sets(place: int, *, without: tuple[int, ...] = ()) -> st.SearchStrategy:
    """Sets of properties that a packet, or a will, may have."""
    allowed = {one: _values(one, place) for one, row in _TABLE.items() if place in row[1] and one not in without}
    return st.fixed_dictionaries({}, optional=allowed).map(
        lambda made: (
            {
                one: value
                for one, value in made.items()
                if one != P.AUTHENTICATION_DATA or P.AUTHENTICATION_METHOD in made
            }
            or NO_PROPERTIES
        )
    )


def _publishes(from_client: bool, version: int) -> st.SearchStrategy:
    without = (P.SUBSCRIPTION_IDENTIFIER, P.TOPIC_ALIAS) if from_client else (P.TOPIC_ALIAS,)
    properties = property_sets(PacketType.PUBLISH, without=without) if version == 5 else st.just(NO_PROPERTIES)
    at_qos = st.tuples(st.integers(0, 2), st.booleans(), st.booleans(), _packet_ids)
    return st.builds(
        lambda topic, payload, drawn, values: packets.Publish(
            topic.encode(), payload, drawn[0], drawn[1], bool(drawn[0]) and drawn[2], drawn[0] and drawn[3], values
        ),
        _topic,
        _payload,
        at_qos,
        properties,
    )


def _sets(place: int, version: int, *, without: tuple[int, ...] = ()) -> st.SearchStrategy:
    return property_sets(place, without=without) if version == 5 else st.just(NO_PROPERTIES)


def _filters() -> st.SearchStrategy:
    level = st.one_of(st.just("+"), _topic.map(lambda text: text.replace("/", "")))
    plain = st.builds(
        lambda levels, is_open: "/".join([*levels, "#"] if is_open else levels),
        st.lists(level, min_size=1, max_size=4).filter(lambda levels: levels != [""]),
        st.booleans(),
    )
    return st.one_of(plain, plain.map("$share/group/{}".format))


def _subscriptions(version: int) -> st.SearchStrategy:
    if version == 4:
        return st.tuples(_filters(), st.integers(0, 2)).map(lambda drawn: packets.Subscription(*drawn))
    drawn = st.builds(
        packets.Subscription, _filters(), st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 2)
    )
    return drawn.map(lambda one: one._replace(no_local=False) if one.filter.startswith("$share/") else one)


def _requests(version: int) -> list[st.SearchStrategy]:
    subscriptions = st.lists(_subscriptions(version), min_size=1, max_size=4).map(tuple)
    filters = st.lists(_filters(), min_size=1, max_size=4).map(tuple)
    return [
        st.builds(packets.Subscribe, _packet_ids, subscriptions, _sets(PacketType.SUBSCRIBE, version)),
        st.builds(packets.Unsubscribe, _packet_ids, filters, _sets(PacketType.UNSUBSCRIBE, version)),
        st.just(packets.Pingreq()),
    ]


def _replies(version: int) -> list[st.SearchStrategy]:
    granted = sorted(FROM_SERVER[PacketType.SUBACK] if version == 5 else SUBACK_3)
    ended = sorted(FROM_SERVER[PacketType.UNSUBACK])
    answers = st.lists(st.sampled_from(granted), min_size=1, max_size=4).map(tuple)
    removed = st.lists(st.sampled_from(ended), min_size=1, max_size=4).map(tuple) if version == 5 else st.just(())
    codes = sorted(FROM_SERVER[PacketType.CONNACK] if version == 5 else CONNACK_3)
    return [
        st.builds(
            lambda there, reason, values: packets.Connack(there and not reason, reason, values),
            st.booleans(),
            st.sampled_from(codes),
            _sets(PacketType.CONNACK, version),
        ),
        st.builds(packets.Suback, _packet_ids, answers, _sets(PacketType.SUBACK, version)),
        st.builds(packets.Unsuback, _packet_ids, removed, _sets(PacketType.UNSUBACK, version)),
        st.just(packets.Pingresp()),
    ]


def _wills(version: int) -> st.SearchStrategy:
    topic = _topic.map(str.encode)
    return st.builds(packets.Will, topic, _payload, st.integers(0, 2), st.booleans(), _sets(WILL, version))


def connects(version: int) -> st.SearchStrategy:
    """Every kind of CONNECT."""

    def made(client_id, clean, keep_alive_s, username, password, will, values):
        if version == 4:
            clean, password = clean or not client_id, None if username is None else password
        return packets.Connect(version, client_id, clean, keep_alive_s, username, password, will, values)

    return st.builds(
        made,
        _text,
        st.booleans(),
        st.integers(0, 65_535),
        st.none() | _text,
        st.none() | st.binary(max_size=8),
        st.none() | _wills(version),
        _sets(PacketType.CONNECT, version),
    )


def later_packets(from_client: bool, version: int) -> st.SearchStrategy:
    """Packets that one side may send once the connection is accepted, and a server's CONNACK."""
    found = [_publishes(from_client, version), *(_requests(version) if from_client else _replies(version))]
    codes = FROM_CLIENT if from_client else FROM_SERVER
    for made in (packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp):
        kind = PacketType[made.__name__.upper()]
        if version == 5:
            reasons = st.sampled_from(sorted(codes[kind]))
            found.append(st.builds(made, _packet_ids, reasons, property_sets(kind)))
        else:
            found.append(_packet_ids.map(made))
    if version == 5:
        without = (P.SERVER_REFERENCE,) if from_client else (P.SESSION_EXPIRY_INTERVAL,)
        reasons = st.sampled_from(sorted(codes[PacketType.DISCONNECT]))
        found.append(st.builds(packets.Disconnect, reasons, property_sets(PacketType.DISCONNECT, without=without)))
        method = st.fixed_dictionaries({P.AUTHENTICATION_METHOD: _text})
        values = st.builds(lambda one, more: {**more, **one}, method, property_sets(PacketType.AUTH))
        found.append(st.builds(packets.Auth, st.sampled_from(sorted(codes[PacketType.AUTH])), values))
    elif from_client:
        found.append(st.just(packets.Disconnect()))
    return st.one_of(found)
