"""What a user with rules may do when many requests come at once and are executed together."""

from itertools import product

import pytest

from streamd.acl.beginnings import Beginnings, each_begins
from tests.session import Error
from tests.unit.acl.test_acl import KEY, client_of


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("SET {} new", "OK"),
        ("SET {} new EX 9", "OK"),
        ("ZADD {} 2 m", 0),
        ("ZSCORE {} m", b"1"),
        ("ZRANGE {} 0 -1", [b"m"]),
        ("XADD {} 2-1 f v", b"2-1"),
        ("XADD {} MAXLEN ~ 5 2-1 f v", b"2-1"),
        ("GET {}", None),
    ],
)
@pytest.mark.parametrize("protocol", [2, 3])
def test_rules_hold_for_each_key_of_requests_that_are_executed_together(engine, line, reply, protocol):
    """Whatever the keys of a run are, and whichever of them was asked for before."""
    name = line.split()[0]
    keys = [b"a%d" % number for number in range(40)]
    for key in [*keys, b"secret"]:
        if name.startswith("Z"):
            engine.execute([b"ZADD", key, b"1", b"m"])
        elif name.startswith("X"):
            engine.execute([b"XADD", key, b"1-1", b"f", b"v"])
    before = engine.execute([b"TYPE", b"secret"]), engine.do("DBSIZE")
    client = client_of(engine, "+@all -acl ~a*")
    if protocol == 3:
        client.do("HELLO 3")
    requests = [line.format(key.decode()).encode().split() for key in keys]
    forbidden = line.format("secret").encode().split()
    if protocol == 3 and reply == b"1":
        reply = 1.0

    for place in (1, 3, 20, 39):
        fresh = [[word if word != b"2-1" else b"%d-1" % (place + 2) for word in one] for one in requests]
        client.send(*fresh[:place], forbidden, *fresh[place:])
        replies = client.replies()
        assert replies[place] == Error(KEY)
        others = replies[:place] + replies[place + 1 :]
        if name != "XADD":
            assert others == [reply] * 40 or (name == "ZADD" and set(others) == {0})
        else:
            assert others == [b"%d-1" % (place + 2)] * 40
        # And where nothing but what is forbidden is sent.
        client.send(*[forbidden] * 20)
        assert client.replies() == [Error(KEY)] * 20

    assert engine.execute([b"TYPE", b"secret"]) == before[0]
    if name == "SET":
        assert engine.do("EXISTS secret") == 0
    elif name == "ZADD":
        assert engine.do("ZSCORE secret m") == b"1"
    elif name == "XADD":
        assert engine.do("XLEN secret") == 1


def test_names_are_known_to_begin_as_they_may_only_if_each_of_them_does():
    """All lists of up to three short names against asking each, also of names that hold what stands between them."""
    names = [bytes(word) for length in range(4) for word in product(b"ab\n", repeat=length)]
    for prefixes in (
        (b"a",), (b"a", b"ab"), (b"ab", b"b", b"a"), (b"",), (b"aa", b"bb"), (b"\na", b"b"), (b"a\nb", b"b"), (),
    ):  # fmt: skip
        beginnings = Beginnings(prefixes)
        for length in (1, 2, 3):
            for some in product(names if length < 3 else names[:13], repeat=length):
                expected = all(name.startswith(prefixes) for name in some)
                found = beginnings.are_of_all([*some])
                # (The compiled form asks each of them.)
                assert not beginnings.prefixes or each_begins([*some], beginnings.prefixes) >= found
                if not any(b"\n" in one for one in prefixes):
                    assert not prefixes or each_begins([*some], beginnings.prefixes) == expected
                has_break = any(b"\n" in one for one in (*some, *prefixes))
                assert found == expected or (expected and has_break), (prefixes, some)


