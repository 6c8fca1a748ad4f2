"""Clients that wait for IDs that have not come get what they get if every change of their key has them tried."""

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from streamd.connected import blocking
from streamd.net.connection import Connection
from tests.connected import Host
from tests.crash.state_dump import dump
from tests.examples import examples
from tests.session import Session

WRITERS, READERS = 4, 4
NOW = 1_700_000_000_000
# The clock is at NOW, and steps. So some of these IDs are behind, some just ahead, and some far ahead.
IDS = st.sampled_from(["$", "$", "0", f"{NOW}-1", f"{NOW}-7", f"{NOW + 3}", f"{NOW + 6}-2", f"{NOW + 40}", "+"])
FAR = f"{NOW + 10**9}"
XREAD_FAR = ["XREAD", "BLOCK", "0", "STREAMS", "s", FAR]
WAITS = st.one_of(
    st.builds(
        lambda options, key, entry_id: ["XREAD", *options, "BLOCK", "0", "STREAMS", key, entry_id],
        st.sampled_from([[], [], ["COUNT", "1"], ["COUNT", "2"]]),
        st.sampled_from(["s", "s", "t"]),
        IDS,
    ),
    st.sampled_from([
        XREAD_FAR,
        ["XREAD", "BLOCK", "0", "STREAMS", "s", f"{2**64 - 1}-{2**64 - 1}"],
        ["XREAD", "BLOCK", "4", "STREAMS", "s", FAR],
        ["XREAD", "BLOCK", "0", "STREAMS", "s", "s", FAR, f"{NOW + 3}"],
        ["XREAD", "BLOCK", "0", "STREAMS", "s", "t", FAR, FAR],
        ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"],
        ["XREADGROUP", "GROUP", "g", "d", "COUNT", "1", "NOACK", "BLOCK", "0", "STREAMS", "s", ">"],
        ["XREADGROUP", "GROUP", "g", "e", "NOACK", "BLOCK", "0", "STREAMS", "s", ">"],
    ]),
)  # fmt: skip
ADD = ["XADD", "s", "*", "f", "v"]
MIXED = [ADD, ["XADD", "t", "*", "f", "v"]] * 3
RUNS = st.one_of(
    st.just(ADD),
    st.sampled_from([
        ["XADD", "s", "MAXLEN", "2", "*", "f", "v"], ["XADD", "s", "MINID", f"{NOW + 2}", "*", "f", "v"],
        ["XADD", "s", "IDMP", "p", "1", "*", "f", "v"], ["XADD", "t", "*", "f", "v"],
        ["XADD", "s", "IDMPAUTO", "p", "*", "f", "v"],
    ]),
)  # fmt: skip
OTHERS = st.sampled_from([
    [["XADD", "s", f"{NOW + 3}-5", "f", "v"]], [["XADD", "s", f"{NOW + 20}-*", "f", "v"]], [["XDEL", "s", f"{NOW}-1"]],
    [["XSETID", "s", f"{NOW + 5}-0"]], [["XTRIM", "s", "MAXLEN", "0"]], [["DEL", "s"]], [["SET", "s", "x"]],
    [["RENAME", "t", "s"]], [["COPY", "t", "s", "REPLACE"]], [["FLUSHALL"]], [["SWAPDB", "0", "1"]],
    [["MULTI"], ADD, ADD, ["EXEC"]], [["MULTI"], ADD, ["DEL", "s"], ["EXEC"]], [["PEXPIRE", "s", "3"]],
    [["EVAL", "for n = 1, 3 do redis.call('XADD', 's', '*', 'f', 'v') end", "1", "s"]],
    [["ACL", "SETUSER", "ann", "-xread"]], [["ACL", "SETUSER", "ann", "+xread"]], [["CLIENT", "UNBLOCK", "6"]],
    [["XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"]], [["XGROUP", "SETID", "s", "g", "0"]],
    [["XGROUP", "DESTROY", "s", "g"]], [["CLIENT", "KILL", "ID", "7"]], [["SET", "t", "x"]],
    MIXED, MIXED,
])  # fmt: skip
PIPELINES = st.one_of(st.builds(lambda request, times: [request] * times, RUNS, st.integers(1, 6)), OTHERS)
TURNS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(0, READERS - 1), WAITS),
        st.tuples(st.just("wait"), st.integers(0, READERS - 1), WAITS),
        st.tuples(st.just("write"), st.lists(PIPELINES, min_size=1, max_size=WRITERS)),
        st.tuples(st.just("write"), st.builds(lambda run: [run] * WRITERS, PIPELINES)),
        st.tuples(st.just("clock"), st.sampled_from([1, 2, 5, 30, -4])),
    ),
    max_size=14,
)


