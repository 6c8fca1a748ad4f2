"""A client that sends a long pipeline and reads its replies only then, as redis-py does, gets them all."""

import socket
from pathlib import Path

import pytest

from streamd.base.limits import OUTPUT_PAUSE_BYTES
from streamd.net.connection import Connection
from tests.connected import Transport
from tests.faults.test_end_of_input import encoded
from tests.faults.test_end_of_input_parts import Host, look
from tests.integration.process import ServerProcess

VALUE = b"x" * (OUTPUT_PAUSE_BYTES // 2 + 1)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def client(host: Host) -> tuple[Connection, Transport, socket.socket]:
    """A client that the server does not read from, since it does not read, and its other end."""
    connection, transport = host.connect()
    transport.keeps = True
    transport.socket, other = socket.socketpair()
    connection.data_received(encoded("ECHO", VALUE) * 2 + encoded("SET", "behind", "1"))
    host.turns()
    connection.pause_writing()
    assert transport.unread > OUTPUT_PAUSE_BYTES
    assert (host.ask("GET", "behind"), transport.reading) == (None, False)
    return connection, transport, other


def test_it_is_read_on_when_it_takes_nothing_and_has_sent_more(host, client):
    connection, transport, other = client
    other.send(b"more")
    look(host, 1)
    host.turns()
    assert (host.ask("GET", "behind"), transport.reading) == (None, False)
    look(host, 1)
    host.turns()
    assert (host.ask("GET", "behind"), transport.reading) == (b"1", True)
    connection.data_received(encoded("ECHO", VALUE) + encoded("SET", "behind", "2"))
    host.turns()
    assert host.ask("GET", "behind") == b"2"

    # It reads, and then does not once more.
    transport.unread = 0
    connection.resume_writing()
    connection.data_received(encoded("ECHO", VALUE) * 2 + encoded("SET", "behind", "3"))
    host.turns()
    assert host.ask("GET", "behind") == b"2"
    assert not transport.closed


def test_it_is_not_while_it_has_sent_nothing_more(host, client):
    _, transport, _ = client
    for _ in range(5):
        look(host, 1)
        host.turns()
    assert (host.ask("GET", "behind"), transport.reading) == (None, False)


def test_it_is_not_while_it_reads(host, client):
    _, transport, other = client
    other.send(b"more")
    for _ in range(5):
        look(host, 1)
        host.turns()
        transport.unread -= 1
    assert transport.unread > OUTPUT_PAUSE_BYTES - 100
    assert (host.ask("GET", "behind"), transport.reading) == (None, False)


def test_one_that_has_hung_up_is_not(host, client):
    _, transport, other = client
    other.send(b"more")
    other.close()
    for _ in range(5):
        look(host, 1)
        host.turns()
    assert (host.ask("GET", "behind"), transport.reading) == (None, False)


@pytest.mark.parametrize("count", [40_000])
def test_a_pipeline_and_replies_beyond_all_buffers(tmp_path: Path, count: int) -> None:
    request = encoded("ECHO", b"y" * 1_000)
    with ServerProcess(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port), 60) as sock:
        sock.sendall(request * count)
        wanted = len(b"$1000\r\n%b\r\n" % (b"y" * 1_000)) * count
        while wanted > 0 and (data := sock.recv(1 << 20)):
            wanted -= len(data)
        assert wanted == 0
