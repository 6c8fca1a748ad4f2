"""Which clients share a write and a sync, on a loop and a journal of their own, without sockets."""

import asyncio
from pathlib import Path

import pytest

from streamd.configuration.server_options import Config
from streamd.net.connection import Connection
from streamd.net.server import Server
from tests.connected import Transport


async def syncs_of_two(directory: Path, policy: str) -> tuple[int, list[bytes]]:
    """Have two clients send, the second when the turn of the first is about to end; return how often the journal was
    written and synced until both have their replies, and these.
    """
    server = Server(Config(port=0, bind="127.0.0.1", dir=str(directory), appendonly=True, appendfsync=policy))
    await server.start()
    assert server.persistence is not None
    journal = server.persistence.journal
    clients = []
    for _ in range(2):
        connection, transport = Connection(server), Transport()
        connection.connection_made(transport)
        clients.append((connection, transport))
    before = journal.writes
    request = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\nv\r\n"
    clients[0][0].data_received(request)
    # (The turn's end is called before this, and looks once more.)
    asyncio.get_running_loop().call_soon(clients[1][0].data_received, request)
    for _ in range(10):
        await asyncio.sleep(0)
    writes = journal.writes - before
    assert policy != "always" or journal.synced_writes == journal.writes
    replies = [transport.written for _, transport in clients]
    for connection, _ in clients:
        connection.connection_lost(None)
    await server.stop()
    return writes, replies


@pytest.mark.parametrize(("policy", "writes"), [("always", 1), ("everysec", 2)])
def test_where_turns_sync_who_sends_a_moment_later_shares_the_write_and_the_sync(tmp_path, policy, writes):
    counted, replies = asyncio.run(syncs_of_two(tmp_path, policy))
    assert (counted, [reply[:1] for reply in replies]) == (writes, [b"$", b"$"])
