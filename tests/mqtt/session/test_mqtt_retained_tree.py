"""Retained messages by filter: all short histories against an obvious model."""

from itertools import product

from streamd.clients.mqtt.session.retained_tree import RetainedTree
from streamd.clients.topics.filters import TopicFilter

TOPICS = [b"a", b"a/b", b"a/", b"/a", b"$s/a", b"a/b/c", b"/"]
FILTERS = ["#", "+", "a", "a/#", "a/+", "+/b", "/#", "/+", "+/+", "$s/#", "$s/+", "+/a", "a/b/#", "+/b/c"]


def check(tree, model):
    assert len(tree) == len(model)
    assert {topic: tree.get(topic) for topic in TOPICS} == {topic: model.get(topic) for topic in TOPICS}
    for text in FILTERS:
        wanted = sorted(
            (topic.split(b"/"), value) for topic, value in model.items() if TopicFilter(text).matches(topic)
        )
        assert list(tree.matching(text)) == [value for _, value in wanted], text
        for place in TOPICS:
            rest = [value for names, value in wanted if names > place.split(b"/")]
            assert list(tree.matching(text, place)) == rest, (text, place)


def test_all_short_histories():
    steps = [(kind, topic) for kind in ("put", "remove") for topic in TOPICS]
    for history in product(steps, repeat=3):
        tree, model = RetainedTree(), {}
        for number, (kind, topic) in enumerate(history):
            list(tree.matching("#"))  # somebody walks along it
            if kind == "put":
                tree.put(topic, f"{topic!r} {number}")
                model[topic] = f"{topic!r} {number}"
            else:
                assert tree.remove(topic) == (model.pop(topic, None) is not None)
        check(tree, model)


def test_levels_that_hold_nothing_are_removed():
    tree = RetainedTree()
    tree.put(b"a/b/c", 1)
    tree.put(b"a/b", 2)
    assert tree.remove(b"a/b/c")
    assert tree.remove(b"a/b")
    assert tree._root.below == {}
