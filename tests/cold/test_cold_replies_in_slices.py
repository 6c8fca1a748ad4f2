"""Long replies of entries that only the disk has: made in slices, as of their decision, whatever happens meanwhile."""

import pytest

from streamd.base.limits import OUTPUT_TURN_BYTES
from tests.cold.cold_server import ColdHost, evict
from tests.session import decode

ENTRIES = 20_000


@pytest.fixture
def host() -> ColdHost:
    host = ColdHost()
    host.cool(b"s", ENTRIES)
    return host


def reply_of(host: ColdHost, connection: object) -> object:
    data = host.written(connection)  # type: ignore[arg-type]
    reply, end = decode(data)
    assert end == len(data)
    return reply


def is_whole(entries: list[list[bytes]]) -> bool:
    return [entry[0] for entry in entries] == [b"%d-0" % number for number in range(1, ENTRIES + 1)]


def nothing_is_left(host: ColdHost) -> None:
    state = host.engine.state
    assert state.stats.internal_errors == 0
    assert state.blocked.reading == 0
    assert host.store.in_place == 0
    assert all(not one.pins for one in host.store.cache._blocks.values())


def test_a_reply_waits_for_its_blocks_part_by_part(host):
    reader, other = host.open(), host.open()
    host.receive(reader, [[b"XRANGE", b"s", b"-", b"+"], [b"PING"]])
    jobs = host.settle(3)
    assert jobs == 3
    assert host.engine.state.blocked.reading == 0  # the reply is decided: what waits is the reply
    host.receive(other, [[b"XLEN", b"s"]])
    host.turns()
    assert reply_of(host, other) == ENTRIES

    while host.settle(1):
        evict(host.engine)  # what no wait has pinned

    data = host.written(reader)
    assert data.endswith(b"+PONG\r\n")
    assert is_whole(decode(data)[0])
    assert 5 < host.reader.count < 20  # some blocks at a time
    nothing_is_left(host)


def test_no_slice_is_made_while_its_blocks_are_read(host):
    reader = host.open()
    host.receive(reader, [[b"XRANGE", b"s", b"-", b"+"]])
    host.settle(2)
    assert reader.client.unfinished.is_waiting
    reads, written = host.disk.operations, len(host.written(reader))
    for _ in range(3):
        host.engine.make_slices(reader.client)
        host.turns()
    assert (host.disk.operations, len(host.written(reader))) == (reads, written)
    host.settle()
    assert is_whole(reply_of(host, reader))


@pytest.mark.parametrize(
    "meanwhile",
    [
        [b"XTRIM", b"s", b"MAXLEN", b"10"],
        [b"DEL", b"s"],
        [b"SET", b"s", b"v"],
        [b"FLUSHALL"],
        [b"XDEL", b"s", b"9000-0", b"15000-0"],
        [b"XADD", b"s", b"30000-0", b"f", b"v"],
    ],
)
def test_a_reply_is_as_of_its_decision(host, meanwhile):
    reader, other = host.open(), host.open()
    host.receive(reader, [[b"XRANGE", b"s", b"-", b"+"]])
    host.settle(2)
    host.receive(other, [meanwhile])
    while host.settle(1):
        evict(host.engine)
    assert is_whole(reply_of(host, reader))
    assert not host.written(other).startswith(b"-")
    nothing_is_left(host)


def test_a_reply_in_reverse_order(host):
    reader = host.open()
    host.receive(reader, [[b"XREVRANGE", b"s", b"+", b"-"]])
    while host.settle(1):
        evict(host.engine)
    assert is_whole(reply_of(host, reader)[::-1])
    nothing_is_left(host)


@pytest.mark.parametrize("request_line", ["XRANGE s - +", "XREVRANGE s + -", "DUMP s"])
def test_a_reply_ends_though_blocks_are_evicted_while_it_waits_for_others(host, request_line):
    # Behind a block's last entry that is there come deleted ones: to go on takes this block and the next one.
    index = next(iter(host.store.files._open.values())).index
    edges = {one for row in range(index.rows) for one in (index.first_id(row) >> 64, index.last_id(row) >> 64)}
    reader = host.open()
    host.receive(reader, [[b"XDEL", b"s", *[b"%d-0" % one for one in sorted(edges)]]])
    host.settle()
    host.receive(reader, [request_line.encode().split(), [b"PING"]])
    evict(host.engine)
    for _ in range(300):
        if not host.settle(1):
            break
        evict(host.engine)
    assert host.written(reader).endswith(b"+PONG\r\n")
    nothing_is_left(host)


