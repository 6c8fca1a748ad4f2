"""Idempotent XADD does what Redis 8.6 and later do, case by case."""

import pytest

from tests.session import Error

SYNTAX = "ERR syntax error"
ID_ERROR = "ERR Invalid stream ID specified as stream command argument"
ARITY = "ERR wrong number of arguments for 'xadd' command"
AUTO_ONLY = f"{SYNTAX}, IDMP/IDMPAUTO can be used only with auto-generated IDs"
TWICE = f"{SYNTAX}, IDMP/IDMPAUTO specified multiple times"
BOTH = f"{SYNTAX}, MAXLEN and MINID options at the same time are not compatible"
NO_STRATEGY = f"{SYNTAX}, LIMIT cannot be used without specifying a trimming strategy"
NOT_APPROXIMATE = f"{SYNTAX}, LIMIT cannot be used without the special ~ option"
NO_INTEGER = "ERR value is not an integer or out of range"
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
NO_KEY = "ERR no such key"

NEW = b"1000000000000-0"


def fields(engine, key="s", *more):
    """XINFO STREAM as a dict."""
    reply = engine.execute(["XINFO", "STREAM", key, *more])
    return dict(zip(reply[::2], reply[1::2], strict=True))


def idmp(engine, key="s"):
    """(pids-tracked, iids-tracked, iids-added, iids-duplicates)."""
    info = fields(engine, key)
    return tuple(info[name] for name in (b"pids-tracked", b"iids-tracked", b"iids-added", b"iids-duplicates"))


