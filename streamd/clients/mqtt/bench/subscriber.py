"""A client that receives messages, acknowledges them, and keeps account of them."""

import asyncio
from collections.abc import Callable

from streamd.clients.mqtt.bench.client import Client
from streamd.clients.mqtt.bench.ledger import Ledger
from streamd.clients.mqtt.bench.load import STAMP, Load
from streamd.clients.mqtt.bench.tally import Tally
from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.encoding import acknowledge
from streamd.clients.mqtt.codec.packets import Packet
from streamd.clients.mqtt.codec.reason_codes import PacketType


class Subscriber(Client):
    """One subscriber, of one publisher or of many. delivered: is told the publisher's number at each delivery."""

    def __init__(
        self,
        load: Load,
        tally: Tally,
        lost: asyncio.Future[None],
        client_id: str,
        topic_filter: str,
        run: int,
        delivered: Callable[[int], None] | None,
    ) -> None:
        super().__init__(load, tally, lost, client_id, topic_filter)
        self._run, self._delivered = run, delivered
        self._ledgers: dict[int, Ledger] = {}
        self._awaiting_release: set[int] = set()

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, packets.Publish):
            self._publish(packet)
        elif isinstance(packet, packets.Pubrel):
            packet_id = packet.packet_id
            self._awaiting_release.discard(packet_id)
            self._out.append(acknowledge(PacketType.PUBCOMP, packet_id, self._load.version))
        else:
            super()._take(packet)

    def _publish(self, packet: packets.Publish) -> None:
        _, payload, qos, _, _, packet_id, _ = packet
        if qos == 1:
            self._out.append(acknowledge(PacketType.PUBACK, packet_id, self._load.version))
        elif qos == 2:
            self._out.append(acknowledge(PacketType.PUBREC, packet_id, self._load.version))
            if packet_id in self._awaiting_release:
                return
            self._awaiting_release.add(packet_id)
        if len(payload) < STAMP.size:
            self._tally.foreign += 1
            return
        run, number, sequence, sent_s = STAMP.unpack_from(payload)
        if run != self._run:
            self._tally.foreign += 1
            return
        ledger = self._ledgers.get(number)
        if ledger is None:
            ledger = self._ledgers[number] = Ledger()
        self._tally.take(ledger.note(sequence), sent_s)
        if self._delivered is not None:
            self._delivered(number)
