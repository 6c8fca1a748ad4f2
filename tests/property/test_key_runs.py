"""Runs of SETs, GETs, ZADDs, ZSCOREs and ZRANGEs that are executed as one do what the same requests do one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.session import Session

STRINGS = st.sampled_from(["a", "b", "c", "d", "set", "list", "none"])
SETS = st.sampled_from(["set", "set", "set", "other", "none", "a", "list"])
MEMBERS = st.integers(0, 12).map(lambda number: f"m{number}")
TAILS = st.sampled_from(
    [[], [], ["EX", "100"], ["EX", "100"], ["ex", "3"], ["Ex", "3"], ["EX", "0"], ["EX", "x"], ["XX"]]
)
RANGES = st.sampled_from(
    [["0", "-1"], ["0", "9", "REV", "WITHSCORES"], ["1", "2", "withscores"], ["x", "1"], ["5", "1"]]
)
SCORES = st.sampled_from(["0", "1", "2", "17", "0017", "1.5", "-1", "inf", "9007199254740993", "nan", ""])


def _run(one: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[list[str]]]:
    return st.lists(one, min_size=1, max_size=12)


SET_RUNS = TAILS.flatmap(
    lambda tail: _run(st.builds(lambda key, text: ["SET", key, text, *tail], STRINGS, st.sampled_from(["v", "$1", ""])))
)
ZADDS = st.builds(
    lambda name, key, score, member: [name, key, score, member],
    st.sampled_from(["ZADD", "ZADD", "ZADD", "zadd"]), SETS, SCORES, MEMBERS,
)  # fmt: skip
GETS = st.builds(
    lambda name, key: [name, key], st.sampled_from(["GET", "GET", "GET", "get"]), STRINGS | st.just("long")
)  # fmt: skip
ZSCORES = st.builds(lambda key, member: ["ZSCORE", key, member], SETS, MEMBERS)
ZRANGES = RANGES.flatmap(lambda words: _run(st.builds(lambda key: ["ZRANGE", key, *words], SETS)))
OTHERS = st.sampled_from([
    ["PEXPIRE", "set", "5"], ["PEXPIRE", "a", "5"], ["PERSIST", "a"], ["DEL", "set"], ["DEL", "b"], ["SCAN", "0"],
    ["WATCH", "a"], ["WATCH", "set"], ["CONFIG", "SET", "notify-keyspace-events", "KEA"], ["HELLO", "3"],
    ["HELLO", "2"],
    ["CONFIG", "SET", "notify-keyspace-events", "Kxt"], ["CONFIG", "SET", "notify-keyspace-events", "Kn"], ["GET", "a"],
    ["ZREM", "set", "m1", "m2"], ["ZPOPMIN", "set", "3"], ["ZINCRBY", "set", "3", "m1"],
    ["ZADD", "set", "NX", "3", "m4"], ["ZADD", "set", "3"], ["ZADD", "set", "1", "m1", "2", "m2"], ["RENAME", "a", "b"],
    ["CONFIG", "SET", "notify-keyspace-events", "KEm"], ["SETBIT", "b", "9", "1"], ["APPEND", "c", "more"],
    ["CONFIG", "SET", "notify-keyspace-events", "Ko"], ["CONFIG", "SET", "notify-keyspace-events", "Ec"],
    ["CONFIG", "SET", "notify-keyspace-events", "ASV"], ["CLIENT", "REPLY", "ON"], ["PEXPIRE", "c", "3"], ["GET"],
    ["ZRANGE", "set", "0", "100", "BYSCORE"], ["ZREMRANGEBYRANK", "set", "0", "1"], ["SET", "set"], ["ZSCORE", "set"],
])  # fmt: skip
RUNS = st.one_of(
    SET_RUNS, _run(GETS), _run(GETS), _run(ZADDS), _run(ZSCORES), ZRANGES, _run(st.one_of(ZADDS, ZSCORES)),
    st.lists(OTHERS, max_size=2),
)  # fmt: skip
TURNS = st.lists(st.lists(RUNS, max_size=5).map(lambda runs: [one for run in runs for one in run]), max_size=4)


def outcome(turns: list[list[list[str]]], together: bool, journaled: bool) -> tuple[object, ...]:
    session = Session()
    session.execute(["RPUSH", "list", "x"])
    session.execute(["SET", "long", "v" * 3_000])
    for number in range(9):
        session.execute(["ZADD", "set", str(number), f"m{number}"])
        session.execute(["ZADD", "other", "7", f"m{number}"])
    waiting = session.connect()
    waiting.say("BLPOP none 0")
    waiting.say("BZPOPMIN none 0")
    records = session.record() if journaled else None
    events: list[object] = []

    def notify(kind: str, event: str, key: bytes, index: int, subkeys: object = ()) -> None:
        if kind in session.state.notify_flags:  # who publishes looks at that, too
            events.append((kind, event, key, index))

    session.state.notify = notify
    seen = []
    for turn in turns:
        for part in [turn] if together else [[request] for request in turn]:
            if part:
                session.send(*part)
            seen += session.replies()
        session.clock.advance(3)
    db = session.state.keyspace[0]
    facts = (sorted(db.expires_ms.items()), db.expires_sum_ms, sorted(db.used_s.items()), db.hits, db.misses)
    members = session.execute(["ZRANGE", "set", "0", "-1", "WITHSCORES"])
    scanned = sorted(session.execute(["SCAN", "0", "COUNT", "1000"])[1])
    calls = [session.engine.commands[name].calls for name in (b"set", b"get", b"zadd", b"zscore", b"zrange")]
    failed = session.engine.commands[b"get"].failed
    assert session.state.stats.internal_errors == 0
    notes, noted, told = records or [], len(records or ()), len(events)
    session.clock.advance(200_000)
    session.engine.cron()  # in which order keys go that end at one time is nobody's business
    return (
        seen,
        (notes[:noted], sorted(notes[noted:])),
        (events[:told], sorted(events[told:])),
        facts,
        members,
        scanned,
        calls,
        failed,
        session.state.dirty,
        session.client.touched,
        sorted(db.values),
    )


@settings(max_examples=examples(300), deadline=None)
@given(TURNS, st.booleans())
def test_together_or_one_by_one_is_the_same(turns: list[list[list[str]]], journaled: bool):
    assert outcome(turns, together=True, journaled=journaled) == outcome(turns, together=False, journaled=journaled)


def test_a_run_of_gets_takes_as_many_as_there_are_whatever_they_find():
    session = Session()
    seen = session.batches(b"get")
    for number in range(0, 300, 2):
        session.execute(["SET", f"k{number}", f"v{number}", *(["EX", "5"] if number % 3 else [])])
    session.execute(["SET", "huge", "v" * 20_000])
    session.execute(["RPUSH", "list", "x"])
    session.send(*[["GET", f"k{number}"] for number in range(300)])
    assert session.replies() == [None if number % 2 else b"v%d" % number for number in range(300)]
    assert sum(seen) == 300
    assert len(seen) == 2
    session.send(*[["GET", "k0"]] * 4, ["GET", "huge"], ["GET", "list"], *[["GET", "k0"]] * 4, ["PING"], ["GET", "k0"])
    replies = session.replies()
    assert [*replies[:4], replies[4][:3], *replies[6:]] == [b"v0"] * 4 + [b"vvv"] + [b"v0"] * 4 + ["PONG", b"v0"]
    assert replies[5].text.startswith("WRONGTYPE")
    db = session.state.keyspace[0]
    assert (db.hits, db.misses) == (150 + 4 + 1 + 1 + 4 + 1, 150)


def test_a_run_of_sets_is_one_whatever_its_keys_are(monkeypatch):
    session = Session()
    seen = session.batches(b"set")
    session.execute(["SET", "other", "v", "EX", "5"])
    session.execute(["CONFIG", "SET", "notify-keyspace-events", "Kt"])
    session.execute(["SCAN", "0"])
    session.send(*[["SET", f"k{number}", "v", "EX", "100"] for number in range(40)])
    assert session.replies() == ["OK"] * 40
    assert seen == [40]
