"""Consumer groups with a filter: what they deliver, what they skip, what a restart leaves of them."""

from random import Random

import pytest

from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump
from tests.session import Error, Session
from tests.unit.commands.test_xfilter import TickingClock, entry, fill


@pytest.fixture
def group(engine):
    engine.do("XGROUP CREATE s g 0 MKSTREAM FILTER FIELD t MQTT a/+")
    return engine


def state_of(engine, name=b"g"):
    for row in engine.do("XINFO GROUPS s"):
        fields = dict(zip(row[::2], row[1::2], strict=True))
        if fields[b"name"] == name:
            return fields
    raise KeyError(name)


def test_a_group_delivers_what_its_filter_lets_through_and_skips_the_rest(group):
    fill(group, "b", "a/1", "b", "a/2", "b")
    assert group.do("XREADGROUP GROUP g ann COUNT 1 STREAMS s >") == [[b"s", [entry("2-0", "a/1")]]]
    assert (state_of(group)[b"last-delivered-id"], state_of(group)[b"entries-read"]) == (b"2-0", 2)
    assert group.do("XREADGROUP GROUP g ann STREAMS s >") == [[b"s", [entry("4-0", "a/2")]]]
    assert group.do("XPENDING s g")[:3] == [2, b"2-0", b"4-0"]
    state = state_of(group)
    assert (state[b"last-delivered-id"], state[b"entries-read"], state[b"lag"]) == (b"5-0", 5, 0)
    assert group.do("XREADGROUP GROUP g ann STREAMS s >") is None


def test_what_a_group_delivers_is_shown_by_xinfo(group):
    group.do("XGROUP CREATE s plain 0")
    assert state_of(group)[b"filter"] == [b"FIELD", b"t", b"MQTT", b"a/+"]
    assert b"filter" not in state_of(group, b"plain")
    full = group.do("XINFO STREAM s FULL")
    groups = full[full.index(b"groups") + 1]
    assert [b"filter" in one for one in groups] == [True, False]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("FILTER FIELD t MQTT a#", "ERR a wildcard of a topic filter is a whole level: write a/+/b or a/#"),
        ("FILTER FIELD t LIKE a", "ERR syntax error"),
        ("FILTER t MQTT a", "ERR syntax error"),
        (
            "FILTER FIELD t EQ a FILTER FIELD t EQ a",
            "ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP.",
        ),
    ],
)
def test_a_filter_that_says_nothing_makes_no_group(engine, words, text):
    assert engine.do(f"XGROUP CREATE s g 0 MKSTREAM {words}") == Error(text)
    assert engine.do("EXISTS s") == 0


def test_a_filter_is_given_when_a_group_is_made_and_not_later(group):
    refused = "ERR unknown subcommand or wrong number of arguments for 'SETID'. Try XGROUP HELP."
    assert group.do("XGROUP SETID s g 0 FILTER FIELD t EQ a") == Error(refused)


def test_a_blocked_reader_gets_the_first_entry_that_is_for_it(group):
    readers = [group.connect() for _ in range(3)]
    for at, reader in enumerate(readers):
        reader.say(f"XREADGROUP GROUP g c{at} COUNT 1 BLOCK 0 STREAMS s >")
    fill(group, "b", "b")
    assert all(reader.blocked for reader in readers)
    assert state_of(group)[b"last-delivered-id"] == b"2-0"
    fill(group, "a/1", "b", "a/2", ms=3)
    assert [reader.replies() for reader in readers] == [
        [[[b"s", [entry("3-0", "a/1")]]]],
        [[[b"s", [entry("5-0", "a/2")]]]],
        [],
    ]


def test_sizes_are_counted_before_anything_is_skipped(group):
    fill(group, "a/1", "b", "a/2", "b")
    assert group.do("XREADGROUP GROUP g ann MAXSIZE 6 STREAMS s >") == [[b"s", [entry("1-0", "a/1")]]]
    assert state_of(group)[b"last-delivered-id"] == b"1-0"
    assert group.do("XREADGROUP GROUP g ann MAXSIZE 99 STREAMS s >") == [[b"s", [entry("3-0", "a/2")]]]
    assert state_of(group)[b"last-delivered-id"] == b"4-0"


def test_a_claiming_reader_gets_what_the_filter_lets_through(group, clock):
    fill(group, "b", "a/1", "b", "a/2")
    group.do("XREADGROUP GROUP g ann COUNT 1 STREAMS s >")
    clock.advance(50)
    ((_, rows),) = group.do("XREADGROUP GROUP g bob CLAIM 10 STREAMS s >")
    assert [(row[0], row[3]) for row in rows] == [(b"2-0", 1), (b"4-0", 0)]
    assert group.do("XREADGROUP GROUP g bob CLAIM 10 STREAMS s >") is None


