"""Long replies on a connection: slices, what waits behind them, and who does not read."""

import pytest

from streamd.base.limits import INPUT_TURN_BYTES, OUTPUT_PAUSE_BYTES
from streamd.commands.long_replies import ITEMS_AT_ONCE, used_up
from tests.crash.restartable import Restartable
from tests.unit.net.test_connection import FakeServer

ENTRIES = 6_000


def encoded(*words: object) -> bytes:
    data = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(data) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in data)


@pytest.fixture
def server():
    server = FakeServer()
    ticks = iter(range(0, 10**12, 400_000))
    server.engine.calls.stopwatch = lambda: next(ticks)
    connection, _ = server.connect()
    for start in range(0, ENTRIES, 1_000):
        connection.data_received(b"".join(encoded("XADD", "s", f"{start + n + 1}-1", "f", "v") for n in range(1_000)))
        while server.soon:
            server.soon.pop().resume()
            server.end_turn()
    return server


def turns(server, most=10_000):
    for _ in range(most):
        if not server.soon:
            return
        server.soon.pop(0).resume()
        server.end_turn()


def whole(server):
    connection, transport = server.connect()
    connection.data_received(encoded("XRANGE", "s", "-", "+"))
    turns(server)
    return transport.written


def test_a_request_behind_a_long_reply_is_answered_behind_it(server):
    connection, transport = server.connect()

    connection.data_received(encoded("XRANGE", "s", "-", "+") + encoded("PING"))
    assert transport.written == b""
    assert not transport.reading
    turns(server)

    assert transport.written == whole(server) + b"+PONG\r\n"
    assert len(transport.pieces) > 10
    assert transport.reading


def test_no_slice_is_made_for_a_client_that_does_not_read(server):
    connection, transport = server.connect()
    connection.data_received(encoded("XRANGE", "s", "-", "+"))
    turns(server, 3)
    transport.unread = OUTPUT_PAUSE_BYTES + 1
    turns(server)
    before = len(transport.pieces)

    server.engine.cron()
    assert len(transport.pieces) == before

    transport.unread = 0
    connection.resume_writing()
    turns(server)
    assert transport.written == whole(server)


