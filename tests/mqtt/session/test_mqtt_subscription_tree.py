"""Subscriptions are found as by looking at each one's filter."""

from itertools import product

import pytest
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


@pytest.mark.parametrize("changes", [1, 2, subscription_tree._CHANGES_MAX])
def test_a_change_by_a_wildcard_leaves_the_answers_of_other_topics_as_they_are(changes):
    tree = SubscriptionTree()
    filters = sorted(set(FILTERS))
    for text in TOPICS:
        tree.add(text.decode(), 1, None)
    for at in range(len(filters)):
        changed = [filters[(at + step * 7) % len(filters)] for step in range(changes)]
        before = [tree.find(topic) for topic in TOPICS]
        for text in changed:
            tree.add(text, 2, None)
        for topic, answer in zip(TOPICS, before, strict=True):
            # What is the server's own may be looked up in vain.
            if not any(TopicFilter(text).matches(topic) for text in changed) and topic[:1] != b"$":
                assert tree.find(topic) is answer
        for text in changed:
            tree.remove(text, 2)


def test_so_many_changes_that_a_walk_costs_less_leave_no_answer():
    tree = SubscriptionTree()
    for topic in TOPICS:
        tree.find(topic)
    for number in range(subscription_tree._CHANGES_MAX + 1):
        tree.add(f"other/{number}/#", 1, None)
    assert not any(one.before for one in tree._changes)


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
        for number, topic in enumerate(topics):
            assert len(tree.find(topic)) == TopicFilter("a/#").matches(topic)
            assert len(tree._known) <= 2
            if number % 3 == 0:
                tree.add("a/#", 1, number)
            assert sum(len(one.before) for one in tree._changes) <= 2
    finally:
        subscription_tree._KNOWN_MAX = bound