# Requests of which {} is a key that may not be named, among many of a run.
_AMONG = [
    b"GET {}",
    b"MGET a {}",
    b"MGET {} a",
    b"SET {} v",
    b"SET {} v EX 9",
    b"SET {} v GET",
    b"DEL a {}",
    b"EXISTS a {}",
    b"XADD {} * f v",
    b"ZSCORE {} m",
    b"HGET {} f",
    b"ZUNION 1 {}",
    b"ZUNION 2 a {}",
    b"OBJECT ENCODING {}",
    b"EVAL_RO x 1 {}",
    b"XREAD STREAMS a {} 0 0",
    b"COPY a {}",
    b"LMOVE {} a LEFT LEFT",
]
_FORBIDDEN = [b"secret", b"x\na1", b"x\na1\na2", b"x\ra1", b"\n", b"", b"b1", b"GET", b"get"]


@pytest.mark.parametrize("rules", ["~a* ~get2*", "~GET2* ~a*", "~a ~a?* ~aa*", "%R~a* %W~a* %RW~a*", "~[a]*"])
def test_one_key_of_many_is_refused_wherever_it_stands(engine, rules):
    """In runs of any length, of keys that were named before and of new ones, between requests of other commands."""
    client = client_of(engine, f"+@all -acl {rules}")
    fresh = 0
    for line in _AMONG:
        for forbidden in _FORBIDDEN:
            wrong = [word.replace(b"{}", forbidden) for word in line.split(b" ")]
            for place, total in ((0, 3), (17, 40), (31, 33), (100, 200), (150, 300)):
                requests = [[b"GET", b"a%d" % (fresh + number)] for number in range(total)]
                fresh += total // 2
                requests[place] = wrong
                client.send(*requests)
                replies = client.replies()
                refused = [number for number, reply in enumerate(replies) if reply == Error(KEY)]
                assert refused == [place], (line, forbidden)
                # And where those beside it are of the same command.
                right = [word.replace(b"{}", b"a%d" % fresh) for word in line.split(b" ")]
                client.send(*[wrong if number == place else right for number in range(min(total, 40))])
                refused = [number for number, reply in enumerate(client.replies()) if reply == Error(KEY)]
                assert refused == [place] * (place < 40), (line, forbidden)


def test_rules_hold_for_new_keys_when_as_many_are_known_as_are_remembered(engine):
    client = client_of(engine, "+@all -acl ~a* %R~r*")
    for start in range(0, 20_000, 1_000):
        client.send(*[[b"GET", b"a%d" % number] for number in range(start, start + 1_000)])
        assert set(client.replies()) == {None}
    for name in (b"b", b"x\na", b"r"):
        for line in (b"SET {} v", b"GET {}", b"MGET a {}", b"DEL {}", b"EVAL x 1 {}"):
            request = [word.replace(b"{}", name) for word in line.split()]
            if name != b"r" or line.split()[0] not in (b"GET", b"MGET"):
                assert client.execute(request) == Error(KEY)
                client.send(*[[b"GET", b"new%d" % 1], request] * 20)
                assert client.replies() == [Error(KEY)] * 40
    assert client.execute([b"GET", b"r%d" % 20_001]) is None
    assert client.execute([b"GET", b"a%d" % 20_001]) is None
    assert client.execute([b"MGET", b"a-1", b"r-1", b"a-2"]) == [None] * 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ACL SETUSER ann resetkeys ~b*", "GET a"),
        ("ACL SETUSER ann -get", "GET a"),
        ("AUTH bob x", "GET a"),
        ("HELLO 3 AUTH bob x", "GET a"),
    ],
)
def test_what_exec_executes_is_looked_at_again_behind_what_changes_rules(engine, first, second):
    client = client_of(engine, "+@all ~a*")
    engine.do("ACL SETUSER bob on nopass ~b* +@all")
    client.send([b"MULTI"], second.split(), first.split(), *[second.split()] * 20, [b"EXEC"])
    *_, replies = client.replies()
    assert replies[0] is None
    assert all(isinstance(reply, Error) and reply.text.startswith("NOPERM") for reply in replies[2:])


