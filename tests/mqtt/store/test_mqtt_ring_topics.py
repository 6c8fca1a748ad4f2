"""The topics of a ring, against a walk along all of its entries."""

import random

import pytest

from streamd.clients.mqtt.session.subscription_tree import SubscriptionTree
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.ring import Ring
from streamd.clients.mqtt.store.ring_topics import RingTopics
from streamd.clients.mqtt.store.stored import Stored

TOPICS = ["a", "b", "a/b", "a/c", "a/b/c", "a//c", "b/b", "/", "a/"]
FILTERS = [*TOPICS, "+", "a/+", "+/b", "a/#", "a/+/c", "+/+", "/+", "b/#", "z", "z/#"]


def walked(ring: Ring, filters: list[str], number: int) -> list[tuple[int, Stored]]:
    """Return the same by trying each entry."""
    tree: SubscriptionTree[str, int] = SubscriptionTree()
    for text in filters:
        tree.add(text, text, 0)
    return [(at, one) for at, one in enumerate(ring.from_number(number), number) if tree.find(one.topic)]


@pytest.mark.parametrize("seed", range(200))
def test_the_entries_of_filters_are_those_that_a_walk_finds(seed):
    chance = random.Random(seed)
    position = Position.begin(1, 1)
    ring = Ring(position, chance.randint(1, 40), 10**9)
    topics = RingTopics(ring)
    number = 0
    for _ in range(80):
        chunk = []
        for _ in range(chance.choice([0, 1, 1, 3, 30])):
            number += 1
            chunk.append(Stored("log", 1, 0, (number, 0), chance.choice(TOPICS).encode(), b"p", []))
        position = position.moved(0, (number, 0))
        ring.append(chunk, position)
        if chance.random() < 0.4:
            filters = chance.sample(FILTERS, chance.randint(0, 4))
            start = chance.randint(ring.first, ring.next)
            assert list(topics.entries(filters, start)) == walked(ring, filters, start)


def test_a_ring_whose_topics_are_asked_for_again_and_again_keeps_no_others():
    position = Position.begin(1, 1)
    ring = Ring(position, 10, 10**9)
    topics = RingTopics(ring)
    for number in range(1_000):
        position = position.moved(0, (number + 1, 0))
        ring.append([Stored("log", 1, 0, (number + 1, 0), b"t/%d" % number, b"p", [])], position)
        if number % 3 == 0:
            assert [at for at, _ in topics.entries(["t/+"], ring.first)] == list(range(ring.first, ring.next))
            assert len(topics._numbers) == len(topics._order) == len(topics._tree) == ring.next - ring.first
