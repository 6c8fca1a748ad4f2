"""The end of input at each place where requests wait: within a turn, in parts, behind a sync, for a reader."""

from collections.abc import Callable
from functools import partial

import pytest

from streamd.base.limits import OUTPUT_PAUSE_BYTES, OUTPUT_STALLED_MS_MAX, SLICED_ITEMS_MIN, TURN_REQUESTS_MAX, TURN_US
from streamd.net.connection import Connection
from tests import connected
from tests.connected import Transport
from tests.faults.test_end_of_input import encoded, xadds

POLICIES = {
    "always": {"appendfsync": "always"},
    "everysec": {"appendfsync": "everysec"},
    "no": {"appendfsync": "no"},
    "quick": {"appendfsync": "always", "is_quick": True},
}


class Encrypted(Transport):
    """One that may be encrypted, and tells when something is written."""

    def __init__(self, is_encrypted: bool = False) -> None:
        super().__init__()
        self.is_encrypted = is_encrypted
        self.on_write: Callable[[], object] = lambda: None

    def get_extra_info(self, name: str) -> object:
        if name == "sslcontext":
            return self.is_encrypted or None
        return super().get_extra_info(name)

    def write(self, data: bytes) -> None:
        super().write(data)
        self.on_write()


class Host(connected.Host):
    """A server at which each look at the time takes as long as one client's part of a turn may."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self._now_ns = 0
        self.engine.calls.stopwatch = self._stopwatch

    def _stopwatch(self) -> int:
        self._now_ns += TURN_US * 1000
        return self._now_ns

    def connect(self, is_encrypted: bool = False) -> tuple[Connection, Encrypted]:
        connection, transport = Connection(self), Encrypted(is_encrypted)
        connection.connection_made(transport)
        return connection, transport

    def ask(self, *words: str) -> object:
        return self.engine.execute(self.restartable.client, [[word.encode() for word in words]])[0]


def half_close(host: Host, connection: Connection, transport: Encrypted) -> None:
    assert connection.eof_received() == (not transport.is_encrypted)


def lose(host: Host, connection: Connection, transport: Encrypted) -> None:
    connection.connection_lost(ConnectionResetError())


@pytest.fixture(params=list(POLICIES))
def host(request: pytest.FixtureRequest) -> Host:
    return Host(**POLICIES[request.param])


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("end", [half_close, partial(half_close), lose], ids=["half-closed", "encrypted", "lost"])
def test_faults2_1_2_requests_split_at_every_byte_are_executed_before_the_end_of_input(host: Host, end, is_alone: bool):
    requests, replies = xadds("s", count=12)
    for at in range(len(requests) + 1):
        host.ask("DEL", "s")
        connection, transport = host.connect(is_encrypted=isinstance(end, partial))
        host.engine.gathering.is_shared = not is_alone
        for piece in (requests[:at], requests[at:]):
            if piece:
                connection.data_received(piece)
        end(host, connection, transport)
        host.turns()

        assert host.ask("XLEN", "s") == 12
        assert transport.written == (b"" if end is lose else replies)
        assert end is lose or transport.closed
        connection.connection_lost(None)
        assert not host.connections


@pytest.mark.parametrize("count", [TURN_REQUESTS_MAX + 1, 3 * TURN_REQUESTS_MAX + 5])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_faults2_1_2_a_half_closed_client_gets_the_replies_of_a_pipeline_that_is_executed_in_parts(
    host: Host, count: int, is_encrypted: bool
):
    connection, transport = host.connect(is_encrypted)
    requests, replies = xadds("s", count=count)
    connection.data_received(requests)
    half_close(host, connection, transport)
    if not is_encrypted:
        host.turns()

    assert transport.written == replies
    assert transport.closed
    assert host.ask("XLEN", "s") == count


@pytest.mark.parametrize("count", [TURN_REQUESTS_MAX + 1, 3 * TURN_REQUESTS_MAX + 5])
def test_faults2_1_2_a_long_pipeline_of_a_lost_client_is_executed_to_its_end(host: Host, count: int):
    connection, transport = host.connect()
    connection.data_received(xadds("s", count=count)[0])
    lose(host, connection, transport)
    assert host.connections == {connection}, "it is there until its requests are executed"
    host.turns()

    assert host.ask("XLEN", "s") == count
    assert not host.connections
    assert list(host.engine.state.clients.values()) == [host.restartable.client]
    assert host.restartable.restart().send("XLEN", "s") == b":%d\r\n" % count


def test_faults2_1_2_requests_of_a_lost_client_that_did_not_read_are_executed(host: Host):
    connection, transport = host.connect()
    transport.unread = OUTPUT_PAUSE_BYTES + 1
    connection.pause_writing()
    connection.data_received(xadds("s", count=2 * TURN_REQUESTS_MAX)[0])
    host.turns()
    assert host.ask("XLEN", "s") < 2 * TURN_REQUESTS_MAX, "the rest waits until the client reads"
    lose(host, connection, transport)
    host.turns()

    assert host.ask("XLEN", "s") == 2 * TURN_REQUESTS_MAX
    assert not host.connections


def fill(host: Host) -> None:
    """Make a stream of which a whole read is a reply in slices."""
    connection, _ = host.connect()
    connection.data_received(xadds("long", count=SLICED_ITEMS_MIN * 3)[0])
    host.turns()
    lose(host, connection, Encrypted())


@pytest.mark.parametrize("end", [half_close, lose], ids=["half-closed", "lost"])
def test_faults2_1_2_requests_behind_a_reply_in_slices_are_executed(host: Host, end):
    fill(host)
    connection, transport = host.connect()
    requests = (("XRANGE", "long", "-", "+"), ("SET", "behind", "1"), ("GET", "behind"))
    connection.data_received(b"".join(encoded(*words) for words in requests))
    end(host, connection, transport)
    turns = host.turns()

    assert host.ask("GET", "behind") == b"1"
    assert turns > 5 or end is lose, "nobody reads the reply of a lost client: no slices of it are made"
    assert turns < 5 or end is half_close
    if end is half_close:
        assert len(transport.pieces) > 2
        assert transport.written.startswith(b"*%d\r\n" % (SLICED_ITEMS_MIN * 3))
        assert transport.written.endswith(b"+OK\r\n$1\r\n1\r\n")
    connection.connection_lost(None)
    assert not host.connections


def test_faults2_1_2_an_encrypted_client_gets_a_reply_in_slices(host: Host):
    fill(host)
    connection, transport = host.connect(is_encrypted=True)
    connection.data_received(encoded("XRANGE", "long", "-", "+") + encoded("PING"))
    connection.eof_received()

    assert transport.written.startswith(b"*%d\r\n" % (SLICED_ITEMS_MIN * 3))
    assert transport.written.endswith(b"+PONG\r\n")
    assert transport.closed


def test_faults2_1_2_the_end_of_an_encrypted_connection_waits_for_the_sync():
    host = Host(at_once=False)
    connection, transport = host.connect(is_encrypted=True)
    other, other_transport = host.connect()
    other.data_received(xadds("t", count=1)[0])
    host.turns()
    connection.data_received(xadds("s")[0])
    host.turns()
    assert (transport.written, other_transport.written) == (b"", b""), "nothing leaves before it is on the disk"
    connection.eof_received()

    assert transport.written == xadds("s")[1]
    assert other_transport.written == xadds("t", count=1)[1]
    assert transport.closed
    host.restartable.at_once = True
    assert host.restartable.restart().send("XLEN", "s") == b":60\r\n"


def test_faults2_1_2_the_end_of_an_encrypted_connection_holds_nobody_up_for_long():
    host = Host(appendfsync="everysec")
    connection, transport = host.connect(is_encrypted=True)
    transport.on_write = lambda: host.clock.advance(15)
    count = 10 * TURN_REQUESTS_MAX
    connection.data_received(xadds("s", count=count)[0])
    connection.eof_received()
    assert host.ask("XLEN", "s") < 4 * TURN_REQUESTS_MAX
    answered = transport.written.count(b"$")
    host.turns()

    assert host.ask("XLEN", "s") == count, "what is left is executed in turns, and not answered"
    assert transport.written.count(b"$") == answered
    connection.connection_lost(None)
    assert not host.connections


@pytest.mark.parametrize("end", [half_close, lose], ids=["half-closed", "lost"])
@pytest.mark.parametrize("ending", [encoded("QUIT"), b"*1\r\n!\r\n"], ids=["quit", "protocol-error"])
def test_faults2_1_2_nothing_behind_the_last_request_is_executed(host: Host, end, ending: bytes):
    connection, transport = host.connect()
    connection.data_received(encoded("SET", "a", "1") + ending + encoded("SET", "b", "1"))
    end(host, connection, transport)
    host.turns()

    assert (host.ask("GET", "a"), host.ask("GET", "b")) == (b"1", None)


@pytest.mark.parametrize("end", [half_close, lose], ids=["half-closed", "lost"])
def test_faults2_1_2_a_killed_client_executes_nothing_more(host: Host, end):
    connection, transport = host.connect()
    connection.data_received(xadds("s", count=4 * TURN_REQUESTS_MAX)[0])
    end(host, connection, transport)
    host.ask("CLIENT", "KILL", "ID", str(connection.client.id))
    executed = host.ask("XLEN", "s")
    assert executed < 4 * TURN_REQUESTS_MAX
    host.turns()
    connection.connection_lost(None)

    assert host.ask("XLEN", "s") == executed
    assert not host.connections


# -- a client that does not read --------------------------------------------------------------------------------------


def look(host: Host, seconds: float) -> None:
    """Move the clock, and have the server look for those who are gone."""
    host.clock.advance(round(seconds * 1000))
    for connection in list(host.connections):
        connection.close_if_left(host.clock.now_ms())


def does_not_read(host: Host) -> tuple[Connection, Encrypted]:
    """Return a half-closed client with replies that it does not read and requests behind them."""
    connection, transport = host.connect()
    transport.keeps = True
    value = b"x" * (OUTPUT_PAUSE_BYTES + 1)
    connection.data_received(encoded("SET", "k", value) + encoded("GET", "k") * 2 + encoded("SET", "behind", "1"))
    host.turns()
    assert transport.unread > OUTPUT_PAUSE_BYTES
    assert host.ask("GET", "behind") is None
    connection.pause_writing()
    connection.eof_received()
    host.turns()
    assert not transport.closed
    return connection, transport


def test_faults2_1_2_a_half_closed_client_that_does_not_read_is_cut_after_a_minute(host: Host):
    connection, transport = does_not_read(host)
    look(host, 0)
    look(host, OUTPUT_STALLED_MS_MAX / 1000 - 0.001)
    assert not transport.aborted
    look(host, 0.001)
    assert transport.aborted
    connection.connection_lost(None)
    host.turns()

    assert host.ask("GET", "behind") is None, "its replies were not wanted: neither is what follows them"
    assert not host.connections


def test_faults2_1_2_a_half_closed_client_that_reads_slowly_gets_all(host: Host):
    connection, transport = does_not_read(host)
    while transport.unread:
        transport.unread = max(0, transport.unread - OUTPUT_PAUSE_BYTES // 4)
        look(host, OUTPUT_STALLED_MS_MAX / 1000 - 1)
        if transport.unread < OUTPUT_PAUSE_BYTES // 4:
            connection.resume_writing()
            host.turns()
        assert not transport.aborted
    connection.resume_writing()
    host.turns()

    assert transport.written.endswith(b"+OK\r\n")
    assert host.ask("GET", "behind") == b"1"
    assert transport.closed
    assert not transport.aborted


def test_faults2_1_2_a_client_that_quits_and_does_not_read_is_cut_after_a_minute(host: Host):
    connection, transport = host.connect()
    transport.keeps = True
    connection.data_received(encoded("PING") + encoded("QUIT"))
    host.turns()
    assert transport.closed
    look(host, 0)
    look(host, OUTPUT_STALLED_MS_MAX / 1000)

    assert transport.aborted


def test_faults2_1_2_a_half_closed_client_that_does_not_read_is_cut_at_its_output_limit(host: Host):
    fill(host)
    connection, transport = host.connect()
    connection.data_received(encoded("HELLO", 3) + encoded("SUBSCRIBE", "c"))
    host.turns()
    connection.data_received(encoded("XRANGE", "long", "-", "+") + encoded("SET", "behind", "1"))
    transport.unread = OUTPUT_PAUSE_BYTES + 1
    connection.eof_received()
    host.turns()
    assert not transport.closed
    for _ in range(33):
        assert host.ask("PUBLISH", "c", "x" * (1 << 20)) == 1
        host.turns()

    assert transport.aborted
    connection.connection_lost(None)
    host.turns()
    assert host.ask("GET", "behind") is None
    assert not host.connections
