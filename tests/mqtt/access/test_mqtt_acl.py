"""The decisions of ACL files, by tables, and against a slow model."""

import random
from itertools import product

import pytest

from streamd.clients.mqtt.access import FileFault, Rights, read_rights
from streamd.clients.mqtt.access import acl as acl_module
from streamd.clients.mqtt.access.acl import has_topic_outside
from streamd.clients.topics.filters import TopicFilter
from tests.mqtt.access import acl_model
from tests.topics.mqtt_model import all_topics, matches

TABLE = """\
# ann's and everybody's
topic read news/#
topic a
user ann
topic x/#
topic deny x/secret
topic write w/#
topic read w/q
topic $own/#
topic $SYS/#
topic $share/#
topic p/no
pattern readwrite p/%c/q
pattern deny p/no
pattern deny x/from-pattern
pattern part/a-%c-%u/b
pattern %u/%%c/#
user ann smith
topic readwrite two words
user ann
topic read again
"""


def read(tmp_path, text):
    path = tmp_path / "acl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_rights(path)


def may(rights, topic):
    return "r" * rights.may_read(topic.encode()) + "w" * rights.may_write(topic.encode())


@pytest.mark.parametrize(
    ("user", "client_id", "topic", "answer"),
    [
        (None, "c1", "news/today", "r"),
        (None, "c1", "a", "rw"),
        (None, "c1", "x/1", ""),
        ("", "c1", "a", "rw"),  # an empty name is none
        ("ann", "c1", "a", ""),  # rules of clients without a name are theirs alone
        ("ann", "c1", "news/today", ""),
        ("ann", "c1", "x", "rw"),
        ("ann", "c1", "x/1/2", "rw"),
        ("ann", "c1", "x/secret", ""),  # a later deny forbids
        ("ann", "c1", "x/secret/below", "rw"),
        ("ann", "c1", "w/q", "rw"),
        ("ann", "c1", "w/r", "w"),
        ("ann", "c1", "$own/1", "rw"),
        ("ann", "c1", "$SYS/broker/uptime", "r"),
        ("ann", "c1", "$SYSx", ""),
        ("ann", "c1", "$SYS/broker/connection/b/state", "rw"),
        ("ann", "c1", "$share/g/x", ""),
        ("ann", "c1", "p/no", "rw"),  # what a topic grants no pattern takes away
        ("ann", "c1", "x/from-pattern", "rw"),
        ("bob", "c1", "p/no", ""),
        ("bob", "c1", "p/c1/q", "rw"),
        ("bob", "c2", "p/c1/q", ""),
        (None, "c1", "p/c1/q", "rw"),
        ("bob", "c1", "part/a-c1-bob/b", "rw"),  # placeholders may be a part of a level
        ("bob", "c1", "part/a-c1-ann/b", ""),
        (None, "c1", "part/a-c1-/b", ""),  # %u is nothing to a client without a name
        ("bob", "c1", "bob/%c1/deep", "rw"),
        ("x/y", "p/q", "p/p/q/q", "rw"),
        ("x/y", "p/q", "part/a-p/q-x/y/b", "rw"),
        ("%c", "c1", "part/a-c1-%c/b", "rw"),  # a name is not replaced again
        ("ann", "c+", "x/1", "rw"),
        ("ann", "c+", "p/c+/q", ""),  # names with wildcards have no patterns
        ("bob", "#", "p/c1/q", ""),
        ("b+b", "c1", "p/c1/q", ""),
        ("ann smith", "c1", "two words", "rw"),
        ("ann", "c1", "again", "r"),
        ("zed", "c1", "a", ""),
    ],
)
def test_a_client_may_do_what_mosquitto_lets_it_do(tmp_path, user, client_id, topic, answer):
    rights = read(tmp_path, TABLE).for_client(user, client_id)
    assert may(rights, topic) == answer
    assert may(rights, topic) == answer, "the decision that was kept"


def test_without_a_file_everything_is_allowed_but_the_topics_of_the_server():
    rights = Rights(None).for_client(None, "c+")
    topics = ["a", "$own", "$SYS/a", "$SYS/broker/connection/b/state", "$share/g/a"]
    assert [may(rights, topic) for topic in topics] == ["rw", "rw", "r", "rw", ""]
    assert rights.may_subscribe("#")
    assert not rights.may_subscribe("$share")


def test_an_empty_file_forbids_everything(tmp_path):
    rights = read(tmp_path, "# nothing\n").for_client("ann", "c1")
    assert may(rights, "a") == ""
    assert not rights.may_subscribe("#")


@pytest.mark.parametrize(
    ("text", "number", "words"),
    [
        ("topic", 1, ["'topic' has no filter", "write topic ["]),
        ("\ntopic read \n", 2, ["'topic read' has no filter"]),
        ("topic deny", 1, ["'topic deny' has no filter"]),
        ("pattern", 1, ["write pattern ["]),
        ("topic a b", 1, ["'a' is none of read, write, readwrite, deny"]),
        ("topic Read a", 1, ["'Read'"]),
        ("topic read a # why", 1, ["part of its level"]),
        ("topic read a/#/b", 1, ["not the last level"]),
        ("topic read a+", 1, ["part of its level"]),
        ("pattern read a/%c+", 1, ["part of its level"]),
        ("\ttopic a", 1, ["is none of user, topic, pattern"]),
        ("topic\ta", 1, ["is none of user, topic, pattern"]),
        (" # comment", 1, ["in the first column"]),
        ("user ann\nuser", 2, ["without a name"]),
        ("user  ", 1, ["without a name"]),
        ("User ann", 1, ["'User'"]),
        ("topic " + "/" * 201, 1, ["202 levels", "at most 201"]),
        ("x" * 1_000, 1, ["xxx..."]),
        (b"topic a\xff", 1, ["byte 8 is not UTF-8"]),
        (b"topic a\0b", 1, ["NUL"]),
        (b"\xef\xbb\xbftopic a", 1, ["byte order mark"]),
    ],
)
def test_a_wrong_line_is_named_in_one_line(tmp_path, text, number, words):
    with pytest.raises(FileFault) as raised:
        read(tmp_path, text)
    line = str(raised.value)
    assert line.startswith(f"{tmp_path / 'acl'}, line {number}: ")
    assert [word for word in words if word not in line] == []
    assert len(line.splitlines()) == 1
    assert len(line) < 400


