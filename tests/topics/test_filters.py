"""Topics and filters: what matches, what overlaps, what is refused and where the fault is."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.clients.topics import TopicFilter
from streamd.clients.topics.filters import check_topic, names_for
from tests.examples import examples
from tests.topics.mqtt_model import all_topics, matches

LEVELS = ["", "a", "b", "$x", ".*"]
TOPICS = all_topics(LEVELS, 3)
FILTERS = [
    *all_topics([*LEVELS[:4], "+"], 2),
    "#",
    "a/#",
    "+/#",
    "/#",
    "$x/#",
    "a/+/#",
    "+/a/#",
    "a/b/+",
]

level = st.one_of(st.sampled_from(["", "a", "b", "ü", "$SYS", "a b", "\n", "."]), st.text("ab$.é", max_size=3))
topics = st.lists(level, min_size=1, max_size=5).map("/".join).filter(bool)


@st.composite
def filters(draw):
    levels = draw(st.lists(st.one_of(level, st.just("+")), min_size=0, max_size=4))
    if not levels or draw(st.booleans()):
        levels.append("#")
    return "/".join(levels) or "#"


@pytest.mark.parametrize(
    ("pattern", "topic", "is_match"),
    [
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/#", "ab", False),
        ("a/+", "a", False),
        ("a/+", "a/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("a/+/c/#", "a/b/c", True),
        ("a/+/c/#", "a/b/d", False),
        ("a//b", "a//b", True),
        ("a/+/b", "a//b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("$SYS/+", "$SYS/x", True),
        ("a/+", "a/$b", True),
        ("a.b", "axb", False),
        ("A", "a", False),
        ("#", "a\nb/c", True),
    ],
)
def test_a_filter_matches_as_mqtt_says(pattern, topic, is_match):
    assert TopicFilter(pattern).matches(topic) is is_match
    assert TopicFilter(pattern).matches(topic.encode()) is is_match
    assert matches(pattern, topic) is is_match, "the model itself"


def test_every_short_filter_matches_every_short_topic_as_the_model_does():
    for pattern in FILTERS:
        compiled = TopicFilter(pattern)
        assert [topic for topic in TOPICS if compiled.matches(topic)] == [
            one for one in TOPICS if matches(pattern, one)
        ]


@settings(max_examples=examples(150), deadline=None)
@given(filters(), topics)
def test_random_filters_match_random_topics_as_the_model_does(pattern, topic):
    assert TopicFilter(pattern).matches(topic) is matches(pattern, topic)


@settings(max_examples=examples(150), deadline=None)
@given(filters(), topics)
def test_random_filters_match_random_topics_as_paho_does(pattern, topic):
    client = pytest.importorskip("paho.mqtt.client")
    assert TopicFilter(pattern).matches(topic) is client.topic_matches_sub(pattern, topic)


def test_two_filters_overlap_if_some_topic_matches_both():
    witnesses = all_topics(["", "a", "b", "$x", "other"], 4)
    wanted = {pattern: {topic for topic in witnesses if matches(pattern, topic)} for pattern in FILTERS}
    for one, two in product(FILTERS, repeat=2):
        assert TopicFilter(one).overlaps(TopicFilter(two)) is bool(wanted[one] & wanted[two]), (one, two)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a#", "# at position 1 is only a part of its level; a wildcard is a whole level: write '#'"),
        ("x/a#", "# at position 3 is only a part of its level; a wildcard is a whole level: write 'x/#'"),
        ("a/#/b", "# at position 2 is not the last level; end the filter there: 'a/#', or write + for one level"),
        ("a+", "+ at position 1 is only a part of its level; a wildcard is a whole level: write '+'"),
        ("a/+b/c", "+ at position 2 is only a part of its level; a wildcard is a whole level: write 'a/+'"),
        ("", "the topic filter is empty: it needs at least one character"),
        ("a\0b", "NUL at position 1; leave it out"),
        ("a" * 65_536, "65,536 bytes; at most 65,535 can be said: shorten it"),
        ("a\ud800", "no character at position 1; it cannot be said in UTF-8"),
        (b"a", "a topic filter is text, not bytes: decode it as UTF-8"),
    ],
)
def test_a_filter_that_is_none_is_refused_with_the_place_of_the_fault(text, said):
    with pytest.raises(ValueError) as refused:
        TopicFilter(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a/+/b", "wildcard + at position 2; a message has one topic: wildcards belong into filters"),
        ("a/#", "wildcard # at position 2"),
        ("", "the topic is empty"),
        ("\0", "NUL at position 0"),
        ("ü" * 32_768, "65,536 bytes; at most 65,535"),
        (7, "a topic is text, not int"),
    ],
)
def test_a_topic_that_is_none_is_refused_with_the_place_of_the_fault(text, said):
    with pytest.raises(ValueError) as refused:
        check_topic(text)
    assert said in str(refused.value)


def test_the_longest_topic_is_taken():
    assert len(check_topic("ü" * 32_767 + "a")) == 65_535


@pytest.mark.parametrize(
    ("filter", "logs"),
    [
        ("#", ["plant", "rest"]),
        ("plant/1", ["plant"]),
        ("plant", ["plant"]),
        ("plant/#", ["plant"]),
        ("plants/1", ["rest"]),
        ("+/1", ["plant", "rest"]),
        ("a/b", ["named"]),
        ("a/b/c", ["rest"]),
        ("a/+", ["named", "rest"]),
        ("$SYS/#", []),
    ],
)
def test_the_logs_that_may_have_messages_for_a_filter(filter, logs):
    some = {"plant": ["plant/#"], "rest": ["#"]}
    if filter.startswith("a/"):
        some["named"] = ["a/b"]
    assert sorted(names_for(filter, some)) == logs
