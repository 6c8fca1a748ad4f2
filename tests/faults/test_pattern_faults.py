"""What long patterns, and many of them, cost: steps are bounded, and the answers are Redis's."""

import random
from itertools import product

import pytest

from streamd.base import glob_words
from streamd.base.glob import compile_glob
from streamd.base.glob_table import GlobTable
from streamd.base.kept import SHORT_BYTES_MAX
from streamd.base.long_glob import LongGlob
from streamd.stream.search.patterns import long_topic_matcher, topic_matcher
from tests.session import Error, SessionClient

MEGABYTE = 1 << 20
MANY = 2_000


def signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def lower(byte: int) -> int:
    return byte + 32 if 65 <= byte <= 90 else byte


def redis_match(pattern: bytes, text: bytes, ignore_case: bool = False) -> bool:
    """Match as stringmatchlen of Redis 7.0 does; but for stars and an empty text, where callers of it differ."""
    fold = lower if ignore_case else int
    at = place = 0
    while at < len(pattern) and (place < len(text) or pattern[at : at + 1] == b"*"):
        if pattern[at] == ord("*"):
            rest = pattern[at:].lstrip(b"*")
            return any(redis_match(rest, text[skip:], ignore_case) for skip in range(place, len(text) + 1))
        byte, at, found = text[place], at + 1, False
        place += 1
        if pattern[at - 1] == ord("?"):
            continue
        if pattern[at - 1] != ord("["):
            if pattern[at - 1] == ord("\\") and at < len(pattern):
                at += 1
            if fold(pattern[at - 1]) != fold(byte):
                return False
            continue
        negated = pattern[at : at + 1] == b"^"
        at += negated
        while at < len(pattern) and pattern[at] != ord("]"):
            left = len(pattern) - at
            if pattern[at] == ord("\\") and left >= 2:
                at += 1
                found = found or pattern[at] == byte
            elif left >= 3 and pattern[at + 1] == ord("-"):
                start, end = sorted((signed(pattern[at]), signed(pattern[at + 2])))
                found = found or fold(start) <= fold(signed(byte)) <= fold(end)
                at += 2
            else:
                found = found or fold(pattern[at]) == fold(byte)
            at += 1
        at += 1
        if found == negated:
            return False
    return at >= len(pattern) and place == len(text)


def forms(pattern: bytes, ignore_case: bool = False):
    return compile_glob(pattern, ignore_case), LongGlob(pattern, ignore_case).matches


@pytest.mark.parametrize("length", range(5))
def test_faults2_3_4_long_patterns_are_matched_as_short_ones_are(length):
    texts = [bytes(text) for size in range(4) for text in product(b"ac-", repeat=size)]
    for letters in product(b"ac*?[]^-\\", repeat=length):
        pattern = bytes(letters)
        expected = [text for text in texts if redis_match(pattern, text)]
        for matches in forms(pattern):
            assert [text for text in texts if matches(text)] == expected, pattern