def test_other_commands_with_long_replies(host):
    for request, entries_of in (
        ([b"XREAD", b"STREAMS", b"s", b"0"], lambda reply: reply[0][1]),
        ([b"XINFO", b"STREAM", b"s", b"FULL", b"COUNT", b"0"], lambda reply: reply[reply.index(b"entries") + 1]),
    ):
        reader = host.open()
        host.receive(reader, [request])
        while host.settle(1):
            evict(host.engine)
        assert is_whole(entries_of(reply_of(host, reader)))
    nothing_is_left(host)


def test_a_group_gets_all_at_once_and_again(host):
    reader = host.open()
    host.receive(reader, [[b"XGROUP", b"CREATE", b"s", b"g", b"0"]])
    host.turns()
    for word in (b">", b"0"):
        reader, jobs = host.open(), host.reader.count
        evict(host.engine)
        host.receive(reader, [[b"XREADGROUP", b"GROUP", b"g", b"ann", b"STREAMS", b"s", word]])
        while host.settle(1):
            evict(host.engine)
        assert is_whole(reply_of(host, reader)[0][1])
        assert word == b">" or host.reader.count > jobs + 3
    nothing_is_left(host)


def test_a_transaction_gets_a_long_reply_at_once(host):
    reader = host.open()
    host.receive(reader, [[b"MULTI"], [b"XRANGE", b"s", b"-", b"+"], [b"EXEC"]])
    host.settle()
    replies = host.written(reader).partition(b"+QUEUED\r\n")[2]
    assert is_whole(decode(replies)[0][0])
    nothing_is_left(host)


def test_a_client_that_leaves_in_the_middle_keeps_nothing(host):
    reader = host.open()
    host.receive(reader, [[b"XRANGE", b"s", b"-", b"+"]])
    host.settle(2)
    reader.connection_lost(None)
    assert host.engine.state.clients.get(reader.client.id) is None or reader.client.closed or host.settle() is not None
    host.settle()
    assert reader.client.closed
    nothing_is_left(host)


def test_a_client_that_does_not_read_has_no_blocks_pinned(host):
    reader = host.open()
    transport = host.transports[reader]
    transport.keeps = True
    host.receive(reader, [[b"XRANGE", b"s", b"-", b"+"]])
    host.settle()
    assert len(transport.written) < 4 * OUTPUT_TURN_BYTES + 300_000
    nothing_is_left(host)
    evict(host.engine)
    while not transport.written.endswith(b"\r\n") or len(transport.written) < ENTRIES * 130:
        before = len(transport.written)
        transport.unread = 0
        reader.resume_writing()
        host.settle()
        assert len(transport.written) > before
    assert is_whole(reply_of(host, reader))


def test_a_damaged_block_in_the_middle_ends_the_connection(host, caplog):
    disk = host.store.files._files
    (path,) = [path for path in disk.names if path.endswith(".seg")]
    disk.names[path].data[1_000_000] ^= 1
    reader = host.open()
    host.receive(reader, [[b"XRANGE", b"s", b"-", b"+"]])
    host.settle()
    assert host.transports[reader].closed
    assert host.written(reader).startswith(b"*%d\r\n" % ENTRIES)
    assert [record.event for record in caplog.records] == ["reply-cut"]
    assert f"in the middle of a reply: {path} is damaged at offset " in caplog.text
    nothing_is_left(host)


def test_the_end_of_input_does_not_end_a_wait(host):
    reader = host.open()
    host.receive(reader, [[b"XRANGE", b"s", b"10-0", b"12-0"], [b"PING"]])
    host.turns()
    assert reader.eof_received()
    host.turns()
    assert not host.transports[reader].closed
    host.settle()
    assert host.written(reader).endswith(b"+PONG\r\n")
    assert host.transports[reader].closed


def test_the_last_requests_over_tls_wait_for_the_disk(host):
    for request in ([b"XRANGE", b"s", b"10-0", b"12-0"], [b"XRANGE", b"s", b"-", b"+"]):
        reader = host.open()
        transport = host.transports[reader]
        transport.get_extra_info = lambda name: {"sslcontext": object()}.get(name)
        host.receive(reader, [request, [b"PING"]])
        host.turns()
        reader.eof_received()
        assert host.written(reader).endswith(b"\r\n+PONG\r\n")
        host.settle()
    nothing_is_left(host)
