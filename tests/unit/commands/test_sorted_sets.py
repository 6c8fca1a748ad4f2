"""Commands on sorted sets: what they answer, what they refuse, what they leave in the journal."""

import pytest

from streamd.data.sorted_set import LISTED_BYTES_MAX, LISTED_MEMBERS_MAX
from tests.session import Error, Session

WRONGTYPE = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
NOT_A_FLOAT = Error("ERR value is not a valid float")
SYNTAX = Error("ERR syntax error")


@pytest.fixture
def zset(engine: Session) -> Session:
    engine.do("ZADD z 1 a 2 b 2 bb 3.5 c -inf low inf top")
    return engine


def test_members_stand_in_the_order_of_their_scores(zset):
    assert zset.do("ZRANGE z 0 -1 WITHSCORES") == [
        *(b"low", b"-inf", b"a", b"1", b"b", b"2", b"bb", b"2", b"c", b"3.5", b"top", b"inf"),
    ]
    assert zset.do("TYPE z") == "zset"
    assert (zset.do("ZCARD z"), zset.do("ZSCORE z c"), zset.do("ZSCORE z x")) == (6, b"3.5", None)
    assert zset.do("ZMSCORE z a x top") == [b"1", None, b"inf"]
    assert (zset.do("ZRANK z b"), zset.do("ZREVRANK z b"), zset.do("ZRANK z x")) == (2, 3, None)
    assert zset.do("ZRANK z b WITHSCORE") == [2, b"2"]
    assert zset.raw(["ZRANK", "z", "x", "WITHSCORE"]) == b"*-1\r\n"


def test_a_negative_zero_is_zero(engine: Session):
    engine.do("ZADD z -0 a 0 b")
    assert engine.do("ZRANGE z 0 -1 WITHSCORES") == [b"a", b"0", b"b", b"0"]
    engine.do("ZUNIONSTORE z 1 z WEIGHTS -1")
    assert engine.do("ZSCORE z b") == b"0"


def test_a_packet_id_beyond_the_wrap_keeps_its_place(engine: Session):
    assert engine.do("ZADD z 65534 _65534 65535 _65535 65536 _1") == 3
    assert engine.do("ZRANGE z 0 -1") == [b"_65534", b"_65535", b"_1"]
    assert engine.do("ZRANGE z 0 0 REV WITHSCORES") == [b"_1", b"65536"]
    assert [engine.do(f"ZREM z {ref}") for ref in ("_1", "_65535", "_65534")] == [1, 1, 1]
    assert engine.do("EXISTS z") == 0


@pytest.mark.parametrize(
    ("options", "reply", "score"),
    [
        ("7 b", 0, b"7"),
        ("CH 7 b", 1, b"7"),
        ("NX 7 b", 0, b"2"),
        ("XX CH 7 b", 1, b"7"),
        ("GT CH 1 b", 0, b"2"),
        ("LT CH 1 b", 1, b"1"),
        ("GT INCR -1 b", None, b"2"),
        ("INCR 1.5 b", b"3.5", b"3.5"),
        ("INCR 0 b", b"2", b"2"),
        ("NX XX 1 b", Error("ERR XX and NX options at the same time are not compatible"), b"2"),
        ("GT LT 1 b", Error("ERR GT, LT, and/or NX options at the same time are not compatible"), b"2"),
        ("INCR 1 b 2 c", Error("ERR INCR option supports a single increment-element pair"), b"2"),
        ("1 b 2", SYNTAX, b"2"),
        ("x b", NOT_A_FLOAT, b"2"),
        ("nan b", NOT_A_FLOAT, b"2"),
        ("1e400 b", NOT_A_FLOAT, b"2"),
        ("1e-400 b", NOT_A_FLOAT, b"2"),
        ("0x10 b", 0, b"16"),
        ("9 b x c", NOT_A_FLOAT, b"2"),
    ],
)
def test_zadd_changes_what_its_options_let_it(zset, options, reply, score):
    assert zset.do(f"ZADD z {options}") == reply
    assert zset.do("ZSCORE z b") == score


def test_an_increment_that_is_no_number_changes_nothing(zset):
    assert zset.do("ZINCRBY z -inf top") == Error("ERR resulting score is not a number (NaN)")
    assert zset.do("ZINCRBY z 0.25 new") == b"0.25"
    assert zset.do("ZSCORE z top") == b"inf"


