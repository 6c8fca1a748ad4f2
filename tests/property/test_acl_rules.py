"""Rules of users against an obvious model: all short lists of rules, and random long ones."""

from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.acl.decision import decide
from streamd.acl.rule_errors import RuleError
from streamd.acl.user import User, merged_rules
from streamd.acl.users import Users
from streamd.catalog import COMMANDS
from streamd.catalog.named import named_by, vocabulary_of
from streamd.configuration.rewriting import rewritten
from streamd.configuration.server_options import Config
from streamd.configuration.setting_lines import split_line
from tests.examples import examples
from tests.session import Error, Session

VOCABULARY = vocabulary_of(COMMANDS.copy_for_server())

REQUESTS = [
    line.split()
    for line in (
        b"GET a", b"GET b", b"SET a 1", b"SET b 1 GET", b"MGET a b", b"COPY a b", b"XREAD STREAMS a b 0 0",
        b"XADD a * f v", b"CONFIG GET hz", b"CONFIG SET hz 10", b"SELECT 0", b"SELECT 1", b"PUBLISH a x",
        b"SUBSCRIBE a b", b"PSUBSCRIBE a*", b"PING", b"HELLO", b"DEL b",
    )
]  # fmt: skip

SHORT_RULES = [
    b"+@all", b"-@all", b"+get", b"-get", b"+config", b"-config|set", b"+config|get", b"+select|0", b"-select",
    b"+@read", b"-@dangerous", b"~*", b"~a", b"%R~a*", b"%W~b", b"resetkeys", b"&*", b"&a", b"&a*", b"resetchannels",
    b"+@pubsub", b"(+get ~b)", b"(+@all ~* &b)", b"clearselectors",
]  # fmt: skip


# -- the model --------------------------------------------------------------------------------------------------------


def leaves():
    for parent in COMMANDS.values():
        yield parent.name, parent
        for sub in parent.subcommands.values():
            yield sub.name, sub


LEAVES = dict(leaves())
CATEGORY = {name: set(described) for name, described in ((n, []) for n in LEAVES)}
for _name in LEAVES:
    CATEGORY[_name] = {category for category, members in VOCABULARY.members.items() if members & VOCABULARY.bit(_name)}


class Model:
    """The rules themselves, in their order: what holds is what the last one that concerns it says."""

    def __init__(self):
        self.rules = []
        self.others = []

    def apply(self, rule):
        if rule == b"clearselectors":
            self.others = []
        elif rule.startswith(b"("):
            inner = Model()
            inner.rules = rule[1:-1].split()
            self.others.append(inner)
        else:
            self.rules.append(rule)

    def allows(self, command, request, keys, channels):
        if any(other.allows(command, request, keys, channels) for other in self.others):
            return True
        return (
            self.allows_command(command, request)
            and all(self.allows_key(key, access) for key, access in keys)
            and all(self.allows_channel(*channel) for channel in channels)
        )

    def allows_command(self, command, request):
        if command in ("hello", "auth", "quit", "reset"):
            return True
        allowed, words = False, set()
        container = command.partition("|")[0]
        for rule in self.rules:
            sign, name = rule[:1], rule[1:].decode()
            if sign not in b"+-":
                continue
            if name == "@all":
                allowed, words = sign == b"+", set()
            elif name.startswith("@"):
                if CATEGORY[command] & {name[1:]} or CATEGORY[container] & {name[1:]}:
                    allowed, words = sign == b"+", set()
            elif name in (command, container):
                allowed, words = sign == b"+", set()
            elif name.partition("|")[0] == command:
                words.add(name.partition("|")[2].encode())
        return allowed or (len(request) > 1 and request[1] in words)

    def allows_key(self, key, access):
        patterns = []
        for rule in self.rules:
            if rule == b"resetkeys":
                patterns = []
            elif rule[:1] == b"~":
                patterns.append((rule[1:].decode(), 3))
            elif rule[:1] == b"%":
                patterns.append((rule[3:].decode(), {b"R": 1, b"W": 2}[rule[1:2]]))
        merged = {}
        for pattern, bits in patterns:
            merged[pattern] = merged.get(pattern, 0) | bits
        return any(fnmatchcase(key.decode(), one) and bits & access == access for one, bits in merged.items())

    def allows_channel(self, channel, is_pattern):
        patterns = []
        for rule in self.rules:
            if rule == b"resetchannels":
                patterns = []
            elif rule[:1] == b"&":
                patterns.append(rule[1:].decode())
        if "*" in patterns:
            return True
        return any(channel.decode() == one if is_pattern else fnmatchcase(channel.decode(), one) for one in patterns)


