"""Fields of hashes that have a time to live: HEXPIRE and its like, and what happens when the time has passed."""

import pytest

from streamd.data.expiring import expire_due
from streamd.data.hash import Hash
from streamd.data.timed_hash import TimedHash
from tests.session import Error, Session


@pytest.fixture
def hashed(engine: Session) -> Session:
    engine.do("HSET h a 1 b 2 c 3")
    return engine


def kind(session: Session, key: bytes = b"h") -> type:
    return type(session.state.keyspace[0].values[key])


def words(records) -> list[str]:
    return [b" ".join(words).decode() for _, words in records]


def test_a_field_is_gone_exactly_when_its_time_has_passed(hashed, clock):
    assert hashed.do("HPEXPIRE h 100 FIELDS 3 a x a") == [1, -2, 1]
    assert hashed.do("HPTTL h FIELDS 3 a b x") == [100, -1, -2]
    clock.advance(99)
    assert (hashed.do("HGET h a"), hashed.do("HLEN h")) == (b"1", 3)
    clock.advance(1)
    assert (hashed.do("HGET h a"), hashed.do("HLEN h")) == (None, 2)
    assert hashed.do("HPTTL h FIELDS 1 a") == [-2]


@pytest.mark.parametrize(
    "line",
    [
        "EXISTS h",
        "TYPE h",
        "HGETALL h",
        "HSCAN h 0",
        "HRANDFIELD h",
        "DEL h",
        "RENAME h k",
        "COPY h k",
        "SCAN 0",
        "TTL h",
    ],
)
def test_a_hash_whose_last_field_has_ended_is_no_key_for_any_command(engine: Session, clock, line):
    nothing = engine.execute(line.split())
    engine.do("HSET h a 1")
    engine.do("HPEXPIRE h 5 FIELDS 1 a")
    clock.advance(5)
    assert engine.do(line) == nothing
    assert len(engine.state.keyspace[0]) == 0


@pytest.mark.parametrize(
    ("has", "condition", "due", "reply"),
    [
        (None, "NX", 100, 1),
        (100, "NX", 200, 0),
        (None, "XX", 100, 0),
        (100, "XX", 200, 1),
        (None, "GT", 100, 0),
        (100, "GT", 100, 0),
        (100, "gt", 101, 1),
        (None, "LT", 100, 1),
        (100, "LT", 100, 0),
        (100, "LT", 99, 1),
        (100, "LT", 0, 2),
        (None, "XX", 0, 0),
    ],
)
def test_a_condition_keeps_a_time_from_being_set(hashed, has, condition, due, reply):
    if has:
        hashed.do(f"HPEXPIRE h {has} FIELDS 1 a")
    assert hashed.do(f"HPEXPIRE h {due} {condition} FIELDS 1 a") == [reply]
    assert hashed.do("HPTTL h FIELDS 1 a") == [{0: has or -1, 1: due, 2: -2}[reply]]


def test_times_are_given_and_shown_in_seconds_and_as_unix_times(hashed, clock):
    now_s = clock.now_ms() // 1000
    clock.advance(1000 - clock.now_ms() % 1000)
    assert hashed.do("HEXPIRE h 10 FIELDS 1 a") == [1]
    assert hashed.do(f"HEXPIREAT h {now_s + 21} FIELDS 1 b") == [1]
    assert hashed.do(f"HPEXPIREAT h {(now_s + 31) * 1000 + 1} FIELDS 1 c") == [1]
    assert hashed.do("HTTL h FIELDS 3 a b c") == [10, 20, 31]
    assert hashed.do("HEXPIRETIME h FIELDS 3 a b c") == [now_s + 11, now_s + 21, now_s + 32]
    assert hashed.do("HPEXPIRETIME h FIELDS 1 c") == [(now_s + 31) * 1000 + 1]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("HEXPIRE h 1 FIELDS 1", "wrong number of arguments for 'hexpire' command"),
        ("HEXPIRE h x FIELDS 1 a", "value is not an integer or out of range"),
        ("HEXPIRE h -1 FIELDS 1 a", "invalid expire time, must be >= 0"),
        ("HEXPIRE h 70368744178 FIELDS 1 a", "invalid expire time in 'hexpire' command"),
        ("HEXPIRE h 1 MAYBE FIELDS 1 a", "unknown argument: MAYBE"),
        ("HEXPIRE h 1 FIELDS 0 a", "Parameter `numFields` should be greater than 0"),
        ("HEXPIRE h 1 FIELDS 2 a", "wrong number of arguments"),
        ("HTTL h FIELDS x a", "Number of fields must be a positive integer"),
        ("HTTL h FIELDS 1 a b", "The `numfields` parameter must match the number of arguments"),
        ("HPERSIST h FIELD 1 a", "Mandatory argument FIELDS is missing or not at the right position"),
        ("HSETEX h FNX FXX FIELDS 1 a b", "Only one of FXX or FNX arguments can be specified"),
        (
            "HSETEX h EX 1 KEEPTTL FIELDS 1 a b",
            "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        ),
        ("HEXPIRE h 1 NX FIELDS 1 a XX", "Multiple condition flags specified"),
        ("HSETEX h FIELDS 1 a b FIELDS 1 a b", "FIELDS keyword specified multiple times"),
        ("HSETEX h FIELDS 1 a b c", "unknown argument: c"),
        ("HGETEX h EX x FIELDS 1 a", "value is not an integer or out of range"),
    ],
)
def test_what_makes_no_sense_is_an_error_and_changes_nothing(hashed, line, text):
    records = hashed.record()
    assert hashed.do(line) == Error(f"ERR {text}")
    assert records == []