@pytest.mark.parametrize("ignore_case", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_faults2_3_4_random_patterns_match_what_redis_says(seed, ignore_case):
    chance = random.Random(seed)
    letters = b"aAbBzZ_@[]^-\\*?\x00\x7f\x80\xff\n" if seed % 2 else b"ab*?[-]"
    for _ in range(150):
        pattern = bytes(chance.choices(letters, k=chance.randrange(12)))
        long = pattern.join([b"*", b"*"]) if chance.random() < 0.3 else pattern
        for _ in range(10):
            text = bytes(chance.choices(letters, k=chance.randrange(9)))
            if ignore_case:
                text = text.lower()  # names of options and commands are in lower case
            expected = redis_match(long, text, ignore_case)
            assert [bool(matches(text)) for matches in forms(long, ignore_case)] == [expected] * 2, (long, text)


def test_faults2_3_4_every_class_of_two_bytes_has_the_members_that_redis_says():
    chance = random.Random(1)
    pairs = [(low, high) for low in range(0, 256, 5) for high in range(0, 256, 7)]
    for low, high in chance.sample(pairs, 200):
        for pattern in (b"[%c-%c]" % (low, high), b"[^%c-%c]" % (low, high), b"[%c\\%c]" % (low, high)):
            for ignore_case in (False, True):
                matches = compile_glob(pattern, ignore_case)
                texts = [bytes((byte,)) for byte in range(256)]
                assert [text for text in texts if matches(text)] == [
                    text for text in texts if redis_match(pattern, text, ignore_case)
                ], (pattern, ignore_case)


LONG = [
    b"a*", b"*a", b"[a]", b"?", b"x", b"*", b"\\a", b"a?", b"[", b"[a-", b"\\", b"[^a]*", b"?*", b"a[bc]*?", b"a*b*",
]  # fmt: skip


@pytest.mark.parametrize("text", [b"", b"hello", b"a" * 5_000])
@pytest.mark.parametrize("unit", LONG)
def test_faults2_3_4_a_pattern_of_a_megabyte_is_cut_only_for_texts_that_are_long_enough(unit, text):
    pattern = unit * (MEGABYTE // len(unit))
    least = glob_words.least_length(pattern)
    glob = LongGlob(pattern, False)

    glob.matches(text)

    assert bool(glob._parts) == (len(text) >= least)
    assert compile_glob(pattern)(text) == glob.matches(text)


@pytest.mark.parametrize("unit", LONG)
def test_faults2_3_4_no_text_is_matched_that_is_shorter_than_a_pattern_needs(unit):
    for count in range(4):
        pattern = unit * count
        texts = [bytes(text) for size in range(9) for text in product(b"ab", repeat=size)]
        lengths = [len(text) for text in texts if redis_match(pattern, text)]
        assert glob_words.least_length(pattern) <= min(lengths, default=9)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (b"a?" * 500 + b"b", b"a" * 3_000, False),
        (b"*" + b"a?" * 500 + b"b*", b"a" * 3_000, False),
        (b"*" + b"a?" * 500 + b"b*", b"a" * 3_000 + b"b", True),
        (b"*" + b"[ab]" * 500 + b"c*", b"ab" * 2_000, False),
        (b"*" + b"[ab]" * 500 + b"c*", b"ab" * 2_000 + b"cc", True),
        (b"*" + b"?" * 500 + b"*", b"a" * 499, False),
        (b"*" + b"?" * 500 + b"*", b"a" * 500, True),
        (b"*a*" * 300, b"a" * 300, True),
        (b"*a*" * 300, b"a" * 299, False),
        (b"*" + b"ab" * 200 + b"?b*" * 20, b"ab" * 5_000, True),
        (b"*" + b"ab" * 200 + b"?c*" * 20, b"ab" * 5_000, False),
    ],
)
def test_faults2_3_4_what_begins_to_match_everywhere_is_decided_for_all_places_at_once(pattern, text, matches):
    assert len(pattern) > SHORT_BYTES_MAX
    assert LongGlob(pattern, False).matches(text) is matches


@pytest.mark.interpreted("a method is replaced")
def test_faults2_3_4_comparisons_of_a_long_pattern_are_counted(monkeypatch):
    from streamd.base import long_glob

    compared = 0
    compare = long_glob._Segment._compared

    def counting(segment, text, at):
        nonlocal compared
        found = compare(segment, text, at)
        compared += found if found > 0 else len(segment.literals) + len(segment.classes)
        return found

    monkeypatch.setattr(long_glob._Segment, "_compared", counting)
    assert not LongGlob(b"*" + b"a?" * 5_000 + b"b*", False).matches(b"a" * 30_000)
    assert compared <= 5 * (5_000 + 30_000)


def test_faults2_3_4_long_topic_filters_are_matched_as_short_ones_are():
    names = [b"", b"a", b"b", b"$a", b"+"]
    topics = [b"/".join(some) for count in range(1, 4) for some in product(names, repeat=count)]
    for count in range(1, 4):
        for levels in product([*names, b"#"], repeat=count):
            if b"#" not in levels[:-1]:
                short, long = topic_matcher([*levels]), long_topic_matcher([*levels])
                assert [one for one in topics if short(one)] == [one for one in topics if long(one)], levels