@pytest.mark.parametrize("topics", [["a/1"] * 60, ["a/1", "b"] * 30, ["a/1", "a/2", "b"] * 20])
def test_a_claiming_reader_gets_an_idle_time_with_each_entry_of_whole_nodes(group, topics):
    group.do("CONFIG SET stream-node-max-entries 20")
    fill(group, *topics)
    ((_, rows),) = group.do("XREADGROUP GROUP g bob CLAIM 10 STREAMS s >")
    assert [row[0] for row in rows] == [b"%d-0" % at for at, topic in enumerate(topics, 1) if topic != "b"]
    assert all(row[2:] == [0, 0] for row in rows)


@pytest.mark.parametrize("block", ["", "BLOCK 0"])
def test_a_long_search_lets_others_have_their_turn_and_goes_on(block):
    clock = TickingClock()
    engine = Session(clock)
    engine.do("CONFIG SET stream-node-max-entries 2")
    engine.do("XGROUP CREATE s g 0 MKSTREAM FILTER FIELD t EQ a")
    fill(engine, *"bbbbbbbba")
    clock.ms_per_look = 5
    reader, other = engine.connect(), engine.connect()
    reader.say(f"XREADGROUP GROUP g ann COUNT 1 {block} STREAMS s >")
    assert reader.blocked
    assert other.do("PING") == "PONG"
    ticks = 0
    while reader.blocked:
        assert engine.state.blocked.due_retries(0)
        engine.engine.tick()
        ticks += 1
    assert ticks > 1
    assert reader.replies() == [[[b"s", [entry("9-0", "a")]]]]
    other.say(f"XREADGROUP GROUP g bob COUNT 1 {block} STREAMS s >")
    assert other.blocked == bool(block)


def test_a_search_that_ends_without_an_entry_answers_null_to_who_does_not_wait():
    clock = TickingClock()
    engine = Session(clock)
    engine.do("CONFIG SET stream-node-max-entries 2")
    engine.do("XGROUP CREATE s g 0 MKSTREAM FILTER FIELD t EQ a")
    fill(engine, *"bbbbbb")
    clock.ms_per_look = 5
    reader = engine.connect()
    reader.say("XREADGROUP GROUP g ann COUNT 1 STREAMS s >")
    while reader.blocked:
        engine.engine.tick()
    assert reader.replies() == [None]
    assert state_of(engine)[b"last-delivered-id"] == b"6-0"


def test_a_filter_that_lets_all_through_counts_as_no_filter_does():
    random = Random(5)
    for _ in range(300):
        engine = Session()
        engine.do("CONFIG SET stream-node-max-entries 3")
        for at in range(1, 8):
            engine.do(f"XADD s {at} t a p v")
        start = random.choice(["0", "$", "3", "99"])
        engine.do(f"XGROUP CREATE s plain {start}")
        engine.do(f"XGROUP CREATE s filtered {start} FILTER FIELD t EQ a")
        for at in range(8, 30):
            step = random.choice(["add", "read", "read", "delete", "trim"])
            if step == "add":
                engine.do(f"XADD s {at} t a p v")
            elif step == "delete":
                engine.do(f"XDEL s {random.randint(1, at)}")
            elif step == "trim":
                engine.do(f"XTRIM s MAXLEN {random.randint(0, 9)}")
            else:
                count = random.randint(1, 4)
                read = "XREADGROUP GROUP %s ann COUNT %d STREAMS s >"
                assert engine.do(read % ("plain", count)) == engine.do(read % ("filtered", count))
            plain, filtered = state_of(engine, b"plain"), state_of(engine, b"filtered")
            names = (b"last-delivered-id", b"entries-read", b"lag", b"pending")
            assert [plain[name] for name in names] == [filtered[name] for name in names]


@pytest.mark.parametrize("rewritten", [False, True])
def test_a_restart_leaves_a_group_its_filter_and_its_place(rewritten):
    server = Restartable()
    pattern = b"a/+/" + b"x\n~ " * 400
    server.send("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM", "FILTER", "FIELD", "a field", "GLOB", pattern)
    server.send(*["XGROUP", "CREATE", "s", "h", "0", "FILTER", "FIELD", "t", "MQTT", "a/+"])
    for at, topic in enumerate(["b", "a/1", "b", "a/2", "b"], 1):
        server.send("XADD", "s", f"{at}", "t", topic)
    server.send(*["XREADGROUP", "GROUP", "h", "ann", "COUNT", "1", "STREAMS", "s", ">"])
    server.send(*["XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">"])
    if rewritten:
        server.rewrite()
    before = dump(server.engine)
    server = server.restart()
    assert dump(server.engine) == before
    groups = server.engine.state.keyspace[0].values[b"s"].groups
    assert groups[b"g"].wanted.pattern.text == pattern
    assert groups[b"g"].last_id == 5 << 64
    assert b"4-0" in server.send(*["XREADGROUP", "GROUP", "h", "ann", "STREAMS", "s", ">"])