def named(request):
    command = COMMANDS[request[0].lower()]
    if command.subcommands:
        command = command.subcommands[request[1].lower()]
    return named_by(VOCABULARY, command, request)


NAMED = [(request, named(request)) for request in REQUESTS]


def check(user, model):
    for request, what in NAMED:
        expected = model.allows(what.command, request, what.keys(), what.channels())
        assert (decide(user, what).reason == "ok") == expected, (user.text(), request)


def fill(rules):
    """Return a user and its model; a rule that is refused is one for both."""
    user, model = User(b"ann", VOCABULARY), Model()
    for rule in rules:
        try:
            user.apply(rule)
        except RuleError:
            continue
        model.apply(rule)
    return user, model


def reread(user):
    """Return the user that the text of another makes."""
    made = User(user.name, VOCABULARY)
    for rule in merged_rules(user.text().split()):
        made.apply(rule)
    return made


@pytest.mark.parametrize("first", SHORT_RULES)
def test_three_rules_allow_what_the_model_allows(first):
    for others in product(SHORT_RULES, repeat=2):
        check(*fill((first, *others)))


RULES = st.one_of(
    st.sampled_from(SHORT_RULES),
    st.builds(lambda sign, name: sign + name.encode(), st.sampled_from([b"+", b"-"]), st.sampled_from(sorted(LEAVES))),
    st.builds(
        lambda sign, name: sign + b"@" + name.encode(),
        st.sampled_from([b"+", b"-"]),
        st.sampled_from(sorted(VOCABULARY.members)),
    ),
    st.builds(lambda kind, name: kind + name, st.sampled_from([b"~", b"%R~", b"%W~", b"%RW~", b"&"]), st.binary()),
    st.builds(lambda name, word: b"+%b|%b" % (name, word), st.sampled_from([b"select", b"get"]), st.binary()),
    st.builds(lambda sign, word: sign + word, st.sampled_from([b">", b"<", b"#", b"!"]), st.binary()),
    st.sampled_from([b"on", b"off", b"nopass", b"resetpass", b"reset", b"sanitize-payload", b"skip-sanitize-payload"]),
    st.binary(max_size=6),
).filter(lambda rule: rule.upper() not in (b"%RW~*", b"%WR~*"))  # Their text is `~*`, in Redis, too, and that is more.


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(SHORT_RULES), min_size=4, max_size=12))
def test_many_rules_allow_what_the_model_allows(rules):
    check(*fill(rules))


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(RULES, max_size=12))
def test_the_text_of_a_user_makes_the_same_user(rules):
    user, _ = fill(rules)
    again = reread(user)

    assert again.text() == user.text()
    assert again.selectors[0].commands == user.selectors[0].commands
    assert (again.is_enabled, again.needs_no_password) == (user.is_enabled, user.needs_no_password)
    assert list(again.passwords) == list(user.passwords)
    for _, what in NAMED:
        assert decide(again, what) == decide(user, what)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(RULES, max_size=12))
def test_a_user_comes_back_from_the_configuration_that_was_written(rules):
    user, _ = fill(rules)
    text = rewritten(b"", Config(), (), {user.name: user.text()})
    lines = [split_line(line) for line in text.split(b"\n")]
    found = [[word.encode("utf-8", "surrogateescape") for word in words] for words in lines if words]

    users = Users(VOCABULARY)
    users.add_configured(words[1:] for words in found)

    assert users.get(user.name).text() == user.text()


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(RULES, max_size=8), RULES)
def test_a_rule_that_is_refused_changes_nothing(rules, last):
    user, _ = fill(rules)
    before = user.text()
    try:
        user.apply(last)
    except RuleError:
        assert user.text() == before


# -- through the engine -----------------------------------------------------------------------------------------------

