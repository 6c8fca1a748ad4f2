"""Packets written byte by byte, without the encoder that is tested."""

from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.packets import Packet

METHOD = b"\x15\0\1m"  # an authentication method, which authentication data and AUTH need


def variable(number: int) -> bytes:
    """A variable byte integer, by the algorithm of the standard's section 1.5.5."""
    written = b""
    while True:
        number, digit = divmod(number, 128)
        written += bytes((digit + 128 if number else digit,))
        if not number:
            return written


def field(value: bytes) -> bytes:
    """A string or binary data, with the length before it."""
    return len(value).to_bytes(2, "big") + value


def packet(first: int, body: bytes = b"") -> bytes:
    """A packet with this first byte."""
    return bytes((first,)) + variable(len(body)) + body


def connect(version: int, flags: int = 2, rest: bytes = field(b"d7"), values: bytes = b"") -> bytes:
    """CONNECT; rest: what follows its properties."""
    properties = variable(len(values)) + values if version == 5 else b""
    return packet(0x10, field(b"MQTT") + bytes((version, flags, 0, 10)) + properties + rest)


CONNECT = {4: connect(4), 5: connect(5)}


def read(data: bytes, version: int, from_client: bool = True, *, is_first: bool = False) -> list[Packet] | int:
    """What a connection of this version takes these bytes for: packets, or the reason code of a fault.

    is_first: nothing has come before them; otherwise a client has sent CONNECT.
    """
    decoder = Decoder(from_client=from_client, version=None if from_client else version)
    before = 0
    if from_client and not is_first:
        before = len(decoder.feed(CONNECT[version]))
        assert before == 1
    found = decoder.feed(data)
    if decoder.fault is not None:
        assert decoder.fault.reason >= 0x80
        return int(decoder.fault.reason)
    return found


# The packets that have properties: whether a client sends one, or a server, and the bytes around its properties.
_CLIENT, _SERVER = (True,), (False,)
_BOTH = (True, False)
PLACES = {
    "CONNECT": (_CLIENT, lambda values: connect(5, values=values)),
    "will": (_CLIENT, lambda values: connect(5, 6, field(b"d7") + sized(values) + field(b"w") + field(b"gone"))),
    "CONNACK": (_SERVER, lambda values: packet(0x20, b"\0\0" + sized(values))),
    "PUBLISH": (_BOTH, lambda values: packet(0x30, field(b"t") + sized(values) + b"x")),
    "PUBACK": (_BOTH, lambda values: packet(0x40, b"\0\1\0" + sized(values))),
    "PUBREC": (_BOTH, lambda values: packet(0x50, b"\0\1\0" + sized(values))),
    "PUBREL": (_BOTH, lambda values: packet(0x62, b"\0\1\0" + sized(values))),
    "PUBCOMP": (_BOTH, lambda values: packet(0x70, b"\0\1\0" + sized(values))),
    "SUBSCRIBE": (_CLIENT, lambda values: packet(0x82, b"\0\1" + sized(values) + field(b"f") + b"\0")),
    "SUBACK": (_SERVER, lambda values: packet(0x90, b"\0\1" + sized(values) + b"\0")),
    "UNSUBSCRIBE": (_CLIENT, lambda values: packet(0xA2, b"\0\1" + sized(values) + field(b"f"))),
    "UNSUBACK": (_SERVER, lambda values: packet(0xB0, b"\0\1" + sized(values) + b"\0")),
    "DISCONNECT": (_BOTH, lambda values: packet(0xE0, b"\0" + sized(values))),
    "AUTH": (_BOTH, lambda values: packet(0xF0, b"\x18" + sized(values))),
}
SENDERS = [(place, sender) for place, (senders, _) in PLACES.items() for sender in senders]


def sized(values: bytes) -> bytes:
    """Properties with their length before them."""
    return variable(len(values)) + values


def with_properties(place: str, values: bytes, sender: bool) -> list[Packet] | int:
    """What a packet with these properties is taken for."""
    return read(PLACES[place][1](values), 5, sender, is_first=place in ("CONNECT", "will"))


def properties_of(place: str, found: list[Packet]) -> dict:
    """The properties of the only packet."""
    (one,) = found
    if place == "will":
        one = one.will  # type: ignore[union-attr, assignment]
    return dict(one.properties)  # type: ignore[union-attr]
