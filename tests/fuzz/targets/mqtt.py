"""Any bytes of an MQTT peer are packets and at most one fault, however they are cut, and packets can be written again.

Input: a byte that chooses the sender, then what it sends: 0 a client, from CONNECT on; 3 and 4 a client of 3.1.1 and
one of 5.0 behind their CONNECT; 1 and 2 a server of each.
"""

from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.faults import Fault
from streamd.clients.mqtt.codec.packets import Connect, Packet

BYTES_MAX = 4096
TEXT_CHARACTERS_MAX = 300  # of a fault: it stands in one line of a log
WORDS = [b"\0\4MQTT\4\2\0\n", b"\0\4MQTT\5\2\0\n", b"\x10", b"\x20\3\0\0\0", b"\x30\5\0\1t\0", b"\x32\7\0\1t\0\7\0",
         b"\x40\2\0\1", b"\x62\3\0\1\x92", b"\x82", b"\x90", b"\xa2", b"\xb0", b"\xc0\0", b"\xd0\0", b"\xe0\0",
         b"\xe0\2\0\0", b"\xf0", b"\x15\0\1m", b"\x16\0\1x", b"\x26\0\1n\0\1v", b"\x0b\x80\1", b"\x23\0\1", b"\x01\1",
         b"\x1f\0\2no", b"\x11\0\0\0\1", b"\xff\xff\xff\x7f", b"\x80\0", b"\xed\xa0\x80", b"$share/g/",
         b"+/#"]  # fmt: skip
# Sender, version, what it has sent before.
_KINDS: list[tuple[bool, int | None, bytes]] = [
    (True, None, b""),
    (False, 4, b""),
    (False, 5, b""),
    (True, None, encode(Connect(4, "d7", True), 4)),
    (True, None, encode(Connect(5, "d7", True), 5)),
]


def read(kind: int, pieces: list[bytes]) -> tuple[list[Packet], Fault | None, int | None]:
    """Return the packets of a sender, its fault, and its version."""
    from_client, version, before = _KINDS[kind]
    decoder = Decoder(from_client=from_client, version=version)
    decoder.feed(before)
    found = [one for piece in pieces for one in decoder.feed(piece)]
    if decoder.fault is not None:
        assert decoder.feed(b"\xc0\0") == []
    return found, decoder.fault, decoder.version


def check(data: bytes) -> None:
    """Raise AssertionError, or what the decoder must not raise, unless the promise holds."""
    if not data or len(data) > BYTES_MAX:
        return
    kind, sent = data[0] % len(_KINDS), data[1:]
    found, fault, version = read(kind, [sent])
    half = len(sent) // 2
    for pieces in ([sent[at : at + 1] for at in range(len(sent))], [sent[:half], sent[half:]]):
        others, other, _ = read(kind, pieces)
        assert others == found
        assert list(map(type, others)) == list(map(type, found))
        assert _told(other) == _told(fault)
    if fault is not None:
        text = str(fault)
        assert len(text.splitlines()) == 1, text
        assert len(text) <= TEXT_CHARACTERS_MAX, text
        assert fault.reason >= 0x80
    for packet in found:
        assert version is not None
        written = encode(packet, version)
        later = (3 if version == 4 else 4) if kind == 0 else kind
        again, fault, _ = read(0 if isinstance(packet, Connect) else later, [written])
        assert (again, fault) == ([packet], None)
        assert len(written) <= len(sent)


def _told(fault: Fault | None) -> tuple[object, ...]:
    return () if fault is None else (fault.reason, fault.connack_3, str(fault))
