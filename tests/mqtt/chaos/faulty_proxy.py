"""A proxy before a broker that loses, doubles or reorders a PUBLISH now and then, so that a checker can be tried."""

import asyncio
from collections.abc import Callable

from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import Connect, Packet, Puback, Pubcomp, Publish, Pubrec, Pubrel

DROP_IN, DOUBLE_IN, DROP_OUT, DOUBLE_OUT, SWAP_OUT = "drop-in", "double-in", "drop-out", "double-out", "swap-out"
FAULTS = {
    DROP_IN: "a PUBLISH of a client is acknowledged, and does not reach the broker",
    DOUBLE_IN: "a PUBLISH of QoS 1 of a client reaches the broker twice",
    DROP_OUT: "a PUBLISH of the broker is acknowledged, and does not reach the client",
    DOUBLE_OUT: "a PUBLISH of the broker reaches the client twice",
    SWAP_OUT: "a PUBLISH of the broker reaches the client behind the next one",
}
_EXTRA_ID = 60_000  # no broker comes so far in a short run


class _Pair:
    """One client's connection, and its to the broker. Packets are decoded and encoded again."""

    def __init__(self, proxy: "FaultyProxy", client: asyncio.StreamWriter, broker: asyncio.StreamWriter) -> None:
        self.proxy, self.client, self.broker = proxy, client, broker
        self.version = 0
        self.fault: str | None = None
        self.from_client = Decoder()
        self.from_broker: Decoder | None = None
        self.withheld: Publish | None = None
        self.extra: set[int] = set()  # packet identifiers of PUBLISHes that the proxy made
        self.dropped: set[int] = set()

    def to_client(self, packet: Packet) -> None:
        if not self.client.transport.is_closing():
            self.client.write(encode(packet, self.version))

    def to_broker(self, packet: Packet) -> None:
        if not self.broker.transport.is_closing():
            self.broker.write(encode(packet, self.version))

    def of_client(self, packet: Packet) -> None:
        """Take a packet of the client's."""
        if isinstance(packet, Connect):
            self.version = packet.version
            self.fault = None if packet.client_id == self.proxy.spared else self.proxy.fault
            self.from_broker = Decoder(from_client=False, version=packet.version)
        fault = self.fault
        if isinstance(packet, Publish) and packet.qos:
            if fault == DROP_IN and self.proxy.is_due():
                self.dropped.add(packet.packet_id)
                self.to_client((Puback if packet.qos == 1 else Pubrec)(packet.packet_id))
                return
            if fault == DOUBLE_IN and packet.qos == 1 and self.proxy.is_due():
                self.extra.add(_EXTRA_ID)
                self.to_broker(packet._replace(packet_id=_EXTRA_ID))
        elif isinstance(packet, Pubrel) and packet.packet_id in self.dropped:
            self.dropped.remove(packet.packet_id)
            self.to_client(Pubcomp(packet.packet_id))
            return
        elif isinstance(packet, Puback | Pubrec | Pubcomp) and packet.packet_id in self.extra:
            if isinstance(packet, Pubrec):
                self.to_client(Pubrel(packet.packet_id))
            else:
                self.extra.remove(packet.packet_id)
            return
        self.to_broker(packet)

    def of_broker(self, packet: Packet) -> None:
        """Take a packet of the broker's."""
        fault = self.fault
        if isinstance(packet, Publish) and packet.qos and not packet.dup:
            if fault == DROP_OUT and self.proxy.is_due():
                self.dropped.add(packet.packet_id)
                self.to_broker((Puback if packet.qos == 1 else Pubrec)(packet.packet_id))
                return
            if fault == DOUBLE_OUT and _EXTRA_ID not in self.extra and self.proxy.is_due():
                self.to_client(packet)
                self.extra.add(_EXTRA_ID)
                self.to_client(packet._replace(packet_id=_EXTRA_ID))
                return
            if fault == SWAP_OUT and self.withheld is None and self.proxy.is_due():
                self.withheld = packet
                return
            if self.withheld is not None and self.withheld.topic == packet.topic:
                self.to_client(packet)
                self.to_client(self.withheld)
                self.withheld = None
                return
        elif isinstance(packet, Pubrel) and packet.packet_id in self.dropped:
            self.dropped.remove(packet.packet_id)
            self.to_broker(Pubcomp(packet.packet_id))
            return
        elif isinstance(packet, Puback) and packet.packet_id in self.extra:
            self.extra.remove(packet.packet_id)
            return
        self.to_client(packet)


class FaultyProxy:
    """Forwards MQTT to a port of this machine; each `every`-th PUBLISH of the fault's kind is treated wrong.

    planted: how often it did so. spared: the client id that no fault meets. It plays a client or a broker where the
    exchange needs that, so that nothing else looks wrong.
    """

    def __init__(self, target: tuple[str, int], fault: str, every: int, spared: str = "") -> None:
        self.fault, self.spared = fault, spared
        self.planted = 0
        self.port = 0
        self._target, self._every, self._seen = target, every, 0
        self._server: asyncio.Server

    async def start(self) -> None:
        """Listen on a free port, which `port` then holds."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Take no further connections."""
        self._server.close()

    def is_due(self) -> bool:
        """Count a PUBLISH; return whether it is one to be treated wrong."""
        self._seen += 1
        if self._seen % self._every:
            return False
        self.planted += 1
        return True

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        try:
            broker_in, broker_out = await asyncio.open_connection(*self._target)
        except OSError:
            client_out.transport.abort()
            return
        pair = _Pair(self, client_out, broker_out)
        await asyncio.gather(
            self._forward(client_in, broker_out, lambda: pair.from_client, pair.of_client),
            self._forward(broker_in, client_out, lambda: pair.from_broker, pair.of_broker),
        )

    async def _forward(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        decoder: Callable[[], Decoder | None],
        take: Callable[[Packet], None],
    ) -> None:
        try:
            while data := await source.read(65_536):
                there = decoder()
                assert there is not None, "a broker speaks first"
                for packet in there.feed(data):
                    take(packet)
                await target.drain()
        except OSError:
            pass
        target.close()
