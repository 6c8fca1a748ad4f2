"""Requests for entries that only the disk has: who waits, who does not, and as of when they are answered."""

from collections.abc import Iterator

import pytest

from streamd.cold.files import REPLY
from tests.cold.cold_server import ColdSession, evict
from tests.session import Error

pytestmark = pytest.mark.filterwarnings("error")
RANGE = [b"XRANGE", b"s", b"10-0", b"12-0"]
IDS = [b"10-0", b"11-0", b"12-0"]


@pytest.fixture
def server() -> Iterator[ColdSession]:
    session = ColdSession()
    session.cool(b"s")
    yield session
    assert session.state.stats.internal_errors == 0
    assert session.state.blocked.reading == 0
    assert session.store.in_place == 0
    assert all(not one.pins for one in session.store.cache._blocks.values())
    session.store.settle()
    assert all(not one.holders[REPLY] for one in session.store.files._open.values())


def ids(entries: list[list[bytes]]) -> list[bytes]:
    return [entry[0] for entry in entries]


def test_a_client_waits_for_a_block_while_others_are_served(server):
    server.send(RANGE)
    assert server.blocked
    assert server.replies() == []
    other = server.connect()
    assert other.do("XLEN s") == 1000
    assert other.do("XADD s 2000-0 f v") == b"2000-0"
    assert server.replies() == []

    assert server.read() == 1

    assert not server.blocked
    assert [ids(reply) for reply in server.replies()] == [IDS]


def test_later_requests_of_the_client_are_answered_behind_it_in_order(server):
    server.send([b"PING"], RANGE, [b"XADD", b"s", b"2000-0", b"f", b"v"], [b"XLEN", b"s"], [b"PING", b"end"])
    assert server.replies() == ["PONG"]
    server.send([b"ECHO", b"more"])
    assert server.replies() == []

    server.read()

    found = server.replies()
    assert ids(found[0]) == IDS
    assert found[1:] == [b"2000-0", 1001, b"end", b"more"]


@pytest.mark.parametrize(
    ("meanwhile", "reply"),
    [
        ("XTRIM s MAXLEN 985", []),
        ("XDEL s 11-0", [b"10-0", b"12-0"]),
        ("DEL s", []),
        ("SET s word", Error("WRONGTYPE Operation against a key holding the wrong kind of value")),
        ("PEXPIREAT s 1", []),
        ("RENAME s t", []),
        ("FLUSHALL", []),
    ],
)
def test_what_others_do_meanwhile_counts(server, meanwhile, reply):
    server.send(RANGE)
    other = server.connect()
    other.say(meanwhile)
    server.reader.jobs.reverse()  # XDEL waits as well
    server.read()
    found = server.replies()
    assert [ids(found[0]) if isinstance(found[0], list) else found[0]] == [reply]


def test_a_stream_that_took_the_place_of_the_other_is_read(server):
    server.send(RANGE)
    other = server.connect()
    other.do("DEL s")
    other.do("XADD s 11-0 new one")
    server.read()
    assert server.replies() == [[[b"11-0", [b"new", b"one"]]]]


def test_a_client_that_is_gone_leaves_nothing(server):
    server.send(RANGE, RANGE)
    server.disconnect()
    assert server.state.blocked.reading == 0
    server.read()
    assert server.replies() == []


def test_a_client_that_is_killed_gets_nothing(server):
    server.send(RANGE)
    assert server.connect().do(f"CLIENT KILL ID {server.client.id}") == 1
    server.read()
    assert server.replies() == []
    assert server.client.closed


def test_reset_comes_behind_the_request(server):
    server.send(RANGE, [b"RESET"], [b"PING"])
    server.read()
    found = server.replies()
    assert ids(found[0]) == IDS
    assert found[1:] == ["RESET", "PONG"]


def test_for_others_the_client_is_not_blocked(server):
    server.send(RANGE)
    other = server.connect()
    assert other.do(f"CLIENT UNBLOCK {server.client.id}") == 0
    assert b"blocked_clients:0" in other.do("INFO clients")
    assert b"flags=N" in other.do(f"CLIENT LIST ID {server.client.id}")
    server.clock.advance(10_000_000)
    assert server.blocked
    server.read()
    assert len(server.replies()) == 1


def test_a_replica_that_was_a_primary_answers_it(server):
    server.send(RANGE)
    server.engine.end_waits()
    assert server.blocked
    server.read()
    assert [ids(reply) for reply in server.replies()] == [IDS]
    assert not server.client.close_soon