# -- the grammar -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "XADD s IDMP p i * f v",
        "xadd s idmp p i * f v",
        "XADD s IdMp p i * f v",
        "XADD s IDMPAUTO p * f v",
        "XADD s idmpauto p * f v",
        "XADD s IDMP p i MAXLEN 10 * f v",
        "XADD s MAXLEN 10 IDMP p i * f v",
        "XADD s LIMIT 5 MAXLEN ~ 10 IDMP p i * f v",
        "XADD s LIMIT 5 LIMIT 0 MAXLEN ~ 10 * f v",
        "XADD s NOMKSTREAM NOMKSTREAM IDMP p i KEEPREF * f v",
        "XADD s DELREF IDMP p i MINID = 5-1 * f v",
        "XADD s ACKED IDMP p i * f v",
        "XADD s IDMP p * * f v",
        "XADD s IDMP MAXLEN MINID * f v",
        "XADD s * IDMP p MAXLEN 5",
        "XADD s MAXLEN ~ 10 LIMIT 0 * f v",
        "XADD s IDMP p i NOMKSTREAM * f v",
    ],
)
def test_options_come_in_any_order_and_case(engine, line):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    assert engine.do(line) == NEW


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("XADD s IDMP p", ARITY),
        ("XADD s * f", ARITY),
        ("XADD s MAXLEN 5 MINID 5 * f v", BOTH),
        ("XADD s MAXLEN 5 MAXLEN 5 * f v", BOTH),
        ("XADD s MINID 5 MAXLEN x * f v", BOTH),
        ("XADD s MAXLEN x * f v", NO_INTEGER),
        ("XADD s MAXLEN ~ 1.5 * f v", NO_INTEGER),
        ("XADD s LIMIT x * f v", NO_INTEGER),
        ("XADD s MAXLEN -1 * f v", "ERR The MAXLEN argument must be >= 0."),
        ("XADD s MAXLEN ~ 5 LIMIT -1 * f v", "ERR The LIMIT argument must be >= 0."),
        ("XADD s MINID x * f v", ID_ERROR),
        ("XADD s MINID - * f v", ID_ERROR),
        ("XADD s MINID + * f v", ID_ERROR),
        ("XADD s x f v", ID_ERROR),
        ("XADD s - f v", ID_ERROR),
        ("XADD s + f v", ID_ERROR),
        ("XADD s *-* f v", ID_ERROR),
        ("XADD s 5-*x f v", ID_ERROR),
        ("XADD s IDMP p i IDMP p i * f v", TWICE),
        ("XADD s IDMP p i IDMPAUTO p * f v", TWICE),
        ("XADD s IDMPAUTO p IDMP  i * f v", TWICE),
        ("XADD s IDMP p i 5-1 f v", AUTO_ONLY),
        ("XADD s IDMP p i 5 f v", AUTO_ONLY),
        ("XADD s IDMP p i 5-* f v", AUTO_ONLY),
        ("XADD s IDMP p i 0-0 f v", AUTO_ONLY),
        ("XADD s IDMPAUTO p 5-1 f v", AUTO_ONLY),
        ("XADD s IDMP p i x f v", ID_ERROR),
        ("XADD s IDMP p * f v", ID_ERROR),
        ("XADD s KEEPREF KEEPREF * f v", ID_ERROR),
        ("XADD s KEEPREF ACKED * f v", ID_ERROR),
        ("XADD s LIMIT 5 * f v", NO_STRATEGY),
        ("XADD s LIMIT 0 * f v", NOT_APPROXIMATE),
        ("XADD s MAXLEN 5 LIMIT 5 * f v", NOT_APPROXIMATE),
        ("XADD s MAXLEN = 5 LIMIT 5 * f v", NOT_APPROXIMATE),
        ("XADD s LIMIT 5 * f v w", NO_STRATEGY),
        ("XADD s IDMP p i * f v w", ARITY),
        ("XADD s IDMP p i * f", ARITY),
        ("XADD s * f v w", ARITY),
        ("XADD s 0-0 f v w", ARITY),
        ("XADD s IDMP p i IDMP", ID_ERROR),
        ("XADD s IDMPAUTO p IDMP p", ID_ERROR),
        ("XADD s NOMKSTREAM NOMKSTREAM MAXLEN 5", ARITY),
        ("XADD s 0-0 f v", "ERR The ID specified in XADD must be greater than 0-0"),
        ("XADD string IDMP p i * f", ARITY),
        ("XADD string IDMP p i * f v", WRONG_TYPE),
        ("XADD string NOMKSTREAM * f v", WRONG_TYPE),
        ("XADD string 0-0 f v", "ERR The ID specified in XADD must be greater than 0-0"),
    ],
)
def test_errors_of_xadd_in_their_order(engine, line, error):
    engine.do("SET string x")
    assert engine.do(line) == Error(error)
    assert engine.do("EXISTS s") == 0


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["IDMPAUTO", "", "*", "f", "v"], f"{SYNTAX}, IDMPAUTO requires a non-empty producer ID"),
        (["IDMP", "", "i", "*", "f", "v"], f"{SYNTAX}, IDMP requires a non-empty producer ID"),
        (["IDMP", "", "", "*", "f", "v"], f"{SYNTAX}, IDMP requires a non-empty producer ID"),
        (["IDMP", "p", "", "*", "f", "v"], f"{SYNTAX}, IDMP requires a non-empty idempotent ID"),
        (["IDMP", "p", "i", "IDMP", "", "", "*", "f", "v"], TWICE),
    ],
)
def test_empty_producer_and_idempotent_ids_are_refused(engine, words, error):
    assert engine.execute(["XADD", "s", *words]) == Error(error)
    assert engine.do("EXISTS s") == 0


def test_any_bytes_of_any_length_are_a_producer_and_an_idempotent_id(engine):
    request = [b"XADD", b"s", b"IDMP", b"\x00\xff" * 32_768, b"\r\n" * 32_768, b"*", b"f", b"v"]
    assert engine.execute(request) == NEW
    assert engine.execute(request) == NEW


def test_a_known_iid_is_answered_on_an_exhausted_stream(engine):
    engine.do("XADD s IDMP p i * f v")
    engine.do("XADD s 18446744073709551615-18446744073709551615 f v")
    exhausted = Error("ERR The stream has exhausted the last possible ID, unable to add more items")
    assert engine.do("XADD s IDMP p i * f v") == NEW
    assert engine.do("XADD s IDMP p other * f v") == exhausted
    assert engine.do("XADD s 5-1 f v") == exhausted
    assert engine.do("XADD s 18446744073709551615-* f v") == exhausted
    # ... and the producer of an entry that was not added leaves nothing behind.
    engine.do("XADD s IDMP new other * f v")
    assert idmp(engine) == (1, 1, 1, 1)


@pytest.mark.parametrize("wanted", ["5-1", "5-0", "4-9", "5", "4-*"])
def test_an_explicit_id_must_be_greater_than_the_last_one(engine, wanted):
    engine.do("XADD s 5-1 f v")
    text = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
    assert engine.do(f"XADD s {wanted} f v") == Error(text)


