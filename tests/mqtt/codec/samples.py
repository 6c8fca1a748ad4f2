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


def later_packets(from_client: bool, version: int) -> st.SearchStrategy:
    """Packets that one side may send behind CONNECT."""
    found = [_publishes(from_client, version)]
    codes = FROM_CLIENT if from_client else FROM_SERVER
    for made in (packets.Puback, packets.Pubrec, packets.Pubrel, packets.Pubcomp):
        kind = PacketType[made.__name__.upper()]
        if version == 5:
            reasons = st.sampled_from(sorted(codes[kind]))
            found.append(st.builds(made, _packet_ids, reasons, property_sets(kind)))
        else:
            found.append(_packet_ids.map(made))
    found += _requests(version) if from_client else _replies(version)
    if version == 5:
        without = (P.SERVER_REFERENCE,) if from_client else (P.SESSION_EXPIRY_INTERVAL,)
        reasons = st.sampled_from(sorted(codes[PacketType.DISCONNECT]))
        found.append(st.builds(packets.Disconnect, reasons, property_sets(PacketType.DISCONNECT, without=without)))
        reasons = st.sampled_from(sorted(codes[PacketType.AUTH]))
        methods = st.fixed_dictionaries({P.AUTHENTICATION_METHOD: _text})
        values = st.tuples(property_sets(PacketType.AUTH), methods).map(lambda drawn: {**drawn[0], **drawn[1]})
        found.append(st.builds(packets.Auth, reasons, values))
    elif from_client:
        found.append(st.just(packets.Disconnect()))
    return st.one_of(found)


def _sets(place: int, version: int) -> st.SearchStrategy:
    return property_sets(place) if version == 5 else st.just(NO_PROPERTIES)


def _requests(version: int) -> list[st.SearchStrategy]:
    """SUBSCRIBE, UNSUBSCRIBE and PINGREQ."""
    levels = st.lists(_topic.map(lambda text: text.replace("/", "") or "x") | st.sampled_from("+$"), min_size=1)
    filters = st.tuples(levels, st.sampled_from(["", "/#", "/"])).map(lambda drawn: "/".join(drawn[0]) + drawn[1])
    qos = st.integers(0, 2)
    if version == 5:
        named = filters | filters.map("$share/g/{}".format)
        made = st.builds(packets.Subscription, named, qos, st.booleans(), st.booleans(), qos)
        one = made.map(lambda made: made._replace(no_local=made.no_local and not made.filter.startswith("$share/")))
    else:
        named, one = filters, st.tuples(filters, qos).map(lambda drawn: packets.Subscription(*drawn))
    many = st.lists(one, min_size=1, max_size=3).map(tuple)
    names = st.lists(named, min_size=1, max_size=3).map(tuple)
    return [
        st.builds(packets.Subscribe, _packet_ids, many, _sets(PacketType.SUBSCRIBE, version)),
        st.builds(packets.Unsubscribe, _packet_ids, names, _sets(PacketType.UNSUBSCRIBE, version)),
        st.just(packets.Pingreq()),
    ]


def _replies(version: int) -> list[st.SearchStrategy]:
    """CONNACK, SUBACK, UNSUBACK and PINGRESP."""

    def codes(kind: PacketType, of_3: frozenset[int]) -> st.SearchStrategy:
        known = st.sampled_from(sorted(FROM_SERVER[kind] if version == 5 else of_3))
        return st.lists(known, min_size=1, max_size=4).map(tuple)

    left = codes(PacketType.UNSUBACK, frozenset({0})) if version == 5 else st.just(())
    accepted = st.booleans().map(lambda present: (present, 0))
    refused = codes(PacketType.CONNACK, CONNACK_3).map(lambda drawn: (False, drawn[0]))
    return [
        st.builds(
            lambda answer, values: packets.Connack(*answer, values),
            accepted | refused,
            _sets(PacketType.CONNACK, version),
        ),
        st.builds(packets.Suback, _packet_ids, codes(PacketType.SUBACK, SUBACK_3), _sets(PacketType.SUBACK, version)),
        st.builds(packets.Unsuback, _packet_ids, left, _sets(PacketType.UNSUBACK, version)),
        st.just(packets.Pingresp()),
    ]


def first_packets(version: int) -> st.SearchStrategy:
    """A CONNECT."""
    wills = st.builds(
        packets.Will, _topic.map(str.encode), _payload, st.integers(0, 2), st.booleans(), _sets(WILL, version)
    )
    connects = st.builds(
        packets.Connect,
        st.just(version),
        _text.map(lambda text: text or "d7"),
        st.booleans(),
        st.integers(0, 65_535),
        st.none() | _text,
        st.none() | st.binary(max_size=8),
        st.none() | wills,
        _sets(PacketType.CONNECT, version),
    )
    if version == 5:
        return connects
    return connects.map(lambda one: one._replace(password=None) if one.username is None else one)