def test_the_request_counts_once(server):
    listener = server.connect()
    listener.do("MONITOR")
    server.do("CONFIG SET slowlog-log-slower-than 0")
    server.do("CONFIG SET latency-tracking yes")
    server.do("SLOWLOG RESET")
    listener.replies()
    server.send(RANGE)
    server.read()
    server.replies()
    assert b"cmdstat_xrange:calls=1," in server.do("INFO commandstats")
    assert sum(b'"XRANGE"' in line.encode() for line in listener.replies()) == 1
    assert [entry[3][0] for entry in server.do("SLOWLOG GET 10")].count(b"XRANGE") == 1
    assert server.do("LATENCY HISTOGRAM xrange")[1][1] == 1


def test_a_client_without_replies_gets_none(server):
    server.send([b"CLIENT", b"REPLY", b"SKIP"], RANGE, [b"PING"])
    server.read()
    assert server.replies() == ["PONG"]
    server.send([b"CLIENT", b"REPLY", b"OFF"], [*RANGE[:2], b"300-0", b"301-0"], [b"CLIENT", b"REPLY", b"ON"])
    server.read()
    assert server.replies() == ["OK"]


def test_a_client_that_tracks_keys_is_told_of_a_change(server):
    client = server.connect(3)
    client.do("CLIENT TRACKING ON OPTIN")
    client.do("CLIENT CACHING YES")
    client.send(RANGE)
    assert client.replies() == []
    server.read()
    assert len(client.replies()) == 1
    server.do("XADD s 3000-0 f v")
    assert client.replies() == []
    assert [push[0] for push in client.pushes] == [b"invalidate"]


def test_a_transaction_reads_in_place(server):
    server.send([b"MULTI"], RANGE, [b"XADD", b"s", b"2000-0", b"f", b"v"], [b"EXEC"])
    replies = server.replies()
    assert ids(replies[-1][0]) == IDS
    assert replies[-1][1] == b"2000-0"
    assert server.reader.count == 0

    evict(server.engine)
    server.send([b"MULTI"])
    server.send(RANGE)
    server.send([b"EXEC"])
    assert ids(server.replies()[-1][0]) == IDS
    assert server.reader.count == 0


def test_a_script_reads_in_place(server):
    pytest.importorskip("lupa")
    assert server.execute([b"EVAL", b"return #redis.call('XRANGE', KEYS[1], '10-0', '12-0')", b"1", b"s"]) == 3
    evict(server.engine)
    text = b"return redis.pcall('XRANGE', KEYS[1], '10-0', 'x').err"
    assert server.execute([b"EVAL", text, b"1", b"s"]) == b"ERR Invalid stream ID specified as stream command argument"


def test_a_front_end_without_a_connection_reads_in_place(server):
    assert ids(server.engine.call(server.client, RANGE)) == IDS


def test_a_batch_of_like_requests_goes_on_one_by_one(server):
    requests = [[b"XRANGE", b"s", b"%d-0" % number, b"+", b"COUNT", b"2"] for number in range(1, 31)]
    server.send(*requests)
    assert server.blocked
    server.read()
    assert [ids(reply) for reply in server.replies()] == [[b"%d-0" % n, b"%d-0" % (n + 1)] for n in range(1, 31)]


def test_gathered_requests_of_several_clients_wait_apart(server):
    clients = [server.connect() for _ in range(10)]
    for number, one in enumerate(clients):
        first = 900 if number % 2 else 1  # half of them need what is in memory
        request = [b"XRANGE", b"s", b"%d-0" % (first + number), b"+", b"COUNT", b"1"]
        server.engine.gathering.take(one.client, [request, request])
    server.engine.end_turn()
    assert [one.blocked for one in clients] == [number % 2 == 0 for number in range(10)]
    server.read()
    for number, one in enumerate(clients):
        first = 900 if number % 2 else 1
        assert [ids(reply) for reply in one.replies()] == [[b"%d-0" % (first + number)]] * 2


def test_two_requests_that_evict_each_others_blocks_both_end(server):
    server.store.cache.bytes_max = 300_000
    other = server.connect()
    server.send([b"XRANGE", b"s", b"1-0", b"10-0"])
    other.send([b"XRANGE", b"s", b"400-0", b"410-0"])
    jobs = 0
    while server.reader.jobs:
        jobs += server.read(1)
        evict(server.engine)
    assert jobs == 2
    assert ids(server.replies()[0])[0] == b"1-0"
    assert ids(other.replies()[0])[0] == b"400-0"


def test_the_third_time_the_request_reads_itself(server):
    take = server.store.take
    server.store.take = lambda file, row, data, is_pinned=False: take(file, row, data, False) if not is_pinned else None
    server.store.unpin = lambda file, row: None
    server.send(RANGE)
    assert server.read() == 2
    assert [ids(reply) for reply in server.replies()] == [IDS]


