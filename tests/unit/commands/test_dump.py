"""DUMP and RESTORE: a value as bytes, and what a restored key is to clients, followers and the journal."""

import pytest

from streamd.base.clock import ManualClock
from streamd.journal.loader import LoadError
from streamd.journal.record import encode_command, encode_select
from streamd.rdb.bytes import with_footer
from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump
from tests.session import Error
from tests.unit.durability.test_unloadable_journal import disk_of

HELLO = with_footer(b"\x00\x05hello", 10)

EVERYTHING = """
SET string v ; APPEND string w ; RPUSH list a 1 b ; SADD set a 1 b ; ZADD zset 1 a inf b ; HSET hash f v g w
HPEXPIRE hash 5000 FIELDS 1 f ; XADD stream 1-1 f v ; XADD stream 2-1 f v g w ; XADD stream 3-1 f v ; XDEL stream 2-1
XGROUP CREATE stream g 0 ; XREADGROUP GROUP g ann STREAMS stream > ; XNACK stream g FAIL IDS 1 1-1
XGROUP CREATECONSUMER stream g bob ; XADD stream IDMP p i * f v ; XADD stream IDMP p i * f v
XCFGSET stream IDMP-MAXSIZE 7 ; XADD stream IDMP q j * f v ; XADD empty MAXLEN 0 1-1 f v
"""


def requests() -> list[list[str]]:
    return [request.split() for line in EVERYTHING.split("\n") for request in line.split(" ; ") if request]


def test_every_value_comes_back(engine):
    for request in requests():
        engine.execute(request)
    before = dump(engine.engine)
    for key in sorted(engine.state.keyspace[0].values):
        payload = engine.execute(["DUMP", key])
        assert engine.execute(["RESTORE", key, "0", payload, "REPLACE"]) == "OK"

    assert dump(engine.engine) == before


def test_a_missing_key_has_no_dump(engine):
    assert engine.do("DUMP nokey") is None


def test_the_options_are_looked_at_before_the_key_and_the_key_before_the_payload(engine):
    engine.do("SET k v")
    for words, error in (
        (["k", "x", "junk", "FOO"], "ERR syntax error"),
        (["k", "x", "junk", "IDLETIME"], "ERR syntax error"),
        (["k", "x", "junk", "IDLETIME", "x"], "ERR value is not an integer or out of range"),
        (["k", "x", "junk", "IDLETIME", "-1"], "ERR Invalid IDLETIME value, must be >= 0"),
        (["k", "x", "junk", "FREQ", "256"], "ERR Invalid FREQ value, must be >= 0 and <= 255"),
        (["k", "x", "junk", "FREQ", "1", "IDLETIME", "1"], "ERR syntax error"),
        (["k", "x", "junk", "IDLETIME", "1", "FREQ", "1"], "ERR syntax error"),
        (["k", "x", "junk"], "BUSYKEY Target key name already exists."),
        (["k", "x", "junk", "REPLACE"], "ERR value is not an integer or out of range"),
        (["k", "-1", "junk", "REPLACE"], "ERR Invalid TTL value, must be >= 0"),
        (["k", "0", "junk", "REPLACE"], "ERR DUMP payload version or checksum are wrong"),
        (["k", "0", with_footer(b"\x01\x00", 10), "REPLACE"], "ERR Bad data format"),
    ):
        assert engine.execute(["RESTORE", *words]) == Error(error)
    assert engine.do("GET k") == b"v"


def test_a_time_to_live_counts_from_now_or_is_a_unix_time(engine, clock):
    engine.execute(["RESTORE", "a", "5000", HELLO])
    engine.execute(["RESTORE", "b", str(clock.now_ms() + 7000), HELLO, "ABSTTL"])
    engine.execute(["RESTORE", "c", "0", HELLO, "ABSTTL"])

    assert [engine.do(f"PTTL {key}") for key in "abc"] == [5000, 7000, -1]


@pytest.mark.parametrize("ttl", ["1", "999999999999", str(2**63 - 1)])
def test_a_time_that_has_passed_removes_the_key(engine, ttl):
    engine.do("SET k v")
    options = [] if ttl == str(2**63 - 1) else ["ABSTTL"]

    assert engine.execute(["RESTORE", "k", ttl, HELLO, "REPLACE", *options]) == "OK"
    assert engine.execute(["RESTORE", "new", ttl, HELLO, *options]) == "OK"

    assert engine.do("EXISTS k new") == 0


def test_a_key_can_be_restored_as_one_that_was_not_used_for_long(engine):
    engine.execute(["RESTORE", "k", "0", HELLO, "IDLETIME", "100"])

    assert engine.do("OBJECT IDLETIME k") == 100


def test_expired_fields_of_a_restored_hash_are_gone(engine, clock):
    engine.do("HSET h f v g w")
    engine.do("HPEXPIRE h 10 FIELDS 1 f")
    payload = engine.do("DUMP h")
    clock.advance(10)

    engine.execute(["RESTORE", "h", "0", payload, "REPLACE"])

    assert engine.do("HGETALL h") == [b"g", b"w"]


def test_fields_of_a_restored_hash_expire_unasked(engine, clock):
    engine.do("HSET h f v g w")
    engine.do("HPEXPIRE h 10 FIELDS 1 f")
    engine.execute(["RESTORE", "copy", "0", engine.do("DUMP h")])
    clock.advance(20)
    engine.sweep()

    assert list(engine.state.keyspace[0].values[b"copy"]) == [b"g"]


def test_a_restored_window_replies_to_duplicates(engine, clock):
    first = engine.do("XADD s IDMP p i * f v")
    engine.execute(["RESTORE", "t", "0", engine.do("DUMP s")])

    assert engine.do("XADD t IDMP p i * f other") == first
    clock.advance(100_000)
    assert engine.do("XADD t IDMP p i * f other") != first