PIPELINES = st.lists(
    st.one_of(
        st.sampled_from(REQUESTS),
        st.builds(
            lambda name, key, count: [[b"XADD", key, b"*", b"f", b"v"], [name, key]][count > 2],
            st.sampled_from([b"GET", b"XLEN", b"DEL"]),
            st.sampled_from([b"a", b"b", b"ab"]),
            st.integers(0, 3),
        ),
    ).filter(lambda request: request[0] not in (b"SUBSCRIBE", b"PSUBSCRIBE", b"HELLO", b"SELECT", b"CONFIG")),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.sampled_from(SHORT_RULES), max_size=6), PIPELINES, st.booleans(), st.booleans())
def test_the_engine_refuses_what_a_decision_refuses(rules, requests, several, in_transaction):
    """The tables, what is remembered, batches, runs of several clients and MULTI against one decision for each."""
    session = Session()
    session.execute([b"ACL", b"SETUSER", b"ann", b"on", b"nopass", b"+acl", b"+multi", b"+exec"])
    for rule in rules:
        session.execute([b"ACL", b"SETUSER", b"ann", rule])
    user = session.state.users.get(b"ann")
    clients = [session.connect() for _ in range(2 if several else 1)]
    for client in clients:
        client.do("AUTH ann x")
    expected = [decide(user, named(request)).reason == "ok" for request in requests]

    for _ in range(2):  # what was allowed is remembered
        if several:
            for client in clients:
                if not session.engine.gathering.take(client.client, list(requests)):
                    session.engine.run(client.client, list(requests))
            session.engine.end_turn()
        elif in_transaction:
            clients[0].send([b"MULTI"], *requests, [b"DISCARD"])
        else:
            clients[0].send(*requests)
        for client in clients:
            replies = client.replies()
            replies = replies[1:-1] if in_transaction and not several else replies
            refused = [isinstance(reply, Error) and reply.text.startswith("NOPERM") for reply in replies]
            if not in_transaction or several or user.is_unrestricted or b"+multi" not in rules:
                allowed = [not one for one in refused]
                assert allowed == expected or (in_transaction and not several and _cannot_queue(user))


KEY_RULES = st.lists(
    st.sampled_from(
        [b"~a*", b"~ab*", b"%R~b*", b"%W~b*", b"~GE*", b"~[ab]*", b"~b", b"(+@all ~G*)", b"(+get ~*)", b"-mget"]
    ),
    max_size=4,
)
KEYS = st.text("abG\n\r", max_size=3).map(str.encode)
RUNS = st.lists(
    st.tuples(
        st.sampled_from([b"GET {}", b"SET {} v", b"SET {} v EX 9", b"SET {} v GET", b"MGET {} {}", b"DEL {} {} {}",
                         b"XLEN {}", b"ZUNION 2 {} {}", b"ZSCORE {} m", b"XADD {} * f v"]),
        st.integers(1, 70), st.lists(KEYS, min_size=1, max_size=3), KEYS, st.integers(0, 69),
    ),
    min_size=1, max_size=5,
)  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(KEY_RULES, KEY_RULES, RUNS)
def test_long_runs_of_any_keys_are_refused_where_a_decision_refuses(rules, others, runs):
    """Some keys again and again and one that comes once, anywhere; by rules that change between two runs."""
    requests = []
    for line, count, keys, odd, place in runs:
        for number in range(count):
            names = iter([odd] if number == place else [])
            requests.append(
                [
                    next(names, keys[(number + at) % len(keys)]) if word == b"{}" else word
                    for at, word in enumerate(line.split())
                ]
            )
    session = Session()
    for some in (rules, others):
        session.execute([b"ACL", b"SETUSER", b"ann", b"reset", b"on", b"nopass", b"+@all"])
        for rule in some:
            session.execute([b"ACL", b"SETUSER", b"ann", rule])
        user = session.state.users.get(b"ann")
        client = session.connect()
        client.do("AUTH ann x")
        for _ in range(2):
            client.send(*[list(request) for request in requests])
            refused = [isinstance(one, Error) and one.text.startswith("NOPERM") for one in client.replies()]
            assert refused == [decide(user, named(request)).reason != "ok" for request in requests]


def _cannot_queue(user):
    return decide(user, named([b"MULTI"])).reason != "ok" or decide(user, named([b"DISCARD"])).reason != "ok"