test_the_third_time_the_request_reads_itself = pytest.mark.interpreted(reason="replaces methods of the store")(
    test_the_third_time_the_request_reads_itself
)


def test_a_request_for_a_large_part_of_the_cache_waits_until_the_system_has_the_blocks(server):
    server.store.cache.bytes_max = 100_000
    reads: list[str] = []
    read = server.store.files.read
    server.store.files.read = lambda one, place: (reads.append(server.where), read(one, place))[1]
    server.where = "loop"
    server.send([b"XRANGE", b"s", b"-", b"+", b"COUNT", b"500"])
    assert server.replies() == []
    job = server.reader.jobs[0]
    server.where = "thread"
    job._job()
    job._job = lambda: None
    server.where = "loop again"
    server.read()
    assert len(server.replies()[0]) == 500
    assert {*reads} == {"thread", "loop again"}


test_a_request_for_a_large_part_of_the_cache_waits_until_the_system_has_the_blocks = pytest.mark.interpreted(
    reason="replaces a method"
)(test_a_request_for_a_large_part_of_the_cache_waits_until_the_system_has_the_blocks)


def test_more_requests_than_the_queue_takes_wait_in_line(server, monkeypatch):
    monkeypatch.setattr("streamd.engine.absences.BLOCK_JOBS_MAX", 2)
    clients = [server.connect() for _ in range(5)]
    for one in clients:
        one.send(RANGE)
    assert len(server.reader.jobs) == 2
    clients[3].disconnect()
    assert server.read() == 4
    assert [len(one.replies()) for one in clients] == [1, 1, 1, 0, 1]


test_more_requests_than_the_queue_takes_wait_in_line = pytest.mark.interpreted(reason="replaces a number")(
    test_more_requests_than_the_queue_takes_wait_in_line
)


def test_a_damaged_block_is_an_error_for_its_request_alone(server):
    disk = server.store.files._files
    (path,) = [path for path in disk.names if path.endswith(".seg")]
    disk.names[path].data[2_000] ^= 1
    server.send(RANGE)
    server.read()
    (error,) = server.replies()
    assert error.text.startswith(f"ERR {path} is damaged at offset 64: ")
    assert server.do("XLEN s") == 1000
    server.send([b"XRANGE", b"s", b"600-0", b"600-0"])
    server.read()
    assert ids(server.replies()[0]) == [b"600-0"]
    assert server.store.damaged


def test_a_reader_of_consecutive_blocks_has_the_next_ones_read_ahead(server):
    places: list[int] = []
    read_ahead = server.store.files.read_ahead
    server.store.files.read_ahead = lambda file, some: (places.append(len(some)), read_ahead(file, some))
    server.send([b"XRANGE", b"s", b"1-0", b"1-0"])
    server.read()
    assert places == []
    index = next(iter(server.store.files._open.values())).index
    second = index.first_id(1) >> 64
    server.send([b"XRANGE", b"s", b"%d-0" % second, b"%d-0" % second])
    server.read()
    assert places == [index.rows - 2]


test_a_reader_of_consecutive_blocks_has_the_next_ones_read_ahead = pytest.mark.interpreted(
    reason="replaces a method of the files"
)(test_a_reader_of_consecutive_blocks_has_the_next_ones_read_ahead)


def test_a_blocking_read_waits_for_old_entries_first(server):
    server.send([b"XREAD", b"BLOCK", b"1000", b"COUNT", b"1", b"STREAMS", b"s", b"0"])
    assert server.blocked
    server.clock.advance(2_000)
    assert server.replies() == []
    server.read()
    assert ids(server.replies()[0][0][1]) == [b"1-0"]


def test_a_group_delivers_old_entries_once(server):
    server.do("XGROUP CREATE s g 0")
    server.send([b"XREADGROUP", b"GROUP", b"g", b"ann", b"BLOCK", b"0", b"COUNT", b"2", b"STREAMS", b"s", b">"])
    other = server.connect()
    other.send([b"XREADGROUP", b"GROUP", b"g", b"bob", b"COUNT", b"2", b"STREAMS", b"s", b">"])
    assert server.do is not None
    server.read()
    assert ids(server.replies()[0][0][1]) == [b"1-0", b"2-0"]
    assert ids(other.replies()[0][0][1]) == [b"3-0", b"4-0"]
    assert server.do("XPENDING s g")[0] == 4


