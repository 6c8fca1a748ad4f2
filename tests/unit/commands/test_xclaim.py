"""XACK, XPENDING, XCLAIM, XAUTOCLAIM, XACKDEL, XDELEX and XNACK: what is pending, and whose it is."""

import pytest

from tests.session import Error

NO_GROUP = "NOGROUP No such key 's' or consumer group 'other'"
NO_KEY = "NOGROUP No such key 'none' or consumer group 'g'"
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
ID_ERROR = "ERR Invalid stream ID specified as stream command argument"
SYNTAX = "ERR syntax error"
NO_INTEGER = "ERR value is not an integer or out of range"


def entry(name):
    return [name.encode(), [b"f", b"v"]]


@pytest.fixture
def group(engine):
    """1-1 .. 4-1 delivered to consumer a, 5-1 not yet, in a stream s with a group g; a string at `string`."""
    engine.do("SET string x")
    for number in range(1, 6):
        engine.do(f"XADD s {number}-1 f v")
    engine.do("XGROUP CREATE s g 0")
    engine.do("XREADGROUP GROUP g a COUNT 4 STREAMS s >")
    return engine


def pending(engine, *more):
    """[(ID, consumer, idle ms, delivery count)] as text."""
    rows = engine.execute(["XPENDING", "s", "g", *(more or ("-", "+", "99"))])
    return [(row[0].decode(), row[1].decode(), row[2], row[3]) for row in rows]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("XACK string g 1-1", WRONG_TYPE),
        ("XACK s g x", ID_ERROR),
        ("XACK s g 1-1 x", ID_ERROR),
        ("XPENDING s other", NO_GROUP),
        ("XPENDING none g", NO_KEY),
        ("XPENDING string g", WRONG_TYPE),
        ("XPENDING s g -", SYNTAX),
        ("XPENDING s g - +", SYNTAX),
        ("XPENDING s g - + x", NO_INTEGER),
        ("XPENDING s g x + 1", ID_ERROR),
        ("XPENDING s g IDLE x - + 1", NO_INTEGER),
        ("XPENDING s g IDLE 1 - +", SYNTAX),
        ("XPENDING s g (18446744073709551615-18446744073709551615 + 1", "ERR invalid start ID for the interval"),
        ("XPENDING s g - (0-0 1", "ERR invalid end ID for the interval"),
        ("XCLAIM s other b 0 1-1", NO_GROUP),
        ("XCLAIM none g b x 1-1", NO_KEY),
        ("XCLAIM s g b x 1-1", "ERR Invalid min-idle-time argument for XCLAIM"),
        ("XCLAIM s g b 0 1-1 foo", "ERR Unrecognized XCLAIM option 'foo'"),
        ("XCLAIM s g b 0 1-1 IDLE", "ERR Unrecognized XCLAIM option 'IDLE'"),
        ("XCLAIM s g b 0 1-1 IDLE x", "ERR Invalid IDLE option argument for XCLAIM"),
        ("XCLAIM s g b 0 1-1 TIME x", "ERR Invalid TIME option argument for XCLAIM"),
        ("XCLAIM s g b 0 1-1 RETRYCOUNT x", "ERR Invalid RETRYCOUNT option argument for XCLAIM"),
        ("XCLAIM s g b 0 1-1 LASTID x", ID_ERROR),
        ("XAUTOCLAIM s other b 0 0", NO_GROUP),
        ("XAUTOCLAIM s g b x 0", "ERR Invalid min-idle-time argument for XAUTOCLAIM"),
        ("XAUTOCLAIM s g b 0 x", ID_ERROR),
        ("XAUTOCLAIM s g b 0 0 COUNT 0", "ERR COUNT must be > 0"),
        ("XAUTOCLAIM s g b 0 0 COUNT x", "ERR COUNT must be > 0"),
        ("XAUTOCLAIM s g b 0 0 COUNT", SYNTAX),
        ("XAUTOCLAIM s g b 0 0 foo", SYNTAX),
        ("XDELEX string foo IDS 1 1-1", WRONG_TYPE),
        ("XDELEX s foo IDS 1 1-1", SYNTAX),
        ("XDELEX s KEEPREF DELREF IDS 1 1-1", SYNTAX),
        ("XDELEX s IDS 0 1-1", "ERR Number of IDs must be a positive integer"),
        ("XDELEX s IDS x 1-1", "ERR Number of IDs must be a positive integer"),
        ("XDELEX s IDS 2 1-1", "ERR The `numids` parameter must match the number of arguments"),
        ("XDELEX s IDS 1 1-1 2-1", SYNTAX),
        ("XDELEX s IDS 2 1-1 x", ID_ERROR),
        ("XACKDEL string g IDS 1 1-1", WRONG_TYPE),
        ("XACKDEL s g IDS 2 1-1", "ERR The `numids` parameter must match the number of arguments"),
        ("XACKDEL s other IDS 2 1-1", "ERR The `numids` parameter must match the number of arguments"),
        ("XNACK s other FAIL IDS 1 1-1", NO_GROUP),
        ("XNACK s g foo IDS 1 1-1", "ERR mode must be SILENT, FAIL, or FATAL"),
        ("XNACK s g FAIL FORCE RETRYCOUNT 1", "ERR syntax error, expected IDS keyword"),
        ("XNACK s g FAIL foo 1 1-1", "ERR Unrecognized XNACK option 'foo'"),
        ("XNACK s g FAIL RETRYCOUNT x IDS 1 1-1", "ERR value is not an integer or out of range"),
        ("XNACK s g FAIL IDS 0 1-1", "ERR numids must be a positive integer"),
        ("XNACK s g FAIL IDS 2 1-1", "ERR number of IDs doesn't match numids"),
        ("XNACK s g FAIL IDS 1 1-1 RETRYCOUNT -1", "ERR Invalid RETRYCOUNT value, must be >= 0"),
        ("XNACK s g FAIL IDS 1 1-1 foo", "ERR Unrecognized XNACK option 'foo'"),
        ("XNACK s g FAIL IDS 1 x", ID_ERROR),
    ],
)
def test_errors_change_nothing(group, line, error):
    before = pending(group)
    assert group.do(line) == Error(error)
    assert pending(group) == before
    assert group.do("XLEN s") == 5


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("XACK s g 1-1 3-1", 2),
        ("XACK s g 3-1 1-1 3-1 9-9 5-1", 2),
        ("XACK s g 1-1", 1),
        ("XACK s other x", 0),
        ("XACK none g x", 0),
        ("XACK s g 5-1", 0),
        ("XACK s g 1", 0),
    ],
)
def test_what_xack_returns(group, line, reply):
    assert group.do(line) == reply
    assert len(pending(group)) == 4 - reply