# -- tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_faults2_3_4_a_table_finds_what_comparing_all_patterns_does(seed):
    chance = random.Random(seed)
    table: GlobTable[int] = GlobTable()
    model: dict[bytes, int] = {}
    for number in range(chance.choice([8, 120])):
        pattern = bytes(chance.choices(b"ab*?[]\\:", weights=[6, 6, 2, 1, 1, 1, 1, 2], k=chance.randrange(7)))
        if pattern in model:
            del table[pattern]
            del model[pattern]
        else:
            table.add(pattern, number)
            model[pattern] = number
        text = bytes(chance.choices(b"ab:[*", k=chance.randrange(6)))
        expected = [(one, value) for one, value in model.items() if redis_match(one, text)]
        assert table.find(text) == expected, text
        assert table.matches(text) == bool(expected)
        assert (len(table), list(table.values())) == (len(model), list(model.values()))


@pytest.mark.parametrize("form", ["user:%d:*", "*:user:%d", "user:*:%d", "user:%d", "%d[ab]*", "a?%d"])
def test_faults2_3_4_a_text_is_compared_with_patterns_that_share_its_beginning_or_its_end(form):
    table: GlobTable[int] = GlobTable()
    for number in range(10_000, 10_000 + MANY):
        table.add((form % number).encode(), number)
    before = table.compared
    text = (form % 10_777).replace("*", "x").replace("?", "y").replace("[ab]", "a").encode()

    found = table.find(text)

    assert [number for _, number in found] == [10_777]
    assert table.compared - before <= 3


def test_faults2_3_4_a_publish_asks_few_of_many_patterns(engine):
    clients = [engine.connect(3) for _ in range(3)]
    for at, client in enumerate(clients):
        client.send([b"PSUBSCRIBE", *(b"c%d:*" % number for number in range(at, MANY, 3))])
    clients[1].send([b"PSUBSCRIBE", b"*", b"c7*"])
    for client in clients:
        client.replies()
        client.pushes.clear()
    patterns = engine.state.pubsub.patterns
    before = patterns.compared

    assert engine.do("PUBLISH c7:x m") == 3

    assert patterns.compared - before <= 5
    assert clients[1].replies() == []
    assert clients[1].pushes == [
        [b"pmessage", pattern, b"c7:x", b"m"] for pattern in (b"c7:*", b"*", b"c7*")
    ]  # fmt: skip
    for client in clients:
        client.disconnect()
    assert len(patterns) == 0
    assert engine.do("PUBLISH c7:x m") == 0


def test_faults2_3_4_an_event_asks_few_of_many_patterns(engine):
    client = engine.connect(3)
    client.send([b"PSUBSCRIBE", *(b"__key*__:k%d" % number for number in range(MANY)), b"__keyevent@0__:*"])
    engine.do("CONFIG SET notify-keyspace-events KEA")
    client.replies()
    client.pushes.clear()
    before = engine.state.pubsub.patterns.compared

    engine.do("SET k9 v")

    assert engine.state.pubsub.patterns.compared - before <= 6
    client.replies()
    assert [push[1:] for push in client.pushes] == [
        [b"__key*__:k9", b"__keyspace@0__:k9", b"set"],
        [b"__keyevent@0__:*", b"__keyevent@0__:set", b"k9"],
    ]


