"""What a script cannot do: run for ever, take all memory, or reach anything but its commands."""

from contextlib import suppress

import pytest

from streamd.base.errors import CommandError
from streamd.base.limits import MIB
from streamd.configuration.server_options import Config
from streamd.lua.scripts import EVALUATED_MAX, Scripts
from tests.session import Error, Session

KILLED = "ERR Script killed by user with SCRIPT KILL..."


class Caller:
    """Answers each command with its words."""

    def __init__(self):
        self.calls = 0

    def call(self, words):
        self.calls += 1
        return list(words)

    def set_protocol(self, protocol):
        pass

    def knows(self, name, subcommand):
        return True


def run(source, *words, ticks=20, bytes_max=16 * MIB):
    """Return what a script returns, which is ended when it was asked so many times whether it shall be."""
    left = iter(range(ticks))
    scripts = Scripts(bytes_max, lambda: next(left, None) is None)
    return scripts.run(scripts.evaluated(source.encode("latin-1")), 0, list(words), Caller())


@pytest.mark.parametrize(
    "source",
    [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(error) end",
        "coroutine.wrap(function() while true do end end)()",
        "local co = coroutine.create(function() while true do pcall(error) end end) coroutine.resume(co) return 1",
        "while true do coroutine.resume(coroutine.create(function() for i = 1, 50000 do end end)) end",
        "while true do pcall(coroutine.wrap(function() coroutine.yield() end)) end",
        "xpcall(function() while true do end end, function() while true do end end)",
        "while true do xpcall(function() while true do end end, tostring) end",
        "load(function() while true do end end) while true do end",
        "while true do load(function() while true do end end) end",
        "return setmetatable({}, {__index = function() while true do end end}).x",
        "table.sort({1, 2, 3}, function() while true do end end)",
        "('x'):gsub('x', function() while true do end end)",
        "return tostring(setmetatable({}, {__tostring = function() while true do end end}))",
    ],
)
def test_a_script_that_never_ends_can_be_ended(source):
    with pytest.raises(CommandError, match=KILLED.replace(".", r"\.")):
        run(source)


def test_a_script_runs_again_after_one_was_ended():
    calls = iter([True])
    scripts = Scripts(16 * MIB, lambda: next(calls, False))
    with pytest.raises(CommandError, match="killed"):
        scripts.run(scripts.evaluated(b"while true do end"), 0, [], Caller())
    assert scripts.run(scripts.evaluated(b"for i = 1, 1e6 do end return 7"), 0, [], Caller()) == 7


@pytest.mark.parametrize(
    "source",
    [
        "return ('x'):rep(1e9)",
        "return string.rep('x', 1e15)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local t = {} for i = 1, 1e9 do t[i] = 'key' .. i end",
        "local t = {} while true do t = {t} end",
        "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end",
        "local t = {} for i = 1, 1e9 do t[i] = function() return t end end",
        "return table.concat({('x'):rep(6e6), ('x'):rep(6e6), ('x'):rep(6e6)})",
        "return cjson.encode({('/'):rep(7e6)})",
    ],
)
def test_a_script_that_takes_too_much_memory_ends_and_others_run(source):
    scripts = Scripts(16 * MIB, lambda: False)
    for _ in range(3):
        with pytest.raises(CommandError, match="not enough memory"):
            scripts.run(scripts.evaluated(source.encode()), 0, [], Caller())
        assert scripts.run(scripts.evaluated(b"return redis.call('a', 'b')"), 0, [], Caller()) == [b"a", b"b"]
        assert scripts.memory_bytes < 16 * MIB


@pytest.mark.parametrize("filler", ["('x'):rep(100) .. #t", "{}", "tostring(#t)", "coroutine.create(function() end)"])
def test_the_process_lives_when_a_script_without_memory_left_calls_commands(filler):
    """Python's values would have to be put where there is no room for them."""
    source = f"""
        local t = {{}}
        pcall(function() while true do t[#t + 1] = {filler} end end)
        for i = 1, 100 do
          pcall(redis.call, 'x', 1, i)
          pcall(redis.call, {{}})
          pcall(redis.sha1hex, 'x')
          pcall(function() t[#t + 1] = ('y'):rep(i) end)
        end"""
    scripts, caller = Scripts(16 * MIB, lambda: False), Caller()
    with suppress(CommandError):  # there may be too little for the error of a command, too
        scripts.run(scripts.evaluated(source.encode()), 0, [], caller)
    assert caller.calls == 0
    assert scripts.run(scripts.evaluated(b"return redis.call('a')"), 0, [], caller) == [b"a"]


def test_a_script_that_holds_more_than_two_thirds_of_its_memory_calls_no_commands_until_it_lets_go():
    source = """
        local held = {} for i = 1, 12 do held[i] = ('x'):rep(1e6) .. i end
        local first = select(2, pcall(redis.call, 'x'))
        held = nil
        collectgarbage()
        return {first, redis.call('x')}"""
    assert run(source) == [b"not enough memory", [b"x"]]


