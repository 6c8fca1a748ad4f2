"""The buckets of values: no topic that a filter matches has a bucket in which the filter does not look."""

from collections import Counter

import pytest

from streamd.stream.search.buckets import BUCKETS, DOLLARS, bits_of, bucket
from streamd.stream.search.patterns import Pattern
from tests.topics.mqtt_model import all_topics, matches

TOPICS = ["", *all_topics(["a", "b", "$c", ""], 4)]
FILTERS = [
    *(one for one in all_topics(["a", "$c", "+", ""], 4)),
    *(one + "/#" for one in all_topics(["a", "$c", "+", ""], 3)),
    "#",
]


def test_a_filter_looks_into_the_bucket_of_each_topic_that_it_matches():
    for text in FILTERS:
        mask, bits = bits_of(Pattern(b"MQTT", text.encode()))
        for topic in TOPICS:
            assert bucket(topic.encode()) & mask == bits or not matches(text, topic), (text, topic)


def test_topics_that_begin_with_a_dollar_have_the_last_buckets_and_no_other_has():
    for topic in TOPICS:
        number = bucket(topic.encode())
        assert BUCKETS <= number < 0xFFFF
        assert (number >= DOLLARS) == topic.startswith("$")


@pytest.mark.parametrize(
    ("text", "share"),
    [("devices/+/k7", 0.05), ("devices/d7/#", 0.1), ("devices/d7/+", 0.1), ("+/d7/k7", 0.01), ("devices/#", 1)],
)
def test_a_filter_passes_over_most_buckets_of_topics_that_it_does_not_match(text, share):
    topics = [f"devices/d{device}/k{kind}".encode() for device in range(100) for kind in range(100)]
    mask, bits = bits_of(Pattern(b"MQTT", text.encode()))

    looked_into = sum(bucket(topic) & mask == bits for topic in topics)

    assert looked_into <= share * len(topics)


@pytest.mark.parametrize("name", ["devices/d{}/k{}", "d{}-{}", "site/floor/{}/room/{}/kind", "$share/{}/{}"])
def test_buckets_tell_most_values_apart(name):
    numbers = Counter(bucket(name.format(one, two).encode()) for one in range(50) for two in range(50))

    assert max(numbers.values()) <= 50
