"""Commands about the server: its state, its configuration, its commands, and what took long."""

import pytest

from streamd.base.version import REDIS_VERSION, VERSION
from tests.session import Error


def info(engine, section: str = "everything") -> dict[str, str]:
    lines = engine.do(f"INFO {section}").decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


# -- INFO -------------------------------------------------------------------------------------------------------------


def test_info_says_what_the_server_is(engine, clock):
    clock.advance(90_061_000)
    engine.do("SET k v")
    engine.do("SET e v PX 1000")
    found = info(engine)
    expected = {"redis_version": REDIS_VERSION, "server_name": "streamd", "streamd_version": VERSION}
    expected |= {"redis_mode": "standalone", "uptime_in_seconds": "90061", "uptime_in_days": "1", "role": "master"}
    expected |= {"loading": "0", "aof_enabled": "0", "connected_clients": "1", "db0": "keys=2,expires=1,avg_ttl=1000"}
    assert {name: found[name] for name in expected} == expected
    assert "db1" not in found
    assert len(found["run_id"]) == 40
    assert int(found["used_memory"]) > 1_000_000


def test_info_shows_the_sections_that_are_asked_for(engine):
    def titles(words: str) -> list[str]:
        return [line[2:] for line in engine.do(f"INFO {words}").decode().split("\r\n") if line.startswith("# ")]

    default = ["Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Modules", "Errorstats"]
    assert titles("") == titles("default") == [*default, "Cluster", "Keyspace"]
    assert titles("Keyspace CPU nosuch") == ["CPU", "Keyspace"]
    assert "Commandstats" in titles("all")
    assert titles("default commandstats")[-5:] == ["Modules", "Commandstats", "Errorstats", "Cluster", "Keyspace"]


def test_info_is_text_for_people(engine):
    engine.do("HELLO 3")
    assert engine.raw(["INFO", "cluster"]) == b"=34\r\ntxt:# Cluster\r\ncluster_enabled:0\r\n\r\n"


def test_commands_are_counted_with_the_time_they_took(engine):
    ticks = iter(range(0, 10**9, 1_000_000))
    engine.engine.calls.stopwatch = lambda: next(ticks)
    engine.send(["APPEND", "a", "1"], ["APPEND", "b", "1"], ["GET", "a"], ["APPEND", "a", "2"])
    engine.replies()
    engine.do("APPEND a")
    engine.do("INCR nokey")
    engine.do("HGET a f")
    engine.do("CONFIG GET port")
    found = info(engine, "commandstats")
    assert found["cmdstat_append"].startswith("calls=3,usec=3000,usec_per_call=1000.00,rejected_calls=1,failed_calls=0")
    assert found["cmdstat_get"] == "calls=1,usec=1000,usec_per_call=1000.00,rejected_calls=0,failed_calls=0"
    assert found["cmdstat_hget"].endswith("rejected_calls=0,failed_calls=1")
    assert found["cmdstat_config|get"].startswith("calls=1,")
    assert "cmdstat_config" not in found
    assert info(engine, "errorstats") == {"errorstat_ERR": "count=1", "errorstat_WRONGTYPE": "count=1"}
    engine.do("CONFIG RESETSTAT")
    assert info(engine, "commandstats").keys() == {"cmdstat_info"}
    assert info(engine, "errorstats") == {}


def test_servers_in_one_process_count_each_their_own(engine):
    from tests.session import Session

    engine.do("PING")
    assert Session().engine.commands.find(b"PING").calls == 0


# -- SLOWLOG ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def watch(engine):
    """A stopwatch that the test sets: how many microseconds the next measurement will show."""
    state = {"now": 0, "us": 0}

    def stopwatch() -> int:
        state["now"] += state["us"] * 1000
        return state["now"]

    engine.engine.calls.stopwatch = stopwatch
    return state


def test_slow_commands_are_logged(engine, watch):
    engine.client.address = "1.2.3.4:5"
    engine.do("CLIENT SETNAME me")
    watch["us"] = 10_000
    engine.do("GET slow")
    watch["us"] = 9_999
    engine.do("GET fast")
    assert engine.do("SLOWLOG LEN") == 1
    assert engine.do("SLOWLOG GET") == [[0, 1_000_000_000, 10_000, [b"GET", b"slow"], b"1.2.3.4:5", b"me"]]
    assert engine.do("SLOWLOG RESET") == "OK"
    assert engine.do("SLOWLOG GET") == []


