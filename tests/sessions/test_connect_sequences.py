"""What Lettuce 6.5 and Jedis 5.1 send when they connect, and what they read of the replies."""

import pytest

from streamd.base.clock import ManualClock
from streamd.base.version import REDIS_VERSION
from streamd.configuration.server_options import Config
from tests.session import Error, Session


@pytest.fixture
def locked():
    """A server with a password, and a client that has not said it."""
    session = Session(ManualClock(), Config(requirepass="secret"))
    yield session
    assert session.state.stats.internal_errors == 0


def test_lettuce_shakes_hands_in_resp3(locked):
    hello = locked.execute(["HELLO", 3, "AUTH", "default", "secret", "SETNAME", "broker-1"])
    # It reads the id, for CLIENT TRACKING and its logs, and mode, version and role.
    assert isinstance(hello[b"id"], int)
    assert (hello[b"mode"], hello[b"role"], hello[b"proto"]) == (b"standalone", b"master", 3)
    assert hello[b"version"] == REDIS_VERSION.encode()
    assert locked.do("SELECT 3") == "OK"
    assert locked.do("CLIENT SETINFO lib-name Lettuce") == "OK"
    assert locked.do("CLIENT SETINFO lib-ver 6.5.1.RELEASE/b2ccb2e") == "OK"
    assert locked.do("CLIENT GETNAME") == b"broker-1"
    assert locked.client.lib_name == b"Lettuce"
    assert locked.client.db.index == 3


def test_lettuce_sends_its_hand_shake_in_one_go(locked):
    locked.send(
        ["HELLO", 3, "AUTH", "default", "secret", "SETNAME", "broker-1"],
        ["SELECT", 1],
        ["CLIENT", "SETINFO", "lib-name", "Lettuce"],
        ["CLIENT", "SETINFO", "lib-ver", "6.5.1"],
        ["PING"],
    )
    assert locked.replies()[1:] == ["OK", "OK", "OK", "PONG"]


def test_lettuce_is_told_of_a_wrong_password_and_of_none(locked):
    wrong = "WRONGPASS invalid username-password pair or user is disabled."
    assert locked.do("HELLO 3 AUTH default wrong") == Error(wrong)
    assert str(locked.do("HELLO 3").text).startswith("NOAUTH HELLO must be called with the client already")
    assert locked.do("PING") == Error("NOAUTH Authentication required.")


def test_lettuce_falls_back_where_a_protocol_is_not_spoken(locked):
    assert locked.do("HELLO 4") == Error("NOPROTO unsupported protocol version")
    assert locked.do("AUTH secret") == "OK"
    assert locked.do("PING") == "PONG"


def test_lettuce_goes_on_where_a_newer_command_is_not_known(engine):
    assert isinstance(engine.do("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip"), Error)
    assert engine.do("PING") == "PONG"


def test_lettuce_reads_what_it_asks_when_it_makes_a_map_of_servers(engine):
    info = engine.do("INFO").decode()
    assert "\r\nconnected_clients:1\r\n" in info
    assert "\r\nmaster_repl_offset:0\r\n" in info
    assert "\r\nredis_version:" in info


@pytest.mark.parametrize("words", [["AUTH", "secret"], ["AUTH", "default", "secret"]])
def test_jedis_shakes_hands(locked, words):
    assert locked.execute(words) == "OK"
    assert locked.do("SELECT 2") == "OK"
    locked.send(
        ["CLIENT", "SETNAME", "broker-1"],
        ["CLIENT", "SETINFO", "lib-name", "jedis(;spring-data-redis_v3.4.13)"],
        ["CLIENT", "SETINFO", "lib-ver", "5.1.5"],
    )
    assert locked.replies() == ["OK", "OK", "OK"]
    assert (locked.client.lib_name, locked.client.db.index) == (b"jedis(;spring-data-redis_v3.4.13)", 2)


def test_jedis_may_ask_for_resp3_first(locked):
    locked.send(["HELLO", 3, "AUTH", "default", "secret"], ["PING"])
    hello, pong = locked.replies()
    assert hello[b"proto"] == 3
    assert pong == "PONG"


def test_pools_of_jedis_ask_whether_a_connection_lives(engine):
    for _ in range(3):
        assert engine.do("PING") == "PONG"
    assert engine.do("SELECT 0") == "OK"


RATE_LIMIT = {
    b"if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return 1; else return 0; end;": [1, 0],
    b"if redis.call('set', KEYS[1], ARGV[1], 'nx') then return 1; else return 0; end;": [1, 0],
}


@pytest.mark.parametrize("script", RATE_LIMIT)
def test_buckets_of_rate_limits_are_created_once(engine, script):
    found = [engine.execute(["EVAL", script, 1, "devicePersistedMsgsLimit::bucket", b"\x00\xff", 1000]) for _ in "12"]
    assert found == RATE_LIMIT[script]


def test_buckets_of_rate_limits_change_if_nobody_else_has_changed_them(engine):
    script = (
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('psetex', KEYS[1], ARGV[3], ARGV[2]) return 1 "
        "else return 0 end"
    )
    engine.execute(["SET", "b", b"\x00\x80old"])
    assert engine.execute(["EVAL", script, 1, "b", b"\x00\x80old", b"\xffnew", 5_000]) == 1
    assert engine.execute(["EVAL", script, 1, "b", b"\x00\x80old", b"\xffnew", 5_000]) == 0
    assert engine.execute(["GET", "b"]) == b"\xffnew"
    assert engine.do("PTTL b") == 5_000


def test_the_registry_of_services_takes_any_bytes(engine):
    field = b"\xac\xed\x00\x05t\x00\x04node"
    engine.execute(["HSET", "tbmq:service:registry", field, b"\x00\r\n"])
    assert engine.execute(["HGETALL", "tbmq:service:registry"]) == {field: b"\x00\r\n"} or engine.execute(
        ["HGETALL", "tbmq:service:registry"]
    ) == [field, b"\x00\r\n"]
    assert engine.execute(["HDEL", "tbmq:service:registry", field]) == 1


def test_a_cache_is_cleared_by_its_pattern(engine):
    for number in range(3):
        engine.execute(["SET", f"mqttClientCredentials::{number}", "{}", "PX", 86_400_000])
    engine.execute(["SET", "clientMqttVersion::1", "5"])
    keys = engine.do("KEYS mqttClientCredentials::*")
    assert len(keys) == 3
    assert engine.execute(["DEL", *keys]) == 3
    assert engine.do("DBSIZE") == 1


def test_counters_of_sessions_start_once_and_count(engine):
    assert engine.do("SET clientSessionsLimit::count 5 NX") == "OK"
    assert engine.do("SET clientSessionsLimit::count 9 NX") is None
    assert engine.do("INCR clientSessionsLimit::count") == 6
    assert engine.do("DECR clientSessionsLimit::count") == 5