@pytest.mark.parametrize("text", [" topic read a", "topic read  a  ", "topic a\r\n", "topic a", "topic " + "/" * 200])
def test_blanks_around_words_do_not_matter(tmp_path, text):
    assert read(tmp_path, text).for_client(None, "c").may_read(text.split()[-1].encode())


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(FileFault, match=r"cannot be read .No such file or directory.; check the path"):
        read_rights(tmp_path / "missing")
    with pytest.raises(FileFault, match="cannot be read"):
        read_rights(tmp_path)


@pytest.mark.parametrize("seed", range(60))
def test_random_files_decide_as_the_model_says(tmp_path, seed):
    chance = random.Random(seed)
    for _ in range(5):
        lines = acl_model.random_lines(chance)
        rights = read(tmp_path, acl_model.text_of(lines))
        for user, client_id in chance.sample(list(product(acl_model.USERS, acl_model.CLIENT_IDS)), 6):
            of_client = rights.for_client(user, client_id)
            for topic in (acl_model.random_topic(chance) for _ in range(15)):
                reads, writes = (
                    acl_model.allowed(lines, user, client_id, topic, writes=writes) for writes in (False, True)
                )
                assert may(of_client, topic) == "r" * reads + "w" * writes, (lines, user, client_id, topic)


# "other" is in no filter: with it, one of each kind of topic is among these.
SMALL = [topic for topic in all_topics(["a", "b", "", "$x", "other"], 4) if "$x" not in topic[1:]]


@pytest.mark.parametrize("seed", range(25))
def test_a_filter_is_refused_exactly_when_no_topic_of_it_can_be_read(tmp_path, seed):
    chance = random.Random(seed)
    levels = ("a", "b", "+", "")
    for _ in range(4):
        kinds = chance.choices(("read", "deny", "deny", "write"), k=chance.randint(1, 7))
        words = chance.choices(("topic", "topic", "pattern"), k=len(kinds))
        filters = [acl_model.random_filter(chance, levels, ("$x",)) for _ in kinds]
        text = "".join(f"{word} {kind} {one}\n" for word, kind, one in zip(words, kinds, filters, strict=True))
        rights = read(tmp_path, text).for_client(None, "c")
        readable = [topic for topic in SMALL if rights.may_read(topic.encode())]
        chosen = [acl_model.random_filter(chance, levels, ("$x",)) for _ in range(4)]
        for wanted in ["#", "+", "+/+", "/#", "+/#", "$x/#", *chosen]:
            expected = any(matches(wanted, topic) for topic in readable)
            assert rights.may_subscribe(wanted) == expected, (text, wanted)
            assert rights.may_subscribe(f"$share/group/{wanted}") == expected


@pytest.mark.parametrize(
    ("wanted", "granted", "denied", "answer"),
    [
        ("#", "#", ["+/#"], False),
        ("#", "#", ["+"], True),
        ("+/b", "a/+", [], True),
        ("+/b", "a/+", ["a/b"], False),
        ("+/b", "a/+", ["a/b/#"], False),
        ("a/#", "a/#", ["a"], True),
        ("a/#", "a/#", ["a", "a/+/#"], False),
        ("a/+", "a/#", ["a/b", "a/c"], True),
        ("/#", "#", ["/+/#"], False),  # the topic above `/` would be empty
        ("$x/#", "#", [], False),
        ("$x/#", "$x/#", ["#"], True),
    ],
)
def test_a_topic_is_found_that_is_granted_and_not_denied(wanted, granted, denied, answer):
    filters = [TopicFilter(one) for one in denied]
    assert has_topic_outside(TopicFilter(wanted), TopicFilter(granted), filters) is answer


@pytest.mark.parametrize("wrong", ["", "a/#/b", "a+", "$share/g/", "$share/g", "$share/g/a+"])
def test_a_subscription_that_is_no_filter_is_an_error(wrong):
    with pytest.raises(ValueError):
        Rights(None).for_client(None, "c").may_subscribe(wrong)


def test_a_pattern_that_is_too_long_for_a_topic_with_a_clients_name_matches_nothing(tmp_path):
    rights = read(tmp_path, "pattern %c/%c\npattern b\n").for_client(None, "x" * 40_000)
    assert may(rights, "b") == "rw"
    assert may(rights, "x" * 65_535) == ""


def test_decisions_are_kept_and_bounded(tmp_path, monkeypatch):
    asked = []
    rights = read(tmp_path, "topic read a/#\ntopic write b\n").for_client(None, "c")
    look_up = type(rights)._look_up
    monkeypatch.setattr(
        type(rights), "_look_up", lambda self, topic, **way: asked.append(topic) or look_up(self, topic, **way)
    )
    for _ in range(3):
        assert rights.may_read(b"a")
        assert not rights.may_write(b"a")
    assert asked == [b"a", b"a"], "once for each direction"
    for number in range(3 * acl_module.DECISIONS_MAX):
        assert rights.may_read(b"a/%d" % number)
        assert len(rights._readable) <= acl_module.DECISIONS_MAX
    assert len(rights._writable) == 1
