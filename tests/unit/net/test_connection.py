"""The connection on a transport of the test's: what it reads, when it pauses, and when it closes."""

import logging
import socket

import pytest

from streamd.base.clock import ManualClock
from streamd.base.limits import INPUT_WAITING_BYTES_MAX, OUTPUT_PAUSE_BYTES, TURN_REQUESTS_MAX, TURN_US
from streamd.configuration.server_options import Config
from streamd.engine.engine import Engine
from streamd.net.connection import Connection
from tests.connected import Transport


class FakeServer:
    def __init__(self, **options: object) -> None:
        self.engine = Engine(ManualClock(), Config(**options))
        self.engine.calls.stopwatch = lambda: 0
        self.connections: set[Connection] = set()
        self.log = logging.getLogger("test")
        self.soon: list[Connection] = []

    def end_turn(self) -> None:
        self.engine.end_turn()

    def resume_soon(self, connection: Connection) -> None:
        self.soon.append(connection)

    def connect(self, peer: tuple[str, int] = ("127.0.0.1", 50_000)) -> tuple[Connection, Transport]:
        connection, transport = Connection(self), Transport(peer)
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


@pytest.mark.parametrize("reads", [[b"*0\r\n"], [b"*0\r\n"] * 3, [b"*0\r\n*0\r\n", b"*-1\r\n", b"\r\n"]])
def test_an_empty_request_is_answered_nothing(reads):
    connection, transport = FakeServer().connect()
    for data in [*reads, b"PING\r\n"]:
        connection.data_received(data)
    assert transport.written == b"+PONG\r\n"


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
    monkeypatch.setattr(server.engine.commands[b"xlen"], "handler", lambda context, args: 1 // 0)
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


def run_waiting(server: FakeServer) -> int:
    """Let connections go on until none wants to; return how many turns that took."""
    turns = 0
    while server.soon:
        server.soon.pop(0).resume()
        server.end_turn()
        turns += 1
    return turns


def test_a_long_pipeline_takes_several_turns_and_is_answered_in_order():
    server = FakeServer()
    connection, transport = server.connect()
    count = 2 * TURN_REQUESTS_MAX + 10
    for name in (b"PING %d\r\n", b"ECHO %d\r\n"):
        transport.written = b""
        connection.data_received(b"".join(name % number for number in range(count)))
        assert not transport.reading
        assert transport.written.count(b"$") == TURN_REQUESTS_MAX
        assert run_waiting(server) == 2
        assert transport.written == b"".join(b"$%d\r\n%d\r\n" % (len(str(n)), n) for n in range(count))
        assert transport.reading


def test_a_pipeline_of_slow_requests_takes_several_turns():
    server = FakeServer()
    connection, transport = server.connect()
    now = [0]

    def stopwatch() -> int:
        now[0] += TURN_US * 300
        return now[0]

    server.engine.calls.stopwatch = stopwatch
    connection.data_received(b"".join(b"NOPE %d\r\nPING %d\r\n" % (n, n) for n in range(500)))
    assert 0 < transport.written.count(b"$") < 500
    assert run_waiting(server) > 1
    numbers = [int(line) for line in transport.written.split(b"\r\n") if line.isdigit()]
    assert numbers == list(range(500))


def test_a_blocking_request_in_a_long_pipeline_holds_what_is_behind_it():
    server = FakeServer()
    connection, transport = server.connect()
    before, behind = b"PING a\r\n" * 10, b"PING b\r\n" * (2 * TURN_REQUESTS_MAX)
    connection.data_received(before + b"XREAD BLOCK 0 STREAMS s $\r\n" + behind + b"ECHO last\r\n")
    run_waiting(server)
    assert transport.written == b"$1\r\na\r\n" * 10
    writer, _ = server.connect()
    writer.data_received(b"XADD s 1-1 f v\r\n")
    run_waiting(server)
    assert transport.written.count(b"$1\r\nb\r\n") == 2 * TURN_REQUESTS_MAX
    assert transport.written.endswith(b"$4\r\nlast\r\n")


def test_who_ends_its_side_is_answered_before_the_connection_is_closed():
    server = FakeServer()
    connection, transport = server.connect()
    connection.data_received(b"PING\r\n" * (2 * TURN_REQUESTS_MAX + 5))
    assert connection.eof_received()
    assert not transport.closed
    run_waiting(server)
    assert transport.written == b"+PONG\r\n" * (2 * TURN_REQUESTS_MAX + 5)
    assert transport.closed


def test_who_ends_its_side_in_a_blocking_request_is_closed():
    server = FakeServer()
    connection, transport = server.connect()
    connection.data_received(b"PING\r\nXREAD BLOCK 0 STREAMS s $\r\nPING\r\n")
    connection.eof_received()
    assert transport.written == b"+PONG\r\n"
    assert transport.closed


@pytest.mark.parametrize("unread", [0, 1])
def test_killing_a_client_does_not_wait_until_it_reads(unread):
    server = FakeServer()
    connection, transport = server.connect()
    transport.unread = unread
    killer, told = server.connect()
    assert connection.client is not None
    killer.data_received(b"CLIENT KILL ID %d\r\n" % connection.client.id)
    assert told.written == b":1\r\n"
    assert transport.closed
    assert transport.aborted == bool(unread)


def test_an_idle_client_is_closed_unless_it_waits_for_something():
    server = FakeServer(timeout=5)
    idle, idle_transport = server.connect()
    busy = []
    for request in (b"XREAD BLOCK 0 STREAMS s $\r\n", b"SUBSCRIBE c\r\n"):
        connection, transport = server.connect()
        connection.data_received(request)
        busy.append((connection, transport))
    started_ms = server.engine.state.time.monotonic_ms
    for passed_ms, closed in ((5_000, False), (5_001, True)):
        for connection in (idle, *(waiting for waiting, _ in busy)):
            connection.close_if_left(started_ms + passed_ms)
        assert idle_transport.closed == closed
        assert not any(transport.closed for _, transport in busy)


def test_a_blocked_client_that_sent_too_much_and_went_is_closed():
    server = FakeServer()
    connection, transport = server.connect()
    connection.data_received(b"XREAD BLOCK 0 STREAMS s $\r\n")
    connection.data_received(b"x" * (INPUT_WAITING_BYTES_MAX + 1))
    assert not transport.reading
    transport.socket, other = socket.socketpair()
    with transport.socket, other:
        connection.close_if_left(0)
        assert not transport.closed
        other.close()
        connection.close_if_left(0)
        assert transport.aborted


@pytest.mark.parametrize("line", [b"POST / HTTP/1.1\r\n", b"host: localhost:6379\r\n"])
def test_a_browser_is_cut_off_without_a_reply(line):
    server = FakeServer()
    connection, transport = server.connect()
    connection.data_received(b"PING\r\n" + line + b"\r\nFLUSHALL\r\n")
    assert (transport.written, transport.closed) == (b"", True)
    assert server.engine.commands[b"flushall"].calls == 0


def test_a_reply_stands_before_the_error_that_came_behind_its_request():
    xadd = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$3\r\n1-1\r\n$1\r\nf\r\n$1\r\nv\r\n"
    whole, parts = FakeServer(), FakeServer()
    connection, transport = whole.connect()
    connection.data_received(xadd + b"*1\r\n!\r\n")
    sent = bytes(transport.written)
    assert sent.startswith(b"$3\r\n1-1\r\n-ERR Protocol error"), sent
    # The same in two reads of one turn.
    connection, transport = parts.connect()
    parts.end_turn = lambda: None
    connection.data_received(xadd)
    connection.data_received(b"*1\r\n!\r\n")
    parts.engine.end_turn()
    assert bytes(transport.written) == sent


def test_info_and_client_list_count_the_bytes_of_both_ways():
    server = FakeServer()
    connection, transport = server.connect()
    other, _ = server.connect()
    connection.data_received(b"PING\r\n")
    connection.data_received(b"GET a\r\nECHO 0123456789\r\n")
    other.data_received(b"PING\r\n")

    assert len(transport.written) == 7 + 5 + 17
    line = connection.client.describe(0).decode()
    assert f"tot-net-in={6 + 7 + 17} tot-net-out={7 + 5 + 17}" in line
    state = server.engine.state
    assert state.traffic_bytes() == (6 + 7 + 17 + 6, 7 + 5 + 17 + 7)

    other.connection_lost(None)
    assert state.traffic_bytes() == (6 + 7 + 17 + 6, 7 + 5 + 17 + 7), "what a client that is gone sent stays counted"
    state.reset_stats()
    assert state.traffic_bytes() == (0, 0)
    connection.data_received(b"PING\r\n")
    assert state.traffic_bytes() == (6, 7)


def test_the_bytes_of_a_large_reply_are_counted():
    server = FakeServer()
    connection, transport = server.connect()
    value = b"x" * 300_000
    request = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%b\r\nGET k\r\nGET k\r\n" % (len(value), value)
    connection.data_received(request)

    assert server.engine.state.traffic_bytes() == (len(request), len(transport.written))
