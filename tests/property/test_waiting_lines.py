"""Consumers of a group who wait in a line get what they got if all were tried."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.commands.stream import xreadgroup
from tests.examples import examples
from tests.session import Session

CLIENTS = 7
READS = st.builds(
    lambda group, consumer, options, keys: [
        "XREADGROUP", "GROUP", group, consumer, *options, "BLOCK", "0", "STREAMS", *keys, *[">"] * len(keys),
    ],
    st.sampled_from(["g", "g", "h"]),
    st.sampled_from(["c", "d", "e", "f"]),
    st.sampled_from([
        [], [], ["COUNT", "1"], ["COUNT", "2"], ["NOACK"], ["CLAIM", "5"], ["MAXSIZE", "1"], ["MAXCOUNT", "1"],
    ]),
    st.sampled_from([["s"], ["s"], ["s"], ["t"], ["s", "t"]]),
)  # fmt: skip
WAITS = st.one_of(READS, READS, READS, st.just(["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]))
ADD = ["XADD", "s", "*", "f", "v"]
ACTIONS = st.sampled_from([
    [ADD], [ADD], [ADD] * 2, [ADD] * 5, [["XADD", "t", "*", "f", "v"]],
    [["MULTI"], ADD, ADD, ["XADD", "t", "*", "f", "v"], ["EXEC"]], [["MULTI"], ADD, ADD, ADD, ["EXEC"]],
    [["MULTI"], ["XADD", "t", "*", "f", "v"], ADD, ["EXEC"]],
    [["XGROUP", "DESTROY", "s", "g"]], [["XGROUP", "CREATE", "s", "g", "$"]], [["XGROUP", "SETID", "s", "g", "0"]],
    [["XGROUP", "DELCONSUMER", "s", "g", "c"]], [["DEL", "s"]], [["SET", "s", "x"]], [["XTRIM", "s", "MAXLEN", "1"]],
    [["MULTI"], ADD, ["XDEL", "s", "1000000000000-0"], ["EXEC"]], [["XCLAIM", "s", "g", "c", "0", "1000000000000-1"]],
    [["CLIENT", "UNBLOCK", "3"]], [["CLIENT", "KILL", "ID", "4"]], [["PEXPIRE", "s", "4"]], [["PING"]],
    [["XREADGROUP", "GROUP", "g", "x", "COUNT", "1", "STREAMS", "s", ">"]],
])  # fmt: skip
TURNS = st.lists(st.one_of(st.tuples(st.integers(0, CLIENTS - 1), WAITS), ACTIONS), max_size=25)


def outcome(turns: list[Any]) -> list[Any]:
    session = Session()
    clients = [session.connect() for _ in range(CLIENTS)]
    for key in ("s", "t"):
        for group in ("g", "h"):
            session.do(f"XGROUP CREATE {key} {group} $ MKSTREAM")
    seen: list[Any] = []
    served: list[Any] = []
    unblock = session.engine.unblock

    def noted(waiter: Any, reply: Any) -> None:
        served.append(waiter.number)
        unblock(waiter, reply)

    session.engine.unblock = noted  # type: ignore[method-assign]
    for turn in turns:
        if isinstance(turn, tuple):
            if not clients[turn[0]].blocked and not clients[turn[0]].client.closed:
                clients[turn[0]].send(turn[1])
        else:
            session.send(*turn)
        session.clock.advance(3)
        seen.append([session.replies(), [(client.received(), client.blocked) for client in clients], [*served]])
        for key in ("s", "t"):
            for group in ("g", "h"):
                seen.append(session.execute(["XPENDING", key, group, "-", "+", "100"]))
    assert session.state.stats.internal_errors == 0
    return seen


@settings(max_examples=examples(300), deadline=None)
@given(TURNS)
def test_who_waits_in_line_gets_what_trying_all_gives(turns: list[Any]):
    in_line = outcome(turns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xreadgroup, "_stands_in_line", lambda options: False)
        assert in_line == outcome(turns)


def waits(number: int, *options: str, keys: tuple[str, ...] = ("s",)) -> tuple[int, list[str]]:
    ends = [*keys, *[">"] * len(keys)]
    return number, ["XREADGROUP", "GROUP", "g", f"c{number}", *options, "BLOCK", "0", "STREAMS", *ends]


@pytest.mark.parametrize("turns", [
    # Who claims finds something where the others of its group find nothing,
    [
        [ADD], [["XREADGROUP", "GROUP", "g", "x", "STREAMS", "s", ">"]], waits(0), waits(1, "CLAIM", "5000"),
        [
            ["MULTI"], ADD, ["XREADGROUP", "GROUP", "g", "x", "STREAMS", "s", ">"],
            ["XCLAIM", "s", "g", "x", "0", "1000000000000-0", "IDLE", "9000"], ["EXEC"],
        ],
    ],
    # and so does who reads another stream as well, before those who wait for that alone.
    [
        waits(0), waits(1), waits(2, keys=("t",)), waits(3, keys=("s", "t")),
        [["MULTI"], ADD, ["XADD", "t", "*", "f", "v"], ["EXEC"]],
    ],
])  # fmt: skip
def test_who_may_find_something_behind_one_who_found_nothing_is_tried(turns: list[Any]):
    in_line = outcome(turns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xreadgroup, "_stands_in_line", lambda options: False)
        assert in_line == outcome(turns)


def test_behind_a_consumer_that_is_left_with_nothing_nobody_of_its_group_is_tried(monkeypatch):
    session = Session()
    session.do("XGROUP CREATE s g $ MKSTREAM")
    readers = [session.connect() for _ in range(20)]
    for number, reader in enumerate(readers):
        reader.say(f"XREADGROUP GROUP g c{number} BLOCK 0 STREAMS s >")
    tried: list[Any] = []
    attempt = session.engine.calls.attempt
    monkeypatch.setattr(session.engine.calls, "attempt", lambda waiter: tried.append(waiter) or attempt(waiter))
    session.do("XADD s * f v")
    assert len(tried) == 2
    assert [reader.blocked for reader in readers] == [False] + [True] * 19
    session.send(["MULTI"], *[["XADD", "s", "*", "f", "v"]] * 2, ["EXEC"])
    assert [reader.blocked for reader in readers] == [False] * 2 + [True] * 18


def test_when_a_group_is_destroyed_all_who_wait_in_its_line_are_told():
    session = Session()
    session.do("XGROUP CREATE s g $ MKSTREAM")
    readers = [session.connect() for _ in range(5)]
    for reader in readers:
        reader.say("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")
    session.do("XGROUP DESTROY s g")
    assert [reader.blocked for reader in readers] == [False] * 5
