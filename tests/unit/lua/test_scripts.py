"""EVAL, EVALSHA and SCRIPT: running scripts, and what others and the journal see of it."""

import pytest

from streamd.base.limits import MIB
from streamd.configuration.server_options import Config
from streamd.lua import runtime as runtime_module
from streamd.lua.side_run import SideRun
from tests.session import Error, Session

BUSY = Error("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
SECOND_NS = 1_000_000_000


@pytest.fixture
def slow(engine):
    """A session in which each look at the stopwatch finds that a second has passed: every script takes too long."""
    time_ns = iter(range(0, 10**18, SECOND_NS))
    engine.engine.calls.stopwatch = lambda: next(time_ns)
    return engine


def go_on(session, slices=1):
    for _ in range(slices):
        session.engine.go_on()
        session.engine.end_turn()


def test_a_script_runs_by_its_source_and_by_its_sha(engine):
    source = "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}"
    assert engine.execute(["EVAL", source, 1, "k", "a"]) == [b"k", b"a", 1]
    sha = engine.execute(["SCRIPT", "LOAD", source])
    assert sha == b"c79e4384ae2352bd9f80228d59b78b274fbb242f"
    assert engine.execute(["EVALSHA", sha, 1, "k"]) == [b"k"]  # an array ends at its first nil
    assert engine.execute(["EVALSHA", sha.upper(), 1, "k", "b"]) == [b"k", b"b", 3]
    assert engine.execute(["SCRIPT", "SHOW", sha]) == source.encode()


def test_eval_makes_a_script_known_to_everybody(engine):
    engine.execute(["EVAL", "return 1", 0])
    other = engine.connect()
    sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    assert other.execute(["SCRIPT", "EXISTS", sha, "f" * 40]) == [1, 0]
    assert other.execute(["EVALSHA", sha, 0]) == 1
    assert other.execute(["SCRIPT", "FLUSH"]) == "OK"
    assert engine.execute(["EVALSHA", sha, 0]) == Error("NOSCRIPT No matching script. Please use EVAL.")
    assert engine.execute(["SCRIPT", "SHOW", sha]) == Error("NOSCRIPT No matching script. Please use EVAL.")


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ("SCRIPT FLUSH x", "ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
        ("SCRIPT KILL", "NOTBUSY No scripts in execution right now."),
        ("SCRIPT LOAD", "ERR wrong number of arguments for 'script|load' command"),
        ("SCRIPT NOPE", "ERR unknown subcommand 'NOPE'. Try SCRIPT HELP."),
        (
            "SCRIPT LOAD return(",
            "ERR Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'",
        ),
        ("EVAL x", "ERR wrong number of arguments for 'eval' command"),
    ],
)
def test_what_cannot_be_done_is_an_error_as_in_redis(engine, request_, text):
    assert engine.do(request_) == Error(text)


@pytest.mark.parametrize("name", ["EVAL_RO", "EVAL"])
def test_a_script_that_only_reads_may_not_write(engine, name):
    source = "redis.call('SET', 'k', 1)"
    if name == "EVAL":
        source = "#!lua flags=no-writes\n" + source
    reply = engine.execute([name, source, 0])
    assert reply.text.startswith("ERR Write commands are not allowed from read-only scripts. script: ")
    assert engine.execute(["GET", "k"]) is None
    assert engine.execute(["EVAL_RO", "return redis.call('GET', 'k')", 0]) is None
    sha = engine.execute(["SCRIPT", "LOAD", "redis.call('SET', 'k', 1)"])
    assert "read-only" in engine.execute(["EVALSHA_RO", sha, 0]).text


def test_a_script_without_lua_says_how_to_install_it(engine, monkeypatch):
    def missing():
        raise runtime_module.NoLua

    monkeypatch.setattr(runtime_module, "_lua", missing)
    reply = engine.execute(["EVAL", "return 1", 0])
    assert "pip install 'streamd-server[lua]'" in reply.text
    monkeypatch.undo()
    monkeypatch.setattr(SideRun, "is_possible", False)
    assert engine.execute(["EVAL", "return 1", 0]) == reply


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("return redis.call('INCR', 'h')", 1),
        ("local call = redis.call\nreturn call('INCR', 'h')", 2),
        ("local function f()\n  return redis.call('INCR', 'h')\nend\n\nreturn f()", 2),
        ("return pcall(function() end) and\n(function() return redis.call('INCR', 'h') end)()", 2),
        ("#!lua\nreturn redis.call('INCR', 'h')", 2),
    ],
)
def test_an_error_names_the_line_also_where_lua_forgets_it(engine, source, line):
    engine.do("HSET h f v")
    reply = engine.execute(["EVAL", source, 0])
    assert reply.text.startswith("WRONGTYPE")
    assert reply.text.endswith(f", on @user_script:{line}.")