def test_a_missing_key_with_nomkstream_is_null_and_nothing_is_remembered(engine):
    assert engine.raw(b"XADD s NOMKSTREAM IDMP p i * f v".split()) == b"$-1\r\n"
    assert engine.do("EXISTS s") == 0
    engine.client.protocol = 3
    assert engine.raw(b"XADD s NOMKSTREAM IDMP p i * f v".split()) == b"_\r\n"


# -- XCFGSET -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("XCFGSET none IDMP-DURATION x", NO_KEY),
        ("XCFGSET string foo", WRONG_TYPE),
        ("XCFGSET s", "ERR At least one parameter must be specified"),
        ("XCFGSET s IDMP-DURATION 5 IDMP-DURATION x", "ERR IDMP-DURATION specified multiple times"),
        ("XCFGSET s IDMP-MAXSIZE 5 IDMP-MAXSIZE 5", "ERR IDMP-MAXSIZE specified multiple times"),
        ("XCFGSET s IDMP-DURATION x", NO_INTEGER),
        ("XCFGSET s IDMP-DURATION +5", NO_INTEGER),
        ("XCFGSET s IDMP-DURATION 05", NO_INTEGER),
        ("XCFGSET s IDMP-DURATION 5.0", NO_INTEGER),
        ("XCFGSET s IDMP-DURATION 0", "ERR IDMP-DURATION must be between 1 and 86400 seconds"),
        ("XCFGSET s IDMP-DURATION 86401", "ERR IDMP-DURATION must be between 1 and 86400 seconds"),
        ("XCFGSET s IDMP-MAXSIZE 0", "ERR IDMP-MAXSIZE must be between 1 and 10000 entries"),
        ("XCFGSET s IDMP-MAXSIZE 10001", "ERR IDMP-MAXSIZE must be between 1 and 10000 entries"),
        ("XCFGSET s IDMP-MAXSIZE", SYNTAX),
        ("XCFGSET s DURATION 5", SYNTAX),
        ("XCFGSET s MAXSIZE 5", SYNTAX),
        ("XCFGSET s IDMP-MAXSIZE 7 foo", SYNTAX),
    ],
)
def test_errors_of_xcfgset_change_nothing(engine, line, error):
    engine.do("SET string x")
    engine.do("XADD s IDMP p i * f v")
    assert engine.do(line) == Error(error)
    assert idmp(engine)[:2] == (1, 1)
    assert (fields(engine)[b"idmp-duration"], fields(engine)[b"idmp-maxsize"]) == (100, 100)
    assert engine.do("EXISTS none") == 0


@pytest.mark.parametrize(
    ("line", "settings", "tracked"),
    [
        ("XCFGSET s IDMP-DURATION 100", (100, 100), 1),
        ("XCFGSET s IDMP-MAXSIZE 100 IDMP-DURATION 100", (100, 100), 1),
        ("XCFGSET s idmp-duration 1", (1, 100), 0),
        ("XCFGSET s IDMP-DURATION 86400", (86400, 100), 0),
        ("XCFGSET s IDMP-MAXSIZE 1", (100, 1), 0),
        ("XCFGSET s IDMP-MAXSIZE 10000", (100, 10000), 0),
        ("XCFGSET s IDMP-MAXSIZE 200 IDMP-DURATION 100", (100, 200), 0),
    ],
)
def test_xcfgset_forgets_all_iids_when_a_value_differs(engine, line, settings, tracked):
    engine.do("XADD s IDMP p i * f v")
    engine.do("XADD s IDMP p i * f v")
    assert engine.do(line) == "OK"
    info = fields(engine)
    assert (info[b"idmp-duration"], info[b"idmp-maxsize"]) == settings
    assert idmp(engine) == (tracked, tracked, 1, 1)
    assert info[b"length"] == 1
    assert engine.do("XADD s IDMP p i * f v") == (NEW if tracked else b"1000000000000-1")


def test_xcfgset_works_on_an_empty_stream_and_its_settings_die_with_the_key(engine):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    assert engine.do("XCFGSET s IDMP-DURATION 7") == "OK"
    assert fields(engine)[b"idmp-duration"] == 7
    engine.do("DEL s")
    engine.do("XADD s * f v")
    assert fields(engine)[b"idmp-duration"] == 100