def test_faults2_3_4_an_entry_is_compared_with_few_of_many_globs(engine):
    clients = []
    for number in range(MANY // 4):
        client = SessionClient(engine.engine)
        client.say(f"XFILTER s 0 + COUNT 1 BLOCK 0 FIELD f GLOB t{number}/*")
        clients.append(client)
    globs = engine.state.blocked._filtered[0, b"s"]._by_field[b"f"].globs
    before = globs.compared

    engine.do("XADD s 1-1 f t77/x")

    assert globs.compared - before <= 2
    assert [number for number, client in enumerate(clients) if not client.blocked] == [77]


# -- users ------------------------------------------------------------------------------------------------------------


def set_user(engine, *rules: bytes) -> SessionClient:
    """Return a client of a user who may say all commands, and has these rules."""
    assert engine.execute([b"ACL", b"SETUSER", b"u", b"on", b"nopass", b"+@all", b"resetchannels", *rules]) == "OK"
    client = engine.connect()
    client.do("AUTH u any")
    return client


def compared_keys(engine) -> int:
    uses = [use for one in engine.state.users.get(b"u").selectors for use in one._uses.values()]
    return sum(table.compared for table in {id(table): table for _, _, table in uses if table is not None}.values())


@pytest.mark.parametrize("form", ["p%d:*", "*:p%d", "p%d", "p?:%d"])
def test_faults2_3_4_a_key_is_compared_with_few_of_a_users_patterns(engine, form):
    patterns = [form % number for number in range(10_000, 10_000 + MANY)]
    client = set_user(engine, *(f"~{one}".encode() for one in patterns))
    key = patterns[900].replace("*", "x").replace("?", "y")

    assert client.do(f"SET {key} v") == "OK"
    assert client.do(f"GET {key}") == b"v"
    assert client.do(f"MGET {key} {key}") == [b"v", b"v"]
    assert isinstance(client.do(f"MGET {key} other"), Error)
    assert isinstance(client.do("GET other"), Error)

    assert 0 < compared_keys(engine) <= 40


def test_faults2_3_4_rules_of_many_patterns_are_read_and_shown_in_one_go(engine):
    keys = [b"~p%d:*" % number for number in range(8 * MANY)]
    channels = [b"&c%d:*" % number for number in range(8 * MANY)]
    client = set_user(engine, *keys, *channels)

    shown = engine.do("ACL GETUSER u")
    assert shown[shown.index(b"keys") + 1] == b" ".join(keys)
    assert shown[shown.index(b"channels") + 1] == b" ".join(channels)
    assert any(b" ".join(keys) in line for line in engine.do("ACL LIST"))
    assert engine.do("ACL DRYRUN u GET p15999:x") == "OK"
    assert engine.do("ACL DRYRUN u GET p16000:x") != "OK"
    assert engine.do("ACL DRYRUN u SUBSCRIBE c15999:x c7:y") == "OK"
    assert engine.do("ACL DRYRUN u SUBSCRIBE c16000:x") != "OK"
    assert engine.do("ACL DRYRUN u PSUBSCRIBE c15999:*") == "OK"
    assert engine.do("ACL DRYRUN u PSUBSCRIBE c15999:x") != "OK"
    assert client.do("MSET p1:a 1 p15999:b 2") == "OK"
    assert client.do("PUBLISH c3:x m") == 0
    assert isinstance(client.do("PUBLISH d3:x m"), Error)


def test_faults2_3_4_what_may_be_read_and_what_may_be_written_is_told_apart_among_many_patterns(engine):
    forms = (b"%%R~r%d:*", b"%%W~w%d:*", b"~b%d:*")
    rules = [form % number for number in range(MANY) for form in forms]
    client = set_user(engine, *rules)

    may = [("r7:x", True, False), ("w7:x", False, True), ("b7:x", True, True), ("x", False, False)]
    for key, may_read, may_write in may:
        assert isinstance(client.do(f"GET {key}"), Error) is not may_read
        assert isinstance(client.do(f"SET {key} v"), Error) is not may_write
        assert isinstance(client.do(f"SET {key} v GET"), Error) is not (may_read and may_write)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65, 300])
def test_faults2_3_4_however_many_patterns_there_are_the_same_keys_are_allowed(engine, count):
    client = set_user(engine, *(b"~p%d:*" % number for number in range(count)))
    for number in (0, count // 2, count - 1):
        client.send(*([b"GET", b"p%d:%d" % (number, other)] for other in range(200)))
        assert client.replies() == [None] * 200
    client.send(*([b"GET", b"p%d:x" % number] for number in range(count, count + 50)))
    refused = client.replies()
    assert [type(reply) for reply in refused] == [Error] * 50
