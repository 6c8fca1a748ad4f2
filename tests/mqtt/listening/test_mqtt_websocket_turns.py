"""The receiving side of a WebSocket on a network of the test's own: what happens in which turn of the loop."""

import asyncio
from collections.abc import Callable

import pytest
from websockets.frames import Opcode

from streamd.clients.mqtt.listening import websocket_connection
from streamd.clients.mqtt.listening.admission import Admission, Counts
from streamd.clients.mqtt.listening.origins import Origins
from streamd.clients.mqtt.listening.websocket_connection import READ_BYTES_MAX, WebSocketConnection
from tests.mqtt.listening.front import DEADLINE_S, Network, Run, Silent
from tests.mqtt.listening.test_mqtt_websocket import OFFER, REQUEST, frames

HANDSHAKE = REQUEST + OFFER + b"\r\n"


def connection_of(network: Network, made: list[Silent]) -> WebSocketConnection:
    """Return a connection that has not begun its handshake."""

    def make() -> Silent:
        made.append(Silent("ws", False))
        return made[-1]

    loop = asyncio.get_running_loop()
    connection = WebSocketConnection(loop, make, Origins(()), 1024, Counts())
    connection.connection_made(network)
    return connection


async def turns(holds: Callable[[], object]) -> int:
    """Return how many turns of the loop it takes until a condition holds."""
    async with asyncio.timeout(DEADLINE_S):
        count = 0
        while not holds():
            count += 1
            await asyncio.sleep(0)
        return count


def test_much_that_comes_at_once_is_read_in_many_turns_while_the_network_waits(run: Run):
    async def main() -> None:
        network, made = Network(), []
        connection = connection_of(network, made)
        connection.data_received(HANDSHAKE)
        much = frames([(Opcode.BINARY, b"a", True)] * 30_000)
        connection.data_received(much)
        assert network.paused
        assert await turns(lambda: not network.paused) >= len(much) // READ_BYTES_MAX
        assert sum(map(len, made[0].received)) == 30_000

    run(main)


@pytest.mark.parametrize("is_held", [False, True])
def test_what_was_read_is_handed_on_when_the_network_connection_is_lost(run: Run, is_held: bool):
    async def main() -> None:
        network, made = Network(), []
        connection = connection_of(network, made)
        connection.data_received(HANDSHAKE)
        connection.data_received(frames([(Opcode.BINARY, b"a", True)] * 30_000))
        if is_held:
            made[0].transport.pause_reading()
        network.closed = True
        connection.connection_lost(ConnectionResetError())
        assert sum(map(len, made[0].received)) == 30_000
        assert isinstance(made[0].ended.result(), ConnectionResetError)
        await asyncio.sleep(0)
        made[0].transport.write(b"nobody is there")
        await asyncio.sleep(0)

    run(main)


def test_the_limit_of_the_handshake_ends_with_it(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(websocket_connection, "HANDSHAKE_S", 0)

    async def main() -> None:
        network, other, made = Network(), Network(), []
        connection_of(network, made).data_received(HANDSHAKE)
        connection_of(other, made).data_received(REQUEST)
        await turns(lambda: other.closed)
        assert not network.closed

    run(main)


@pytest.mark.parametrize("sent", [HANDSHAKE + frames([(Opcode.TEXT, b"a", True)]), b"GET / HTTP/1.1\r\n\r\n"])
def test_a_client_that_is_turned_away_is_read_on_until_it_ends_or_for_a_while(
    run: Run, monkeypatch: pytest.MonkeyPatch, sent: bytes
):
    """Bytes that nobody read would make the system drop what it was told."""
    monkeypatch.setattr(websocket_connection, "CLOSE_S", 0)

    async def main() -> None:
        network = Network()
        connection = connection_of(network, [])
        connection.data_received(sent)
        assert network.ended
        assert not network.closed
        connection.data_received(bytes(100_000))
        await turns(lambda: network.closed)

    run(main)


def test_a_writer_is_told_that_the_network_was_full_before_it_began(run: Run):
    async def main() -> None:
        network, made = Network(), []
        connection = connection_of(network, made)
        connection.pause_writing()
        connection.data_received(HANDSHAKE)
        connection.resume_writing()
        assert made[0].told == ["made", "pause", "resume"]

    run(main)


def test_nobody_begins_after_the_end(run: Run):
    async def main() -> None:
        admission, network, made = Admission(1), Network(), []
        admitted = admission.admit(lambda: made.append(1) or Silent("mqtt", False))  # type: ignore[func-returns-value]
        assert admitted is not None
        admission.closed = True
        admitted.connection_made(network)
        admitted.connection_lost(None)
        assert network.closed
        assert (made, len(admission)) == ([], 0)

    run(main)
