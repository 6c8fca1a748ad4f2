"""Runs of XACK and XDEL of one ID each that are executed as one do what the same requests do one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.session import Session

IDS = st.integers(0, 25).map(lambda number: f"1000000000000-{number}")
WORDS = st.one_of(IDS, IDS, IDS, IDS, st.sampled_from(["1000000000000", "0-1", "x", "1000000000000-7-", ""]))
KEYS = st.sampled_from(["a", "a", "a", "b", "none", "string"])
ACKS = st.builds(
    lambda name, key, group, word: [name, key, group, word],
    st.sampled_from(["XACK", "XACK", "xack"]),
    KEYS,
    st.sampled_from(["g", "g", "h", "none"]),
    WORDS,
)
DELETIONS = st.builds(lambda name, key, word: [name, key, word], st.sampled_from(["XDEL", "XDEL", "xdel"]), KEYS, WORDS)
OTHERS = st.sampled_from([
    ["XACK", "a", "g", "1000000000000-1", "1000000000000-2"], ["XDEL", "a", "1000000000000-3", "1000000000000-4"],
    ["XACK", "a", "g"], ["XCLAIM", "a", "g", "bob", "0", "1000000000000-5", "JUSTID"],
    ["XNACK", "a", "g", "FAIL", "IDS", "2", "1000000000000-6", "1000000000000-8"], ["XLEN", "a"],
    ["XREADGROUP", "GROUP", "g", "ann", "COUNT", "3", "STREAMS", "a", ">"], ["PEXPIRE", "a", "10"], ["DEL", "a"],
    ["WATCH", "a"], ["CONFIG", "SET", "notify-keyspace-events", "KEA"], ["XADD", "a", "*", "f", "v"],
])  # fmt: skip
RUNS = st.one_of(
    st.builds(
        lambda key, words: [["XACK", key, "g", word] for word in words], KEYS, st.lists(WORDS, min_size=1, max_size=20)
    ),
    st.builds(lambda key, words: [["XDEL", key, word] for word in words], KEYS, st.lists(IDS, min_size=1, max_size=20)),
    st.lists(st.one_of(ACKS, DELETIONS, OTHERS), min_size=1, max_size=4),
)
TURNS = st.lists(st.lists(RUNS, max_size=4).map(lambda runs: [one for run in runs for one in run]), max_size=4)


def outcome(turns: list[list[list[str]]], together: bool, journaled: bool) -> tuple[object, ...]:
    session = Session()
    session.execute(["CONFIG", "SET", "stream-node-max-entries", "6"])
    session.execute(["SET", "string", "x"])
    for key in ("a", "b"):
        session.send(*[["XADD", key, "*", "f", "v"]] * 24)
        session.replies()
        for group in ("g", "h"):
            session.execute(["XGROUP", "CREATE", key, group, "0"])
            session.execute(["XREADGROUP", "GROUP", group, "ann", "COUNT", "9", "STREAMS", key, ">"])
            session.execute(["XREADGROUP", "GROUP", group, "bob", "COUNT", "9", "STREAMS", key, ">"])
    records = session.record() if journaled else None
    seen = []
    for turn in turns:
        for part in [turn] if together else [[request] for request in turn]:
            if part:
                session.send(*part)
            seen += session.replies()
        session.clock.advance(7)
    for key in ("a", "b"):
        for request in (["XRANGE", key, "-", "+"], ["XINFO", "STREAM", key, "FULL", "COUNT", "0"]):
            seen.append(session.execute(request))
    calls = [session.engine.commands[name].calls for name in (b"xack", b"xdel")]
    assert session.state.stats.internal_errors == 0
    return seen, records, session.state.dirty, calls, session.client.touched


@settings(max_examples=examples(200), deadline=None)
@given(TURNS, st.booleans())
def test_together_or_one_by_one_is_the_same(turns: list[list[list[str]]], journaled: bool):
    assert outcome(turns, together=True, journaled=journaled) == outcome(turns, together=False, journaled=journaled)


def test_each_deletion_of_a_run_is_published():
    session = Session()
    session.execute(["CONFIG", "SET", "notify-keyspace-events", "Kt"])
    session.send(*[["XADD", "a", "*", "f", "v"]] * 8)
    session.replies()
    events: list[str] = []
    session.state.notify = lambda kind, event, key, index, subkeys: events.append(event)
    session.send(*[["XDEL", "a", f"1000000000000-{number}"] for number in (0, 1, 1, 2, 9, 3, 4)])
    assert session.replies() == [1, 1, 0, 1, 0, 1, 1]
    assert events == ["xdel"] * 5