def test_xcfgset_is_recorded_only_when_it_changed_something_and_touches_no_watcher(engine):
    records = engine.record()
    engine.do("XADD s * f v")
    other = engine.connect()
    engine.do("WATCH s")
    other.do("XCFGSET s IDMP-DURATION 100")
    assert len(records) == 1
    other.do("XCFGSET s IDMP-DURATION 50")
    assert records[-1] == (0, [b"XCFGSET", b"s", b"IDMP-DURATION", b"50", b"IDMP-MAXSIZE", b"100"])
    engine.do("MULTI")
    engine.do("PING")
    assert engine.do("EXEC") == ["PONG"]


# -- XIDMP -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("XIDMP CFGGET s", [b"duration", 100, b"maxsize", 100]),
        ("XIDMP CFGGET s DURATION", [b"duration", 100]),
        ("XIDMP CFGGET s maxsize", [b"maxsize", 100]),
        ("XIDMP CFGGET s MAXSIZE DURATION", [b"duration", 100, b"maxsize", 100]),
        ("XIDMP CFGGET s Foo", Error("ERR Unknown parameter 'Foo'")),
        ("XIDMP CFGGET none", Error(NO_KEY)),
        ("XIDMP CFGGET none Foo", Error(NO_KEY)),
        ("XIDMP CFGGET string", Error(WRONG_TYPE)),
        ("XIDMP STATS s", [b"producers-tracked", 0, b"iids-tracked", 0, b"iids-added", 0, b"iids-duplicates", 0]),
        ("XIDMP STATS none", Error(NO_KEY)),
        ("XIDMP STATS string", Error(WRONG_TYPE)),
        ("XIDMP STATS", Error("ERR wrong number of arguments for 'xidmp|stats' command")),
        ("XIDMP STATS s x", Error("ERR wrong number of arguments for 'xidmp|stats' command")),
        ("XIDMP CFGGET", Error("ERR wrong number of arguments for 'xidmp|cfgget' command")),
        ("XIDMP FOO", Error("ERR unknown subcommand 'FOO'. Try XIDMP HELP.")),
        ("XIDMP CFGSET none DURATION x", Error(NO_KEY)),
        ("XIDMP CFGSET string", Error(WRONG_TYPE)),
        ("XIDMP CFGSET s", Error("ERR At least one parameter must be specified")),
        ("XIDMP CFGSET s DURATION 5 DURATION 5", Error("ERR DURATION specified multiple times")),
        ("XIDMP CFGSET s MAXSIZE 5 MAXSIZE 5", Error("ERR MAXSIZE specified multiple times")),
        ("XIDMP CFGSET s MAXSIZE x", Error(NO_INTEGER)),
        ("XIDMP CFGSET s DURATION 86401", Error("ERR DURATION must be between 1 and 86400 seconds")),
        ("XIDMP CFGSET s MAXSIZE 0", Error("ERR MAXSIZE must be between 1 and 10000 entries")),
        ("XIDMP CFGSET s IDMP-MAXSIZE 5", Error(SYNTAX)),
        ("XIDMP CFGSET s MAXSIZE", Error(SYNTAX)),
        ("XIDMP CFGSET s MAXSIZE 5 DURATION 86400", "OK"),
    ],
)
def test_replies_of_xidmp(engine, line, reply):
    engine.do("SET string x")
    engine.do("XADD s * f v")
    assert engine.do(line) == reply


def test_xidmp_cfgget_is_a_map_in_resp3(engine):
    engine.do("XADD s * f v")
    assert engine.connect(protocol=3).do("XIDMP CFGGET s") == {b"duration": 100, b"maxsize": 100}


def test_xidmp_cfgset_forgets_all_iids_even_if_nothing_differs(engine):
    engine.do("XADD s IDMP p i * f v")
    assert engine.do("XIDMP CFGSET s DURATION 100") == "OK"
    assert idmp(engine) == (0, 0, 1, 0)


# -- CONFIG ------------------------------------------------------------------------------------------------------------