@pytest.mark.parametrize("line", ["HEXPIRE s 1 FIELDS 1 a", "HTTL s FIELDS 1 a", "HPERSIST s FIELDS 1 a"])
def test_other_types_have_no_fields(engine: Session, line):
    engine.do("SET s v")
    assert engine.do(line) == Error("WRONGTYPE Operation against a key holding the wrong kind of value")
    assert engine.do(line.replace(" s ", " none ")) == [-2]


def test_a_value_that_is_set_has_no_time_and_one_that_is_counted_keeps_it(hashed):
    hashed.do("HPEXPIRE h 100 FIELDS 3 a b c")
    hashed.do("HSET h a 5")
    hashed.do("HINCRBY h b 5")
    hashed.do("HINCRBYFLOAT h c 0.5")
    assert hashed.do("HPTTL h FIELDS 3 a b c") == [-1, 100, 100]
    assert hashed.do("HMGET h a b c") == [b"5", b"7", b"3.5"]


def test_a_hash_without_times_is_a_plain_one_again(hashed, clock):
    for end in ("HPERSIST h FIELDS 1 a", "HSET h a 1", "HDEL h a", "HGETDEL h FIELDS 1 a"):
        hashed.do("HSET h a 1")
        assert kind(hashed) is Hash
        hashed.do("HPEXPIRE h 10 FIELDS 1 a")
        assert kind(hashed) is TimedHash
        hashed.do(end)
        assert kind(hashed) is Hash
    hashed.do("HPEXPIRE h 10 FIELDS 1 b")
    clock.advance(10)
    assert hashed.do("HLEN h") == 1
    assert kind(hashed) is Hash


def test_hpersist_says_what_it_did_to_each_field(hashed):
    hashed.do("HPEXPIRE h 10 FIELDS 1 a")
    assert hashed.do("HPERSIST h FIELDS 4 a a b x") == [1, -1, -1, -2]
    assert hashed.do("HPTTL h FIELDS 1 a") == [-1]


def test_hgetex_reads_and_changes_the_time(hashed, clock):
    assert hashed.do("HGETEX h PX 50 FIELDS 2 a x") == [b"1", None]
    assert hashed.do("HGETEX h FIELDS 1 a") == [b"1"]
    assert hashed.do("HPTTL h FIELDS 1 a") == [50]
    assert hashed.do("HGETEX h PERSIST FIELDS 2 a b") == [b"1", b"2"]
    assert hashed.do("HPTTL h FIELDS 1 a") == [-1]
    assert hashed.do("HGETEX h PXAT 1 FIELDS 2 a b") == [b"1", b"2"]
    assert hashed.do("HGETALL h") == [b"c", b"3"]
    assert hashed.do("HGETEX none EX 1 FIELDS 2 a b") == [None, None]


def test_hgetdel_reads_and_removes(hashed):
    assert hashed.do("HGETDEL h FIELDS 3 a x a") == [b"1", None, None]
    assert hashed.do("HGETDEL h FIELDS 2 b c") == [b"2", b"3"]
    assert hashed.do("EXISTS h") == 0


def test_hsetex_sets_fields_and_their_time_at_once(hashed, clock):
    assert hashed.do("HSETEX h FNX PX 50 FIELDS 2 a 9 new 9") == 0
    assert hashed.do("HSETEX h FXX PX 50 FIELDS 2 a 9 new 9") == 0
    assert hashed.do("HGET h a") == b"1"
    assert hashed.do("HSETEX h FXX PX 50 FIELDS 2 a 9 b 9") == 1
    assert hashed.do("HPTTL h FIELDS 3 a b c") == [50, 50, -1]
    assert hashed.do("HSETEX h KEEPTTL FIELDS 1 a 10") == 1
    assert hashed.do("HSETEX h FIELDS 1 b 10") == 1
    assert hashed.do("HPTTL h FIELDS 2 a b") == [50, -1]
    assert hashed.do("HSETEX h PXAT 1 FIELDS 2 a 1 z 1") == 1
    assert hashed.do("HKEYS h") == [b"b", b"c"]
    assert hashed.do("HSETEX k EX 1 FIELDS 1 a 1") == 1
    clock.advance(1000)
    assert hashed.do("EXISTS k") == 0