def test_effects_of_a_script_are_one_unit(engine):
    units = []
    records = engine.record()
    engine.state.journal.append_unit = lambda unit: units.append([words for _, words in unit])
    engine.execute(["EVAL", "redis.call('SET', 'a', 1) redis.call('HSET', 'h', 'f', 'v') redis.call('DEL', 'a')", 0])
    assert [len(unit) for unit in units] == [3]
    engine.execute(["EVAL", "redis.call('SET', 'a', 1) error('x')", 0])
    assert [[words[0] for words in unit] for unit in units] == [[b"SET", b"HSET", b"DEL"], [b"SET"]]
    assert records == []


def test_an_error_is_no_rollback(engine):
    reply = engine.execute(["EVAL", "redis.call('SET', 'a', 1) redis.call('SET', 'b', 1, 'EX', 0)", 0])
    assert reply.text.startswith("ERR invalid expire time in 'set' command script: ")
    assert engine.execute(["EXISTS", "a", "b"]) == 1


def test_a_script_has_a_database_of_its_own(engine):
    engine.execute(["SELECT", 2])
    assert (
        engine.execute(["EVAL", "redis.call('SET', 'a', 1) redis.call('SELECT', 3) redis.call('SET', 'b', 2)", 0])
        is None
    )
    assert engine.execute(["KEYS", "*"]) == [b"a"]
    engine.execute(["SELECT", 3])
    assert engine.execute(["KEYS", "*"]) == [b"b"]


def test_the_time_stands_still_in_a_script(engine):
    engine.execute(["SET", "k", "v", "PX", 1])
    source = "local a = redis.call('PTTL', 'k') for i = 1, 1e5 do end return {a, redis.call('PTTL', 'k')}"
    assert engine.execute(["EVAL", source, 0]) == [1, 1]


def test_a_script_wakes_who_waits_when_it_has_ended(engine):
    waiting = engine.connect()
    waiting.say("XREAD BLOCK 0 STREAMS s $")
    engine.execute(["EVAL", "for i = 1, 2 do redis.call('XADD', 's', i .. '-1', 'n', i) end", 0])
    entries = [[b"1-1", [b"n", b"1"]], [b"2-1", [b"n", b"2"]]]
    assert waiting.replies() == [[[b"s", entries]]]


@pytest.mark.parametrize(
    ("call", "reply"),
    [
        ("'XREAD', 'BLOCK', 0, 'STREAMS', 's', '$'", None),
        ("'BLPOP', 'k', 0", None),
        ("'BLMOVE', 'k', 'l', 'LEFT', 'LEFT', 0", None),
        ("'BZPOPMIN', 'k', 0", None),
        ("'WAIT', 1, 0", 0),
    ],
)
def test_a_command_that_blocks_does_not_wait_in_a_script(engine, call, reply):
    assert engine.execute(["EVAL", f"return redis.call({call})", 0]) == reply


def test_a_script_in_a_transaction_is_part_of_it(engine):
    for line in ("MULTI", "SET k 1"):
        engine.do(line)
    engine.execute(["EVAL", "return redis.call('INCR', 'k')", 0])
    engine.do("INCR k")
    assert engine.do("EXEC") == ["OK", 2, 3]


def test_a_watched_key_that_a_script_changes_is_seen(engine):
    other = engine.connect()
    engine.do("WATCH k")
    other.execute(["EVAL", "redis.call('SET', 'k', 1)", 0])
    engine.do("MULTI")
    assert engine.do("EXEC") is None


def test_monitors_see_a_scripts_commands(engine):
    watcher = engine.connect()
    watcher.do("MONITOR")
    engine.execute(["EVAL", "redis.call('SET', 'k', 'v')", 0])
    lines = watcher.replies()
    assert [line.split("] ")[1].split(" ")[0] for line in lines] == ['"EVAL"', '"SET"']
    assert lines[1].endswith('[0 lua] "SET" "k" "v"')


def test_command_getkeys_knows_the_keys_of_scripts(engine):
    assert engine.execute(["COMMAND", "GETKEYS", "EVAL", "return 1", 2, "a", "b", "c"]) == [b"a", b"b"]


def test_the_old_name_of_the_threshold_is_the_same_option(engine):
    assert engine.do("CONFIG GET lua-time-limit") == [b"lua-time-limit", b"5000"]
    assert engine.do("CONFIG SET lua-time-limit 100") == "OK"
    assert engine.do("CONFIG GET busy-reply-threshold") == [b"busy-reply-threshold", b"100"]


# -- scripts that take long ------------------------------------------------------------------------------------------