def test_config_holds_for_streams_that_are_created_later(engine):
    engine.do("XADD old * f v")
    assert engine.do("CONFIG SET stream-idmp-duration 5 stream-idmp-maxsize 6") == "OK"
    engine.do("XADD new * f v")
    assert engine.do("XIDMP CFGGET old") == [b"duration", 100, b"maxsize", 100]
    assert engine.do("XIDMP CFGGET new") == [b"duration", 5, b"maxsize", 6]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("stream-idmp-duration", "0", "argument must be between 1 and 86400 inclusive"),
        ("stream-idmp-duration", "86401", "argument must be between 1 and 86400 inclusive"),
        ("stream-idmp-maxsize", "10001", "argument must be between 1 and 10000 inclusive"),
        ("stream-idmp-maxsize", "x", "argument couldn't be parsed into an integer"),
        ("stream-idmp-maxsize", "01", "argument couldn't be parsed into an integer"),
        ("stream-idmp-maxsize", "18446744073709551615", "argument couldn't be parsed into an integer"),
    ],
)
def test_config_refuses_what_is_out_of_range(engine, name, value, reason):
    text = f"ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"
    assert engine.do(f"CONFIG SET {name} {value}") == Error(text)


# -- IDMPAUTO ----------------------------------------------------------------------------------------------------------


def test_idmpauto_and_idmp_share_a_producers_window(engine):
    assert engine.do("XADD s IDMPAUTO p * f v") == NEW
    iid = bytes.fromhex("6e95729ee727f0814aedffba55730079")
    assert engine.execute([b"XADD", b"s", b"IDMP", b"p", iid, b"*", b"g", b"w"]) == NEW
    assert engine.do("XADD s IDMPAUTO q * f v") == b"1000000000000-1"


def test_idmpauto_looks_at_the_pairs_and_at_nothing_else(engine):
    first = engine.do("XADD s IDMPAUTO p * amount 100 currency USD")
    assert engine.do("XADD s MAXLEN 5 IDMPAUTO p * currency USD amount 100") == first
    assert engine.do("XADD s IDMPAUTO p * amount 100 currency EUR") != first
    assert engine.do("XADD s IDMPAUTO p * f v") != engine.do("XADD s IDMPAUTO p * f v f v")
    assert engine.do("XADD s IDMPAUTO p * a bc") != engine.do("XADD s IDMPAUTO p * ab c")


# -- what a duplicate does, and does not do --------------------------------------------------------------------------


@pytest.mark.parametrize("removal", ["XDEL s 1000000000000-0", "XTRIM s MAXLEN 0"])
def test_a_duplicate_of_an_entry_that_is_gone_returns_its_id(engine, removal):
    engine.do("XADD s IDMP p i * f v")
    engine.do(removal)
    assert engine.do("XADD s IDMP p i * f v") == NEW
    assert engine.do("XLEN s") == 0


def test_a_duplicate_changes_nothing_but_a_counter(engine):
    engine.do("CONFIG SET notify-keyspace-events KEA")
    for _ in range(3):
        engine.do("XADD s * f v")
    original = engine.do("XADD s IDMP p i * f v")
    before = fields(engine)
    reader, watcher, listener = engine.connect(), engine.connect(), engine.connect()
    reader.say("XREAD BLOCK 0 STREAMS s $")
    watcher.do("WATCH s")
    listener.do("PSUBSCRIBE __key*")
    assert engine.do("XADD s IDMP p i * g w") == original
    assert engine.do("XADD s NOMKSTREAM IDMP p i * g w") == original
    assert engine.do("XADD s MAXLEN 1 IDMP p i * g w") == original
    assert engine.do("XADD s MINID ~ 99999999999999 IDMP p i * g w") == original
    after = fields(engine)
    assert after.pop(b"iids-duplicates") == before.pop(b"iids-duplicates") + 4
    assert after == before
    assert reader.blocked
    assert listener.replies() == []
    watcher.do("MULTI")
    watcher.do("PING")
    assert watcher.do("EXEC") == ["PONG"]


def test_maxlen_0_adds_and_trims_and_remembers(engine):
    assert engine.do("XADD s MAXLEN 0 IDMP p i * f v") == NEW
    assert engine.do("XLEN s") == 0
    assert engine.do("TYPE s") == "stream"
    assert engine.do("XADD s MAXLEN 0 IDMP p i * f v") == NEW


