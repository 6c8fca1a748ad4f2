"""A run of XADDs that is executed as one does what the same requests do one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session import Error, Session

KEYS = st.sampled_from(["a", "b"])
PIDS = st.sampled_from(["p", "q", ""])
IIDS = st.sampled_from(["1", "2", "3", ""])
FIELDS = st.sampled_from([["f", "v"], ["f", "w"], ["g", "v"], ["f", "v", "g", "w"], ["f"], []])
PREFIXES = st.one_of(
    st.just(["*"]),
    st.builds(lambda pid, iid: ["IDMP", pid, iid, "*"], PIDS, IIDS),
    st.builds(lambda pid: ["idmpauto", pid, "*"], PIDS),
    st.just(["MAXLEN", "2", "*"]),
    st.just(["1-*"]),
    st.just(["NOMKSTREAM", "*"]),
)
XADDS = st.builds(
    lambda name, key, prefix, fields: [name, key, *prefix, *fields],
    st.sampled_from(["XADD", "xadd"]),
    KEYS,
    PREFIXES,
    FIELDS,
)
# The same request several times, as pipelines have it, and other commands between.
RUNS = st.builds(lambda request, times: [request] * times, XADDS, st.integers(1, 12))
OTHERS = st.sampled_from(
    [[["XLEN", "a"]], [["DEL", "a"]], [["SET", "b", "x"]], [["XSETID", "a", "1000000000000-99990"]]]
)
TURNS = st.lists(st.lists(st.one_of(RUNS, RUNS, XADDS.map(lambda request: [request]), OTHERS), max_size=6), max_size=4)


def outcome(turns: list[list[list[list[str]]]], together: bool, journaled: bool) -> tuple[object, ...]:
    session = Session()
    records = session.record() if journaled else None
    seen = []
    for turn in turns:
        requests = [request for run in turn for request in run]
        for part in [requests] if together else [[request] for request in requests]:
            session.send(*part)
            seen += session.replies()
        session.clock.advance(7)
    for key in ("a", "b"):
        for request in (["TYPE", key], ["XRANGE", key, "-", "+"], ["XINFO", "STREAM", key, "FULL"]):
            seen.append(session.execute(request))
    calls = session.engine.commands[b"xadd"].calls
    assert session.state.stats.internal_errors == 0
    return seen, records, session.state.dirty, calls


@settings(max_examples=150, deadline=None)
@given(TURNS, st.booleans())
def test_together_or_one_by_one_is_the_same(turns: list[list[list[list[str]]]], journaled: bool):
    assert outcome(turns, together=True, journaled=journaled) == outcome(turns, together=False, journaled=journaled)


def test_ids_of_a_batch_follow_each_other_over_every_number_of_digits():
    session = Session()
    session.send(*[["XADD", "s", "*", "f", "v"]] * 1_205)
    ids = session.replies()
    assert ids == [b"1000000000000-%d" % seq for seq in range(1_205)]
    assert [entry[0] for entry in session.execute(["XRANGE", "s", "-", "+"])] == ids


def test_duplicates_within_one_batch_are_found():
    session = Session()
    requests = [["XADD", "s", "IDMP", "p", str(n % 3), "*", "f", "v"] for n in range(10)]
    session.send(["XADD", "s", "*", "f", "v"], *requests)
    ids = session.replies()[1:]
    assert ids == [ids[n % 3] for n in range(10)]
    assert session.execute(["XLEN", "s"]) == 4


def test_a_batch_ends_where_the_ids_do():
    session = Session()
    session.do("XADD s 18446744073709551615-18446744073709551612 f v")
    session.send(*[["XADD", "s", "*", "f", "v"]] * 6)
    seqs = ["18446744073709551613", "18446744073709551614", "18446744073709551615"]
    exhausted = Error("ERR The stream has exhausted the last possible ID, unable to add more items")
    assert session.replies() == [f"18446744073709551615-{seq}".encode() for seq in seqs] + [exhausted] * 3
    session.send(*[["XADD", "s", "*", "f", "v"]] * 6)
    assert session.replies() == [exhausted] * 6