@pytest.mark.parametrize(
    ("request_line", "reply"),
    [
        ("ZRANGE z 1 2", [b"a", b"b"]),
        ("ZRANGE z -2 100 REV", [b"a", b"low"]),
        ("ZRANGE z (1 +inf BYSCORE LIMIT 1 2", [b"bb", b"c"]),
        ("ZRANGE z +inf (1 BYSCORE REV LIMIT 1 2 WITHSCORES", [b"c", b"3.5", b"bb", b"2"]),
        ("ZRANGE z 0 -1 LIMIT 0 1",
         Error("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")),
        ("ZRANGE z - + BYLEX WITHSCORES",
         Error("ERR syntax error, WITHSCORES not supported in combination with BYLEX")),
        ("ZRANGE z x 1 BYSCORE", Error("ERR min or max is not a float")),
        ("ZRANGE z a b BYLEX", Error("ERR min or max not valid string range item")),
        ("ZRANGE z a b", Error("ERR value is not an integer or out of range")),
        ("ZRANGEBYSCORE z 1 2", [b"a", b"b", b"bb"]),
        ("ZREVRANGEBYSCORE z 2 1 LIMIT 0 1", [b"bb"]),
        ("ZREVRANGE z 0 1", [b"top", b"c"]),
        ("ZCOUNT z (1 3.5", 3),
        ("ZCOUNT z 5 1", 0),
        ("ZREMRANGEBYSCORE z -inf (2", 2),
        ("ZREMRANGEBYRANK z 0 1", 2),
        ("ZREMRANGEBYRANK z 5 1", 0),
        ("ZRANGESTORE new z (1 3 BYSCORE", 2),
        ("ZRANGESTORE z z 0 1 WITHSCORES", SYNTAX),
    ],
)  # fmt: skip
def test_ranges(zset, request_line, reply):
    assert zset.do(request_line) == reply


def test_ranges_of_words(engine: Session):
    engine.do("ZADD z 0 a 0 b 0 ba 0 c")
    assert engine.do("ZRANGEBYLEX z [b +") == [b"b", b"ba", b"c"]
    assert engine.do("ZRANGEBYLEX z - (b") == [b"a"]
    assert engine.do("ZREVRANGEBYLEX z + (b LIMIT 1 1") == [b"ba"]
    assert engine.do("ZLEXCOUNT z (a [ba") == 2
    assert engine.do("ZREMRANGEBYLEX z (a (c") == 2
    assert engine.do("ZRANGE z 0 -1") == [b"a", b"c"]


def test_unions_intersections_and_differences(engine: Session):
    engine.do("ZADD z 1 a 2 b 3 c")
    engine.do("ZADD y 10 b 20 c 30 d")
    engine.do("SADD s c d")
    assert engine.do("ZUNION 2 z y WITHSCORES") == [b"a", b"1", b"b", b"12", b"c", b"23", b"d", b"30"]
    assert engine.do("ZINTER 2 z y WEIGHTS 10 1 AGGREGATE MAX WITHSCORES") == [b"b", b"20", b"c", b"30"]
    assert engine.do("ZDIFF 2 z s WITHSCORES") == [b"a", b"1", b"b", b"2"]
    assert engine.do("ZINTERCARD 3 z y s") == 1
    assert engine.do("ZINTERCARD 2 z y LIMIT 1") == 1
    assert engine.do("ZINTERSTORE s 2 z s") == 1
    assert engine.do("ZRANGE s 0 -1 WITHSCORES") == [b"c", b"4"]
    assert engine.do("ZDIFFSTORE s 2 z z") == 0
    assert engine.do("EXISTS s") == 0
    engine.do("ZADD inf inf a")
    engine.do("ZADD minus -inf a")
    assert engine.do("ZUNION 2 inf minus WITHSCORES") == [b"a", b"0"]
    assert engine.do("ZUNION 0 z") == Error("ERR at least 1 input key is needed for 'zunion' command")
    assert engine.do("ZUNION 3 z y") == SYNTAX
    assert engine.do("ZUNION 1 z WEIGHTS x") == Error("ERR weight value is not a float")
    assert engine.do("ZINTERCARD 1 z LIMIT -1") == Error("ERR LIMIT can't be negative")