def test_times_go_where_their_hash_goes(hashed, clock):
    hashed.do("HPEXPIRE h 100 FIELDS 1 a")
    hashed.do("COPY h copied")
    hashed.do("RENAME h renamed")
    hashed.do("HPERSIST copied FIELDS 1 a")
    hashed.do("COPY renamed far DB 1")
    hashed.do("MOVE renamed 1")
    hashed.do("SWAPDB 0 1")
    clock.advance(100)
    assert (hashed.do("HLEN renamed"), hashed.do("HLEN far")) == (2, 2)
    hashed.do("SELECT 1")
    assert hashed.do("HLEN copied") == 3


def test_what_is_put_over_a_hash_has_no_fields_that_end(hashed, clock):
    hashed.do("HPEXPIRE h 10 FIELDS 1 a")
    hashed.do("SET h v")
    clock.advance(10)
    hashed.sweep()
    assert hashed.do("GET h") == b"v"
    hashed.do("DEL h")
    hashed.do("HSET h a 1 b 2")
    hashed.do("HPEXPIRE h 10 FIELDS 1 a")
    clock.advance(10)
    assert hashed.do("HLEN h") == 1


def test_the_cron_removes_fields_that_nobody_asks_for(hashed, clock):
    hashed.do("HPEXPIRE h 10 FIELDS 2 a b")
    records = hashed.record()
    clock.advance(10)
    hashed.sweep()
    assert len(hashed.state.keyspace[0].values[b"h"]) == 1
    assert words(records) == ["HDEL h a b"]
    assert b"expired_subkeys:2\r\n" in hashed.do("INFO stats")


def test_the_cron_removes_many_fields_in_slices(engine: Session, clock):
    engine.execute(["HSET", "h", *(word for number in range(200) for word in (f"f{number}", "v"))])
    engine.execute(["HPEXPIRE", "h", 10, "FIELDS", 199, *(f"f{number}" for number in range(199))])
    clock.advance(10)
    engine.state.time.read(clock)
    db = engine.state.keyspace[0]
    lengths = []
    while expire_due(db, lambda: True):
        lengths.append(len(db.values[b"h"]))
    assert lengths == [136, 72, 8]
    assert engine.do("HKEYS h") == [b"f199"]


def test_effects_are_recorded_with_the_time_that_was_decided(hashed, clock):
    due_ms = clock.now_ms() + 100
    records = hashed.record()
    hashed.do("HPEXPIRE h 100 GT FIELDS 1 a")
    hashed.do("HPEXPIRE h 100 FIELDS 2 a x")
    hashed.do("HINCRBY h a 1")
    hashed.do("HSETEX h PX 100 FIELDS 1 n 1")
    hashed.do("HGETEX h PERSIST FIELDS 2 n b")
    hashed.do("HEXPIRE h 0 FIELDS 1 b")
    clock.advance(100)
    hashed.do("HGET h a")
    assert words(records) == [
        f"HPEXPIREAT h {due_ms} FIELDS 1 a",
        "HSET h a 2",
        f"HPEXPIREAT h {due_ms} FIELDS 1 a",
        "HSET h n 1",
        f"HPEXPIREAT h {due_ms} FIELDS 1 n",
        "HPERSIST h FIELDS 1 n",
        "HDEL h b",
        "HDEL h a",
    ]


def test_watchers_and_listeners_hear_of_times(hashed, clock):
    listener = hashed.connect(3)
    listener.do("CONFIG SET notify-keyspace-events KA")
    listener.say("PSUBSCRIBE *")
    listener.replies()
    listener.pushes.clear()
    hashed.do("HPEXPIRE h 10 FIELDS 2 a b")
    hashed.do("HPERSIST h FIELDS 1 b")
    hashed.do("HPEXPIRE h 0 FIELDS 1 b")
    hashed.do("WATCH h")
    hashed.do("HPEXPIRE h 10 FIELDS 1 c")
    clock.advance(10)
    hashed.do("MULTI")
    assert hashed.do("EXEC") is None
    listener.replies()
    events = [push[3] for push in listener.pushes]
    assert events == [b"hexpire", b"hpersist", b"hdel", b"hexpire", b"hexpired", b"del"]


def test_how_it_is_kept_is_shown(hashed):
    before = hashed.do("MEMORY USAGE h")
    hashed.do("HPEXPIRE h 10 FIELDS 1 a")
    assert hashed.do("OBJECT ENCODING h") == b"listpackex"
    assert hashed.do("MEMORY USAGE h") > before


def test_moving_a_time_again_and_again_takes_no_memory(hashed):
    for number in range(5_000, 0, -1):
        hashed.do(f"HEXPIRE h {number} FIELDS 1 a")
    db = hashed.state.keyspace[0]
    value = db.values[b"h"]
    assert isinstance(value, TimedHash)
    assert len(value.times._rows) < 1_500
    assert len(db.field_times._rows) < 1_500


def test_keys_that_are_gone_leave_no_times_behind(engine: Session):
    for number in range(5_000):
        engine.do(f"HSETEX h{number} EX 1000 FIELDS 1 a 1")
        engine.do(f"HGETDEL h{number} FIELDS 1 a")
    times = engine.state.keyspace[0].field_times
    assert not times
    assert len(times._rows) < 1_500
