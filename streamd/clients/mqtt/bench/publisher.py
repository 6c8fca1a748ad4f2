"""A client that publishes: at a rate, or the next message when one is acknowledged."""

import asyncio
from collections import deque
from struct import Struct
from time import monotonic

from streamd.clients.mqtt.bench.client import Client
from streamd.clients.mqtt.bench.load import STAMP, Load
from streamd.clients.mqtt.bench.tally import Tally
from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.encoding import acknowledge, encode
from streamd.clients.mqtt.codec.packets import Packet
from streamd.clients.mqtt.codec.reason_codes import PacketType, Reason

_PACKET_IDS = 65_535


class Publisher(Client):
    """One publisher, with a topic of its own.

    run, number: stamped on its messages. A message in flight is one whose PUBACK or PUBCOMP has not come. Messages for
    which the broker has no room (receive maximum, a full socket) are sent as soon as it has, with the time when they
    were due.
    """

    def __init__(
        self, load: Load, tally: Tally, lost: asyncio.Future[None], client_id: str, topic: bytes, run: int, number: int
    ) -> None:
        super().__init__(load, tally, lost, client_id)
        self._is_stopped = False
        self._run, self._number, self._sequence = run, number, 0
        self._qos = load.qos
        self._goes_on_at_ack = not load.rate and load.qos > 0 and not load.until_delivery
        # All of a message's packet but what changes: the topic, and behind it packet identifier, stamp and filler.
        blank = bytes(load.size_bytes)
        message = packets.Publish(topic, blank, load.qos, retain=load.retain, packet_id=1 if load.qos else 0)
        packet = encode(message, load.version)
        stamped = (">H" if load.qos else ">") + ("x" if load.version == 5 else "") + STAMP.format.lstrip(">")
        self._behind = Struct(stamped)
        filler = load.size_bytes - STAMP.size
        self._before, self._filler = packet[: len(packet) - self._behind.size - filler], bytes(filler)
        self._in_flight: dict[int, float] = {}
        self._packet_id = 0
        self._due: deque[float] = deque()
        self._is_paused = False

    @property
    def open(self) -> int:
        """How many messages wait for an acknowledgement, or to be sent."""
        return len(self._in_flight) + len(self._due)

    def pause_writing(self) -> None:
        """Send nothing more: the broker does not read."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Send what was due meanwhile."""
        self._is_paused = False
        self._send_due()

    def publish(self, due_s: float) -> None:
        """Send the next message, or have it sent when there is room."""
        if self._has_room() and not self._due:
            self._write(self._next(due_s))
        else:
            self._due.append(due_s)

    def completed(self) -> None:
        """Go on with the next message of a closed loop."""
        if not self._is_stopped:
            self.publish(monotonic())

    def stop(self) -> None:
        """Send no new messages."""
        self._is_stopped = True
        self._due.clear()

    def _next(self, due_s: float) -> bytes:
        """Return the packet of the next message, which then is in flight."""
        sequence = self._sequence
        self._sequence = sequence + 1
        self._tally.sent += 1
        if self._qos:
            packet_id = self._packet_id
            while True:
                packet_id = packet_id % _PACKET_IDS + 1
                if packet_id not in self._in_flight:
                    break
            self._packet_id = packet_id
            self._in_flight[packet_id] = due_s
            behind = self._behind.pack(packet_id, self._run, self._number, sequence, due_s)
        else:
            behind = self._behind.pack(self._run, self._number, sequence, due_s)
        return self._before + behind + self._filler

    def _has_room(self) -> bool:
        return not self._is_paused and len(self._in_flight) < self.receive_maximum

    def _send_due(self) -> None:
        while self._due and self._has_room():
            self._write(self._next(self._due.popleft()))

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, packets.Puback):
            self._accept(packet.packet_id, packet.reason)
            self._finish(packet.packet_id)
        elif isinstance(packet, packets.Pubrec):
            self._accept(packet.packet_id, packet.reason)
            if packet.reason >= Reason.UNSPECIFIED_ERROR:
                self._finish(packet.packet_id)
            else:
                self._out.append(acknowledge(PacketType.PUBREL, packet.packet_id, self._load.version))
        elif isinstance(packet, packets.Pubcomp):
            self._finish(packet.packet_id)
        else:
            super()._take(packet)

    def _accept(self, packet_id: int, reason: int) -> None:
        due_s = self._in_flight.get(packet_id, 0.0)
        if due_s:  # a PUBREC that comes again says nothing new
            self._in_flight[packet_id] = 0.0
            self._tally.accept(due_s, reason)

    def _finish(self, packet_id: int) -> None:
        if self._in_flight.pop(packet_id, None) is None:
            return
        if self._goes_on_at_ack and not self._is_stopped:
            self._due.append(monotonic())
        if self._due and self._has_room():
            self._out.append(self._next(self._due.popleft()))
