"""Bytes to packets: what a peer has sent, whole packets at a time, and where it broke the rules."""

from collections.abc import Callable

from streamd.clients.mqtt.codec import parsing
from streamd.clients.mqtt.codec.faults import Fault, against_protocol, malformed
from streamd.clients.mqtt.codec.packets import Connect, Packet
from streamd.clients.mqtt.codec.reason_codes import PacketType, Reason

# Before a client has said who it is, it gets no more memory than this.
FIRST_PACKET_BYTES_MAX = 16_384
PACKET_BYTES_MAX = 268_435_460  # the largest that the format has
_FLAGS: dict[int, int] = {PacketType.PUBREL: 0b0010, PacketType.SUBSCRIBE: 0b0010, PacketType.UNSUBSCRIBE: 0b0010}
_Parse = Callable[[parsing.Body], Packet]
FROM_CLIENTS: dict[int, _Parse] = {
    PacketType.CONNECT: parsing.connect,
    PacketType.PUBLISH: parsing.publish,
    PacketType.PUBACK: parsing.puback,
    PacketType.PUBREC: parsing.pubrec,
    PacketType.PUBREL: parsing.pubrel,
    PacketType.PUBCOMP: parsing.pubcomp,
    PacketType.SUBSCRIBE: parsing.subscribe,
    PacketType.UNSUBSCRIBE: parsing.unsubscribe,
    PacketType.PINGREQ: parsing.pingreq,
    PacketType.DISCONNECT: parsing.disconnect,
    PacketType.AUTH: parsing.auth,
}
FROM_SERVERS: dict[int, _Parse] = {
    PacketType.CONNACK: parsing.connack,
    PacketType.PUBLISH: parsing.publish,
    PacketType.PUBACK: parsing.puback,
    PacketType.PUBREC: parsing.pubrec,
    PacketType.PUBREL: parsing.pubrel,
    PacketType.PUBCOMP: parsing.pubcomp,
    PacketType.SUBACK: parsing.suback,
    PacketType.UNSUBACK: parsing.unsuback,
    PacketType.PINGRESP: parsing.pingresp,
    PacketType.DISCONNECT: parsing.disconnect,
    PacketType.AUTH: parsing.auth,
}


def fault_of_head(head: int, from_client: bool, version: int) -> Fault | None:
    """Return what is wrong with a packet that begins with this byte. version: 0 before CONNECT."""
    kind = head >> 4
    if from_client:
        if not version and kind != PacketType.CONNECT:
            return against_protocol("the first packet is not CONNECT")
        if version and kind == PacketType.CONNECT:
            return against_protocol("a second CONNECT")
    is_of_5 = kind == PacketType.AUTH or (kind == PacketType.DISCONNECT and not from_client)
    if kind not in (FROM_CLIENTS if from_client else FROM_SERVERS) or (version == 4 and is_of_5):
        return against_protocol(f"a packet of type {kind} does not come from this side")
    if kind != PacketType.PUBLISH and head & 0x0F != _FLAGS.get(kind, 0):
        return malformed(f"the flags of a packet of type {kind} are {head & 0x0F:#06b}")
    return None


def _by_head(from_client: bool, version: int) -> list[_Parse | None]:
    parsers = FROM_CLIENTS if from_client else FROM_SERVERS
    return [None if fault_of_head(head, from_client, version) else parsers[head >> 4] for head in range(256)]


# What parses a packet with this first byte, None where that is a fault: looked up for each packet, and so a table.
_BY_HEAD = {(side, version): _by_head(side, version) for side in (True, False) for version in (0, 4, 5)}


class Decoder:
    """The packets in the bytes of one connection, from a client or from a server.

    A fault ends it: `fault` then says what was wrong, and `feed` returns nothing more. The packets before the fault are
    returned all the same. Whatever the bytes are, `feed` raises nothing.

    version: 4 for 3.1.1, 5 for 5.0; None until a client's CONNECT has said it, also one with a fault. packet_bytes_max:
    the largest packet that is taken, judged by its head.
    """

    def __init__(
        self, *, from_client: bool = True, version: int | None = None, packet_bytes_max: int = PACKET_BYTES_MAX
    ) -> None:
        self.packet_bytes_max = packet_bytes_max
        self.fault: Fault | None = None
        self._body = parsing.Body(version or 0, from_client)
        self._take_on(version or 0)
        # Of a packet that is not complete. A list of its pieces would take many times its length, where they are small.
        self._held = bytearray()
        self._wanted = 0  # bytes; with fewer there is nothing new to see

    @property
    def version(self) -> int | None:
        """4 for 3.1.1, 5 for 5.0; None until a client's CONNECT has said it, also one with a fault."""
        return self._body.version or None

    @property
    def awaited_bytes(self) -> int:
        """Size of the packet that has begun and is not complete, as far as it is known; 0 without one."""
        return self._wanted if self._held else 0

    def feed(self, data: bytes) -> list[Packet]:
        """Return the packets that these bytes complete."""
        if self.fault is not None:
            return []
        if self._held:
            self._held += data
            if len(self._held) < self._wanted:
                return []
            data = bytes(self._held)
            self._held = bytearray()
        packets: list[Packet] = []
        body = self._body
        body.data = data
        try:
            at = self._take(body, packets)
        except Fault as fault:
            # Its traceback holds this frame, and so this decoder, which would then wait for the collector of circles.
            fault.__traceback__ = None
            fault.__context__ = None
            self.fault = fault
            at = len(data)
        body.data = b""
        if at < len(data):
            self._held += data[at:]
        return packets

    def _take(self, body: parsing.Body, packets: list[Packet]) -> int:
        """Append the whole packets in these bytes; return the place behind them. Raises: Fault."""
        data, at, size = body.data, 0, len(body.data)
        parsers, bytes_max = self._parsers, self._bytes_max
        while at < size:
            head = data[at]
            parse = parsers[head]
            if parse is None:
                fault = fault_of_head(head, body.from_client, body.version)
                assert fault is not None
                raise fault
            length = shift = 0
            body_at = at + 1
            while True:
                if body_at == size:
                    self._wanted = size - at + 1
                    return at
                byte = data[body_at]
                body_at += 1
                length |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift == 28:
                    raise malformed("the remaining length has more than four bytes")
            is_too_long = shift > 0 and not byte
            if is_too_long and body.version == 5:
                raise malformed("the remaining length is longer than needed")
            end = body_at + length
            if end - at > bytes_max:
                text = f"a packet of {end - at:,} bytes; at most {bytes_max:,} are taken"
                raise Fault(Reason.PACKET_TOO_LARGE, text)
            if end > size:
                self._wanted = end - at
                return at
            body.at, body.end, body.flags = body_at, end, head & 0x0F
            packet = parse(body)
            if type(packet) is Connect:
                if is_too_long and body.version == 5:
                    raise malformed("the remaining length is longer than needed")
                self._take_on(body.version)
                parsers, bytes_max = self._parsers, self._bytes_max
            packets.append(packet)
            at = end
        return at

    def _take_on(self, version: int) -> None:
        """Take packets of this version from now on; 0 before CONNECT."""
        from_client = self._body.from_client
        self._parsers = _BY_HEAD[from_client, version]
        is_first = not version and from_client
        self._bytes_max = min(FIRST_PACKET_BYTES_MAX, self.packet_bytes_max) if is_first else self.packet_bytes_max