def test_the_iids_of_a_restored_window_are_freed(engine, clock):
    engine.do("XADD s IDMP p i * f v")
    engine.execute(["RESTORE", "t", "0", engine.do("DUMP s")])
    clock.advance(102_000)
    engine.sweep()

    assert engine.state.keyspace[0].values[b"t"].idmp.iids_tracked == 0


def test_a_stream_whose_payload_tells_no_settings_gets_those_of_the_server(engine):
    payload = with_footer(b"\x13" + bytes(10), 10)
    engine.do("CONFIG SET stream-idmp-duration 7")
    engine.execute(["RESTORE", "s", "0", payload])

    assert engine.state.keyspace[0].values[b"s"].idmp.duration_s == 7


def test_blocked_clients_get_a_restored_value(engine):
    engine.do("RPUSH l a")
    payload = engine.do("DUMP l")
    waiting = engine.connect()
    waiting.say("BLPOP new 0")

    engine.execute(["RESTORE", "new", "0", payload])

    assert waiting.replies() == [[b"new", b"a"]]


def test_a_watched_key_that_is_restored_has_changed(engine):
    engine.do("WATCH k")
    other = engine.connect()
    other.execute(["RESTORE", "k", "0", HELLO])
    engine.do("MULTI")
    engine.do("GET k")

    assert engine.do("EXEC") is None


def test_restoring_is_an_event_and_so_is_removing_by_it(engine):
    engine.do("CONFIG SET notify-keyspace-events Eg")
    listener = engine.connect()
    listener.do("PSUBSCRIBE *")
    engine.execute(["RESTORE", "k", "0", HELLO])
    engine.execute(["RESTORE", "k", "1", HELLO, "REPLACE", "ABSTTL"])
    engine.execute(["RESTORE", "k", "1", HELLO, "ABSTTL"])

    assert [push[2:] for push in listener.replies()] == [
        [b"__keyevent@0__:restore", b"k"],
        [b"__keyevent@0__:del", b"k"],
    ]


def test_the_journal_records_the_payload_and_an_absolute_time(engine, clock):
    records = engine.record()
    engine.execute(["RESTORE", "k", "5000", HELLO])
    engine.execute(["RESTORE", "k", "1", HELLO, "REPLACE", "ABSTTL"])

    due = b"%d" % (clock.now_ms() + 5000)
    assert [words for _, words in records] == [
        [b"RESTORE", b"k", due, HELLO, b"REPLACE", b"ABSTTL"],
        [b"DEL", b"k"],
    ]


def test_a_start_brings_restored_values_back():
    server = Restartable(clock=ManualClock())
    for request in requests():
        server.send(*request)
    for key in ("string", "list", "set", "zset", "hash", "stream", "empty"):
        payload = server.engine.call(server.client, [b"DUMP", key.encode()])
        assert server.send("RESTORE", f"copy of {key}", "100000", payload) == b"+OK\r\n"
        assert server.send("RESTORE", key, "0", payload, "REPLACE") == b"+OK\r\n"
    before = dump(server.engine)
    assert len(before) == 14

    again = server.restart()

    assert dump(again.engine) == before


def loaded(*words: bytes) -> Restartable:
    return Restartable(disk_of(encode_select(0) + encode_command((b"SET", b"k", b"v")) + encode_command(words)))


@pytest.mark.parametrize("options", [[b"REPLACE", b"ABSTTL"], [b"absttl", b"IDLETIME", b"5"], [b"ABSTTL"]])
def test_records_of_redis_are_applied(options):
    server = loaded(b"RESTORE", b"new", b"9999999999999", HELLO, *options)

    assert server.send("GET", "new") == b"$5\r\nhello\r\n"
    assert server.send("PEXPIRETIME", "new") == b":9999999999999\r\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([b"5", HELLO], "its time to live counts from a time that is not known"),
        ([b"0", b"junk"], "its payload is not readable"),
        ([b"0", with_footer(b"\x01\x00", 10)], "its payload is not readable: a collection is empty"),
        ([b"x", HELLO], "not an integer"),
        ([b"0", HELLO, b"FOO"], "syntax error"),
        ([b"0"], "wrong number"),
    ],
)
def test_a_journal_with_a_record_that_cannot_be_applied_is_refused(words, said):
    with pytest.raises(LoadError) as refusal:
        loaded(b"RESTORE", b"k", *words)
    assert said in str(refusal.value)


@pytest.mark.parametrize("rewritten", [False, True])
def test_names_ahead_of_the_clock_are_restored_as_recorded_now_also_after_a_restart(rewritten):
    server = Restartable(clock=ManualClock())
    ahead_ms = server.clock.now_ms() + 10**9
    server.send("XADD", "s", f"{ahead_ms}-0", "f", "v")
    given = [server.send("XADD", "s", *words, "*", "f", "v") for words in (("IDMP", "p", "i"), ("IDMPAUTO", "q"))]
    server.send("XCFGSET", "s", "IDMP-DURATION", "100")
    payload = server.send("DUMP", "s").partition(b"\r\n")[2][:-2]
    server.clock.advance(60_000)
    assert server.send("RESTORE", "new", "0", payload) == b"+OK\r\n"
    if rewritten:
        server.send("BGREWRITEAOF")
        for _ in range(20):
            server.cron()
            server.end_turn()
    again = server.restart()
    assert dump(again.engine) == dump(server.engine)
    again.clock.advance(99_999)
    assert again.send("XADD", "new", "IDMP", "p", "i", "*", "f", "v") == given[0]
    again.clock.advance(1)
    assert again.send("XADD", "new", "IDMP", "p", "i", "*", "f", "v") not in given