def test_pops_take_from_either_end(zset):
    assert zset.do("ZPOPMIN z") == [b"low", b"-inf"]
    assert zset.do("ZPOPMAX z 2") == [b"top", b"inf", b"c", b"3.5"]
    assert zset.do("ZMPOP 2 none z MIN COUNT 2") == [b"z", [[b"a", b"1"], [b"b", b"2"]]]
    assert zset.do("BZPOPMAX none z 0") == [b"z", b"bb", b"2"]
    assert zset.do("EXISTS z") == 0
    assert zset.raw(["ZMPOP", "1", "z", "MIN"]) == b"*-1\r\n"
    assert zset.do("ZPOPMIN z -1") == Error("ERR value is out of range, must be positive")
    assert zset.do("ZMPOP 0 z MIN") == Error("ERR numkeys should be greater than 0")
    assert zset.do("ZMPOP 1 z MIN COUNT 0") == Error("ERR count should be greater than 0")
    assert zset.do("BZPOPMIN z x") == Error("ERR timeout is not a float or out of range")
    assert zset.do("BZPOPMIN z -1") == Error("ERR timeout is negative")


def test_who_waits_gets_what_comes_first_come_first_served(engine: Session):
    first, second = engine.connect(), engine.connect(protocol=3)
    first.say("BZPOPMIN z y 0")
    second.say("BZMPOP 1.5 1 z MAX COUNT 2")
    engine.do("SET y v")
    assert first.blocked
    assert second.blocked
    assert engine.do("ZADD z 1 a 2 b 3 c") == 3
    assert first.replies() == [[b"z", b"a", b"1"]]
    assert second.replies() == [[b"z", [[b"c", 3.0], [b"b", 2.0]]]]
    assert engine.do("EXISTS z") == 0

    second.say("BZPOPMIN z 1.5")
    engine.clock.advance(1_499)
    assert second.blocked
    engine.clock.advance(1)
    assert second.received() == b"_\r\n"


def test_resp3_has_scores_as_numbers_and_members_with_them_in_pairs(engine: Session):
    client = engine.connect(protocol=3)
    client.do("ZADD z 1.5 a 2 b")
    assert client.raw(["ZSCORE", "z", "a"]) == b",1.5\r\n"
    assert client.do("ZRANGE z 0 -1 WITHSCORES") == [[b"a", 1.5], [b"b", 2.0]]
    assert client.do("ZPOPMIN z") == [b"a", 1.5]
    assert client.do("ZPOPMIN z 1") == [[b"b", 2.0]]


def test_random_members_differ_unless_they_may_repeat(zset):
    everything = set(zset.do("ZRANGE z 0 -1"))
    assert zset.do("ZRANDMEMBER z") in everything
    found = zset.do("ZRANDMEMBER z 4")
    assert len(set(found)) == 4
    assert set(found) <= everything
    assert set(zset.do("ZRANDMEMBER z 10")) == everything
    repeated = zset.do("ZRANDMEMBER z -20 WITHSCORES")
    assert len(repeated) == 40
    assert set(repeated[::2]) <= everything
    assert zset.do("ZRANDMEMBER none") is None
    assert zset.do("ZRANDMEMBER none 1") == []
    assert zset.do("ZRANDMEMBER z 1 x") == SYNTAX
    assert zset.do("ZRANDMEMBER z -9223372036854775807 WITHSCORES") == Error("ERR value is out of range")


def test_a_large_set_is_scanned_in_pages_while_it_changes(engine: Session):
    for number in range(1000):
        engine.do(f"ZADD z {number} m{number}")
    cursor, met = 0, []
    while True:
        cursor, page = engine.do(f"ZSCAN z {int(cursor)} COUNT 20")
        assert len(page) <= 40
        met += page[::2]
        engine.do(f"ZREM z m{len(met) % 50}")
        engine.do(f"ZADD z 5 new{len(met)}")
        if cursor == b"0":
            break
    stayed = {b"m%d" % number for number in range(50, 1000)}
    assert len(met) == len(set(met))
    assert stayed <= set(met)
    engine.do("ZADD small 1 a 2 b")
    assert engine.do("ZSCAN small 0 MATCH b") == [b"0", [b"b", b"2"]]


