"""Runs of XRANGEs that are executed as one do what the same requests do one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.base.limits import LARGE_REPLY_BYTES
from tests.examples import examples
from tests.session import Session

ENTRIES = 40
IDS = st.integers(-1, ENTRIES + 1).map(lambda number: f"{10**12 + number}-0")
STARTS = st.one_of(IDS, IDS, IDS, st.sampled_from(["-", "+", "0", "(1000000000007-0", "(", "x", "5-", "1000000000009"]))
KEYS = st.sampled_from(["a", "a", "a", "b", "large", "none", "string", "due"])
ENDS = st.one_of(st.sampled_from(["+", "+", "(1000000000020-0", "-", "y", "1000000000030"]), IDS)
COUNTS = st.sampled_from([
    ["COUNT", "1"], ["COUNT", "3"], ["COUNT", "3"], ["count", "7"], ["COUNT", "100"], ["COUNT", "129"], ["COUNT", "0"],
    ["COUNT", "-1"], ["COUNT", "z"], ["LIMIT", "3"], ["COUNT"], [],
])  # fmt: skip
RUNS = st.builds(
    lambda name, key, starts, end, tail: [[name, key, start, end, *tail] for start in starts],
    st.sampled_from(["XRANGE", "XRANGE", "xrange", "XREVRANGE"]), KEYS, st.lists(STARTS, min_size=1, max_size=8),
    ENDS, COUNTS,
)  # fmt: skip
OTHERS = st.sampled_from([
    ["XDEL", "a", "1000000000003-0", "1000000000017-0"], ["XADD", "a", "*", "f", "v"], ["PEXPIRE", "due", "5"],
    ["XTRIM", "a", "MAXLEN", "30"], ["DEL", "b"], ["RENAME", "b", "none"], ["HELLO", "3"], ["XLEN", "a"],
    ["XDEL", "b", *[f"{10**12 + number}-0" for number in range(ENTRIES)]],
])  # fmt: skip
PARTS = st.lists(st.one_of(RUNS, RUNS, RUNS, OTHERS.map(lambda one: [one])), max_size=5).map(
    lambda runs: [one for run in runs for one in run]
)


def _filled(node_entries: int) -> Session:
    session = Session()
    session.execute(["CONFIG", "SET", "stream-node-max-entries", str(node_entries)])
    session.execute(["SET", "string", "x"])
    for key, value in (("a", "v"), ("b", "w" * 20), ("due", "v"), ("large", "l" * 450)):
        for number in range(ENTRIES):
            session.execute(["XADD", key, f"{10**12 + number}-0", "f", value])
    return session


def outcome(turns: list[list[list[str]]], together: bool, node_entries: int) -> tuple[object, ...]:
    session = _filled(node_entries)
    seen: list[object] = []
    for turn in turns:
        for part in [turn] if together else [[request] for request in turn]:
            if part:
                session.send(*part)
            seen += session.replies()
        session.clock.advance(3)
    db = session.state.keyspace[0]
    calls = [session.engine.commands[name].calls for name in (b"xrange", b"xrevrange")]
    assert session.state.stats.internal_errors == 0
    return seen, sorted(db.used_s.items()), db.hits, db.misses, calls, session.state.dirty, session.client.touched


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(PARTS, max_size=3), st.sampled_from([3, 16, 100]))
def test_together_or_one_by_one_is_the_same(turns: list[list[list[str]]], node_entries: int):
    assert outcome(turns, True, node_entries) == outcome(turns, False, node_entries)


def test_ranges_that_differ_in_their_start_are_one_run():
    session = _filled(16)
    seen = session.batches(b"xrange")
    session.send(*[["XRANGE", "a", f"{10**12 + number}-0", "+", "COUNT", "2"] for number in range(30)])
    assert [reply[0][0] for reply in session.replies()] == [f"{10**12 + number}-0".encode() for number in range(30)]
    assert seen == [30]


def test_a_long_pipeline_of_ranges_lets_others_have_their_turn():
    session = _filled(16)
    seen = session.batches(b"xrange")
    session.send(*[["XRANGE", "a", "-", "+", "COUNT", "2"]] * 1_000)
    assert len(session.replies()) == 1_000
    assert max(seen) == 128


def test_large_replies_are_counted_as_they_are_outside_of_a_run():
    session = _filled(16)
    session.execute(["XADD", "a", "*", "f", "v" * (LARGE_REPLY_BYTES + 1)])
    session.engine.run(session.client, [[b"XRANGE", b"a", b"1000000000039", b"+", b"COUNT", b"3"]] * 5)
    assert session.client.out_bytes > 5 * LARGE_REPLY_BYTES
    assert [len(reply) for reply in session.replies()] == [2] * 5


def test_a_run_ends_where_the_end_the_count_or_the_key_is_another_one():
    session = _filled(16)
    seen = session.batches(b"xrange")
    first = f"{10**12}-0"
    requests = [
        *[["XRANGE", "a", first, "+", "COUNT", "9"]] * 4,
        *[["XRANGE", "a", first, f"{10**12 + 2}-0", "COUNT", "9"]] * 4,
        *[["XRANGE", "a", first, "+", "COUNT", "5"]] * 4,
        *[["XRANGE", "b", first, "+", "COUNT", "5"]] * 4,
    ]
    session.send(*requests)
    replies = session.replies()
    assert [len(reply) for reply in replies] == [9] * 4 + [3] * 4 + [5] * 8
    assert [reply[0][1][1] for reply in replies[8:]] == [b"v"] * 4 + [b"w" * 20] * 4
    assert seen == [4, 4, 4, 4]


def test_a_run_does_not_read_what_has_expired():
    session = _filled(16)
    session.execute(["PEXPIRE", "due", "5"])
    session.clock.advance(6)
    session.send(*[["XRANGE", "due", "-", "+", "COUNT", "2"]] * 4)
    assert session.replies() == [[]] * 4
