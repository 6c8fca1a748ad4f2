"""Functions: limits of time and memory, which the tables of tests/differential/tables cannot compare."""

import pytest

from streamd.base.limits import MIB
from streamd.configuration.server_options import Config
from streamd.rdb.bytes import VERSION_MAX, with_footer
from tests.session import Error, Session

SECOND_NS = 1_000_000_000
LIBRARY = "#!lua name=lib\nredis.register_function('f', function() {} end)"


@pytest.fixture
def slow(engine):
    """A session in which each look at the stopwatch finds that a second has passed."""
    time_ns = iter(range(0, 10**18, SECOND_NS))
    engine.engine.calls.stopwatch = lambda: next(time_ns)
    return engine


def test_a_library_that_takes_too_long_to_load_is_refused(slow):
    reply = slow.execute(["FUNCTION", "LOAD", "#!lua name=lib\nwhile true do end"])
    assert reply == Error("ERR Error registering functions: ERR FUNCTION LOAD timeout")
    assert slow.do("FUNCTION LIST") == []


def test_a_slow_function_is_ended_by_function_kill_alone(slow):
    assert slow.execute(["FUNCTION", "LOAD", LIBRARY.format("while true do end")]) == b"lib"
    other = slow.connect()
    slow.say("FCALL f 0")
    assert slow.blocked
    assert other.do("GET k").text.startswith("BUSY Redis is busy running a script. You can only call FUNCTION KILL")
    running = other.do("FUNCTION STATS")
    assert running[1][1] == b"f"
    assert other.do("SCRIPT KILL").text.startswith("BUSY")
    assert other.do("FUNCTION KILL") == "OK"
    slow.engine.go_on()
    slow.engine.end_turn()
    assert "killed by user" in slow.replies()[0].text
    assert other.do("FUNCTION STATS")[1] is None


def test_a_full_server_refuses_functions_that_may_write():
    session = Session(config=Config(maxmemory=1 * MIB))
    session.execute(["FUNCTION", "LOAD", LIBRARY.format("return 1")])
    session.state.refuse_growth(True)
    assert session.do("FCALL f 0").text.startswith("OOM command not allowed")
    assert session.execute(["FUNCTION", "LOAD", "x"]).text.startswith("OOM command not allowed")


def test_a_dump_that_would_unpack_to_more_than_lua_may_have_is_refused_before_memory_is_taken(engine):
    # A compressed string of 5 bytes that says it has 2**31 bytes unpacked.
    payload = with_footer(b"\xf5\xc3\x05\x80\x80\x00\x00\x00\xe0\xff\x00\xff\x00", VERSION_MAX)
    assert engine.execute(["FUNCTION", "RESTORE", payload]) == Error("ERR Failed loading library payload")


def test_functions_outlive_a_change_of_luas_memory_and_flushes(engine):
    engine.execute(["FUNCTION", "LOAD", LIBRARY.format("return 'here'")])
    for line in ("SCRIPT FLUSH", "FLUSHALL", "CONFIG SET lua-memory-max 50mb"):
        assert engine.do(line) == "OK"
        assert engine.do("FCALL f 0") == b"here"