def test_a_reply_that_does_not_fit_is_an_error_and_the_script_goes_on():
    class Large(Caller):
        def call(self, words):
            return b"x" * (20 * MIB) if words[0] == b"one" else [b"x" * 1000] * 20_000

    scripts = Scripts(16 * MIB, lambda: False)
    source = "return {select(2, pcall(redis.call, KEYS and 'one')), select(2, pcall(redis.call, 'many'))}"
    reply = scripts.run(scripts.evaluated(source.encode()), 0, [], Large())
    assert [b"not enough memory" in text for text in reply] == [True, True]


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(CommandError, match="not enough memory"):
        run("return #ARGV[1]", b"x" * (20 * MIB))
    assert run("return #ARGV", *[b"x"] * 5_000) == 5_000
    assert run("return ARGV[4999]", *[b"%d" % number for number in range(5_000)]) == b"4998"


@pytest.mark.parametrize("load", ["loadstring(code)", "load(function() local c = code code = nil return c end)"])
def test_bytecode_is_not_loaded(load):
    assert run(f"local code = string.dump(function() return 1 end) return {{tostring({load})}}") == [b"nil"]
    with pytest.raises(CommandError, match="Error compiling script"):
        run("\x1bLua\x51")


def test_code_that_a_script_compiles_sees_what_the_script_sees():
    with pytest.raises(CommandError, match="nonexistent global variable 'debug'"):
        run("return loadstring('return debug')()")
    with pytest.raises(CommandError, match="readonly table"):
        run("loadstring('x = 1')()")
    with pytest.raises(CommandError, match="nonexistent global variable 'io'"):
        run("return coroutine.wrap(loadstring('return io'))()")


def test_nothing_of_python_is_within_reach():
    seen = run("""
        local seen, found = {}, {}
        local function walk(value)
          local kind = type(value)
          if kind == 'userdata' and value ~= cjson.null then found[#found + 1] = tostring(value) end
          if kind ~= 'table' or seen[value] then return end
          seen[value] = true
          walk(getmetatable(value))
          for k, v in pairs(value) do walk(k) walk(v) end
        end
        walk(_G) walk(getmetatable('')) walk(redis.pcall('x')) walk({pcall(redis.call, {})})
        return found""")
    assert seen == []


@pytest.mark.parametrize(
    "name",
    [
        "python",
        "io",
        "debug",
        "require",
        "package",
        "dofile",
        "loadfile",
        "print",
        "getfenv",
        "setfenv",
        "newproxy",
    ],
)
def test_what_could_leave_the_sandbox_is_not_there(name):
    with pytest.raises(CommandError, match=f"Script attempted to access nonexistent global variable '{name}'"):
        run(f"return {name}")
    assert run(f"return rawget(_G, '{name}')") is None


def test_the_processor_time_is_all_that_a_script_has_of_the_system():
    assert run("local names = {} for name in pairs(os) do names[#names + 1] = name end return names") == [b"clock"]
    assert run("return type(os.clock())") == b"number"


def test_python_errors_do_not_reach_a_script(caplog):
    class Broken(Caller):
        def call(self, words):
            raise RuntimeError("secret")

    scripts = Scripts(16 * MIB, lambda: False)
    source = b"local e = redis.pcall('x') return {type(e), e.err}"
    assert scripts.run(scripts.evaluated(source), 0, [], Broken()) == [b"table", b"ERR internal error"]
    assert "a bug in a command" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        "x = 1",
        "_G.x = 1",
        "redis = nil",
        "redis.call = 1",
        "string.len = nil",
        "rawset(_G, 'x', 1)",
        "rawset(math, 'x', 1)",
        "table.insert(string, 1)",
        "table.remove(table)",
        "setmetatable(_G, {})",
        "setmetatable(redis, {})",
        "KEYS = {}",
        "getmetatable('').__index = {}",
        "getmetatable(_G).__index = 1",
        "_G._G = {}",
        "cjson.null = 1",
        "coroutine.wrap = 1",
    ],
)
def test_what_scripts_share_cannot_be_changed(change):
    with pytest.raises(CommandError, match="Attempt to modify a readonly table"):
        run(change)


def test_nothing_is_left_of_a_script():
    scripts, caller = Scripts(16 * MIB, lambda: False), Caller()

    def again(source):
        return scripts.run(scripts.evaluated(source), 0, [b"a"], caller)

    again(b"ARGV[2] = 'x' KEYS.y = 1 redis.setresp(3) for k, v in pairs(string) do k = nil end")
    assert again(b"return {#ARGV, KEYS.y or 'none', tostring(redis.call('x').map), type(next(string))}") == [
        1,
        b"none",
        b"nil",
        b"string",
    ]


