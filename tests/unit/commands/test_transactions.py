"""Transactions run as one, or not at all."""

import pytest

from tests.session import Error

BREAKS = {"SET k 1", "DEL k", "EXPIRE k 10", "RENAME k j", "INCR k", "HSET other f v", "FLUSHALL", "MOVE k 1"}


@pytest.mark.parametrize("change", sorted(BREAKS | {"GET k", "SET j 1", "PERSIST k", "TOUCH k", "EXISTS k", "DEL no"}))
def test_a_change_of_a_watched_key_breaks_the_transaction(engine, change):
    engine.do("SET k 1")
    engine.do("WATCH k other")
    engine.connect().do(change)
    engine.do("MULTI")
    engine.do("SET result 1")
    assert (engine.do("EXEC") is None) == (change in BREAKS)
    assert engine.do("EXISTS result") == (change not in BREAKS)


@pytest.mark.parametrize("change", ["MOVE k 1", "COPY k k DB 1"])
def test_what_comes_from_another_database_is_a_change_too(engine, change):
    engine.do("SET k v")
    other = engine.connect()
    other.do("SELECT 1")
    other.do("WATCH k")
    engine.do(change)
    other.do("MULTI")
    assert other.do("EXEC") is None


def test_a_watched_key_whose_time_passes_breaks_the_transaction(engine, clock):
    engine.do("DEBUG SET-ACTIVE-EXPIRE 0")
    engine.do("SET k v PX 10")
    engine.do("WATCH k")
    clock.advance(10)
    engine.do("MULTI")
    assert engine.do("EXEC") is None


def test_a_key_that_had_expired_before_it_was_watched_does_not(engine, clock):
    engine.do("DEBUG SET-ACTIVE-EXPIRE 0")
    engine.do("SET k v PX 10")
    clock.advance(10)
    engine.do("WATCH k")
    engine.do("MULTI")
    assert engine.do("EXEC") == []


def test_the_null_of_a_broken_transaction_is_that_of_an_array(engine):
    engine.do("WATCH k")
    engine.do("SET k 1")
    engine.do("MULTI")
    assert engine.raw(["EXEC"]) == b"*-1\r\n"


def test_xsetid_is_no_change_of_a_watched_stream(engine):
    engine.do("XADD s 1-1 f v")
    engine.do("WATCH s")
    engine.do("XSETID s 5-0")
    engine.do("MULTI")
    assert engine.do("EXEC") == []


def test_an_entry_added_to_a_watched_stream_breaks_the_transaction(engine):
    engine.do("WATCH s")
    engine.connect().do("XADD s * f v")
    engine.do("MULTI")
    assert engine.do("EXEC") is None


def test_commands_that_fail_do_not_stop_those_behind_them(engine):
    engine.do("SET k text")
    engine.send(["MULTI"], ["INCR", "k"], ["SET", "j", "1"], ["EXEC"])
    error = Error("ERR value is not an integer or out of range")
    assert engine.replies() == ["OK", "QUEUED", "QUEUED", [error, "OK"]]


def test_a_transaction_is_one_unit_of_the_journal(engine):
    units = []
    engine.record()
    engine.state.journal.append_unit = units.append
    engine.send(["MULTI"], ["SET", "a", "1"], ["SELECT", "1"], ["SET", "b", "2"], ["EXEC"])
    assert units == [[(0, [b"SET", b"a", b"1"]), (1, [b"SET", b"b", b"2"])]]


def test_who_disconnects_watches_no_more(engine):
    other = engine.connect()
    other.do("WATCH k")
    other.disconnect()
    assert engine.state.keyspace.followers.keys == {}


def test_blocking_commands_do_not_block_in_a_transaction(engine):
    engine.send(["MULTI"], ["XREAD", "BLOCK", "0", "STREAMS", "s", "$"], ["WAIT", "1", "0"], ["EXEC"])
    assert engine.replies()[-1] == [None, 0]
    assert not engine.blocked


def test_readers_wake_when_the_transaction_has_ended(engine):
    reader = engine.connect()
    reader.send(["XREAD", "BLOCK", "0", "STREAMS", "s", "$"])
    engine.send(["MULTI"], ["XADD", "s", "1-1", "f", "v"], ["XADD", "s", "1-2", "f", "v"], ["EXEC"])
    assert reader.replies() == [[[b"s", [[b"1-1", [b"f", b"v"]], [b"1-2", [b"f", b"v"]]]]]]


def test_each_reply_is_in_the_protocol_of_its_time(engine):
    engine.do("HSET h f v")
    client = engine.connect()
    client.do("MULTI")
    for request in ("HGETALL h", "HELLO 3", "HGETALL h", "HELLO 2", "HGETALL h"):
        client.do(request)
    first, hello, second, _, third = client.do("EXEC")
    assert (first, second, third) == ([b"f", b"v"], {b"f": b"v"}, [b"f", b"v"])
    assert hello[b"proto"] == 3


@pytest.mark.parametrize("also_here", [False, True])
def test_a_key_whose_time_has_passed_is_no_change_when_databases_are_swapped(engine, clock, also_here):
    engine.do("DEBUG SET-ACTIVE-EXPIRE 0")
    engine.do("SET k v PX 1")
    engine.do("SELECT 1")
    if also_here:
        engine.do("SET k v PX 1")
    clock.advance(2)
    engine.do("WATCH k")
    engine.do("SWAPDB 0 1")
    engine.do("MULTI")
    engine.do("PING")
    assert engine.do("EXEC") == ["PONG"]