def test_what_was_queued_is_looked_at_by_the_rules_at_exec(engine):
    client = client_of(engine, "+@all ~a*")
    for changes in (["resetkeys ~b*"], ["resetkeys ~b*", "resetkeys ~a* -get"], ["+@all ~*", "resetkeys ~b*"]):
        engine.do("ACL SETUSER ann reset on nopass +@all ~a*")
        client.do("MULTI")
        client.do("GET a")
        for change in changes:
            engine.do(f"ACL SETUSER ann {change}")
        (reply,) = client.do("EXEC")
        assert reply.text.startswith("NOPERM")


def test_a_script_of_a_user_with_rules_is_held_to_them_at_each_of_its_calls(engine):
    pytest.importorskip("lupa")
    client = client_of(engine, "+@all -acl -incr ~a* %R~r*")
    calls = {
        "'GET', 'a1'": None, "'GET', 'r1'": None, "'SET', 'a2', 'v'": None, "'SET', 'r1', 'v'": "access a key",
        "'GET', 'b'": "access a key", "'MGET', 'a1', 'b'": "access a key",
        "'INCR', 'a1'": "has no permissions to run the 'incr' command",
        "'GET'": "Wrong number of args", "'SUBSCRIBE', 'a'": "not allowed",
    }  # fmt: skip
    for _ in range(2):
        for before in ("'GET', 'a3'", "'SET', 'a3', 'v'", "'MGET', 'a3', 'a4'"):
            for call, error in calls.items():
                script = f"for i = 1, 3 do redis.call({before}) end; local r = redis.pcall({call}); return r"
                reply = client.execute([b"EVAL", script.encode(), b"0"])
                assert (error is None and not isinstance(reply, Error)) or error in reply.text, (before, call)
    written = client.execute([b"EVAL_RO", b"redis.call('GET', 'a'); return redis.pcall('SET', 'a', 'v')", b"0"])
    assert "Write commands are not allowed from read-only scripts" in written.text


def test_monitors_see_what_the_script_of_a_user_with_rules_calls(engine):
    pytest.importorskip("lupa")
    client = client_of(engine, "+@all ~a*")
    client.execute([b"EVAL", b"return redis.call('GET', 'a')", b"0"])
    watching = engine.connect()
    watching.do("MONITOR")
    client.execute([b"EVAL", b"return redis.call('GET', 'a')", b"0"])
    assert b'lua] "GET" "a"' in watching.received()


def test_a_script_that_changes_its_users_rules_is_held_to_the_new_ones_at_once(engine):
    """As is what comes behind it in a pipeline."""
    pytest.importorskip("lupa")
    client = client_of(engine, "+@all ~a*")
    engine.do("DEBUG SET-DISABLE-DENY-SCRIPTS 1")
    script = b"""redis.call('ACL', 'SETUSER', 'ann', 'resetkeys', '~b*')
                 return {redis.pcall('GET', 'a').err ~= nil, redis.pcall('GET', 'b')}"""
    client.send([b"GET", b"a"], [b"EVAL", script, b"0"], *[[b"GET", b"a"]] * 20, [b"GET", b"b"])
    first, (was_refused, *_), *others, last = client.replies()

    assert (first, was_refused, last) == (None, 1, None)
    assert others == [Error(KEY)] * 20
    engine.do("ACL SETUSER ann ~*")
    engine.do("DEBUG SET-DISABLE-DENY-SCRIPTS 0")
    assert client.engine.state.scripts_may_all is False
    client.do("GET b")
    assert b"get" in client.client.quick


