"""Commands on keys of any type."""

import pytest

from tests.session import Error


def scan(engine, words: str = "") -> list[bytes]:
    cursor, found = engine.do(f"SCAN 0 {words}")
    while cursor != b"0":
        cursor, page = engine.do(f"SCAN {cursor.decode()} {words}")
        found += page
    return sorted(found)


@pytest.fixture
def keys(engine):
    names = [b"key:%03d" % number for number in range(200)]
    for name in names:
        engine.execute([b"SET", name, b"v"])
    return names


def test_scan_meets_every_key(engine, keys):
    assert scan(engine) == keys
    assert scan(engine, "COUNT 1000") == keys
    assert scan(engine, "MATCH key:00*") == keys[:10]


def test_a_key_that_goes_and_comes_back_is_met_once(engine, keys):
    scan(engine)
    for key in keys[:50]:
        engine.execute([b"DEL", key])
    assert scan(engine, "COUNT 3") == keys[50:]
    for key in keys[:50]:
        engine.execute([b"RENAME", keys[60], key])
        engine.execute([b"RENAME", key, keys[60]])
        engine.execute([b"SET", key, b"v"])
    assert scan(engine, "COUNT 3") == keys


@pytest.mark.parametrize("cursor", ["-1", "", "x", "1 ", "18446744073709551616"])
def test_a_cursor_is_no_negative_number(engine, keys, cursor):
    assert engine.execute(["SCAN", cursor, "COUNT", 1000]) == Error("ERR invalid cursor")


@pytest.mark.parametrize("cursor", [" -1", "+18446744073709551615", "-18446744073709551615"])
def test_other_numbers_are_read_as_c_reads_them(engine, keys, cursor):
    assert engine.execute(["SCAN", cursor, "COUNT", 1000])[0] == b"0"


def test_scan_shows_the_keys_of_one_type(engine, keys):
    engine.do("HSET h f v")
    engine.do("XADD s * f v")
    assert scan(engine, "TYPE hash") == [b"h"]
    assert scan(engine, "TYPE STREAM") == [b"s"]
    assert scan(engine, "TYPE nosuch") == []


def test_scan_meets_what_stays_while_keys_come_go_and_are_renamed(engine, keys):
    cursor, found = engine.do("SCAN 0 COUNT 7")
    number = 0
    while cursor != b"0":
        engine.do(f"SET new:{number} v")
        if number < 50:
            engine.execute([b"DEL", keys[number]])
            engine.execute([b"RENAME", keys[number + 50], b"renamed:%d" % number])
        number += 1
        cursor, page = engine.execute([b"SCAN", cursor, b"COUNT", b"7"])
        found += page
    assert set(keys[100:]) <= set(found)


def test_a_scan_goes_on_after_its_database_was_swapped_or_flushed(engine, keys):
    cursor, _ = engine.do("SCAN 0")
    engine.do("SWAPDB 0 1")
    assert engine.execute([b"SCAN", cursor]) == [b"0", []]
    engine.do("SWAPDB 0 1")
    assert engine.execute([b"SCAN", cursor, b"COUNT", b"1000"])[0] == b"0"
    engine.do("FLUSHALL")
    assert engine.execute([b"SCAN", cursor]) == [b"0", []]


def test_scan_and_keys_show_no_key_whose_time_has_passed(engine, clock):
    engine.do("DEBUG SET-ACTIVE-EXPIRE 0")
    engine.do("SET a v PX 10")
    engine.do("SET b v")
    engine.do("SCAN 0")
    clock.advance(10)
    assert engine.do("KEYS *") == [b"b"]
    assert scan(engine) == [b"b"]
    assert engine.do("RANDOMKEY") == b"b"
    assert engine.do("DBSIZE") == 1


def test_randomkey_returns_each_key_now_and_then(engine, keys):
    assert len({engine.do("RANDOMKEY") for _ in range(500)}) > 50


def test_the_rest_of_a_stream_moves_with_it(engine):
    engine.do("XADD s IDMP p i 1-1 f v")
    engine.do("XCFGSET s IDMP-DURATION 50 IDMP-MAXSIZE 5")
    engine.do("XADD s IDMP p i 1-2 f v")
    engine.do("XGROUP CREATE s g 0")
    engine.do("XADD s 1-3 f v")
    engine.do("XDEL s 1-3")
    before = engine.do("XINFO STREAM s FULL")
    engine.do("COPY s copy")
    engine.do("RENAME s renamed")
    engine.do("MOVE renamed 1")
    assert engine.do("XINFO STREAM copy FULL") == before
    engine.do("SELECT 1")
    assert engine.do("XINFO STREAM renamed FULL") == before
    engine.do("SELECT 0")
    engine.do("XADD copy 1-4 f v")
    engine.do("SELECT 1")
    assert engine.do("XLEN renamed") == engine.do("XINFO STREAM renamed")[1]
    assert engine.do("XINFO STREAM renamed FULL") == before


def test_a_copied_hash_is_one_of_its_own(engine):
    engine.do("HSET h f v")
    engine.do("COPY h copy")
    engine.do("HSET copy f w")
    assert engine.do("HGET h f") == b"v"


@pytest.mark.parametrize("request_", ["RENAME other s", "COPY other s", "MOVE s 0", "SWAPDB 0 1"])
def test_a_stream_that_appears_wakes_who_waits_for_it(engine, request_):
    waiting = engine.connect()
    waiting.send(["XREAD", "BLOCK", "0", "STREAMS", "s", "0"])
    assert waiting.blocked
    if request_.startswith(("MOVE", "SWAPDB")):
        engine.do("SELECT 1")
        engine.do("XADD s 1-1 f v")
    else:
        engine.do("XADD other 1-1 f v")
    engine.do(request_)
    assert waiting.replies() == [[[b"s", [[b"1-1", [b"f", b"v"]]]]]]


def test_an_encoding_is_called_as_redis_calls_it(engine):
    engine.execute([b"SET", b"long", b"x" * 45])
    engine.execute([b"HSET", b"large", *(b"%d" % number for number in range(1026))])
    engine.execute([b"HSET", b"wide", b"f", b"x" * 65])
    engine.do("XADD s * f v")
    encodings = [engine.do(f"OBJECT ENCODING {key}") for key in ("long", "large", "wide", "s")]
    assert encodings == [b"raw", b"hashtable", b"hashtable", b"stream"]


def test_memory_usage_grows_with_the_value(engine):
    engine.do("HSET h a b")
    engine.do("XADD s * f v")
    engine.do("SET k v")
    before = [engine.do(f"MEMORY USAGE {key} SAMPLES 0") for key in ("h", "s", "k")]
    engine.execute([b"HSET", b"h", b"c", b"x" * 1000])
    engine.execute([b"XADD", b"s", b"*", b"f", b"x" * 1000])
    engine.execute([b"SET", b"k", b"x" * 1000])
    after = [engine.do(f"MEMORY USAGE {key}") for key in ("h", "s", "k")]
    assert all(more > less + 900 for less, more in zip(before, after, strict=True))


def test_a_database_that_does_not_exist_cannot_be_selected(engine):
    assert engine.do("SELECT 16") == Error("ERR DB index is out of range")
