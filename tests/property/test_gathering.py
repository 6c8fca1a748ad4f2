"""Requests of several clients that are gathered until their turn ends do what they do one after the other."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamd.catalog import COMMANDS
from streamd.engine.gathering import RUN_MIN
from streamd.net.connection import Connection
from tests.connected import Host
from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump
from tests.examples import examples

CLIENTS = 5
FIELDS = [["f", "v"], ["f", "w"], ["f", "v", "g", "w"], ["f"]]
LIKE = ["XADD", "s", "*", "f", "v"]
TRIMS = [["MAXLEN", "2"], ["MAXLEN", "~", "5"], ["MINID", "~", "1700000000004"], ["MAXLEN", "~", "1", "LIMIT", "4"]]
APPENDS = st.one_of(
    st.just(LIKE),
    st.just(LIKE),
    st.builds(lambda iid: ["XADD", "s", "IDMP", "p", iid, "*", "f", "v"], st.sampled_from(["1", "2", "3", ""])),
    st.builds(lambda fields: ["XADD", "s", "IDMPAUTO", "p", "*", *fields], st.sampled_from(FIELDS)),
    st.builds(
        lambda name, key, fields: [name, key, "*", *fields],
        st.sampled_from(["XADD", "xadd"]),
        st.sampled_from(["s", "t", "string"]),
        st.sampled_from(FIELDS),
    ),
    st.builds(lambda seq: ["XACK", "s", "g", f"1700000000000-{seq}"], st.integers(0, 5)),
    st.builds(lambda trim: ["XADD", "s", *trim, "*", "f", "v"], st.sampled_from(TRIMS)),
    st.builds(
        lambda trim, iid: ["XADD", "s", "IDMP", "p", iid, *trim, "*", "f", "v"],
        st.sampled_from(TRIMS),
        st.sampled_from(["1", "2", "3"]),
    ),
    st.sampled_from([["XADD", "s", "1-1", "f", "v"], ["XADD"], ["GET"], ["GET", "a", "b"]]),
    st.builds(lambda key: ["GET", key], st.sampled_from(["a", "b", "c", "z", "string"])),
    st.builds(
        lambda key, value, expiry: ["SET", key, value, *expiry],
        st.sampled_from(["a", "b", "c", "z", "string"]),
        st.sampled_from(["v", "$2", ""]),
        st.sampled_from([[], [], ["EX", "100"], ["EX", "7"], ["NX"], ["EX", "0"]]),
    ),
    st.builds(
        lambda key, score, member: ["ZADD", key, score, member],
        st.sampled_from(["z", "z", "y", "string"]),
        st.sampled_from(["1", "2", "1.5", "x"]),
        st.sampled_from(["m", "n", "$"]),
    ),
    st.builds(
        lambda key, member: ["ZSCORE", key, member], st.sampled_from(["z", "y", "a"]), st.sampled_from(["m", "n", "o"])
    ),
    st.builds(
        lambda key, rest: ["ZRANGE", key, *rest],
        st.sampled_from(["z", "z", "y", "a"]),
        st.sampled_from([["0", "-1"], ["0", "1", "REV", "WITHSCORES"], ["0", "x"]]),
    ),
)
OTHERS = st.sampled_from([
    ["MULTI"], ["EXEC"], ["SELECT", "1"], ["SELECT", "0"], ["WATCH", "s"], ["XLEN", "s"], ["DEL", "s"], ["HELLO", "3"],
    ["SET", "string", "x"], ["XREAD", "BLOCK", "0", "STREAMS", "s", "$"],
    ["XREAD", "BLOCK", "0", "STREAMS", "t", "$"], ["CLIENT", "REPLY", "SKIP"], ["NONSENSE"],
    ["CONFIG", "SET", "notify-keyspace-events", "KEA"], ["PSUBSCRIBE", "*"], ["MONITOR"], ["BGREWRITEAOF"],
    ["XGROUP", "CREATE", "s", "g", "0"],
    ["XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">"], ["XDEL", "s", "1700000000000-0"], ["PEXPIRE", "s", "5"],
    ["PEXPIRE", "t", "50000"], ["CONFIG", "SET", "slowlog-log-slower-than", "0"], ["XGROUP", "CREATE", "s", "g", "$"],
    ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"],
    ["BZPOPMIN", "z", "y", "0"], ["BZPOPMIN", "z", "0"], ["SCAN", "0"], ["WATCH", "a"], ["PEXPIRE", "z", "4"],
    ["DEL", "z"],
    ["XREADGROUP", "GROUP", "g", "d", "COUNT", "1", "BLOCK", "0", "STREAMS", "s", ">"], ["XGROUP", "DESTROY", "s", "g"],
])  # fmt: skip
PIPELINES = st.one_of(
    st.lists(st.one_of(APPENDS, APPENDS, APPENDS, OTHERS), min_size=1, max_size=3),
    st.builds(
        lambda request, times, rest: [request] * times + rest, APPENDS, st.integers(1, 6), st.lists(OTHERS, max_size=1)
    ),
)
# What becomes of the connection behind a pipeline: mostly nothing.
ENDS = st.sampled_from([None, None, None, None, "half-closed", "lost"])
PARTS = st.tuples(st.integers(0, CLIENTS - 1), PIPELINES, ENDS)
# Rounds as load makes them, each client once, and any others.
TURNS = st.lists(
    st.one_of(
        st.lists(PARTS, max_size=8),
        st.builds(
            lambda pipeline, end: [(client, pipeline, end) for client in range(CLIENTS)],
            PIPELINES,
            st.sampled_from([None, None, None, "half-closed", "lost"]),
        ),
    ),
    max_size=6,
)


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    """Execute as one what short histories have, and note each time a consumer was seen: a restart then knows it."""
    monkeypatch.setattr("streamd.engine.gathering.RUN_MIN", 3)
    monkeypatch.setattr("streamd.commands.stream.group_effects.SEEN_NOTED_EVERY_MS", 0)


def encoded(pipeline: list[list[str]]) -> list[list[bytes]]:
    return [[word.encode() for word in request] for request in pipeline]


def outcome(
    turns: list[list[tuple[int, list[list[str]], str | None]]], gathered: bool, policy: str | None, rules: str = ""
) -> tuple[object, ...]:
    """rules: of the user that every second client is. Where a connection ends, another takes its place."""
    host = Host(appendfsync=policy or "no", stream_node_max_entries=4)
    server, engine = host.restartable, host.engine
    if policy is None:
        server.turn_off()

    def connect(number: int) -> Connection:
        connection = host.open()
        if rules and number % 2:
            host.receive(connection, encoded([["AUTH", "ann", "any"]]), is_shared=False)
        return connection

    if rules:
        server.send("ACL", "SETUSER", "ann", "on", "nopass", *rules.split())
    connections = [connect(number) for number in range(CLIENTS)]
    server.end_turn()
    stats = engine.commands[b"xadd"]
    stats.calls = stats.failed = stats.rejected = 0  # the harness has one table of commands
    seen = []
    for turn in turns:
        for number, pipeline, end in turn:
            connection = connections[number]
            assert connection.client is not None
            if connection.client.waiter is not None:
                engine.gathering.run()  # else it is a matter of luck whether it waits still
            host.receive(connection, encoded(pipeline), is_shared=gathered)
            if end is not None:
                if end == "lost":
                    connection.connection_lost(ConnectionResetError())
                else:
                    connection.eof_received()
                connections[number] = connect(number)
        host.turns()
        host.let_go()
        seen.append([(transport.written, transport.closed) for transport in host.transports.values()])
        # (What waits behind a blocking request may be decoded or not, depending on whether that was executed by then.)
        clients = [connection.client for connection in connections]
        seen.append([client and (client.last_ms, client.last_command, client.waiter is None) for client in clients])
        server.clock.advance(3)
    counts = (stats.calls, stats.failed, stats.rejected, engine.state.dirty, len(engine.state.slowlog.entries))
    assert engine.state.stats.internal_errors == 0
    before = dump(engine)
    if policy is not None:
        server.clock.set(server.clock.now_ms())
        assert dump(server.restart().engine) == before
    return seen, counts, before


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    TURNS,
    st.sampled_from([None, "always", "everysec"]),
    st.sampled_from(["", "", "+@all ~s ~a ~z", "+@all -set %R~z %W~y ~s", "+xadd +zscore ~[sz] (+set ~a)"]),
)
def test_gathered_or_one_after_the_other_is_the_same(turns, policy, rules):
    assert outcome(turns, True, policy, rules) == outcome(turns, False, policy, rules)


@pytest.fixture
def batches(monkeypatch):
    """How many requests each batch was offered."""
    offered: list[int] = []
    batch = COMMANDS[b"xadd"].batch

    def counted(context, requests):
        offered.append(requests.count)
        return batch.take(context, requests)

    monkeypatch.setattr(Restartable().engine.commands[b"xadd"], "batch", replace(batch, take=counted))
    return offered


def test_requests_of_several_clients_are_executed_as_one(batches):
    host = Host()
    host.restartable.send(*LIKE)
    clients = [host.open() for _ in range(RUN_MIN)]
    for client in clients:
        host.receive(client, encoded([LIKE]))
    assert (batches, [host.written(client) for client in clients]) == ([], [b""] * RUN_MIN)
    host.turns()
    assert batches == [RUN_MIN]
    assert [host.written(client) for client in clients] == [
        b"$15\r\n1700000000000-%d\r\n" % number for number in range(1, 1 + RUN_MIN)
    ]


def test_strings_that_several_clients_ask_for_are_read_as_one(monkeypatch):
    host = Host()
    server = host.restartable
    offered: list[int] = []
    command = server.engine.commands[b"get"]
    batch = command.batch

    def counted(context, requests):
        offered.append(requests.count)
        return batch.take(context, requests)

    monkeypatch.setattr(command, "batch", replace(batch, take=counted))
    server.send("SET", "k", "v")
    clients = [host.open() for _ in range(RUN_MIN)]
    for client, key in zip(clients, "kn" * RUN_MIN, strict=False):
        host.receive(client, encoded([["GET", key]]))
    host.turns()
    assert offered == [RUN_MIN]
    replies = [host.written(client) for client in clients]
    assert replies == [b"$1\r\nv\r\n", b"$-1\r\n"] * (RUN_MIN // 2)


@pytest.mark.parametrize("rest", [[], [["XLEN", "s"]]])
def test_no_request_is_looked_at_again_and_again(batches, rest):
    host = Host()
    server = host.restartable
    for number in range(20):
        server.send("XADD", f"s{number}", "*", "f", "v")
    batches.clear()
    for number in range(40):
        pipeline = [["XADD", f"s{number // 2}", "*", "f", "v"]] * 4 + rest
        host.receive(host.open(), encoded(pipeline))
    host.turns()
    assert sum(batches) <= 2 * 40 * 5


@pytest.mark.parametrize("sets", [1, 4], ids=["one each", "a pipeline each"])
def test_entries_that_cannot_be_appended_together_shift_nobody_s_reply(sets):
    host = Host()
    server = host.restartable
    server.send("SET", "text", "v")
    clients = [host.open() for _ in range(RUN_MIN)]
    for client in clients:
        host.receive(client, encoded([["XADD", "text", "*", "f", "v"], ["XADD", "other", "*", "f", "v"]]))
    for client in clients:
        host.receive(client, encoded([["SET", "k", "v"]] * sets))
    host.turns()
    for client in clients:
        replies = host.written(client)
        assert (replies[:10], replies.count(b"$15"), replies[-5 * sets :]) == (b"-WRONGTYPE", 1, b"+OK\r\n" * sets)


def test_what_else_happens_comes_behind_what_was_gathered():
    host = Host()
    server = host.restartable
    one, two = host.open(), host.open()
    host.receive(one, encoded([LIKE]))
    host.receive(two, [[b"XLEN", b"s"]])
    host.receive(one, encoded([LIKE]))
    one.connection_lost(None)
    assert server.send("XLEN", "s") == b":2\r\n"
    assert host.written(two) == b":1\r\n"


def test_clients_in_different_databases_are_not_executed_as_one():
    host = Host()
    server = host.restartable
    clients = [host.open() for _ in range(5)]
    host.receive(clients[3], [[b"SELECT", b"1"]])
    for index in ("1", "0"):
        server.send("SELECT", index)
        server.send(*LIKE)
    for client in clients:
        host.receive(client, encoded([LIKE]))
    host.turns()
    assert [len(server.engine.state.keyspace[index].stream(b"s")) for index in (0, 1)] == [1 + 4, 1 + 1]


def test_when_the_journal_cannot_be_written_all_who_were_gathered_are_told():
    host = Host(appendfsync="everysec")
    server = host.restartable
    server.send(*LIKE)
    clients = [host.open() for _ in range(5)]
    server.disk.fail_at, server.disk.fails_for = server.disk.operations + 1, 10**9
    for client in clients:
        host.receive(client, encoded([LIKE]))
    host.turns()
    for client in clients:
        assert host.written(client).startswith(b"-MISCONF Errors writing to the AOF file")


def test_what_comes_together_is_executed_before_it_is_too_much(monkeypatch):
    monkeypatch.setattr("streamd.engine.gathering.GATHERED_MAX", 10)
    host = Host()
    server = host.restartable
    clients = [host.open() for _ in range(3)]
    sizes = []
    for client in clients:
        host.receive(client, encoded([LIKE] * 4))
        sizes.append(server.engine.state.dirty)
    assert sizes == [0, 0, 12]


def test_a_client_that_came_twice_and_waits_since_the_first_time_waits_with_the_second():
    host = Host(appendfsync="everysec", at_once=False)
    server = host.restartable
    server.send(*LIKE)
    one, two = host.open(), host.open()
    host.receive(one, encoded([LIKE] * 3 + [["WAITAOF", "1", "0", "0"]]))
    host.receive(one, encoded([LIKE] * 3))
    host.receive(two, encoded([LIKE] * 3))
    host.receive(one, [[b"MULTI"]])
    host.turns()
    assert host.written(one).count(b"$15") == 3
    assert host.written(two).count(b"$15") == 3
    while server.jobs:
        server.jobs[0].wait()
    server.engine.tick()
    replies = host.written(one)
    assert (replies.count(b"$15"), replies.count(b"*2\r\n:1\r\n:0\r\n"), replies[-5:]) == (6, 1, b"+OK\r\n")