@pytest.mark.parametrize("line", ["GET {}", "SET {} v", "MGET {} {}", "XADD {} * f v", "EXISTS {}"])
@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ("~a*", "resetkeys ~b*", "b"),
        ("~a* ~b*", "resetkeys ~[b]*", "b"),
        ("allkeys", "resetkeys ~b* ~c*", "bc"),
        ("~a*", "allkeys", "abc"),
        ("~a*", "resetkeys (+@all ~b*) (+@all ~c*)", "bc"),
        ("(+@all ~a*)", "clearselectors ~c*", "c"),
    ],
)
def test_rules_that_change_within_a_pipeline_hold_from_the_next_request_on(engine, line, before, change, after):
    """Among requests that would be executed together, for keys that were known to be allowed."""
    client = client_of(engine, f"+@all {before}")
    name = client.do("ACL WHOAMI").decode()
    requests = [line.replace("{}", f"{'abc'[number % 3]}{number}").encode().split() for number in range(60)]
    firsts = [line.replace("{}", f"a{number}").encode().split() for number in range(60)]
    client.send(*firsts, [b"ACL", b"SETUSER", name.encode(), *change.encode().split()], *requests)
    replies = client.replies()
    assert Error(KEY) not in replies[:60]
    assert replies[60] == "OK"
    for number, reply in enumerate(replies[61:]):
        assert (reply == Error(KEY)) == ("abc"[number % 3] not in after), number


def test_gets_of_a_user_with_rules_are_executed_together(engine):
    for rules in ("~a*", "~a* ~b*", "~[a]*"):
        client = client_of(engine, f"+@all -acl {rules}")
        keys = [b"a%d" % number for number in range(200)]
        client.do("GET a")  # what comes first has the rules prepared
        for _ in range(2):
            seen = engine.batches(b"get")
            client.send(*[[b"GET", key] for key in keys])
            assert client.replies() == [None] * 200
            assert sum(seen) == 200
            assert len(seen) <= 3


_CALLS = """
local texts = {}
for round = 1, 3 do
    for at = 1, #ARGV do
        local words = {}
        for word in ARGV[at]:gmatch('%S+') do words[#words + 1] = word end
        local reply = redis.pcall(unpack(words))
        local text = type(reply) == 'table' and reply.err or 'fine'
        if round > 1 and texts[at] ~= text then return 'another answer to ' .. ARGV[at] end
        texts[at] = text
    end
end
return texts
"""
_NO_KEY = "ERR ACL failure in script: No permissions to access a key"
_NO_COMMAND = "ERR ACL failure in script: User ann has no permissions to run the 'incr' command"


def test_what_a_script_was_allowed_once_is_allowed_again_and_nothing_else(engine):
    """In one script, in the next, and by the rules that hold when it begins."""
    pytest.importorskip("lupa")
    client, other = client_of(engine, "+@all -acl -incr ~a* %R~r*"), engine.connect()

    def answers(of, *lines):
        return [text.decode() for text in of.execute([b"EVAL", _CALLS, b"0", *lines])]

    expected = {
        "GET a": "fine",
        "get r": "fine",
        "Get b": _NO_KEY,
        "SET a 1": "fine",
        "set r 1": _NO_KEY,
        "SET r 1 GET": _NO_KEY,
        "MGET a r b": _NO_KEY,
        "INCR a": _NO_COMMAND,
        "XLEN r": "fine",
        "PUBLISH a x": "ERR ACL failure in script: No permissions to access a channel",
    }
    lines, fine = [*expected], [*expected.values()]
    for _ in range(2):
        assert answers(client, *lines) == fine
    assert answers(other, "GET b", "INCR b", "set r 1") == ["fine"] * 3  # who may do everything, with the same words
    assert (
        answers(client, "GET", "GET a b", "SET a", "XLEN")
        == ["ERR Wrong number of args calling Redis command from script"] * 4
    )
    engine.do("ACL SETUSER ann resetkeys ~b* +incr")
    assert answers(client, *lines[:4], "INCR b") == [_NO_KEY, _NO_KEY, "fine", _NO_KEY, "fine"]
    client.do("AUTH default any")
    assert answers(client, "GET a", "INCR a") == ["fine", "fine"]
