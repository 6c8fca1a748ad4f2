"""What a client sent while it waited is executed when its wait has ended, and not with the next run of the cron."""

import socket

import pytest

from streamd.testing import EmbeddedServer


@pytest.mark.interpreted(reason="it takes the place of a method, which a compiled object does not let it")
def test_what_came_while_a_client_waited_for_a_sync_is_executed_when_that_has_ended(tmp_path):
    with EmbeddedServer(appendonly=True, dir=str(tmp_path), appendfsync="everysec") as server:
        server._server.engine.cron = lambda: False  # type: ignore[method-assign]
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as sock:
            sock.sendall(b"SET k v\r\nWAITAOF 1 0 0\r\n")
            sock.sendall(b"GET k\r\n")
            expected = b"+OK\r\n*2\r\n:1\r\n:0\r\n$1\r\nv\r\n"
            received = b""
            while len(received) < len(expected):
                received += sock.recv(1000)
            assert received == expected
