"""A run of XADDs that is executed as one does what the same requests do one by one."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.configuration.server_options import Config
from streamd.durability.replay import Replay
from streamd.stream.stream import Stream
from tests.examples import examples
from tests.session import Error, Session, SessionClient

KEYS = st.sampled_from(["a", "a", "b", "c"])
PIDS = st.sampled_from(["p", "p", "q", ""])
IIDS = st.sampled_from(["1", "2", "3", "4", "5", "6", "7", ""])
FIELDS = st.sampled_from([["f", "v"], ["f", "v"], ["f", "w"], ["g", "v"], ["f", "v", "g", "w"], ["f"], []])
IDMP = st.one_of(
    st.just([]),
    st.builds(lambda pid, iid: ["IDMP", pid, iid], PIDS, IIDS),
    st.builds(lambda pid: ["idmpauto", pid], PIDS),
)
TRIMS = st.sampled_from([
    [], [], ["MAXLEN", "2"], ["MAXLEN", "=", "5"], ["MAXLEN", "~", "3"], ["MAXLEN", "~", "7"], ["maxlen", "0"],
    ["MAXLEN", "~", "0"], ["MAXLEN", "~", "6", "LIMIT", "4"], ["MAXLEN", "~", "1", "LIMIT", "9"],
    ["MAXLEN", "~", "2", "LIMIT", "0"], ["MINID", "1000000000007"], ["MINID", "~", "1000000000000-5"],
    ["MINID", "~", "1000000000007", "LIMIT", "5"], ["MINID", "1000000000000-9"], ["MINID", "2000000000000"],
    ["KEEPREF", "MAXLEN", "~", "3"], ["MAXLEN", "3", "DELREF"], ["ACKED", "MAXLEN", "3"], ["MAXLEN", "x"],
])  # fmt: skip
PREFIXES = st.one_of(
    st.just(["*"]),
    st.builds(lambda idmp, trim: [*idmp, *trim, "*"], IDMP, TRIMS),
    st.builds(lambda idmp, trim: [*trim, *idmp, "*"], IDMP, TRIMS),
    st.just(["1-*"]),
    st.just(["NOMKSTREAM", "*"]),
)
XADDS = st.builds(
    lambda name, key, prefix, fields: [name, key, *prefix, *fields],
    st.sampled_from(["XADD", "XADD", "xadd"]),
    KEYS,
    PREFIXES,
    FIELDS,
)


def with_iids(request: list[str], iids: list[str]) -> list[list[str]]:
    """Return a request once for each iid."""
    at = request.index("IDMP") + 2 if "IDMP" in request else 0
    return [[*request[:at], iid, *request[at + 1 :]] if at else request for iid in iids]


# The same request several times, as pipelines have it, with other iids or to other keys, and other commands between.
RUNS = st.one_of(
    st.builds(lambda request, times: [request] * times, XADDS, st.integers(1, 14)),
    st.builds(with_iids, XADDS, st.lists(IIDS, min_size=1, max_size=12)),
    st.builds(
        lambda request, keys: [[request[0], key, *request[2:]] for key in keys],
        XADDS,
        st.lists(KEYS, min_size=1, max_size=12),
    ),
)
OTHERS = st.sampled_from([
    [["XLEN", "a"]], [["PING"]], [["DEL", "a"]], [["SET", "b", "x"]], [["XSETID", "a", "1000000000000-99990"]],
    [["XSETID", "a", "1000000000009-5"]], [["XSETID", "b", "1000000500000-0"]],
    [["PEXPIRE", "a", "5"]], [["PEXPIRE", "a", "50000"]], [["SET", "other", "x", "EX", "100"]],
    [["XGROUP", "CREATE", "a", "g", "0"], ["XREADGROUP", "GROUP", "g", "c", "COUNT", "2", "STREAMS", "a", ">"]],
    [["XDEL", "a", "1000000000000-1", "1000000000000-2"]],
])  # fmt: skip
# What others do between two turns: who waits, watches, listens.
ASIDE = st.sampled_from([
    ["XREAD", "BLOCK", "0", "STREAMS", "a", "b", "$", "$"],
    ["XREADGROUP", "GROUP", "g", "d", "BLOCK", "0", "STREAMS", "a", ">"],
    ["XREAD", "BLOCK", "0", "STREAMS", "c", "$"], ["WATCH", "a"], ["WATCH", "c"],
    ["CONFIG", "SET", "notify-keyspace-events", "KEA"], ["CONFIG", "SET", "notify-keyspace-events", "Kx"],
])  # fmt: skip
PIPELINES = st.lists(st.one_of(RUNS, RUNS, XADDS.map(lambda request: [request]), OTHERS), max_size=6)
TURNS = st.lists(st.tuples(st.lists(ASIDE, max_size=2), PIPELINES), max_size=4)
CREATED = [["XADD", key, "*", "f", "v"] for key in ("a", "b", "c")]


def nodes(value: object) -> Any:
    """Return how many entries each node of a stream took, and how many of them are left."""
    if not isinstance(value, Stream):
        return value
    log = value.log
    sealed = log._sealed.segments[log._sealed.head :] if log._sealed else []
    tail = [(len(log._ids) + log._gone, len(log._ids))] if log._ids or log._gone else []
    return [(node.used, node.live_count) for node in sealed] + tail


def shown(session: Session) -> list[Any]:
    seen = []
    for key in ("a", "b", "c"):
        for request in (["TYPE", key], ["XRANGE", key, "-", "+"], ["XINFO", "STREAM", key, "FULL"]):
            seen.append(session.execute(request))
        stream = session.state.keyspace[0].values.get(key.encode())
        if isinstance(stream, Stream):
            seen.append([(*row, stream.idmp.recorded_ms(row[0]).get(row[1])) for row in sorted(stream.idmp)])
    return seen


def restarted(records: list[tuple[int, list[bytes]]]) -> list[Any]:
    """Return what a server shows that was started on these records."""
    session = Session(config=Config(stream_node_max_entries=4))
    replay = Replay(session.state)
    replay.borrow()
    for index, words in records:
        assert replay.apply(index, words) is None
    replay.finish()
    return [shown(session), [nodes(session.state.keyspace[0].values.get(key)) for key in (b"a", b"b", b"c")]]


def outcome(turns: list[tuple[list[list[str]], list[list[list[str]]]]], together: bool, journaled: bool) -> Any:
    session = Session(config=Config(stream_node_max_entries=4))
    records = session.record() if journaled else None
    session.send(*CREATED, ["XGROUP", "CREATE", "a", "g", "0"])
    listener = session.connect()
    listener.do("PSUBSCRIBE *")
    others: list[SessionClient] = []
    seen = [session.replies()]
    for asides, turn in turns:
        for aside in asides:
            others.append(session.connect())
            others[-1].send(aside)
        requests = [request for run in turn for request in run]
        for part in [requests] if together else [[request] for request in requests]:
            session.send(*part)
            seen += session.replies()
        seen += [[other.received(), other.blocked, other.client.touched] for other in [*others, listener]]
        session.clock.advance(7)
    values = session.state.keyspace[0].values
    seen += [[key, nodes(value)] for key, value in values.items()]
    seen += shown(session)
    seen.append([session.state.keyspace[0].used_s, session.state.dirty, session.engine.commands[b"xadd"].calls])
    assert session.state.stats.internal_errors == 0
    return seen, None if records is None else restarted(records)


@settings(max_examples=examples(400), deadline=None)
@given(TURNS, st.booleans())
def test_together_or_one_by_one_is_the_same(turns: list[Any], journaled: bool):
    assert outcome(turns, together=True, journaled=journaled) == outcome(turns, together=False, journaled=journaled)


@pytest.mark.parametrize("trim", [
    ["MAXLEN", "0"], ["MAXLEN", "~", "0"], ["MAXLEN", "1"], ["MAXLEN", "6"], ["MAXLEN", "~", "1"], ["MAXLEN", "~", "6"],
    ["MAXLEN", "~", "1", "LIMIT", "4"], ["MAXLEN", "~", "1", "LIMIT", "9"], ["MAXLEN", "~", "7", "LIMIT", "3"],
    ["MINID", "1000000000000-6"], ["MINID", "~", "1000000000000-6"], ["MINID", "~", "1000000000000-12", "LIMIT", "4"],
    ["MINID", "1000000000007-1"], ["MINID", "~", "1000000000007-3"],
])  # fmt: skip
@pytest.mark.parametrize("idmp", [[], ["IDMP", "p", "1"]])
def test_a_run_is_trimmed_as_its_requests_one_by_one(trim: list[str], idmp: list[str]):
    for before in range(0, 26, 3):
        for times in (2, 3, 5, 9):
            plain = [["XADD", "a", "*", "f", "v"]] * before
            iids = ["1", "2", "1", "3", "4", "5", "2", "6", "7"][:times]
            run = with_iids(["XADD", "a", *idmp, *trim, "*", "f", "v"], iids)
            turns = [([], [plain]), ([], [run]), ([], [plain[:2]])]
            assert outcome(turns, together=True, journaled=True) == outcome(turns, together=False, journaled=True)


def test_where_the_heads_of_a_run_to_several_streams_differ_each_has_its_own():
    heads = [
        ["*"], ["MAXLEN", "1", "*"], ["MAXLEN", "2", "*"], ["MAXLEN", "~", "1", "*"], ["MINID", "0", "*"], ["1-*"],
        ["IDMP", "p", "1", "*"], ["IDMP", "", "1", "*"], ["IDMP", "p", "", "*"], ["IDMPAUTO", "p", "*"],
        ["IDMPAUTO", "", "*"], ["MAXLEN", "1", "IDMP", "p", "2", "*"], ["MAXLEN", "2", "IDMP", "p", "2", "*"],
        ["IDMP", "p", "3", "MAXLEN", "1", "*"], ["IDMP", "p", "3", "MAXLEN", "2", "*"], ["*", "more"],
        ["IDMP", "*", "1", "*"], ["IDMP", "p", "*", "*"], ["MAXLEN", "*", "*"], ["IDMPAUTO", "*", "*"],
    ]  # fmt: skip
    for one in heads:
        for other in heads:
            order = (one, one, other, one, other, other)
            run = [["XADD", key, *head, "f", "v"] for head in order for key in ("a", "b", "c")]
            turns = [([], [run])]
            assert outcome(turns, together=True, journaled=True) == outcome(turns, together=False, journaled=True)


@pytest.mark.parametrize("aside", [
    "SET other x EX 100", "WATCH other", "XREAD BLOCK 0 STREAMS other $", "CONFIG SET notify-keyspace-events KEx",
    "WATCH s", "PEXPIRE s 100000",
])  # fmt: skip
def test_what_concerns_other_keys_or_does_not_change_what_happens_ends_no_batch(aside: str, monkeypatch):
    session = Session()
    session.do("XADD s * f v")
    session.connect().say(aside)
    command = session.engine.commands[b"xadd"]
    monkeypatch.setattr(command, "handler", None)
    for head in (["*"], ["MAXLEN", "~", "100", "*"], ["MAXLEN", "=", "5", "*"], ["IDMP", "p", "1", "*"]):
        session.send(*[["XADD", "s", *head, "f", "v"]] * 5)
        assert all(isinstance(reply, bytes) for reply in session.replies())


def test_the_request_that_serves_a_waiter_runs_alone_and_the_others_as_one(monkeypatch):
    session, reader = Session(), None
    session.do("XADD s * f v")
    reader = session.connect()
    reader.say("XREAD BLOCK 0 STREAMS s $")
    command = session.engine.commands[b"xadd"]
    handler, singles = command.handler, []
    monkeypatch.setattr(command, "handler", lambda context, args: singles.append(args) or handler(context, args))
    session.send(*[["XADD", "s", "*", "f", "v"]] * 16)
    assert len(singles) == 1
    assert reader.replies() == [[[b"s", [[b"1000000000000-1", [b"f", b"v"]]]]]]
    assert len(session.replies()) == 16


def test_a_trimming_run_is_one_unit_of_the_journal_and_its_duplicates_are_one_note():
    session = Session()
    units: list[list[Any]] = []
    session.send(*[["XADD", "s", "*", "f", "v"]] * 4)
    session.record()
    session.state.journal.append_unit = units.append  # type: ignore[union-attr]
    requests = [["XADD", "s", "MAXLEN", "3", "IDMP", "p", iid, "*", "f", "v"] for iid in ("1", "2", "1", "1")]
    session.send(*requests)
    (run,), note = units[0], units[1]
    assert [words[0] for _, words in run.records()] == [b"XADD", b"XADD", b"XTRIM"]
    assert (len(units), note) == (2, [(0, [b"XIDMPDUPLICATE", b"s", b"2"])])


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


def test_what_several_clients_send_again_is_answered_with_the_ids_of_each():
    session = Session()
    requests = [["XADD", "s", "IDMP", "p", str(n), "*", "f", "v"] for n in range(96)]
    session.send(["XADD", "s", "*", "f", "v"], *requests)
    ids = session.replies()[1:]
    # Pipelines in another order, one entry alone, one twice; short runs; all of them one by one.
    for order in [*range(48, 96), *range(16), 40, 7, *range(7, 31)], [5, 6, 90, 91, 3], [*range(95, -1, -1)]:
        session.send(*[requests[n] for n in order])
        assert session.replies() == [ids[n] for n in order]


def test_ids_sent_again_at_the_end_of_a_millisecond_keep_their_parts():
    session = Session()
    session.do("XADD s 1999999999999-18446744073709551612 f v")
    requests = [["XADD", "s", "IDMP", "p", str(n), "*", "f", "v"] for n in range(8)]
    for request in requests:
        session.send(request)
    ids = session.replies()
    assert ids[2:4] == [b"1999999999999-18446744073709551615", b"2000000000000-0"]
    order = [4, 5, 6, 7, 0, 1, 2, 3, 4, 5]
    session.send(*[requests[n] for n in order])
    assert session.replies() == [ids[n] for n in order]
