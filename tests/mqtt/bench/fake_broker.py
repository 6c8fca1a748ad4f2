"""A broker of a few lines that keeps its promises, or breaks one that a test names."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import NO_PROPERTIES, Packet
from streamd.clients.mqtt.codec.properties import Property

DEADLINE_S = 60


@dataclass
class Fake:
    """What it does. connack, suback: reason codes; closes: without a CONNACK; garbage: in place of it.

    Numbers of messages, counted from 0 as they come: lost, twice, swapped (with the next one), refused; hangs_up: the
    connection of its publisher is closed. receive_maximum: of 5.0; server_keep_alive_s: likewise. in_flight_max: the
    most messages that one client had in flight. answers_after: acknowledgements are kept back until so many wait. seen:
    the packets of all clients.
    """

    connack: int = 0
    suback: int | None = None
    closes: bool = False
    garbage: bool = False
    lost: set[int] = field(default_factory=set)
    twice: set[int] = field(default_factory=set)
    swapped: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    hangs_up: set[int] = field(default_factory=set)
    receive_maximum: int = 65_535
    server_keep_alive_s: int = 0
    answers_after: int = 1
    in_flight_max: int = 0
    port: int = 0
    messages: int = 0
    seen: list[Packet] = field(default_factory=list)
    connections: list["Connection"] = field(default_factory=list)


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, fake: Fake) -> None:
        self.fake, self.decoder, self.filter, self.qos = fake, Decoder(), "", 0
        self.version, self.packet_id, self.waiting, self.held = 4, 0, [], []
        self.transport: asyncio.Transport
        fake.connections.append(self)

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, error):
        self.fake.connections.remove(self)

    def send(self, packet):
        self.transport.write(encode(packet, self.version))

    def data_received(self, data):
        for packet in self.decoder.feed(data):
            self.fake.seen.append(packet)
            self.take(packet)
        assert self.decoder.fault is None, self.decoder.fault

    def take(self, packet):
        fake = self.fake
        match packet:
            case packets.Connect():
                self.version = packet.version
                if fake.closes:
                    self.transport.abort()
                elif fake.garbage:
                    self.transport.write(b"HTTP/1.1 400 Bad Request\r\n")
                else:
                    self.send(packets.Connack(False, fake.connack, self.connack_properties()))
            case packets.Subscribe():
                self.filter, self.qos = packet.subscriptions[0].filter, packet.subscriptions[0].qos
                self.send(packets.Suback(packet.packet_id, (self.qos if fake.suback is None else fake.suback,)))
            case packets.Publish():
                number = fake.messages
                fake.messages += 1
                if number in fake.hangs_up:
                    self.transport.abort()
                    return
                reason = 0x97 if number in fake.refused else 0
                if packet.qos:
                    kind = packets.Puback if packet.qos == 1 else packets.Pubrec
                    self.waiting.append(kind(packet.packet_id, reason))
                    fake.in_flight_max = max(fake.in_flight_max, len(self.waiting))
                    if len(self.waiting) >= fake.answers_after:
                        waiting, self.waiting = self.waiting, []
                        for answer in waiting:
                            self.send(answer)
                if not reason and number not in fake.lost:
                    for _ in range(2 if number in fake.twice else 1):
                        self.deliver(packet, number in fake.swapped)
            case packets.Pubrel():
                self.send(packets.Pubcomp(packet.packet_id))
            case packets.Pubrec():
                self.send(packets.Pubrel(packet.packet_id))
            case packets.Pingreq():
                self.send(packets.Pingresp())
            case packets.Disconnect():
                self.transport.close()

    def connack_properties(self):
        if self.version == 4 or self.fake.connack:
            return NO_PROPERTIES
        properties = {Property.RECEIVE_MAXIMUM: self.fake.receive_maximum}
        if self.fake.server_keep_alive_s:
            properties[Property.SERVER_KEEP_ALIVE] = self.fake.server_keep_alive_s
        return properties

    def deliver(self, packet, swap):
        topic = packet.topic.decode()
        for other in self.fake.connections:
            if other.filter in (topic, topic.rpartition("/")[0] + "/+"):
                other.packet_id += 1
                qos = min(packet.qos, other.qos)
                other.held.append(packets.Publish(packet.topic, packet.payload, qos, packet_id=qos and other.packet_id))
                if not swap:
                    for held in reversed(other.held):
                        other.send(held)
                    other.held.clear()


@contextmanager
def running(fake: Fake) -> Iterator[Fake]:
    """Serve on a free port of 127.0.0.1, in a thread."""
    loop, started = asyncio.new_event_loop(), threading.Event()

    async def serve():
        server = await loop.create_server(lambda: Connection(fake), "127.0.0.1", 0, backlog=1_000)
        fake.port = server.sockets[0].getsockname()[1]
        started.set()

    def run():
        loop.create_task(serve())
        loop.run_forever()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(DEADLINE_S)
        yield fake
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(DEADLINE_S)
        loop.close()
