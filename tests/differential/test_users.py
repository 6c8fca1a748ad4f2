"""Users with random rules, and what they may do, beside redis-server."""

import random

import pytest

from streamd.catalog import COMMANDS
from streamd.configuration.server_options import Config
from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.session import Error, Session, decode

pytestmark = needs_redis

HASH = b"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
USERS = 150
PATTERNS = [b"*", b"a", b"a*", b"?", b"[ab]", b"b*c", b"{a}:*", b""]
WORDS = [
    b"on", b"off", b"nopass", b"resetpass", b">one", b">two", b"<one", b"#" + HASH, b"!" + HASH, b"#12", b"reset",
    b"allkeys", b"resetkeys", b"allchannels", b"resetchannels", b"allcommands", b"nocommands", b"clearselectors",
    b"skip-sanitize-payload", b"sanitize-payload", b"", b"nonsense", b"(", b"()", b"(~a +get)", b"(~a", b"+set)",
    b"(%R~b +@all &a)", b"+select|0", b"+select|A", b"+config|get|a", b"+config|", b"+get|", b"+nosuch|a", b"+", b"-",
    b"+@", b"%R~", b"%X~a", b"%RR~a", b"%wr~a", b"~a b", b"&a b", b"+GET", b"-@All", b"+@all", b"-@all", b"ON",
    b"+@array", b"-msetex", b"+VADD", b"+vadd|x", b"-cluster|info",
]  # fmt: skip
REQUESTS = [
    line.split()
    for line in (
        b"GET a", b"GET bc", b"SET a 1", b"SET b 1 GET", b"SET ab 1 EX 10", b"MGET a b", b"DEL a ab", b"COPY a b",
        b"RENAME a b", b"LMOVE a b LEFT LEFT", b"EXISTS a", b"TYPE b", b"SORT a STORE b", b"SORT a",
        b"ZUNIONSTORE a 1 b",
        b"ZADD b 1 m", b"ZRANGE a 0 -1", b"BLPOP a b 0", b"LMPOP 2 a b LEFT", b"XADD a * f v", b"XREAD STREAMS a b 0 0",
        b"XREADGROUP GROUP g c STREAMS a >", b"XGROUP CREATE a g 0", b"XINFO STREAM b", b"XACK a g 1-0",
        b"CONFIG GET hz",
        b"CONFIG SET hz 10", b"CONFIG RESETSTAT", b"CLIENT ID", b"CLIENT KILL x", b"SELECT 0", b"SELECT a", b"SELECT 1",
        b"PUBLISH a x", b"PUBLISH ab x", b"SUBSCRIBE a b", b"PSUBSCRIBE a*", b"PSUBSCRIBE a", b"UNSUBSCRIBE a", b"PING",
        b"HELLO", b"AUTH x", b"RESET", b"MULTI", b"EXEC", b"WATCH a", b"EVAL x 1 a", b"EVAL x 0", b"EVAL_RO x 1 b",
        b"SCRIPT LOAD x", b"OBJECT ENCODING a", b"MEMORY USAGE a", b"DEBUG OBJECT a", b"ACL WHOAMI", b"ACL SETUSER x",
        b"FLUSHALL", b"SHUTDOWN", b"KEYS *", b"SCAN 0", b"BITOP AND a b", b"GETDEL a", b"GETEX b", b"EXPIRE a 1",
        b"NOSUCH a", b"GET", b"BITFIELD a", b"BITFIELD a GET u8 0", b"BITFIELD b GET u8 0 OVERFLOW SAT",
        b"BITFIELD b SET", b"BITFIELD b GET u8", b"BITFIELD a GET u8 0 INCRBY u8 0 1",
        b"BITFIELD a OVERFLOW", b"BITFIELD a x",
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        client = RawClient(port)
        client.ask([b"HELLO", b"3"])
        yield client
        client.close()


def ask(client, words):
    """Return redis-server's reply as a session returns it."""
    return decode(client.ask(words))[0]


def known_to_both(redis):
    """Return the names of commands whose rules mean the same to both: those with subcommands have the same ones."""
    ours = {name: parent.name for parent in COMMANDS.values() for name in names_of(parent)}
    theirs = {name for name in ours if ask(redis, [b"COMMAND", b"INFO", name.encode()]) != [None]}
    partial = {container for name, container in ours.items() if name not in theirs}
    return sorted(name for name in theirs if ours[name] not in partial)


def names_of(command):
    return [one.name for one in (command, *command.subcommands.values())]


def random_rules(rng, names, categories):
    def rule():
        kind = rng.random()
        if kind < 0.25:
            return rng.choice(WORDS)
        if kind < 0.5:
            return rng.choice([b"+", b"-"]) + rng.choice(names).encode()
        if kind < 0.7:
            return rng.choice([b"+@", b"-@"]) + rng.choice(categories)
        return rng.choice([b"~", b"~", b"%R~", b"%W~", b"%RW~", b"&"]) + rng.choice(PATTERNS)

    return [rule() for _ in range(rng.randint(1, 8))]


def shape_of(reply):
    """Return a user as GETUSER shows it, but for the words that commands are described by: these need not be the same
    to allow the same.
    """
    if isinstance(reply, dict):
        return {name: shape_of(value) for name, value in reply.items() if name != b"commands"}
    return [shape_of(one) for one in reply] if isinstance(reply, list) else reply


def test_random_rules_make_the_same_users(redis):
    rng = random.Random(17)
    session = Session()
    session.do("HELLO 3")
    names, categories = known_to_both(redis), ask(redis, [b"ACL", b"CAT"])
    categories = [name.encode() if isinstance(name, str) else name for name in categories]
    refusals = allowed = denied = 0
    for number in range(USERS):
        user = b"u%d" % (number % 3)
        if number % 3 == 0:
            for one in (b"u0", b"u1", b"u2"):
                ask(redis, [b"ACL", b"DELUSER", one])
                session.execute([b"ACL", b"DELUSER", one])
        rules = random_rules(rng, names, categories)
        theirs, ours = (
            ask(redis, [b"ACL", b"SETUSER", user, *rules]),
            session.execute([b"ACL", b"SETUSER", user, *rules]),
        )
        assert ours == theirs, rules
        refusals += isinstance(ours, Error)
        theirs, ours = ask(redis, [b"ACL", b"GETUSER", user]), session.execute([b"ACL", b"GETUSER", user])
        assert shape_of(ours) == shape_of(theirs), rules
        for request in REQUESTS if ours is not None else ():
            asked = [b"ACL", b"DRYRUN", user, *request]
            theirs, ours = ask(redis, asked), session.execute(asked)
            assert ours == theirs, (rules, request)
            allowed += ours == "OK"
            denied += isinstance(ours, bytes)
        if number % 5 == 0:
            _exchange(redis, session, user)
    assert refusals > USERS / 10
    assert min(allowed, denied) > 500


def _exchange(redis, session, user):
    """Have each server take the other's text of a user: then both allow what they allowed."""
    theirs = [line for line in ask(redis, [b"ACL", b"LIST"]) if line.startswith(b"user %b " % user)]
    if not theirs:
        return
    setting = [b"ACL", b"SETUSER", b"taken", b"reset", *theirs[0].split()[2:]]
    taken = ask(redis, setting)
    ask(redis, [b"ACL", b"DELUSER", b"taken"])
    assert session.execute(setting) == taken
    if taken != "OK":  # it shows `%RW~*` as `~*`, behind which it takes no further pattern
        return
    for request in REQUESTS:
        asked = session.execute([b"ACL", b"DRYRUN", b"taken", *request])
        if isinstance(asked, bytes):
            asked = asked.replace(b"User taken ", b"User %b " % user)
        assert asked == session.execute([b"ACL", b"DRYRUN", user, *request]), (theirs, request)


def test_categories_hold_the_commands_that_they_hold_in_redis(redis):
    session = Session()
    session.do("HELLO 3")
    names = {one.name.encode() for parent in COMMANDS.values() for one in (parent, *parent.subcommands.values())}
    for category in ask(redis, [b"ACL", b"CAT"]):
        theirs = set(ask(redis, [b"ACL", b"CAT", category])) & names
        ours = set(session.execute([b"ACL", b"CAT", category]))
        own = {name for name in ours - theirs if ask(redis, [b"COMMAND", b"INFO", name]) == [None]}
        assert ours - own == theirs, category


def test_a_file_of_redis_is_loaded_and_its_words_are_kept(tmp_path):
    path = tmp_path / "users.acl"
    path.write_text("")
    words = b"+@array +vadd -vsim +msetex +delex +cluster|info -@geo +fcall +get +select|0 +config|get -sunsubscribe"
    selector = b"(~k +arget +backup|start +xadd)"
    with running_redis(tmp_path, None, "--aclfile", str(path)) as port:
        client = RawClient(port)
        for user in (b"ann on >one ~a* %R~b &c -@all " + words, b"bob on nopass allkeys +@all -arset " + selector):
            assert client.ask([b"ACL", b"SETUSER", *user.split()]) == b"+OK\r\n"
        assert client.ask([b"ACL", b"SAVE"]) == b"+OK\r\n"
        theirs = decode(client.ask([b"ACL", b"LIST"]))[0]
        client.close()
    session = Session(config=Config(aclfile=str(path)))
    assert session.execute([b"ACL", b"LIST"]) == theirs
    assert session.execute([b"ACL", b"DRYRUN", b"ann", b"GET", b"a"]) == "OK"
    assert session.execute([b"ACL", b"SAVE"]) == "OK"
    assert path.read_bytes() == b"".join(line + b"\n" for line in theirs)


TOLD = [
    [b"ACL"], [b"ACL", b"NOSUCH"], [b"ACL", b"WHOAMI", b"x"], [b"ACL", b"CAT", b"nosuch"], [b"ACL", b"GENPASS", b"0"],
    [b"ACL", b"GENPASS", b"x"], [b"ACL", b"SETUSER", b"a b"], [b"ACL", b"SETUSER", b"a\0b"],
    [b"ACL", b"GETUSER", b"no"],
    [b"ACL", b"DELUSER", b"default"], [b"ACL", b"DELUSER", b"no", b"none"], [b"ACL", b"SAVE"], [b"ACL", b"LOAD"],
    [b"ACL", b"LOG", b"x"], [b"ACL", b"LOG", b"-1"], [b"ACL", b"LOG", b"reset"], [b"ACL", b"LOG"],
    [b"ACL", b"LOG", b"1", b"2"],
    [b"ACL", b"CAT", b"a", b"b"], [b"ACL", b"GENPASS", b"1", b"2"], [b"ACL", b"DRYRUN", b"no", b"get"],
    [b"ACL", b"USERS"],
    [b"AUTH", b"x"], [b"AUTH", b"no", b"x"], [b"AUTH", b"default", b"x"], [b"AUTH", b"a", b"b", b"c"],
    [b"ACL", b"WHOAMI"],
    [b"HELLO", b"3", b"AUTH", b"no", b"x"], [b"CLIENT", b"KILL", b"USER", b"no"],
    [b"ACL", b"DRYRUN", b"default", b"no"],
    [b"ACL", b"DRYRUN", b"default", b"get"], [b"ACL", b"CAT"],
]  # fmt: skip


@pytest.mark.parametrize("words", TOLD, ids=lambda words: b" ".join(words).decode())
def test_acl_answers_as_redis_does(redis, words):
    session = Session()
    session.do("HELLO 3")
    ask(redis, [b"ACL", b"LOG", b"RESET"])
    for name in ask(redis, [b"ACL", b"USERS"]):
        if name != b"default":
            ask(redis, [b"ACL", b"DELUSER", name])

    assert session.execute(words) == ask(redis, words)


RESTRICTED = [
    [b"GET", b"b"], [b"INCR", b"a"], [b"PUBLISH", b"b", b"x"], [b"SUBSCRIBE", b"b"], [b"PSUBSCRIBE", b"b*"],
    [b"CONFIG", b"GET", b"hz"], [b"EVAL", b"return redis.call('GET', 'b')", b"0"], [b"SORT", b"a", b"BY", b"x*"],
    [b"EVAL", b"return redis.pcall('INCR', 'a')", b"0"], [b"EVAL", b"return redis.call('PUBLISH', 'b', 'x')", b"0"],
    [b"EVAL", b"return redis.acl_check_cmd('GET', 'b')", b"0"], [b"EVAL", b"return redis.sha1hex('')", b"1", b"b"],
    [b"SORT", b"a", b"GET", b"#"], [b"MULTI"], [b"GET", b"a"], [b"GET", b"b"], [b"EXEC"], [b"MULTI"], [b"GET", b"a"],
    [b"EXEC"], [b"DISCARD"], [b"WATCH", b"b"], [b"NOSUCH"], [b"GET"],
    [b"XREADGROUP", b"GROUP", b"a", b"a", b"STREAMS", b"b", b">"],
]  # fmt: skip


def test_a_restricted_client_is_told_what_redis_tells(redis):
    session = Session()
    user = b"ACL SETUSER ann on nopass +@all -incr -config -discard ~a &a".split()
    session.execute(user)
    ask(redis, user)
    for words in ([b"AUTH", b"ann", b"x"], [b"HELLO", b"3"], *RESTRICTED):
        theirs, ours = ask(redis, words), session.execute(words)
        if words[0] != b"HELLO":
            assert ours == theirs, words
    fields = [b"count", b"reason", b"context", b"object", b"username"]
    logs = [
        [[entry[name] for name in fields] for entry in log]
        for log in (ask(redis, [b"ACL", b"LOG", b"100"]), session.execute([b"ACL", b"LOG", b"100"]))
    ]
    ask(redis, [b"AUTH", b"default", b"x"])
    assert logs[1] == logs[0]