def test_the_summary_of_xpending(group):
    assert group.do("XPENDING s g") == [4, b"1-1", b"4-1", [[b"a", b"4"]]]
    group.do("XCLAIM s g z 0 1-1")
    group.do("XCLAIM s g b 0 2-1")
    assert group.do("XPENDING s g")[3] == [[b"a", b"2"], [b"b", b"1"], [b"z", b"1"]]
    group.do("XACK s g 1-1 2-1 3-1 4-1")
    assert group.raw([b"XPENDING", b"s", b"g"]) == b"*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n"


def test_the_range_of_xpending(group, clock):
    clock.advance(10)
    group.do("XCLAIM s g b 0 2-1")
    clock.advance(5)
    everything = [("1-1", "a", 15, 1), ("2-1", "b", 5, 2), ("3-1", "a", 15, 1), ("4-1", "a", 15, 1)]
    assert pending(group) == everything
    assert pending(group, "-", "+", "2") == everything[:2]
    assert pending(group, "-", "+", "0") == pending(group, "-", "+", "-3") == []
    assert pending(group, "(1-1", "(4-1", "9") == everything[1:3]
    assert pending(group, "2", "3", "9") == everything[1:3]
    assert pending(group, "-", "+", "9", "b") == everything[1:2]
    assert pending(group, "-", "+", "9", "nobody") == []
    assert pending(group, "IDLE", "15", "-", "+", "2") == [everything[0], everything[2]]
    assert pending(group, "IDLE", "6", "-", "+", "9", "b") == []


def test_xclaim_takes_what_is_idle_enough(group, clock):
    clock.advance(10)
    group.do("XCLAIM s g b 0 2-1 JUSTID")
    assert group.do("XCLAIM s g c 10 1-1 2-1 9-9 5-1") == [entry("1-1")]
    assert pending(group)[:2] == [("1-1", "c", 0, 2), ("2-1", "b", 0, 1)]