def test_the_slow_log_keeps_the_newest_entries(engine):
    engine.do("CONFIG SET slowlog-max-len 3")
    engine.do("CONFIG SET slowlog-log-slower-than 0")
    for number in range(5):
        engine.do(f"GET {number}")
    engine.do("CONFIG SET slowlog-log-slower-than -1")
    engine.do("GET unlogged")
    assert [entry[3][-1] for entry in engine.do("SLOWLOG GET -1")] == [b"4", b"3", b"2"]
    assert [len(engine.do(f"SLOWLOG GET {count}")) for count in (0, 2, 10)] == [0, 2, 3]


def test_a_pipeline_of_slow_commands_is_logged_command_by_command(engine, watch):
    watch["us"] = 10_000
    engine.send(["STRLEN", "a"], ["STRLEN", "b"], ["STRLEN", "c"])
    engine.replies()
    assert [entry[2:4] for entry in engine.do("SLOWLOG GET")] == [
        [10_000, [b"STRLEN", b"c"]],
        [10_000, [b"STRLEN", b"b"]],
        [10_000, [b"STRLEN", b"a"]],
    ]


def test_one_slow_command_among_quick_ones_is_logged(engine):
    readings = iter([0, 1, 2, 12_000_000, 12_000_001, 12_000_002])
    engine.engine.calls.stopwatch = lambda: next(readings)
    engine.send(*(["STRLEN", name] for name in "abcde"))
    engine.engine.calls.stopwatch = lambda: 0
    engine.replies()
    assert [entry[2:4] for entry in engine.do("SLOWLOG GET")] == [[11_999, [b"STRLEN", b"c"]]]


def test_a_long_request_is_logged_short_and_a_password_not_at_all(engine):
    engine.do("CONFIG SET slowlog-log-slower-than 0")
    engine.execute([b"DEL", *[b"k"] * 40])
    engine.execute([b"GET", b"x" * 200])
    engine.do("AUTH me secret")
    auth, get, delete = (entry[3] for entry in engine.do("SLOWLOG GET 3"))
    assert auth == [b"AUTH", b"(redacted)", b"(redacted)"]
    assert get == [b"GET", b"x" * 128 + b"... (72 more bytes)"]
    assert delete == [b"DEL", *[b"k"] * 30, b"... (10 more arguments)"]


# -- CONFIG -----------------------------------------------------------------------------------------------------------


def test_options_are_found_by_glob_and_set(engine):
    assert engine.do("CONFIG GET stream-idmp-*") == [b"stream-idmp-duration", b"100", b"stream-idmp-maxsize", b"100"]
    assert engine.do("CONFIG SET stream-idmp-duration 5 stream-idmp-maxsize 7") == "OK"
    assert engine.do("CONFIG GET stream-idmp-m?xsize") == [b"stream-idmp-maxsize", b"7"]


def test_options_are_set_all_or_none(engine):
    engine.do("CONFIG SET stream-idmp-duration 5 stream-idmp-maxsize 0")
    assert engine.do("CONFIG GET stream-idmp-duration") == [b"stream-idmp-duration", b"100"]


def test_a_password_set_at_run_time_holds_for_new_clients(engine):
    engine.do("CONFIG SET requirepass secret")
    assert engine.do("PING") == "PONG"
    other = engine.connect()
    assert other.do("PING") == Error("NOAUTH Authentication required.")
    assert other.do("AUTH secret") == "OK"


# -- COMMAND ----------------------------------------------------------------------------------------------------------


def test_commands_are_described_in_the_shapes_that_clients_read(engine):
    [described] = engine.do("COMMAND INFO rename")
    assert described[:7] == [b"rename", 3, ["write"], 1, 2, 1, ["@keyspace", "@write", "@slow"]]
    assert [spec[:2] for spec in described[8]] == [
        [b"flags", ["RW", "access", "delete"]],
        [b"flags", ["OW", "update"]],
    ]
    assert engine.do("COMMAND INFO nosuch client|nosuch") == [None, None]
    [described] = engine.do("COMMAND INFO client|ID")
    assert described[0] == b"client|id"
    assert len(engine.do("COMMAND")) == len(engine.do("COMMAND INFO")) == engine.do("COMMAND COUNT")


