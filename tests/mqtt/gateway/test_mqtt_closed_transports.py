"""A line on a client's fault may be written after its connection is closed."""

import asyncio
import socket
from types import SimpleNamespace

import pytest

from streamd.clients.mqtt.gateway.gateway import peer_of


@pytest.mark.interpreted(reason="it takes no other class for a connection")
def test_the_peer_of_a_connection_that_is_closed_is_its_listeners_kind():
    uvloop = pytest.importorskip("uvloop")

    async def main():
        ended = asyncio.get_running_loop().create_future()

        class Protocol(asyncio.Protocol):
            def connection_lost(self, error):
                ended.set_result(None)

        with socket.create_server(("127.0.0.1", 0)) as listener:
            place = listener.getsockname()
            transport, _ = await asyncio.get_running_loop().create_connection(Protocol, *place)
            connection = SimpleNamespace(transport=transport, kind="mqtt")
            transport.abort()
            await ended
            await asyncio.sleep(0)
            assert peer_of(connection) == "mqtt"

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
