"""What another client notices while packets of the largest size that a gateway takes come and go."""

import asyncio
import multiprocessing
import socket
import time
from multiprocessing.synchronize import Event
from typing import Final

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.options import PACKET_BYTES_MOST

WORD: Final = "large"
_TOPIC: Final = b"bench/large"
_HEAD_BYTES: Final = 200  # of the packet, around its payload
_PAUSE_S: Final = 0.01
_READ_BYTES: Final = 2**20


def turn(port: int, seconds: float) -> dict[str, float]:
    """Publish large messages with a subscriber for so long; return the worst round trip of another client, in ms."""
    found: multiprocessing.SimpleQueue[float] = multiprocessing.SimpleQueue()
    stop = multiprocessing.Event()
    other = multiprocessing.Process(target=_ask, args=(port, stop, found))
    other.start()
    sent, got = asyncio.run(_publish(port, seconds))
    stop.set()
    worst_s = found.get()
    other.join()
    return {"round trip": worst_s * 1_000, "lost": sent - got, "duplicated": 0, "misordered": 0}


def _ask(port: int, stop: Event, found: "multiprocessing.SimpleQueue[float]") -> None:
    """Ping again and again, and hand on the longest wait for an answer."""
    worst_s = 0.0
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(encode(p.Connect(4, "other", True), 4))
        line.recv(4)
        while not stop.is_set():
            begun_s = time.monotonic()
            line.sendall(encode(p.Pingreq(), 4))
            if not line.recv(2):
                worst_s = float("inf")  # the gateway has let go of its clients
                break
            worst_s = max(worst_s, time.monotonic() - begun_s)
            time.sleep(_PAUSE_S)
    found.put(worst_s)


async def _publish(port: int, seconds: float) -> tuple[int, int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(encode(p.Connect(4, "large", True), 4) + encode(p.Subscribe(1, (p.Subscription("bench/#", 0),)), 4))
    packet = encode(p.Publish(_TOPIC, bytes(PACKET_BYTES_MOST - _HEAD_BYTES), 1, packet_id=1), 4)
    decoder = Decoder(from_client=False, version=4)
    sent = got = acknowledged = 0
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        writer.write(packet)
        sent += 1
        while min(got, acknowledged) < sent:
            data = await reader.read(_READ_BYTES)
            if not data:
                return sent, got
            for one in decoder.feed(data):
                got += type(one) is p.Publish
                acknowledged += type(one) is p.Puback
    writer.close()
    return sent, got