@pytest.mark.parametrize(
    "source",
    [
        "local t = {} t[1] = t return t",
        "local a, b = {}, {} a[1] = b b[1] = a return a",
        "local t = {} for i = 1, 10000 do t = {t} end return t",
        "local t = {} t.map = t return t",
        "local t = {map = {}} t.map.a = t return t",
    ],
)
def test_what_is_nested_without_end_is_cut_off(source):
    session = Session()
    raw = session.raw(["EVAL", source, 0])
    assert b"-ERR reached lua stack limit\r\n" in raw
    assert session.execute(["PING"]) == "PONG"


@pytest.mark.parametrize(
    "source",
    [
        "local function f() return 1 + f() end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x",
    ],
)
def test_recursion_without_end_is_an_error(source):
    with pytest.raises(CommandError, match="stack overflow"):
        run(source)


def test_a_tail_call_loop_of_a_script_stays_one():
    assert run("local function f(n) if n == 0 then return 'end' end return f(n - 1) end return f(300000)") == b"end"


def test_scripts_of_eval_are_bounded_and_those_of_load_stay():
    scripts = Scripts(16 * MIB, lambda: False)
    kept = scripts.load(b"return 'kept'")
    used = scripts.evaluated(b"return 'used'")
    for number in range(EVALUATED_MAX + 5):
        scripts.evaluated(b"return %d" % number)
        assert scripts.find(used.name.encode()) is used
    assert scripts.find(kept.name.encode()) is kept
    assert len(scripts) == EVALUATED_MAX + 1
    assert scripts.find(b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db") is None  # return 1


def test_the_bound_of_memory_can_be_changed():
    session = Session(config=Config(lua_memory_max=8 * MIB))
    source = "return #(('x'):rep(12 * 1024 * 1024))"
    assert "not enough memory" in session.execute(["EVAL", source, 0]).text
    session.execute(["CONFIG", "SET", "lua-memory-max", "64mb"])
    assert session.execute(["EVAL", source, 0]) == 12 * MIB


def test_numbers_of_keys_that_cannot_be(engine):
    assert engine.execute(["EVAL", "return 1", -1]) == Error("ERR Number of keys can't be negative")
    assert engine.execute(["EVAL", "return 1", 1]) == Error("ERR Number of keys can't be greater than number of args")
    assert engine.execute(["EVAL", "return 1", 2**63]) == Error("ERR value is not an integer or out of range")
    assert engine.execute(["EVAL", "return 1", "x"]) == Error("ERR value is not an integer or out of range")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("cjson.decode, 'x'", "Expected value but found invalid token at character 1"),
        ("cmsgpack.unpack, {}", "bad argument #1 to '?' (string expected, got table)"),
        ("struct.pack, 'i'", "bad argument #2 to '?' (number expected, got nil)"),
        ("bit.band, 1, {}", "bad argument #2 to '?' (number expected, got table)"),
        ("string.rep, 'x', {}", "bad argument #2 to '?' (number expected, got table)"),
        ("cjson.encode_sparse_array, 1, 2, 3, 4", "bad argument #4 to '?' (found too many arguments)"),
        ("cjson.encode_invalid_numbers, 'maybe'", "bad argument #1 to '?' (invalid option 'maybe')"),
    ],
)
def test_an_error_of_the_library_names_the_line_and_the_name_that_called_it_if_there_is_one(call, text):
    """pcall is none: it calls without either."""
    function, _, words = call.partition(", ")
    assert run(f"return select(2, pcall({call}))") == text.encode()
    assert run(f"return select(2, xpcall(function() return ({function}({words})) end, tostring))").startswith(
        b"user_script:1: " + text.split("'?'")[0].encode()
    )
    named = f"local f = {function}\nreturn select(2, pcall(function()\n  local value = f({words})\nend))"
    assert run(named) == b"user_script:3: " + text.replace("'?'", "'f'").encode()


LIBRARIES = "{ _G = _G, string = string, table = table, math = math, cjson = cjson, cmsgpack = cmsgpack, bit = bit, \
struct = struct, os = os, redis = redis, coroutine = coroutine }"


def test_no_error_of_a_library_names_a_line_that_is_not_the_scripts(engine):
    names = f"""
        local names = {{}}
        for library, functions in pairs({LIBRARIES}) do
            for name, f in pairs(functions) do
                if type(f) == 'function' then names[#names + 1] = library .. '.' .. name end
            end
        end
        return names"""
    tries = """
        local told = {}
        local function try(...)
            local ok, message = pcall(function(...) return %s(...), 1 end, ...)
            if not ok and tostring(message):find('streamd:') then told[#told + 1] = message end
        end
        local values = { 1, -1, 'a', {}, { 3, 1, 2 }, function() return true end, true, 100 }
        try()
        for _, one in pairs(values) do
            try(one)
            try(nil, one)
            for _, other in pairs(values) do
                try(one, other)
                try(one, other, {})
            end
        end
        return told"""
    functions = [name.decode() for name in engine.execute(["EVAL", names, "0"])]
    assert len(functions) > 80
    for function in set(functions) - {"_G.error"}:
        assert engine.execute(["EVAL", tries % function, "0"]) == [], function