@pytest.mark.parametrize(
    ("options", "row"),
    [
        ("", ("1-1", "b", 0, 2)),
        ("JUSTID", ("1-1", "b", 0, 1)),
        ("IDLE 30", ("1-1", "b", 30, 2)),
        ("IDLE -30", ("1-1", "b", 0, 2)),
        ("TIME 999999999999", ("1-1", "b", 101, 2)),
        ("TIME -7", ("1-1", "b", 0, 2)),
        ("TIME 9999999999999", ("1-1", "b", 0, 2)),
        ("RETRYCOUNT 7", ("1-1", "b", 0, 7)),
        ("RETRYCOUNT 0 JUSTID", ("1-1", "b", 0, 0)),
        ("retrycount 7 time 1 idle 30 force justid", ("1-1", "b", 30, 7)),
    ],
)
def test_the_options_of_xclaim(group, clock, options, row):
    clock.advance(100)
    reply = group.do(f"XCLAIM s g b 0 1-1 {options}")
    assert reply == ([b"1-1"] if "justid" in options.lower() else [entry("1-1")])
    assert pending(group)[0] == row


def test_xclaim_force_makes_entries_pending_that_were_not(group):
    assert group.do("XCLAIM s g b 0 5-1 9-9 FORCE JUSTID") == [b"5-1"]
    assert pending(group)[-1] == ("5-1", "b", 0, 1)


def test_xclaim_lastid_moves_the_group_on_and_never_back(group):
    group.do("XCLAIM s g b 0 9-9 LASTID 4-9")
    group.do("XCLAIM s g b 0 9-9 LASTID 1-1")
    reply = group.do("XINFO GROUPS s")[0]
    assert reply[reply.index(b"last-delivered-id") + 1] == b"4-9"


def test_xclaim_drops_deleted_entries_from_the_pending_ones(group):
    group.do("XDEL s 1-1 2-1")
    assert group.do("XCLAIM s g b 0 1-1 3-1 FORCE JUSTID") == [b"3-1"]
    assert [row[:2] for row in pending(group)] == [("2-1", "a"), ("3-1", "b"), ("4-1", "a")]


def test_xautoclaim_walks_on_from_its_cursor(group, clock):
    clock.advance(10)
    assert group.do("XAUTOCLAIM s g b 10 - COUNT 2") == [b"3-1", [entry("1-1"), entry("2-1")], []]
    assert group.do("XAUTOCLAIM s g b 10 3-1 COUNT 2 JUSTID") == [b"0-0", [b"3-1", b"4-1"], []]
    assert group.do("XAUTOCLAIM s g c 10 0") == [b"0-0", [], []]
    assert pending(group) == [("1-1", "b", 0, 2), ("2-1", "b", 0, 2), ("3-1", "b", 0, 1), ("4-1", "b", 0, 1)]


def test_xautoclaim_reports_deleted_entries_and_drops_them(group):
    group.do("XDEL s 1-1 3-1")
    assert group.do("XAUTOCLAIM s g b 0 - COUNT 3") == [b"4-1", [entry("2-1")], [b"1-1", b"3-1"]]
    assert [row[0] for row in pending(group)] == ["2-1", "4-1"]


def test_xautoclaim_looks_at_ten_times_what_it_is_asked_for(engine):
    engine.do("XGROUP CREATE s g 0 MKSTREAM")
    for number in range(1, 26):
        engine.do(f"XADD s {number}-1 f v")
    engine.do("XREADGROUP GROUP g a STREAMS s >")
    assert engine.do("XAUTOCLAIM s g b 1 - COUNT 2") == [b"21-1", [], []]


# -- deleting with a look at the groups --------------------------------------------------------------------------------


@pytest.fixture
def two_groups(group):
    """As `group`, and a group h whose consumer has acknowledged 1-1 and has 2-1; 3-1 and later it has not read."""
    group.do("XGROUP CREATE s h 0")
    group.do("XREADGROUP GROUP h a COUNT 2 STREAMS s >")
    group.do("XACK s h 1-1")
    return group


def ids(engine):
    return [row[0].decode() for row in engine.do("XRANGE s - +")]


@pytest.mark.parametrize(
    ("references", "reply", "left", "pending_g", "pending_h"),
    [
        ("", [1, 1, -1], ["3-1", "4-1", "5-1"], 4, 1),
        ("KEEPREF", [1, 1, -1], ["3-1", "4-1", "5-1"], 4, 1),
        ("DELREF", [1, 1, -1], ["3-1", "4-1", "5-1"], 2, 0),
        ("ACKED", [2, 2, 2], ["1-1", "2-1", "3-1", "4-1", "5-1"], 4, 1),
    ],
)
def test_xdelex(two_groups, references, reply, left, pending_g, pending_h):
    assert two_groups.do(f"XDELEX s {references} IDS 3 1-1 2-1 9-9") == reply
    assert ids(two_groups) == left
    assert two_groups.do("XPENDING s g")[0] == pending_g
    assert two_groups.do("XPENDING s h")[0] == pending_h


