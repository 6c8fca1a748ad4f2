"""`python -m bench.large_streams`: what it sends and what it expects to receive fit together."""

import pytest

from bench.cold import KINDS
from bench.large_work import READ, STREAM, Filled, entries_of
from streamd.testing import EmbeddedServer


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_that_a_read_waits_for_are_those_of_the_reply(kind):
    filled = Filled(kind, 1_000)
    with EmbeddedServer() as server, server.client().client() as client:
        connection = client.connection
        for batch in filled.batches():
            connection.send_packed_command([batch])
            for _ in range(500):
                connection.read_response()
        found = client.xrange(STREAM)
        assert [[part for pair in fields.items() for part in pair] for _, fields in found] == [
            *entries_of(kind, 0, 500),
            *entries_of(kind, 500, 1_000),
        ]
        for at, size in enumerate(filled.reply_bytes):
            connection.send_command("XRANGE", STREAM, found[at * READ][0], "+", "COUNT", READ)
            data = b""
            while len(data) < size:
                data += connection._sock.recv(1 << 20)
            assert len(data) == size
            assert data.startswith(b"*%d\r\n" % READ)
    assert len(filled.reply_bytes) == 10
