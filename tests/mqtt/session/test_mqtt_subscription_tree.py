"""Subscriptions are found as by looking at each one's filter."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from streamd.clients.mqtt.session import subscription_tree
from streamd.clients.mqtt.session.subscription_tree import SubscriptionTree
from streamd.clients.topics.filters import TopicFilter

LEVELS = ("", "a", "b", "$s")
TOPICS = [
    topic.encode() for length in (1, 2, 3) for parts in product(LEVELS, repeat=length) if (topic := "/".join(parts))
]
FILTERS = [
    text
    for length in (1, 2, 3)
    for parts in product((*LEVELS, "+"), repeat=length)
    for text in ("/".join(parts), "/".join((*parts[:-1], "#")))
    if text
]


def answers(tree, topic):
    return sorted((found.key, found.filter, found.value) for found in tree.find(topic))


def test_every_filter_finds_every_topic_that_it_matches():
    tree = SubscriptionTree()
    filters = sorted(set(FILTERS))
    for number, text in enumerate(filters):
        assert not tree.add(text, 1, number)
    matchers = [TopicFilter(text) for text in filters]
    for topic in TOPICS:
        wanted = [(1, one.text, number) for number, one in enumerate(matchers) if one.matches(topic)]
        assert answers(tree, topic) == sorted(wanted)
    for text in filters:
        assert tree.remove(text, 1)
        assert not tree.remove(text, 1)
    assert tree._root.is_empty()
    assert [answers(tree, topic) for topic in TOPICS] == [[]] * len(TOPICS)


def test_an_answer_that_is_remembered_is_void_once_a_subscription_changes_it():
    tree = SubscriptionTree()
    for text in sorted(set(FILTERS)):
        matching = [topic for topic in TOPICS if TopicFilter(text).matches(topic)]
        before = [tree.find(topic) for topic in TOPICS]
        for value in ("first", "second"):
            tree.add(text, 1, value)
            assert [topic for topic in TOPICS if answers(tree, topic) == [(1, text, value)]] == matching
        tree.remove(text, 1)
        assert [tree.find(topic) for topic in TOPICS] == before == [()] * len(TOPICS)


class Subscribing(RuleBasedStateMachine):
    """A tree beside a list of all subscriptions."""

    def __init__(self):
        super().__init__()
        self.tree = SubscriptionTree()
        self.there = {}

    @rule(text=st.sampled_from(sorted(set(FILTERS))), key=st.integers(1, 3), value=st.integers(0, 2))
    def add(self, text, key, value):
        assert self.tree.add(text, key, value) == ((text, key) in self.there)
        self.there[text, key] = value

    @rule(text=st.sampled_from(sorted(set(FILTERS))), key=st.integers(1, 3))
    def remove(self, text, key):
        assert self.tree.remove(text, key) == (self.there.pop((text, key), None) is not None)

    @rule(drawn=st.data())
    def remove_one_that_is_there(self, drawn):
        if self.there:
            self.remove(*drawn.draw(st.sampled_from(sorted(self.there))))

    @rule(topic=st.sampled_from(TOPICS))
    def find(self, topic):
        wanted = [(key, text, value) for (text, key), value in self.there.items() if TopicFilter(text).matches(topic)]
        assert answers(self.tree, topic) == sorted(wanted)

    @invariant()
    def an_empty_tree_keeps_nothing(self):
        assert bool(self.there) != self.tree._root.is_empty()


TestSubscribing = Subscribing.TestCase


@given(st.lists(st.sampled_from(TOPICS), max_size=20))
def test_with_more_topics_than_are_remembered_answers_stay_right(topics):
    tree = SubscriptionTree()
    tree.add("a/#", 1, None)
    bound = subscription_tree._KNOWN_MAX
    subscription_tree._KNOWN_MAX = 2
    try:
        for topic in topics:
            assert len(tree.find(topic)) == TopicFilter("a/#").matches(topic)
            assert len(tree._known) <= 2
    finally:
        subscription_tree._KNOWN_MAX = bound