def test_the_encoding_is_that_of_redis(engine: Session):
    for number in range(LISTED_MEMBERS_MAX):
        engine.do(f"ZADD z {number} {number}")
    assert engine.do("OBJECT ENCODING z") == b"listpack"
    engine.do("ZADD z 0 one-more")
    engine.do("ZREM z one-more")
    assert engine.do("OBJECT ENCODING z") == b"skiplist"
    engine.execute(["ZADD", "long", 1, "m" * LISTED_BYTES_MAX])
    assert engine.do("OBJECT ENCODING long") == b"listpack"
    engine.execute(["ZADD", "long", 1, "m" * (LISTED_BYTES_MAX + 1)])
    assert engine.do("OBJECT ENCODING long") == b"skiplist"


def test_the_journal_has_what_was_decided(zset):
    records = zset.record()
    zset.do("ZADD z NX 5 b 6 new")
    zset.do("ZADD z GT INCR 0.1 a")
    zset.do("ZPOPMAX z")
    zset.do("ZREMRANGEBYSCORE z 2 3.5")
    zset.do("ZUNIONSTORE sum 1 z WEIGHTS 2")
    zset.do("ZADD z XX 1 nobody")
    zset.do("ZRANGESTORE sum z 1 1")
    zset.do("ZDIFFSTORE sum 2 z z")
    assert [b" ".join(words) for _, words in records] == [
        b"ZADD z 6 new",
        b"ZADD z 1.1 a",
        b"ZREM z top",
        b"ZREM z b bb c",
        b"ZADD sum 2.2000000000000002 a -inf low 12 new",
        b"DEL sum",
        b"ZADD sum 1.1000000000000001 a",
        b"DEL sum",
    ]


def test_keyspace_events_are_those_of_redis(zset):
    listener = zset.connect(protocol=3)
    zset.do("CONFIG SET notify-keyspace-events KEA")
    listener.say("PSUBSCRIBE __keyevent*")
    listener.replies()
    listener.pushes.clear()
    for line in (
        "ZADD z 9 a", "ZADD z 9 a", "ZINCRBY z 1 a", "ZREM z a", "ZPOPMIN z", "ZREMRANGEBYRANK z 0 0",
        "ZREMRANGEBYSCORE z 2 3", "ZRANGESTORE new z 0 -1", "ZUNIONSTORE new 1 z", "ZPOPMAX z 10", "ZDIFFSTORE new 1 z",
    ):  # fmt: skip
        zset.do(line)
    listener.replies()
    events = [push[2].partition(b":")[2] + b" " + push[3] for push in listener.pushes]
    assert events == [
        *(b"zadd z", b"zincr z", b"zrem z", b"zpopmin z", b"zremrangebyrank z", b"zremrangebyscore z"),
        *(b"zrangestore new", b"zunionstore new", b"zpopmax z", b"del z", b"del new"),
    ]


def test_other_types_are_refused(engine: Session):
    engine.do("SET s v")
    for line in ("ZADD s 1 a", "ZRANGE s 0 -1", "ZPOPMIN s", "ZUNION 1 s", "BZPOPMIN s 0", "ZRANGESTORE n s 0 1"):
        assert engine.do(line) == WRONGTYPE, line


def test_the_keys_of_a_request_stand_behind_their_number(engine: Session):
    assert engine.do("COMMAND GETKEYS ZUNIONSTORE d 2 a b WEIGHTS 1 2") == [b"d", b"a", b"b"]
    assert engine.do("COMMAND GETKEYS BZMPOP 0 1 a MIN") == [b"a"]
    assert engine.do("COMMAND GETKEYS ZUNION 5 a") == Error("ERR Invalid arguments specified for command")


@pytest.mark.parametrize("members", [4, 400])
def test_words_are_found_where_scores_go_up_with_the_members(engine: Session, members):
    engine.execute(["ZADD", "z", *(word for number in range(members) for word in (number, f"m{number:03}"))])
    assert engine.do("ZRANGE z [m001 (m003 BYLEX") == [b"m001", b"m002"]
    assert engine.do("ZLEXCOUNT z (m001 +") == members - 2
