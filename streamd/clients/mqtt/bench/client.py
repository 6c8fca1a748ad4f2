"""One connection to the broker: CONNECT, SUBSCRIBE, PINGREQ, and how it ends."""

import asyncio
import os
from time import monotonic
from typing import cast

from streamd.clients.mqtt.bench.load import Load
from streamd.clients.mqtt.bench.tally import Tally
from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import NO_PROPERTIES, Packet, Properties
from streamd.clients.mqtt.codec.properties import Property

_PINGREQ = encode(packets.Pingreq(), 4)
# Of 3.1.1's CONNACK; those of 5.0 are named by `Reason`.
_RETURN_CODES = {
    1: "the protocol version",
    2: "the client identifier",
    3: "server unavailable",
    4: "user name or password",
    5: "not authorized",
}
_SESSION_EXPIRY_S = 3_600


class Refused(ConnectionError):
    """The broker does not let the client in, refuses its subscription, or has closed its connection."""


class Client(asyncio.Protocol):
    """A client with one subscription, or none; `ready` is done when that is granted.

    lost: is done, with an error, when a connection ends that `leave` did not end.
    """

    def __init__(
        self, load: Load, tally: Tally, lost: asyncio.Future[None], client_id: str, topic_filter: str | None = None
    ) -> None:
        self.client_id = client_id
        self.ready: asyncio.Future[None] = lost.get_loop().create_future()
        self.gone: asyncio.Future[None] = lost.get_loop().create_future()
        self.keep_alive_s = load.keep_alive_s
        self.receive_maximum = 65_535
        self._load, self._tally, self._lost, self._filter = load, tally, lost, topic_filter
        self._decoder = Decoder(from_client=False, version=load.version)
        self.begun_s = monotonic()
        self._is_leaving = False
        self._reason = ""
        self._transport: asyncio.Transport
        self._out: list[bytes] = []
        self._file = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send CONNECT."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none of asyncio's
        if transport.get_extra_info("ssl_object") is None:
            self._file = transport.get_extra_info("socket").fileno()
        load = self._load
        packet = packets.Connect(
            load.version,
            self.client_id,
            clean_start=not load.persistent,
            keep_alive_s=load.keep_alive_s,
            username=load.username,
            password=None if load.password is None else load.password.encode(),
            properties={Property.SESSION_EXPIRY_INTERVAL: _SESSION_EXPIRY_S}
            if load.persistent and load.version == 5
            else NO_PROPERTIES,
        )
        self._write(encode(packet, load.version))

    def data_received(self, data: bytes) -> None:
        """Take what the broker has sent."""
        for packet in self._decoder.feed(data):
            self._take(packet)
        if self._out:
            out, self._out = self._out, []
            self._write(out[0] if len(out) == 1 else b"".join(out))
        if self._decoder.fault is not None:
            self._end(f"sent what MQTT does not allow: {self._decoder.fault}")

    def connection_lost(self, error: Exception | None) -> None:
        """Say so, unless this client has left."""
        self._file = -1
        if not self._is_leaving:
            self._end(f"closed the connection{f': {error}' if error else ''}")
        if not self.gone.done():
            self.gone.set_result(None)

    def ping(self) -> None:
        """Send a PINGREQ."""
        self._write(_PINGREQ)

    def leave(self, *, forget: bool = False) -> None:
        """Send DISCONNECT and close. forget: the broker of MQTT 5 is to drop the session."""
        self._is_leaving = True
        values: Properties = NO_PROPERTIES
        if forget and self._load.version == 5:
            values = {Property.SESSION_EXPIRY_INTERVAL: 0}
        if not self._transport.is_closing():
            self._write(encode(packets.Disconnect(0, values), self._load.version))
            self._file = -1
            self._transport.close()

    def _write(self, data: bytes) -> None:
        """Send bytes at once, as a device by itself would.

        uvloop sends what is written at the end of its turn. With a thousand clients in a turn the broker would idle
        until then, and get all of it together.
        """
        if self._file >= 0 and not self._transport.get_write_buffer_size():
            try:
                sent = os.write(self._file, data)
            except OSError:  # no room, or an end that the transport will find, too
                sent = 0
            if sent == len(data):
                return
            data = data[sent:]
        self._transport.write(data)

    def _take(self, packet: Packet) -> None:
        """Take one packet; those of messages are the subclasses'. What it has to answer goes to `_out`."""
        if isinstance(packet, packets.Connack):
            self._connected(packet)
        elif isinstance(packet, packets.Suback):
            reason = packet.reasons[0]
            if reason >= 0x80:
                self._end(f"refused the subscription to {self._filter} with {reason:#04x}")
            else:
                self._is_ready()
        elif isinstance(packet, packets.Disconnect):
            self._end(f"sent DISCONNECT {packet.reason:#04x}{_said(packet)}")

    def _connected(self, packet: packets.Connack) -> None:
        if packet.reason:
            text = _RETURN_CODES.get(packet.reason, "") if self._load.version == 4 else _said(packet).strip(" ()")
            self._end(f"refused CONNECT with {packet.reason:#04x}{f' ({text})' if text else ''}")
            return
        self.keep_alive_s = int(packet.properties.get(Property.SERVER_KEEP_ALIVE, self.keep_alive_s))  # type: ignore[arg-type]
        self.receive_maximum = int(packet.properties.get(Property.RECEIVE_MAXIMUM, 65_535))  # type: ignore[arg-type]
        if self._filter is None:
            self._is_ready()
        else:
            subscription = packets.Subscription(self._filter, self._load.qos)
            self._out.append(encode(packets.Subscribe(1, (subscription,)), self._load.version))

    def _is_ready(self) -> None:
        if not self.ready.done():
            self._tally.connects.add(monotonic() - self.begun_s)
            self.ready.set_result(None)

    def _end(self, text: str) -> None:
        """End the whole run: a load with a client less is another one."""
        error = Refused(f"{self._load.place} {text} (client {self.client_id})")
        self._is_leaving = True
        self._file = -1
        self._transport.abort()
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # whoever waits is told all the same
        if not self._lost.done():
            self._lost.set_exception(error)
            self._lost.exception()


def _said(packet: packets.Connack | packets.Disconnect) -> str:
    reason = packet.properties.get(Property.REASON_STRING)
    return f" ({reason})" if isinstance(reason, str) else ""