def test_xdelex_acked_deletes_what_everybody_acknowledged(two_groups):
    two_groups.do("XACK s g 1-1")
    assert two_groups.do("XDELEX s IDS 1 1-1 ACKED") == [1]
    assert two_groups.do("XACK s g 4-1") == 1
    assert two_groups.do("XDELEX s ACKED IDS 1 4-1") == [2]
    assert two_groups.do("XDELEX none ACKED IDS 2 4-1 x") == [-1, -1]


@pytest.mark.parametrize(
    ("references", "reply", "left", "pending_h"),
    [
        ("", [1, 1, -1], ["3-1", "4-1", "5-1"], 1),
        ("DELREF", [1, 1, -1], ["3-1", "4-1", "5-1"], 0),
        ("ACKED", [1, 2, -1], ["2-1", "3-1", "4-1", "5-1"], 1),
    ],
)
def test_xackdel(two_groups, references, reply, left, pending_h):
    assert two_groups.do(f"XACKDEL s g {references} IDS 3 1-1 2-1 5-1") == reply
    assert ids(two_groups) == left
    assert two_groups.do("XPENDING s g")[0] == 2
    assert two_groups.do("XPENDING s h")[0] == pending_h


def test_xackdel_of_an_entry_that_is_gone_acknowledges_it(group):
    group.do("XDEL s 1-1")
    assert group.do("XACKDEL s g IDS 1 1-1") == [1]
    assert group.do("XACKDEL s other IDS 2 1-1 x") == group.do("XACKDEL none g IDS 2 1-1 x") == [-1, -1]


@pytest.mark.parametrize("line", ["XTRIM s MAXLEN 1 {}", "XTRIM s MINID 5-1 {}", "XADD s MAXLEN 2 {} 6-1 f v"])
@pytest.mark.parametrize(
    ("references", "left", "pending_g", "pending_h"),
    [
        ("", ["5-1"], 4, 1),
        ("KEEPREF", ["5-1"], 4, 1),
        ("DELREF", ["5-1"], 0, 0),
        ("ACKED", ["2-1", "3-1", "4-1", "5-1"], 3, 1),
    ],
)
def test_trimming_with_a_look_at_the_groups(two_groups, line, references, left, pending_g, pending_h):
    two_groups.do("XACK s g 1-1")
    two_groups.do("XCLAIM s g a 0 1-1 FORCE") if references in ("", "KEEPREF", "DELREF") else None
    two_groups.do(line.format(references))
    assert [name for name in ids(two_groups) if name != "6-1"] == left
    assert two_groups.do("XPENDING s g")[0] == pending_g
    assert two_groups.do("XPENDING s h")[0] == pending_h


def test_trimming_acked_without_groups_takes_everything(engine):
    for number in range(1, 4):
        engine.do(f"XADD s {number}-1 f v")
    assert engine.do("XTRIM s MAXLEN 0 ACKED") == 3


# -- XNACK -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("SILENT IDS 1 2-1", 1),
        ("FAIL IDS 1 2-1", 2),
        ("FATAL IDS 1 2-1", 2**63 - 1),
        ("fatal ids 1 2-1 retrycount 5 force", 5),
    ],
)
def test_xnack_releases_an_entry(group, words, count):
    group.do("XCLAIM s g a 0 2-1")
    assert group.do(f"XNACK s g {words}") == 1
    assert pending(group)[1] == ("2-1", "", -1, count)
    assert group.do("XPENDING s g")[3] == [[b"a", b"3"]]
    assert group.do("XCLAIM s g b 99999 2-1 JUSTID") == [b"2-1"]
    assert pending(group)[1] == ("2-1", "b", 0, count)


def test_xnack_force_makes_an_entry_pending_that_nobody_had(group):
    assert group.do("XNACK s g FAIL IDS 2 5-1 9-9") == 0
    assert group.do("XNACK s g FAIL IDS 2 5-1 9-9 FORCE") == 1
    assert pending(group)[-1] == ("5-1", "", -1, 0)


def test_released_entries_are_claimed_first_in_the_order_of_their_release(group, clock):
    group.do("XNACK s g FAIL IDS 3 3-1 1-1 2-1")
    group.do("XNACK s g FAIL IDS 1 3-1")
    clock.advance(1)
    reply = group.do("XREADGROUP GROUP g b COUNT 4 CLAIM 1 STREAMS s >")
    assert [row[0] for row in reply[0][1]] == [b"1-1", b"2-1", b"3-1", b"4-1"]


def test_a_fatal_count_counts_no_further(group):
    group.do("XNACK s g FATAL IDS 1 1-1")
    group.do("XCLAIM s g b 0 1-1")
    assert pending(group)[0] == ("1-1", "b", 0, 2**63 - 1)
