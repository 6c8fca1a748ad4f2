"""Whatever frames come, however they are cut and whenever reading is paused: the bytes of an obvious model come out."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from streamd.clients.mqtt.listening import websocket_connection
from streamd.clients.mqtt.listening.admission import Counts
from streamd.clients.mqtt.listening.origins import Origins
from streamd.clients.mqtt.listening.websocket_connection import WebSocketConnection
from tests.mqtt.listening.front import Network, Silent
from tests.mqtt.listening.test_mqtt_websocket import OFFER, REQUEST

MESSAGE_BYTES_MAX = 60
Sent = tuple[Opcode, bytes, bool]


class Pausing(Silent):
    """Pauses where the test says so."""

    pauses: list[bool]

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.pauses and self.pauses.pop():
            self.transport.pause_reading()


def model(frames: list[Sent]) -> tuple[bytes, int | None]:
    """Return the bytes that MQTT gets and the code with which the connection is closed; None if it stays open."""
    data, message = b"", None
    for opcode, payload, last in frames:
        if opcode is Opcode.CLOSE:
            return data, 1000 if message is None else 1002
        if opcode is Opcode.PING:
            continue
        size = len(payload) + (message or 0)
        if size > MESSAGE_BYTES_MAX:
            return data, 1009
        if (opcode is Opcode.CONT) != (message is not None):
            return data, 1002
        if opcode is Opcode.TEXT:
            return data, 1003
        data += payload
        message = None if last else size
    return data, None


def close_code(written: bytes) -> int | None:
    """Return the code of the close frame that ends what was written; None without one."""
    while written:
        length, rest = written[1], written[2:]
        if written[0] == 0x88:
            assert len(rest) == length
            return int.from_bytes(rest[:2], "big")
        written = rest[length:]
    return None


async def serve(stream: bytes, cuts: list[int], pauses: list[bool]) -> tuple[Pausing | None, Network]:
    """Feed a connection with a stream in pieces, as a network does; return its protocol and the network."""
    made: list[Pausing] = []

    def make() -> Pausing:
        made.append(Pausing("ws", False))
        made[-1].pauses = list(pauses)
        return made[-1]

    network = Network()
    connection = WebSocketConnection(asyncio.get_running_loop(), make, Origins(()), MESSAGE_BYTES_MAX, Counts())
    connection.connection_made(network)
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, end in pairwise(edges):
        while network.paused and not (network.closed or network.ended):
            if made and not made[0].transport.is_reading():
                made[0].transport.resume_reading()
            await asyncio.sleep(0)
        if start < end and not (network.closed or network.ended):
            connection.data_received(stream[start:end])
    while network.paused and not (network.closed or network.ended):
        if made and not made[0].transport.is_reading():
            made[0].transport.resume_reading()
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await asyncio.sleep(0)
    if made:
        assert made[0].told == ["made", "lost"]
    return (made[0] if made else None), network


def start(monkeypatch: pytest.MonkeyPatch) -> None:
    def error(*words: object, **_: object) -> None:
        raise AssertionError(words)

    monkeypatch.setattr(websocket_connection._LOGGER, "error", error)
    monkeypatch.setattr(websocket_connection, "READ_BYTES_MAX", 50)


OPCODES = st.sampled_from([Opcode.BINARY, Opcode.BINARY, Opcode.CONT, Opcode.PING, Opcode.TEXT, Opcode.CLOSE])
FRAMES = st.lists(st.tuples(OPCODES, st.binary(max_size=35), st.booleans()), max_size=12)
CUTS = st.lists(st.integers(0, 2000), max_size=8)
PAUSES = st.lists(st.booleans(), max_size=12)


@given(FRAMES, CUTS, PAUSES)
def test_the_bytes_of_binary_frames_come_out_in_order(frames: list[Sent], cuts: list[int], pauses: list[bool]):
    sent = [
        (opcode, b"\x03\xe8" if opcode is Opcode.CLOSE else data, last or opcode in (Opcode.CLOSE, Opcode.PING))
        for opcode, data, last in frames
    ]
    head = REQUEST + OFFER + b"\r\n"
    stream = b"".join(Frame(opcode, data, last).serialize(mask=True) for opcode, data, last in sent)
    with pytest.MonkeyPatch.context() as monkeypatch:
        start(monkeypatch)
        protocol, network = asyncio.run(serve(head + stream, [*(cut + len(head) for cut in cuts), len(head)], pauses))
    assert protocol is not None
    taken, code = model(sent)
    assert b"".join(protocol.received) == taken
    closed_with = close_code(network.written.partition(b"\r\n\r\n")[2])
    # What is wrong behind a text frame, and came with it, is seen first.
    assert closed_with == code or (code == 1003 and closed_with in (1000, 1002, 1009))


@given(st.binary(max_size=300), CUTS, PAUSES, st.sampled_from([b"", REQUEST, REQUEST + OFFER + b"\r\n"]))
def test_nonsense_raises_nothing(nonsense: bytes, cuts: list[int], pauses: list[bool], head: bytes):
    with pytest.MonkeyPatch.context() as monkeypatch:
        start(monkeypatch)
        asyncio.run(serve(head + nonsense, cuts, pauses))