@pytest.mark.parametrize(("waited_ms", "entries"), [(99_999, 1), (100_000, 2)])
def test_an_iid_is_forgotten_exactly_at_the_end_of_its_window(engine, clock, waited_ms, entries):
    request = [b"XADD", b"s", b"IDMP", b"p1", b"order-1", b"*", b"f", b"v"]
    engine.execute(request)
    clock.advance(waited_ms)
    engine.execute(request)
    assert engine.execute([b"XLEN", b"s"]) == entries


def test_a_duplicate_does_not_refresh_its_iid(engine, clock):
    engine.do("XADD s IDMP p i * f v")
    clock.advance(60_000)
    assert engine.do("XADD s IDMP p i * f v") == NEW
    clock.advance(40_000)
    assert engine.do("XADD s IDMP p i * f v") == b"1000000100000-0"


def test_a_duplicate_does_not_change_who_is_pushed_out(engine):
    engine.do("XADD s * f v")
    engine.do("XCFGSET s IDMP-MAXSIZE 2")
    engine.do("XADD s IDMP p 1 * f v")
    engine.do("XADD s IDMP p 2 * f v")
    engine.do("XADD s IDMP p 1 * f v")
    engine.do("XADD s IDMP q 1 * f v")
    engine.do("XADD s IDMP p 3 * f v")
    assert idmp(engine) == (2, 3, 4, 1)
    assert engine.do("XADD s IDMP p 2 * f v") == b"1000000000000-2"
    assert engine.do("XADD s IDMP p 1 * f v") == b"1000000000000-5"


def test_the_window_counts_from_the_time_of_recording_when_the_clock_stands_back(engine, clock):
    engine.do("XADD s 1000000050000-0 f v")
    assert engine.do("XADD s IDMP p i * f v") == b"1000000050000-1"
    clock.advance(99_999)
    assert engine.do("XADD s IDMP p i * f v") == b"1000000050000-1"
    clock.advance(1)
    assert engine.do("XADD s IDMP p i * f v") == b"1000000100000-0"


def test_the_sweeper_frees_what_has_expired_and_then_the_producer(engine, clock):
    engine.do("XADD s IDMP p 1 * f v")
    clock.advance(50_000)
    engine.do("XADD s IDMP p 2 * f v")
    engine.do("XADD s IDMP q 1 * f v")
    clock.advance(51_000)
    engine.sweep()
    assert idmp(engine) == (2, 2, 3, 0)
    clock.advance(51_000)
    engine.sweep()
    assert idmp(engine) == (0, 0, 3, 0)


@pytest.mark.parametrize("removal", ["DEL s", "UNLINK s", "FLUSHDB", "FLUSHALL", "SET s x", "PEXPIRE s 1"])
def test_with_the_key_go_window_settings_and_counters(engine, clock, removal):
    engine.do("XADD s IDMP p i * f v")
    engine.do("XCFGSET s IDMP-DURATION 900")
    engine.do("XADD s IDMP p i * f v")
    engine.do(removal)
    clock.advance(2)
    engine.do("DEL s")
    assert engine.do("XADD s IDMP p i * f v") == b"1000000000002-0"
    assert idmp(engine) == (1, 1, 1, 0)
    assert fields(engine)[b"idmp-duration"] == 100


@pytest.mark.parametrize(
    ("move", "there"), [("RENAME s t", "t"), ("COPY s t", "t"), ("COPY s t", "s"), ("MOVE s 1", "s")]
)
def test_window_settings_and_counters_travel_with_the_stream(engine, clock, move, there):
    engine.do("XADD s * f v")
    engine.do("XCFGSET s IDMP-DURATION 200")
    first = engine.do("XADD s IDMP p i * f v")
    engine.do("XADD s IDMP p i * f v")
    engine.do(move)
    if move.startswith("MOVE"):
        engine.do("SELECT 1")
    assert idmp(engine, there) == (1, 1, 1, 1)
    assert engine.do(f"XADD {there} IDMP p i * f v") == first
    assert fields(engine, there)[b"idmp-duration"] == 200
    clock.advance(201_000)
    engine.sweep()
    assert idmp(engine, there) == (0, 0, 1, 2)


def test_a_copy_remembers_apart_from_its_original(engine):
    engine.do("XADD s IDMP p i * f v")
    engine.do("COPY s t")
    engine.do("XADD t IDMP p j * f v")
    assert idmp(engine, "s") == (1, 1, 1, 0)
    assert idmp(engine, "t") == (1, 2, 2, 0)