def test_documentation_says_what_a_command_takes(engine):
    engine.do("HELLO 3")
    docs = engine.do("COMMAND DOCS expire nosuch xinfo")
    assert list(docs) == [b"expire", b"xinfo"]
    key, seconds, condition = docs[b"expire"][b"arguments"]
    assert key == {b"name": b"key", b"type": b"key", b"key_spec_index": 0}
    assert seconds == {b"name": b"seconds", b"type": b"integer"}
    assert condition[b"flags"] == ["optional"]
    assert [one[b"token"] for one in condition[b"arguments"]] == [b"NX", b"XX", b"GT", b"LT"]
    assert b"xinfo|stream" in docs[b"xinfo"][b"subcommands"]
    assert len(engine.do("COMMAND DOCS")) == engine.do("COMMAND COUNT")


@pytest.mark.parametrize(
    ("request_", "keys"),
    [
        ("MSET a 1 b 2", [b"a", b"b"]),
        ("GET a", [b"a"]),
        ("WATCH a b", [b"a", b"b"]),
        ("OBJECT ENCODING a", [b"a"]),
        ("XREAD COUNT 1 STREAMS a b 0 0", [b"a", b"b"]),
    ],
)
def test_the_keys_of_a_request_are_found(engine, request_, keys):
    assert engine.do(f"COMMAND GETKEYS {request_}") == keys


def test_names_are_listed_by_category_and_pattern(engine):
    assert b"xadd" in engine.do("COMMAND LIST FILTERBY ACLCAT stream")
    assert b"get" not in engine.do("COMMAND LIST FILTERBY ACLCAT stream")
    assert engine.do("COMMAND LIST FILTERBY PATTERN *persist") == [b"persist", b"hpersist"]
    assert b"client|id" in engine.do("COMMAND LIST")


@pytest.mark.parametrize("name", ["client", "command", "config", "function", "latency", "memory", "object", "pubsub"])
def test_a_container_helps_with_all_of_its_subcommands(engine, name):
    lines = engine.do(f"{name} help")
    assert lines[0].startswith(f"{name.upper()} <subcommand>")
    words = {line.split()[0].lower().encode() for line in lines[1:] if not line.startswith(" ")}
    assert set(engine.engine.commands.find(name.encode()).subcommands) <= words | {b"help"}


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_time_is_that_of_the_clock(engine, clock):
    clock.advance(1_234)
    assert engine.do("TIME") == [b"1000000001", b"234000"]


def test_shutdown_stops_the_server_without_a_reply(engine):
    asked = []
    engine.engine.on_shutdown = asked.append
    for options in ("", "NOSAVE", "SAVE NOW FORCE"):
        engine.send(f"SHUTDOWN {options}".split())
    assert asked == [None, False, True]
    assert engine.replies() == []


def test_debug_sleep_stands_still(engine):
    slept = []
    engine.engine.sleep = slept.append
    assert engine.do("DEBUG SLEEP 0.25") == "OK"
    assert slept == [0.25]


@pytest.mark.parametrize(
    ("kind", "resp2", "resp3"),
    [
        ("string", b"$11\r\nHello World\r\n", b"$11\r\nHello World\r\n"),
        ("double", b"$5\r\n3.141\r\n", b",3.141\r\n"),
        ("map", b"*6\r\n:0\r\n:0\r\n:1\r\n:1\r\n:2\r\n:0\r\n", b"%3\r\n:0\r\n#f\r\n:1\r\n#t\r\n:2\r\n#f\r\n"),
        ("null", b"$-1\r\n", b"_\r\n"),
        ("push", b"-ERR RESP2 is not supported by this command\r\n", b">2\r\n$16\r\nserver-cpu-usage\r\n:42\r\n"),
    ],
)
def test_debug_protocol_answers_with_a_reply_of_each_kind(engine, kind, resp2, resp3):
    assert engine.raw(["DEBUG", "PROTOCOL", kind]) == resp2
    engine.client.protocol = 3
    assert engine.raw(["DEBUG", "PROTOCOL", kind]) == resp3


def test_debug_protocol_shows_an_attribute_in_front_of_a_reply(engine):
    engine.client.protocol = 3
    assert engine.raw(["DEBUG", "PROTOCOL", "attrib"]).startswith(b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n")


def test_wait_has_no_replicas_to_wait_for(engine, clock):
    assert engine.do("WAIT 0 1000") == 0
    engine.send(["WAIT", "1", "100"])
    clock.advance(100)
    assert engine.replies() == [0]


def test_flushing_wakes_and_empties(engine):
    engine.do("SET a 1")
    engine.do("SELECT 1")
    engine.do("SET b 1")
    engine.do("FLUSHDB")
    assert engine.do("DBSIZE") == 0
    engine.do("SELECT 0")
    assert engine.do("DBSIZE") == 1
    engine.do("FLUSHALL ASYNC")
    assert engine.do("DBSIZE") == 0