def test_others_hear_that_a_script_keeps_the_server_busy(slow):
    other = slow.connect()
    slow.send(["EVAL", "for i = 1, 1e6 do end return 'done'", 0])
    assert slow.blocked
    assert other.do("GET k") == BUSY
    assert other.do("PING") == BUSY
    assert other.do("SHUTDOWN") == BUSY
    assert other.do("FUNCTION KILL") == BUSY
    assert other.do("MULTI") == "OK"
    assert other.do("SET k v") == BUSY
    assert other.do("EXEC").text.startswith("EXECABORT")
    go_on(slow, 20)
    assert slow.replies() == [b"done"]
    assert other.do("PING") == "PONG"


def test_a_script_that_has_written_nothing_can_be_killed(slow):
    other = slow.connect()
    slow.send(["EVAL", "redis.call('GET', 'k') while true do pcall(function() while true do end end) end", 0], ["PING"])
    go_on(slow, 3)
    assert other.do("SCRIPT KILL") == "OK"
    go_on(slow)
    killed, pong = slow.replies()
    assert killed.text.startswith("ERR Script killed by user with SCRIPT KILL... script: ")
    assert pong == "PONG"
    assert other.do("PING") == "PONG"
    assert other.do("SCRIPT KILL") == Error("NOTBUSY No scripts in execution right now.")


def test_a_script_that_has_written_cannot_be_killed(slow):
    other = slow.connect()
    slow.send(["EVAL", "redis.call('SET', 'k', 1) for i = 1, 1e6 do end return redis.call('GET', 'k')", 0])
    assert other.do("SCRIPT KILL").text.startswith("UNKILLABLE Sorry the script already executed write commands")
    go_on(slow, 20)
    assert slow.replies() == [b"1"]


def test_shutdown_nosave_ends_the_server_while_a_script_runs(slow):
    asked = []
    slow.engine.on_shutdown = asked.append
    other = slow.connect()
    slow.send(["EVAL", "redis.call('SET', 'k', 1) while true do end", 0])
    other.say("SHUTDOWN NOSAVE")
    assert asked == [False]


def test_what_an_interrupted_script_has_done_is_not_in_the_journal_before_its_end(slow):
    units = []
    slow.record()
    slow.state.journal.append_unit = lambda unit: units.append([words[0] for _, words in unit])
    other = slow.connect()
    slow.send(["EVAL", "redis.call('SET', 'a', 1) for i = 1, 1e6 do end redis.call('SET', 'b', 1)", 0])
    other.do("PING")
    slow.engine.cron()
    slow.engine.tick()
    assert units == []
    go_on(slow, 20)
    assert units == [[b"SET", b"SET"]]


def test_nobody_sees_what_an_interrupted_script_has_done(slow):
    waiting, other = slow.connect(), slow.connect()
    waiting.say("XREAD BLOCK 0 STREAMS s $")
    source = "redis.call('XADD', 's', '1-1', 'n', 1) for i = 1, 1e6 do end redis.call('XADD', 's', '2-1', 'n', 2)"
    slow.send(["EVAL", source, 0])
    other.do("MULTI")
    slow.engine.tick()
    assert waiting.replies() == []
    go_on(slow, 20)
    assert len(waiting.replies()[0][0][1]) == 2


def test_time_stands_still_for_an_interrupted_script_and_not_for_others(slow, clock):
    slow.execute(["CONFIG", "SET", "busy-reply-threshold", 0])
    slow.execute(["SET", "k", "v", "PX", 5])
    slow.execute(["CONFIG", "SET", "busy-reply-threshold", 1])
    slow.send(["EVAL", "for i = 1, 1e6 do end return redis.call('PTTL', 'k')", 0])
    clock.advance(1000)
    slow.engine.cron()
    go_on(slow, 20)
    assert slow.replies() == [5]
    assert slow.execute(["EXISTS", "k"]) == 0


def test_an_interrupted_transaction_goes_on_where_it_was(slow):
    other = slow.connect()
    slow.do("MULTI")
    slow.do("SET k 1")
    slow.execute(["EVAL", "for i = 1, 1e6 do end return redis.call('INCR', 'k')", 0])
    slow.do("INCR k")
    slow.say("EXEC")
    assert slow.blocked
    assert other.do("GET k") == BUSY
    go_on(slow, 20)
    assert slow.replies() == [["OK", 2, 3]]
    assert other.do("GET k") == b"3"


def test_a_client_that_goes_leaves_its_script_to_end(slow):
    other = slow.connect()
    gone = slow.connect()
    gone.send(["EVAL", "for i = 1, 1e6 do end redis.call('SET', 'k', 'v')", 0])
    gone.disconnect()
    assert other.do("GET k") == BUSY
    go_on(slow, 20)
    assert other.do("GET k") == b"v"