def outcome(turns: list[Any], gathered: bool) -> Any:
    """Return the bytes that each client was sent in each turn, and the server's state. gathered: requests that come in
    one turn may be executed as one.
    """
    host = Host(appendfsync="no", stream_node_max_entries=4)
    engine = host.engine
    connections = [host.open() for _ in range(WRITERS + READERS)]
    host.restartable.send("ACL", "SETUSER", "ann", "on", "nopass", "+@all", "~*", "&*")
    host.receive(connections[-1], [[b"AUTH", b"ann", b"any"]], is_shared=False)
    host.receive(connections[-2], encoded([["HELLO", "3"], ["CLIENT", "TRACKING", "ON"]]), is_shared=False)
    seen: list[Any] = []
    for turn in turns:
        if turn[0] == "clock":
            host.clock.set(host.clock.now_ms() + turn[1])
            engine.tick()
        elif turn[0] == "wait":
            reader = connections[WRITERS + turn[1]]
            if not is_waiting(reader):
                host.receive(reader, encoded([turn[2]]), is_shared=False)
        else:
            for writer, pipeline in zip(connections, turn[1], strict=False):
                for part in [pipeline] if gathered else [[request] for request in pipeline]:
                    host.receive(writer, encoded(part), is_shared=gathered)
        host.turns()
        host.let_go()
        seen.append([host.written(connection) for connection in connections])
        seen.append([is_waiting(connection) for connection in connections])
    assert engine.state.stats.internal_errors == 0
    assert all(set(db.waiting) == waited_for(engine, db) for db in engine.state.keyspace)
    return seen, dump(engine)


def waited_for(engine: Any, db: Any) -> set[bytes]:
    waiters = [client.waiter for client in engine.state.clients.values() if client.waiter is not None]
    return {key for waiter in waiters if waiter.db is db for key in waiter.keys}


def is_waiting(connection: Connection) -> bool:
    return connection.client is None or connection.client.waiter is not None


def encoded(pipeline: list[list[str]]) -> list[list[bytes]]:
    return [[word.encode() for word in request] for request in pipeline]


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(
    [("wait", 2, XREAD_FAR), ("write", [[ADD]]), ("clock", 1), ("write", [[ADD]]), ("clock", 1), ("write", [[ADD]])],
    True,
)
@example(
    [("wait", 0, [*XREAD_FAR[:-2], "s", "t", FAR, FAR]), ("write", [[["SET", "t", "x"]]]), ("write", [[ADD]])], True
)
@example([("write", [[ADD]] * 2), ("wait", 0, [*XREAD_FAR[:-1], f"{NOW}-5"]), ("write", [[ADD] * 6])], True)
@example([("write", [MIXED]), ("wait", 0, [*XREAD_FAR[:-1], f"{NOW}-3"]), ("write", [MIXED])], True)
@given(TURNS, st.booleans())
def test_a_waiter_that_is_left_alone_until_its_id_comes_gets_what_it_gets_if_it_is_always_tried(turns, gathered):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamd.engine.gathering.RUN_MIN", 3)
        with_ids = outcome(turns, gathered)
        patch.setattr(blocking, "_least", lambda ids: 0)
        assert with_ids == outcome(turns, False)


def tried(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that gets each waiter that is tried."""
    seen: list[Any] = []
    attempt = session.engine.calls.attempt
    monkeypatch.setattr(session.engine.calls, "attempt", lambda waiter: seen.append(waiter) or attempt(waiter))
    return seen


@pytest.mark.interpreted(reason="a method of the engine is replaced")
@pytest.mark.parametrize("before", [[], ["XREAD BLOCK 0 STREAMS s $"], ["XREAD BLOCK 0 STREAMS s t $ $"]])
def test_entries_below_the_least_id_that_is_waited_for_are_appended_as_one_and_nobody_is_tried(monkeypatch, before):
    session = Session()
    session.do("XADD s * f v")
    for line in [*before, "XREAD BLOCK 0 STREAMS s 1000000000005-0", "XREAD BLOCK 0 STREAMS s 2000000000000-0"]:
        session.connect().say(line)
    session.do("XADD s * f v")  # those who waited for any entry have gone, and the least ID is known again
    seen, batches = tried(session, monkeypatch), session.batches(b"xadd")
    session.send(*[ADD] * 20)
    session.send(ADD)
    assert (seen, batches) == ([], [20])
    session.clock.advance(5)
    session.send(*[ADD] * 20)
    assert len(seen) == 2, "the entry with the ID 1000000000005-1 has both tried, and serves one of them"
    assert session.state.blocked.count == 1
    assert sum(batches) > 20 + 16


def test_a_waiter_whose_rules_have_changed_is_told_at_the_next_entry():
    session = Session()
    session.do("ACL SETUSER ann on nopass +@all ~*")
    reader = session.connect()
    reader.do("AUTH ann any")
    reader.say("XREAD BLOCK 0 STREAMS s 2000000000000-0")
    session.do("XADD s * f v")
    session.do("ACL SETUSER ann -xread")
    session.send(*[ADD] * 10)
    assert reader.received().startswith(b"-NOPERM ")