def test_in_a_transaction_time_stands_still_and_duplicates_are_found(engine):
    for line in ["MULTI", "XADD s IDMP p 1 * f v", "XADD s IDMP p 2 * f v", "XADD s IDMP p 1 * f v"]:
        engine.do(line)
    assert engine.do("EXEC") == [NEW, b"1000000000000-1", NEW]


def test_wrong_arity_breaks_a_transaction_and_an_odd_field_does_not(engine):
    engine.do("MULTI")
    assert engine.do("XADD s * f") == Error(ARITY)
    assert engine.do("EXEC") == Error("EXECABORT Transaction discarded because of previous errors.")
    engine.do("MULTI")
    assert engine.do("XADD s * f v w") == "QUEUED"
    assert engine.do("EXEC") == [Error(ARITY)]


# -- what is recorded --------------------------------------------------------------------------------------------------


def test_an_entry_is_recorded_with_its_iid_and_real_id_and_its_trim_as_exact(engine):
    records = engine.record()
    engine.do("XADD s IDMP p i * f v")
    engine.do("XADD s * f v")
    engine.do("XADD s MAXLEN 2 * f v")
    engine.do("XADD s MINID = 1000000000000-2 * f v")
    engine.do("XADD s MAXLEN 99 5-1 f v")
    assert [words for _, words in records] == [
        [b"XADD", b"s", b"IDMP", b"p", b"i", NEW, b"f", b"v"],
        [b"XADD", b"s", b"1000000000000-1", b"f", b"v"],
        [b"XADD", b"s", b"1000000000000-2", b"f", b"v"],
        [b"XTRIM", b"s", b"MAXLEN", b"=", b"2"],
        [b"XADD", b"s", b"1000000000000-3", b"f", b"v"],
        [b"XTRIM", b"s", b"MINID", b"=", b"1000000000000-2"],
    ]


def test_idmpauto_is_recorded_with_the_iid_it_made(engine):
    records = engine.record()
    engine.do("XADD s IDMPAUTO p * f v")
    iid = bytes.fromhex("6e95729ee727f0814aedffba55730079")
    assert records == [(0, [b"XADD", b"s", b"IDMP", b"p", iid, NEW, b"f", b"v"])]


def test_a_duplicate_is_recorded_as_a_counter(engine):
    engine.do("XADD s IDMP p i * f v")
    records = engine.record()
    engine.do("XADD s IDMP p i * f v")
    engine.do("XADD s IDMP p i * f v")
    assert [words for _, words in records] == [[b"XIDMPDUPLICATE", b"s", b"1"], [b"XIDMPDUPLICATE", b"s", b"2"]]


# -- XINFO STREAM ------------------------------------------------------------------------------------------------------

FIRST = (
    b"length radix-tree-keys radix-tree-nodes last-generated-id max-deleted-entry-id entries-added "
    b"recorded-first-entry-id idmp-duration idmp-maxsize pids-tracked iids-tracked iids-added iids-duplicates"
).split()


def test_the_fields_of_xinfo_stream_and_their_order(engine):
    engine.do("XADD s * f v")
    assert list(fields(engine)) == [*FIRST, b"groups", b"first-entry", b"last-entry"]
    assert list(fields(engine, "s", "FULL")) == [*FIRST, b"entries", b"groups"]
    assert list(engine.connect(protocol=3).do("XINFO STREAM s")) == list(fields(engine))


def test_the_metrics_of_the_window_are_there_before_any_use(engine):
    engine.do("XADD s * f v")
    assert [fields(engine)[name] for name in FIRST[7:]] == [100, 100, 0, 0, 0, 0]


def test_the_metrics_over_add_duplicate_and_second_producer(engine):
    seen = []
    for line in ["XADD s IDMP p 1 * f v", "XADD s IDMP p 1 * f v", "XADD s IDMP q 1 * f v"]:
        engine.do(line)
        seen.append(idmp(engine))
    assert seen == [(1, 1, 1, 0), (1, 1, 1, 1), (2, 2, 2, 1)]
    assert engine.do("XIDMP STATS s") == [
        *(b"producers-tracked", 2, b"iids-tracked", 2, b"iids-added", 2, b"iids-duplicates", 1)
    ]