def test_a_threshold_of_zero_never_interrupts(slow):
    slow.execute(["CONFIG", "SET", "busy-reply-threshold", 0])
    assert slow.execute(["EVAL", "for i = 1, 1e6 do end return 'done'", 0]) == b"done"


def test_a_full_server_refuses_scripts_that_say_they_may_write():
    session = Session(config=Config(maxmemory=1 * MIB))
    session.state.refuse_growth(True)
    assert session.execute(["EVAL", "#!lua\nreturn 1", 0]).text.startswith("OOM command not allowed")
    assert session.execute(["EVAL", "#!lua flags=allow-oom\nreturn 1", 0]) == 1
    assert session.execute(["EVAL", "#!lua flags=no-writes\nreturn 1", 0]) == 1
    assert session.execute(["EVAL", "return 1", 0]) == 1
    assert session.execute(["EVAL", "redis.call('SET', 'k', 'v')", 0]).text.startswith("OOM command not allowed")
    assert session.execute(["EVAL", "#!lua flags=allow-oom\nreturn redis.call('SET', 'k', 'v')", 0]) == "OK"


LONG_READS = ["'XRANGE', 's', '-', '+'", "'XREAD', 'STREAMS', 's', '0'", "'KEYS', '*'", "'HGETALL', 'h'"]


@pytest.mark.parametrize("words", LONG_READS)
def test_a_script_gets_a_long_reply_whole(engine, words, monkeypatch):
    for name in range(30):
        engine.do(f"SET k{name} v")
        engine.do(f"HSET h f{name} v")
        engine.do(f"XADD s {name + 1} f v")
    source = f"return redis.call({words})"
    expected = engine.execute(["EVAL", source, 0])
    for module in ("commands.long_replies", "commands.keys.keys", "stream.entry_replies"):
        monkeypatch.setattr(f"streamd.{module}.SLICED_ITEMS_MIN", 3)

    assert engine.execute(["EVAL", source, 0]) == expected
    assert len(str(expected)) > 200


@pytest.mark.parametrize(
    ("source", "of_set", "of_eval"),
    [
        ("return redis.call('SET', 'k')", (0, 1, 0), (1, 0, 1)),
        ("redis.pcall('SET', 'k', 'v', 'x') return 1", (1, 0, 1), (1, 0, 0)),
        ("return redis.pcall('SET', 'k', 'v', 'x')", (1, 0, 1), (1, 0, 1)),
    ],
)
def test_an_error_of_a_scripts_command_is_counted_once(engine, source, of_set, of_eval):
    engine.execute(["EVAL", source, 0])
    commands = engine.engine.commands
    counts = [(one.calls, one.rejected, one.failed) for one in (commands[b"set"], commands[b"eval"])]
    assert counts == [of_set, of_eval]
    assert engine.state.stats.errors == {"ERR": 1}


def test_a_script_that_only_reads_may_not_publish(engine):
    script = "return redis.call('PUBLISH', 'news', 'hello')"
    for request in (["EVAL_RO", script, 0], ["EVAL", f"#!lua flags=no-writes\n{script}", 0]):
        assert engine.execute(request).text.startswith("ERR Write commands are not allowed from read-only scripts.")
    assert engine.execute(["EVAL", script, 0]) == 0


def test_scripts_get_a_set_in_an_order(engine):
    engine.execute(["SADD", "s", *"qwertyuiopasdfgh"])
    for order, reverse in (("ASC", False), ("DESC", True)):
        found = engine.execute(["EVAL", f"return redis.call('SORT', 's', 'BY', 'nosort', '{order}')", 0])
        assert found == sorted((word.encode() for word in "qwertyuiopasdfgh"), reverse=reverse)


def test_info_counts_the_scripts_that_are_known(engine):
    engine.do("SCRIPT LOAD return")
    assert b"number_of_cached_scripts:1\r\n" in engine.do("INFO memory")


@pytest.mark.parametrize(("protocol", "reply"), [(2, b"$7\r\n12  3 4\r\n"), (3, b"(12  3 4\r\n")])
def test_a_big_number_stands_in_one_line(engine, protocol, reply):
    engine.client.protocol = protocol
    assert engine.raw(["EVAL", "return {big_number='12\\r\\n3\\n4'}", 0]) == reply


def test_debug_lets_scripts_call_what_is_not_for_them(engine):
    script = ["EVAL", "redis.setresp(3) return redis.call('DEBUG', 'PROTOCOL', 'attrib')", 0]
    assert "not allowed from script" in engine.execute(script).text
    engine.do("DEBUG SET-DISABLE-DENY-SCRIPTS 1")
    assert engine.execute(script) == b"Some real reply following the attribute"
    engine.do("DEBUG SET-DISABLE-DENY-SCRIPTS 0")
    assert "not allowed from script" in engine.execute(script).text