def test_what_a_slow_reader_pins_counts_for_its_limit(server, monkeypatch):
    connection, transport = server.connect()
    connection.data_received(encoded("XRANGE", "s", "-", "+"))
    pinned = connection.client.unfinished.pinned_bytes
    assert pinned > ENTRIES
    monkeypatch.setattr("streamd.net.connection.OUTPUT_BYTES_MAX", pinned // 2)

    turns(server, 2)

    assert transport.aborted


def test_a_killed_client_gets_no_more_slices_and_pins_nothing(server):
    connection, transport = server.connect()
    other, _ = server.connect()
    connection.data_received(encoded("XRANGE", "s", "-", "+"))
    turns(server, 3)
    before = len(transport.written)

    other.data_received(encoded("CLIENT", "KILL", "ID", connection.client.id))
    turns(server)

    assert transport.closed
    assert len(transport.written) == before
    assert connection.client.unfinished is None


def test_a_client_that_has_ended_its_side_gets_all_of_a_long_reply(server):
    connection, transport = server.connect()
    connection.data_received(encoded("XRANGE", "s", "-", "+"))
    connection.eof_received()
    assert not transport.closed

    turns(server)

    assert transport.written == whole(server)
    assert transport.closed


def test_a_bug_in_the_middle_of_a_long_reply_ends_the_connection(server, monkeypatch, caplog):
    connection, transport = server.connect()
    connection.data_received(encoded("XRANGE", "s", "-", "+"))

    def fail():
        yield b"*1\r\n"
        raise ZeroDivisionError

    connection.client.unfinished.pieces = fail()
    turns(server)

    assert transport.closed
    assert server.engine.state.stats.internal_errors == 1
    assert "the reply of xrange" in caplog.text


@pytest.mark.parametrize("size", [0, 1, ITEMS_AT_ONCE - 1, ITEMS_AT_ONCE, 3 * ITEMS_AT_ONCE + 7])
def test_a_list_is_let_go_of_while_a_reply_is_made_of_it(size):
    items = list(range(size))
    shown: list[int] = []
    for some in used_up(items):
        shown += some
        assert 0 < len(some) <= ITEMS_AT_ONCE
        assert len(items) == size - len(shown)
    assert shown == list(range(size))
    assert items == []


FILLED = [
    ("HSET", lambda n: [f"f{n:05}", f"v{n}"], "HGETALL k"),
    ("HSET", lambda n: [f"f{n:05}", f"v{n}"], "HKEYS k"),
    ("HSET", lambda n: [f"f{n:05}", f"v{n}"], "HVALS k"),
    ("RPUSH", lambda n: [f"e{n}"], "LRANGE k 0 -1"),
]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize(("fill", "words", "read"), FILLED, ids=[row[2] for row in FILLED])
def test_a_long_reply_of_words_is_what_a_short_one_would_be_and_is_made_once_each_time(fill, words, read, protocol):
    server = FakeServer()
    ticks = iter(range(0, 10**12, 400_000))
    server.engine.calls.stopwatch = lambda: next(ticks)
    connection, transport = server.connect()
    connection.client.protocol = protocol
    every = [word for number in range(ENTRIES) for word in words(number)]
    for at in range(0, len(every), 1_000):
        connection.data_received(encoded(fill, "k", *every[at : at + 1_000]))
        turns(server)
    shown = {"HKEYS k": every[::2], "HVALS k": every[1::2]}.get(read, every)
    is_map = read == "HGETALL k" and protocol == 3
    head = b"%%%d\r\n" % (len(shown) // 2) if is_map else b"*%d\r\n" % len(shown)
    transport.written = b""

    for _ in range(2):
        connection.data_received(encoded(*read.split()))
        turns(server)

    assert transport.written == 2 * (head + b"".join(b"$%d\r\n%b\r\n" % (len(one), one.encode()) for one in shown))


def test_a_front_end_that_wants_values_gets_a_long_reply_whole(server):
    client = server.engine.connect()

    reply = server.engine.call(client, [b"XRANGE", b"s", b"-", b"+"])

    assert len(reply) == ENTRIES
    assert reply[0] == [b"1-1", [b"f", b"v"]]


def with_journal(**options):
    """Return a server with a journal, 30 entries of which a reader with a connection has read 25, and that reader."""
    server = Restartable(**options)
    reader = server.connect()
    reader.resume = lambda: server.engine.make_slices(reader)
    ticks = iter(range(0, 10**12, 10**6))
    server.engine.calls.stopwatch = lambda: next(ticks)
    for number in range(1, 31):
        server.run([b"XADD", b"s", b"%d-1" % number, b"f", b"v"])
    server.run([b"XGROUP", b"CREATE", b"s", b"g", b"0"])
    server.run([b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"25", b"STREAMS", b"s", b">"])
    server.end_turn()
    while server.jobs:
        server.jobs[0].wait()
    return server, reader


@pytest.fixture
def short(monkeypatch):
    for module in ("stream.entry_replies", "commands.stream.group_reads"):
        monkeypatch.setattr(f"streamd.{module}.SLICED_ITEMS_MIN", 3)


HISTORY = [b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"s", b"0"]


def test_under_always_no_piece_leaves_before_the_turn_of_the_decision_is_durable(short):
    server, reader = with_journal(at_once=False, stream_node_max_entries=4)
    server.run(HISTORY, client=reader)
    server.end_turn()
    assert reader.unfinished is not None
    for _ in range(50):
        reader.resume()  # sooner than a connection would
        server.end_turn()

    assert server.replies[reader] == []

    while server.jobs:
        server.jobs[0].wait()
    data = b"".join(server.replies[reader])
    assert data.startswith(b"*1\r\n*2\r\n$1\r\ns\r\n*25\r\n")
    assert data.count(b"$1\r\nv\r\n") == 25


def test_a_long_reply_of_a_writer_is_taken_back_when_the_journal_cannot_be_written(short):
    server, reader = with_journal(appendfsync="everysec", stream_node_max_entries=4)
    server.disk.fail_at, server.disk.fails_for = server.disk.operations + 1, 10**9
    server.run([b"XLEN", b"s"], HISTORY, [b"PING"], client=reader)
    server.end_turn()
    while reader.backlog:
        reader.resume()
        server.end_turn()

    error = b"-MISCONF Errors writing to the AOF file: Input/output error\r\n"
    assert b"".join(server.replies[reader]) == error * 2 + b"+PONG\r\n"


def test_one_connection_has_a_limit_of_input_in_a_turn(server):
    connection, transport = server.connect()

    connection.data_received(encoded("EXISTS", "x" * INPUT_TURN_BYTES))
    assert not transport.reading
    turns(server)

    assert transport.reading
    assert transport.written == b":0\r\n"


NEW = [b"XREADGROUP", b"GROUP", b"g", b"c", b"BLOCK", b"0", b"STREAMS", b"s", b">"]
MANY = [[b"MULTI"], *([b"XADD", b"s", b"%d-1" % number, b"f", b"v"] for number in range(50, 60)), [b"EXEC"]]


def waiting(**options):
    """Return a server and a reader that waits for entries, with a request behind."""
    server, reader = with_journal(stream_node_max_entries=4, **options)
    server.run([b"XGROUP", b"SETID", b"s", b"g", b"$"])
    server.end_turn()
    server.run(NEW, [b"PING"], client=reader)
    server.end_turn()
    return server, reader


def test_what_waits_behind_a_blocked_request_comes_behind_its_long_reply(short):
    server, reader = waiting(appendfsync="everysec")

    server.run(*MANY)
    server.end_turn()
    assert server.replies[reader] == []  # the turn of the decision has none of it
    while reader.backlog:
        reader.resume()
        server.end_turn()

    data = b"".join(server.replies[reader])
    assert data.startswith(b"*1\r\n*2\r\n$1\r\ns\r\n*10\r\n")
    assert data.endswith(b"$1\r\nv\r\n+PONG\r\n")


def test_the_long_reply_of_a_blocked_writer_is_taken_back_when_the_journal_cannot_be_written(short):
    server, reader = waiting(appendfsync="everysec")
    server.disk.fail_at, server.disk.fails_for = server.disk.operations + 1, 10**9

    server.run(*MANY)
    server.end_turn()
    while reader.backlog:
        reader.resume()
        server.end_turn()

    error = b"-MISCONF Errors writing to the AOF file: Input/output error\r\n"
    assert b"".join(server.replies[reader]) == error + b"+PONG\r\n"
