"""The connection on a transport of the test's: what it reads, when it pauses, and when it closes."""

import logging

import pytest

from streamd.clock import ManualClock
from streamd.config import Config
from streamd.connection import Connection
from streamd.engine import Engine
from streamd.limits import INPUT_WAITING_BYTES_MAX, OUTPUT_PAUSE_BYTES


class FakeTransport:
    """Remembers what was written; `unread` of it is still to be read by the client."""

    def __init__(self, peer: tuple[str, int] = ("127.0.0.1", 50_000)) -> None:
        self.peer = peer
        self.written = b""
        self.pieces: list[bytes] = []
        self.unread = 0
        self.keeps = False
        self.reading = True
        self.closed = False

    def get_extra_info(self, name: str) -> object:
        return self.peer if name == "peername" else ("127.0.0.1", 6379)

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: bytes) -> None:
        self.written += data
        self.pieces.append(data)
        if self.keeps:
            self.unread += len(data)

    def writelines(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            self.write(piece)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


class FakeServer:
    def __init__(self, **options: object) -> None:
        self.engine = Engine(ManualClock(), Config(**options))
        self.connections: set[Connection] = set()
        self.log = logging.getLogger("test")
        self.soon: list[Connection] = []

    def end_turn(self) -> None:
        self.engine.end_turn()

    def resume_soon(self, connection: Connection) -> None:
        self.soon.append(connection)

    def connect(self, peer: tuple[str, int] = ("127.0.0.1", 50_000)) -> tuple[Connection, FakeTransport]:
        connection, transport = Connection(self), FakeTransport(peer)
        connection.connection_made(transport)
        return connection, transport


def test_requests_of_one_read_are_answered_in_one_write():
    connection, transport = FakeServer().connect()
    connection.data_received(b"PING\r\nPING a\r\n")
    assert transport.written == b"+PONG\r\n$1\r\na\r\n"


def test_a_request_that_comes_byte_by_byte_is_answered_once_it_is_whole():
    connection, transport = FakeServer().connect()
    for byte in b"*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n":
        connection.data_received(bytes([byte]))
    assert transport.written == b"$2\r\nhi\r\n"


def test_a_protocol_error_is_answered_behind_the_replies_before_it_and_closes():
    connection, transport = FakeServer().connect()
    connection.data_received(b"PING\r\n*1\r\n!4\r\nPING\r\n")
    assert transport.written == b"+PONG\r\n-ERR Protocol error: expected '$', got '!'\r\n"
    assert transport.closed


def test_before_auth_only_small_requests_are_read_and_after_it_large_ones():
    connection, transport = FakeServer(requirepass="secret").connect()
    connection.data_received(b"*2\r\n$4\r\nECHO\r\n$20000\r\n")
    assert transport.written == b"-ERR Protocol error: unauthenticated bulk length\r\n"
    assert transport.closed

    connection, transport = FakeServer(requirepass="secret").connect()
    large = b"*2\r\n$4\r\nPING\r\n$20000\r\n" + b"x" * 20_000 + b"\r\n"
    connection.data_received(b"PING\r\nAUTH secret\r\n" + large)
    assert transport.written == b"-NOAUTH Authentication required.\r\n+OK\r\n$20000\r\n" + b"x" * 20_000 + b"\r\n"


def test_without_a_password_only_local_clients_are_served():
    _, transport = FakeServer().connect(peer=("192.0.2.1", 1))
    assert transport.written.startswith(b"-DENIED ")
    assert transport.closed
    _, transport = FakeServer(protected_mode=False).connect(peer=("192.0.2.1", 1))
    assert not transport.closed


def test_one_client_too_many_is_told_so():
    server = FakeServer(maxclients=1)
    server.connect()
    _, transport = server.connect()
    assert transport.written == b"-ERR max number of clients reached\r\n"
    assert transport.closed


def test_a_client_that_does_not_read_is_not_read_from_until_it_does():
    server = FakeServer()
    connection, transport = server.connect()
    transport.keeps = True
    value = b"x" * 100_000
    request = b"*2\r\n$4\r\nPING\r\n$100000\r\n" + value + b"\r\n"
    connection.data_received(request * 40)
    # One pipeline's replies leave in parts, and the rest waits.
    assert transport.unread > OUTPUT_PAUSE_BYTES
    assert transport.unread < 20 * len(request)
    connection.pause_writing()
    assert not transport.reading

    while True:
        transport.unread = 0
        before = len(transport.written)
        connection.resume_writing()
        if len(transport.written) == before:
            break
    assert transport.reading
    assert transport.written == (b"$100000\r\n" + value + b"\r\n") * 40


@pytest.mark.parametrize("requests", [[b"XRANGE s - +"], [b"PING", b"XRANGE s - +", b"XREVRANGE s + -", b"PING"]])
def test_large_ranges_leave_as_the_pieces_they_are_kept_in(requests):
    server = FakeServer(stream_node_max_entries=10)
    connection, transport = server.connect()
    for number in range(1, 36):
        connection.data_received(b"XADD s %d-0 f %b\r\n" % (number, b"x" * 1000))
    transport.written = b""
    transport.pieces.clear()
    connection.data_received(b"".join(request + b"\r\n" for request in requests))
    # Nested in another reply it is joined.
    other, reference = server.connect()
    other.data_received(b"MULTI\r\n" + b"".join(request + b"\r\n" for request in requests) + b"EXEC\r\n")
    behind = reference.written.partition(b"*%d\r\n" % len(requests))[2]
    assert transport.written == behind
    assert len(transport.written) > 35_000
    segments = len([piece for piece in transport.pieces if len(piece) > 10_000])
    assert segments == (3 if len(requests) == 1 else 6)


def test_a_large_range_of_many_small_pieces_is_joined():
    server = FakeServer(stream_node_max_entries=1)
    connection, transport = server.connect()
    for number in range(1, 500):
        connection.data_received(b"XADD s %d-0 f %b\r\n" % (number, b"x" * 50))
    connection.data_received(b"XRANGE s - +\r\n")
    assert len(transport.pieces[-1]) > 50 * 499


def test_a_disconnect_forgets_the_client():
    server = FakeServer()
    connection, _ = server.connect()
    assert len(server.engine.state.clients) == 1
    connection.connection_lost(None)
    assert not server.engine.state.clients
    assert not server.connections


def test_a_bug_in_a_handler_is_answered_and_the_connection_lives(monkeypatch: pytest.MonkeyPatch):
    server = FakeServer()
    connection, transport = server.connect()
    monkeypatch.setattr(server.engine._commands[b"XLEN"], "handler", lambda context, args: 1 // 0)
    connection.data_received(b"XLEN s\r\nXLEN s\r\nxlen s\r\nPING\r\n")
    assert transport.written == b"-ERR internal error\r\n" * 3 + b"+PONG\r\n"
    assert server.engine.state.stats.internal_errors == 3


def test_a_blocked_client_that_keeps_sending_is_not_read_without_end():
    server = FakeServer()
    connection, transport = server.connect()
    connection.data_received(b"XREAD BLOCK 0 STREAMS s $\r\nPING\r\n")
    assert transport.written == b""
    chunk = b"*2\r\n$4\r\nPING\r\n$60000\r\n" + b"x" * 60_000 + b"\r\n"
    sent = 0
    while transport.reading:
        connection.data_received(chunk)
        sent += 1
    assert sent * len(chunk) <= INPUT_WAITING_BYTES_MAX + 2 * len(chunk)

    writer, _ = server.connect()
    writer.data_received(b"XADD s 1-1 f v\r\n")
    while server.soon:
        server.soon.pop().resume()
        server.end_turn()
    assert transport.written.startswith(b"*1\r\n*2\r\n$1\r\ns\r\n")
    assert transport.written.count(b"$60000\r\n") == sent
    assert transport.reading
