"""Consumers without acknowledgement that wait while a long run comes are served as behind a MULTI with its requests."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamd.commands.stream.append_runs import _SERVED_AT_END_MIN as SERVED_AT_END
from tests.connected import Host
from tests.crash.state_dump import dump
from tests.examples import examples
from tests.session import Session

WRITERS, READERS, RUN_MIN = 4, 5, 6
NOACK = st.builds(
    lambda group, consumer, options: [
        "XREADGROUP", "GROUP", group, consumer, *options, "NOACK", "BLOCK", "0", "STREAMS", "s", ">",
    ],
    st.sampled_from(["g", "g", "h"]),
    st.sampled_from(["c", "d", "e"]),
    st.sampled_from([[], ["COUNT", "1"], ["COUNT", "2"], ["COUNT", "3"], ["COUNT", "100"], ["MAXCOUNT", "2"]]),
)  # fmt: skip
OTHERS = st.sampled_from([
    ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"],
    ["XREADGROUP", "GROUP", "g", "d", "NOACK", "MAXSIZE", "1", "BLOCK", "0", "STREAMS", "s", ">"],
    ["XREADGROUP", "GROUP", "g", "e", "NOACK", "BLOCK", "0", "STREAMS", "s", "t", ">", ">"],
    ["XREAD", "BLOCK", "0", "STREAMS", "s", "$"], ["XREAD", "COUNT", "1", "BLOCK", "0", "STREAMS", "s", "0"],
])  # fmt: skip
WAITS = st.tuples(st.integers(0, READERS - 1), NOACK)
ALL_WAITS = st.tuples(st.integers(0, READERS - 1), st.one_of(NOACK, OTHERS))
HEADS = st.sampled_from([
    ["*"], ["*"], ["IDMPAUTO", "p", "*"], ["MAXLEN", "5", "*"], ["MAXLEN", "~", "40", "*"], ["MINID", "1", "*"],
])  # fmt: skip
RUNS = st.tuples(HEADS, st.lists(st.integers(0, 9), min_size=1, max_size=WRITERS), st.booleans())
TURNS = st.lists(st.one_of(WAITS, WAITS, RUNS), max_size=16)
MIXED_TURNS = st.lists(st.one_of(ALL_WAITS, ALL_WAITS, RUNS), max_size=16)


def outcome(turns: list[Any], as_one: bool, policy: str | None) -> Any:
    """Return the bytes that each reader was sent in each turn, and the server's state.

    as_one: the requests of a turn come in one pipeline, or one from each client; else one by one, in a MULTI where the
    run is long.
    """
    host = Host(appendfsync=policy or "no", stream_node_max_entries=4)
    if policy is None:
        host.restartable.turn_off()
    for key in ("s", "t"):
        for group in ("g", "h"):
            host.restartable.send("XGROUP", "CREATE", key, group, "0", "MKSTREAM")
    writers, readers = [host.open() for _ in range(WRITERS)], [host.open() for _ in range(READERS)]
    seen: list[Any] = []
    values = 0
    for turn in turns:
        if isinstance(turn[0], int):
            reader = readers[turn[0]]
            if reader.client is not None and reader.client.waiter is None:
                host.receive(reader, encoded([turn[1]]), is_shared=False)
        else:
            head, sizes, is_alone = turn
            parts = []
            for size in sizes:
                parts.append([["XADD", "s", *head, "f", str(values + number)] for number in range(size)])
                values += size
            run = [request for part in parts for request in part]
            if not as_one:
                if len(run) >= RUN_MIN and not (head[0] == "MAXLEN" and int(head[-2]) < len(run)):
                    run = [["MULTI"], *run, ["EXEC"]]
                for request in run:
                    host.receive(writers[0], encoded([request]), is_shared=False)
            elif is_alone:
                host.receive(writers[0], encoded(run), is_shared=False)
            else:
                for writer, part in zip(writers, parts, strict=False):
                    host.receive(writer, encoded(part), is_shared=True)
        host.turns()
        seen.append([host.written(reader) for reader in readers])
    assert host.engine.state.stats.internal_errors == 0
    before = dump(host.engine)
    if policy is not None:
        host.clock.set(host.clock.now_ms())
        assert dump(host.restartable.restart().engine) == before
    return seen, before


def encoded(pipeline: list[list[str]]) -> list[list[bytes]]:
    return [[word.encode() for word in request] for request in pipeline]


@pytest.fixture
def short_runs(monkeypatch):
    """Have short runs count as long, and note each time a consumer was seen: a restart then knows it."""
    monkeypatch.setattr("streamd.engine.gathering.RUN_MIN", 3)
    monkeypatch.setattr("streamd.commands.stream.append_runs._SERVED_AT_END_MIN", RUN_MIN)
    monkeypatch.setattr("streamd.commands.stream.group_effects.SEEN_NOTED_EVERY_MS", 0)


@pytest.mark.interpreted(reason="constants of compiled modules are replaced")
@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TURNS, st.sampled_from([None, None, "everysec"]))
@pytest.mark.usefixtures("short_runs")
def test_consumers_without_acknowledgement_get_of_a_run_what_they_get_behind_a_multi(turns, policy):
    assert outcome(turns, True, policy) == outcome(turns, False, policy)


@pytest.mark.interpreted(reason="constants of compiled modules are replaced")
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MIXED_TURNS)
@pytest.mark.usefixtures("short_runs")
def test_beside_other_waiters_each_entry_is_delivered_once_and_in_order(turns):
    session = Session()
    for key in ("s", "t"):
        for group in ("g", "h"):
            session.do(f"XGROUP CREATE {key} {group} 0 MKSTREAM")
    readers = [session.connect() for _ in range(READERS)]
    asked: dict[int, list[str]] = {}
    delivered: dict[str, list[bytes]] = {"g": [], "h": []}
    served: list[int] = []
    numbers = {reader.client.id: number for number, reader in enumerate(readers)}
    unblock = session.engine.unblock

    def noted(waiter: Any, reply: Any) -> None:
        served.append(numbers[waiter.client.id])
        unblock(waiter, reply)

    session.engine.unblock = noted  # type: ignore[method-assign]
    for turn in turns:
        if isinstance(turn[0], int):
            if not readers[turn[0]].blocked:
                asked[turn[0]] = turn[1]
                readers[turn[0]].send(turn[1])
                served += [] if readers[turn[0]].blocked else [turn[0]]
        else:
            session.send(*[["XADD", "s", *turn[0], "f", "v"]] * sum(turn[1]))
        for number in served:
            (reply,) = readers[number].replies()
            ids = [entry_id for _, entries in reply for entry_id, _ in entries]
            if asked[number][0] == "XREADGROUP":
                delivered[asked[number][2]] += ids
            elif asked[number][-1] == "$":
                assert len(ids) == 1
        served.clear()
    assert session.state.stats.internal_errors == 0
    for group, ids in delivered.items():
        assert ids == sorted(ids, key=lambda one: int(one.split(b"-")[1]))
        assert len(ids) == len(set(ids)), group


def test_a_short_run_gives_each_waiting_consumer_one_entry():
    replies = {}
    for count in (SERVED_AT_END - 1, SERVED_AT_END):
        session = Session()
        session.do("XGROUP CREATE s g $ MKSTREAM")
        readers = [session.connect() for _ in range(3)]
        for number, reader in enumerate(readers):
            reader.say(f"XREADGROUP GROUP g c{number} COUNT 50 BLOCK 0 NOACK STREAMS s >")
        session.send(*[["XADD", "s", "*", "f", "v"]] * count)
        replies[count] = [[len(reply[0][1]) for reply in reader.replies()] for reader in readers]
    assert replies == {SERVED_AT_END - 1: [[1], [1], [1]], SERVED_AT_END: [[50], [14], []]}