def test_a_claim_of_a_blocked_client_reads_blocks_when_its_time_comes(server):
    server.do("XGROUP CREATE s g 0")
    first = server.connect()
    first.send([b"XREADGROUP", b"GROUP", b"g", b"ann", b"COUNT", b"1", b"STREAMS", b"s", b">"])
    server.read()
    server.do("XGROUP SETID s g $")
    evict(server.engine)
    server.send([b"XREADGROUP", b"GROUP", b"g", b"bob", b"BLOCK", b"0", b"CLAIM", b"1000", b"STREAMS", b"s", b">"])
    assert server.blocked
    server.clock.advance(1_001)
    assert server.state.blocked.next_due_ms(server.clock) is None  # else the server's timer would fire all the time
    server.read()
    assert server.replies()[0][0][1][0][0] == b"1-0"


def two_that_claim(server):
    """Have two clients wait for pending entries, of which the first needs a block that the second does not need; return
    the IDs and the clients.
    """
    index = server.cool(b"t", 3_000).index
    wanted = [b"%d-0" % (index.first_id(row) >> 64) for row in range(2)]
    server.do("XGROUP CREATE t g $")
    server.send([b"XCLAIM", b"t", b"g", b"ann", b"0", *wanted, b"FORCE", b"JUSTID"])
    server.read()
    evict(server.engine)
    server.send([b"XRANGE", b"t", wanted[0], wanted[0]])
    server.read()
    server.replies()
    clients = [server.connect() for _ in range(2)]
    for one, name, limit in zip(clients, (b"bob", b"cid"), ([], [b"COUNT", b"1"]), strict=True):
        wait = [b"BLOCK", b"0", b"CLAIM", b"1000", *limit, b"STREAMS", b"t", b">"]
        one.send([b"XREADGROUP", b"GROUP", b"g", name, *wait])
    server.clock.advance(1_001)
    return wanted, *clients


def test_who_waits_for_blocks_of_pending_entries_is_not_overtaken(server):
    wanted, first, second = two_that_claim(server)
    assert first.replies() == second.replies() == []
    assert server.state.blocked.next_due_ms(server.clock) is None
    server.read()
    assert ids(first.replies()[0][0][1]) == wanted
    assert second.replies() == []
    server.clock.advance(1_001)
    server.read()
    assert ids(second.replies()[0][0][1]) == wanted[:1]


@pytest.mark.parametrize("leaves", ["disconnect", "KILL ID", "UNBLOCK"])
def test_when_the_first_one_leaves_the_next_one_gets_them(server, leaves):
    wanted, first, second = two_that_claim(server)
    if leaves == "disconnect":
        server.engine.disconnect(first.client)
    else:
        server.do(f"CLIENT {leaves} {first.client.id}")
    server.read()
    assert ids(second.replies()[0][0][1]) == wanted[:1]


@pytest.mark.interpreted(reason="replaces a method of the store")
def test_a_claim_of_more_blocks_than_there_is_room_for_ends(server):
    index = server.cool(b"t", 3_000).index
    wanted = [b"%d-0" % (index.first_id(row) >> 64) for row in range(4)]
    server.do("XGROUP CREATE t g $")
    server.send([b"XCLAIM", b"t", b"g", b"ann", b"0", *wanted, b"FORCE", b"JUSTID"])
    server.read()
    assert server.replies() == [wanted]
    server.send([b"XREADGROUP", b"GROUP", b"g", b"bob", b"BLOCK", b"0", b"CLAIM", b"1000", b"STREAMS", b"t", b">"])
    evict(server.engine)
    other = server.connect()
    other.send([b"XRANGE", b"t", wanted[0], wanted[0]], [b"XRANGE", b"t", wanted[2], wanted[2]])
    server.read()
    take = server.store.take

    def take_alone(file, row, data, is_pinned=False):
        evict(server.engine)  # but for what is pinned
        return take(file, row, data, is_pinned)

    server.store.take = take_alone
    server.clock.advance(1_001)
    assert 2 < server.read(100) < 20
    assert [row[0] for row in server.replies()[0][0][1]] == wanted


def test_a_paused_client_waits_for_the_pause_as_well(server):
    server.send(RANGE)
    other = server.connect()
    other.do("CLIENT PAUSE 100 ALL")
    server.read()
    assert server.replies() == []
    server.clock.advance(101)
    server.turn()
    server.read()
    assert [ids(reply) for reply in server.replies()] == [IDS]


def test_a_handler_that_changes_something_before_it_waits_is_a_bug(server):
    records = server.record()
    command = server.engine.commands[b"xrange"]
    handler = command.handler

    def hasty(context, args):
        context.record(b"SET", b"x", b"1")
        return handler(context, args)

    command.handler = hasty
    server.send(RANGE)
    assert [ids(reply) for reply in server.replies()] == [IDS]
    assert server.state.stats.internal_errors == 1
    assert len(records) == 2
    server.state.stats.internal_errors = 0
