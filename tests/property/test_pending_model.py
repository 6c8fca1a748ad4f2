"""Pending entries do what an obvious model, a dict of rows, does: all short histories, and many long random ones."""

import random
from collections import Counter
from itertools import product

import pytest

from streamd.stream.groups import pending
from streamd.stream.groups.pending import COUNT_MAX, Consumer, PendingEntries


class Model:
    """A dict: ID -> (owner, time, count)."""

    def __init__(self):
        self.rows = {}
        self.nacked = []

    def set(self, entry_id, owner, time_ms, count):
        self.rows[entry_id] = (owner, time_ms, count)
        if entry_id in self.nacked:
            self.nacked.remove(entry_id)
        if owner is None:
            self.nacked.append(entry_id)

    def remove(self, ids):
        removed = [entry_id for entry_id in sorted(set(ids)) if entry_id in self.rows]
        for entry_id in removed:
            del self.rows[entry_id]
        self.nacked = [entry_id for entry_id in self.nacked if entry_id in self.rows]
        return removed

    def listing(self, start, end, until_ms=None, owner=None):
        return [
            (entry_id, *row)
            for entry_id, row in sorted(self.rows.items())
            if start <= entry_id <= end
            and (until_ms is None or row[1] <= until_ms)
            and (owner is None or row[0] is owner)
        ]

    def oldest(self, until_ms, count):
        owned = sorted((row[1], entry_id) for entry_id, row in self.rows.items() if row[0] is not None)
        ids = self.nacked + [entry_id for time_ms, entry_id in owned if time_ms <= until_ms]
        return [(entry_id, *self.rows[entry_id]) for entry_id in ids[:count]]


class Pair:
    """The structure and the model, and two consumers."""

    def __init__(self):
        self.real, self.model = PendingEntries(), Model()
        self.consumers = [Consumer(b"a", 0), Consumer(b"b", 0)]
        self.next_id = 10

    def deliver(self, size, who, time_ms):
        ids = list(range(self.next_id, self.next_id + 2 * size, 2))
        self.next_id += 2 * size
        self.deliver_ids(ids, who, time_ms)

    def deliver_ids(self, ids, who, time_ms):
        for entry_id in ids:
            self.model.set(entry_id, self.consumers[who], time_ms, 1)
        self.real.deliver(list(ids), self.consumers[who], time_ms)

    def set(self, entry_id, who, time_ms, count):
        owner = None if who is None else self.consumers[who]
        self.model.set(entry_id, owner, time_ms, count)
        self.real.set(entry_id, owner, time_ms, count)

    def take_over(self, ids, who, time_ms, counts_up):
        for entry_id in ids:
            if entry_id in self.model.rows:
                count = self.model.rows[entry_id][2]
                self.model.set(entry_id, self.consumers[who], time_ms, count + 1 if counts_up else count)
        self.real.take_over(ids, self.consumers[who], time_ms, counts_up)

    def remove(self, ids):
        assert self.real.remove_many(ids) == self.model.remove(ids)

    def remove_each(self, ids):
        assert self.real.remove_each(ids) == [bool(self.model.remove([entry_id])) for entry_id in ids]

    def copy(self):
        other = Pair()
        twins = dict(zip(self.consumers, other.consumers, strict=True))
        other.model.rows = {entry_id: (twins.get(row[0]), *row[1:]) for entry_id, row in self.model.rows.items()}
        other.model.nacked, other.next_id = self.model.nacked[:], self.next_id
        other.real = self.real.copy({consumer.name: consumer for consumer in other.consumers})
        return other

    def check(self, with_oldest=True):
        real, model = self.real, self.model
        everything = model.listing(0, 1 << 128)
        assert list(real.iterate()) == everything
        assert len(real) == len(everything)
        assert real.first_id == (everything[0][0] if everything else None)
        assert real.last_id == (everything[-1][0] if everything else None)
        assert list(real.nacked) == model.nacked
        for owner in self.consumers:
            assert list(real.iterate(owner=owner)) == model.listing(0, 1 << 128, owner=owner)
            assert owner.pending == len(model.listing(0, 1 << 128, owner=owner))
            assert owner.chunks == [
                chunk.low for chunk in real._chunks if any(row[1] is owner for row in chunk.rows(0, len(chunk.stamps)))
            ]
        for chunk in real._chunks:
            assert (chunk.held is None) == (not isinstance(chunk.owners, list))
            assert chunk.held is None or chunk.held == Counter(owner for owner in chunk.owners if owner is not None)
        for entry in everything:
            assert real.get(entry[0]) == entry
            assert real.get(entry[0] + 1) == next((row for row in everything if row[0] == entry[0] + 1), None)
        if with_oldest:
            owned = [row[1] if row[0] is not None else 0 for row in model.rows.values()]
            assert real.oldest_ms() == (0 if model.nacked else min(owned, default=None))
            for until_ms, count in ((3, 2), (100, 1), (100, 1000)):
                assert real.oldest(until_ms, count, lambda entry_id: True) == model.oldest(until_ms, count)


STEPS = [
    lambda pair: pair.deliver(1, 0, 5),
    lambda pair: pair.deliver(4, 0, 5),
    lambda pair: pair.deliver(3, 1, 3),
    lambda pair: pair.deliver_ids([4, 10, 14], 1, 7),
    lambda pair: pair.set(12, 1, 6, 3),
    lambda pair: pair.set(12, None, 0, 1),
    lambda pair: pair.set(11, 0, 2, 1),
    lambda pair: pair.set(3, 1, 9, 2),
    lambda pair: pair.take_over([10, 11, 12, 14, 16], 1, 8, True),
    lambda pair: pair.remove([10, 12, 14]),
    lambda pair: pair.remove([14, 13, 12]),
    lambda pair: pair.remove(list(range(8, 40, 4))),
    lambda pair: pair.remove_each([16, 12, 12, 5, 10]),
]


@pytest.fixture(autouse=True)
def _tiny_chunks(monkeypatch):
    monkeypatch.setattr(pending, "CHUNK_ENTRIES_MAX", 3)


def test_every_history_of_four_steps_ends_as_in_the_model():
    for history in product(STEPS, repeat=4):
        pair = Pair()
        for step in history:
            step(pair)
        pair.check()


@pytest.mark.parametrize("seed", range(40))
def test_long_random_histories_never_differ_from_the_model(seed):
    chance = random.Random(seed)
    pair = Pair()
    for _ in range(150):
        action = chance.randrange(8)
        known = sorted(pair.model.rows) or [1]
        if action == 0:
            pair.deliver(chance.choice((1, 2, 3, 7)), chance.randrange(2), chance.randrange(10))
        elif action == 1:
            at = chance.randrange(len(known))
            pair.remove(known[at : at + chance.randrange(1, 6)])
        elif action == 2:
            pair.remove(chance.choices(known, k=3))
        elif action == 7:
            pair.remove_each(chance.choices([*known, 2], k=4))
        elif action == 3:
            pair.set(chance.choice(known), chance.choice((0, 1, None)), chance.randrange(10), chance.randrange(4))
        elif action == 5:
            at = chance.randrange(len(known))
            ids = known[at : at + chance.randrange(1, 9)]
            pair.take_over(ids, chance.randrange(2), chance.randrange(10), chance.random() < 0.5)
        elif action == 4:
            pair.set(chance.randrange(pair.next_id), chance.choice((0, 1)), chance.randrange(10), 1)
        else:
            start, end = sorted(chance.sample(range(pair.next_id), 2))
            until_ms = chance.choice((None, 4))
            assert list(pair.real.iterate(start, end, until_ms)) == pair.model.listing(start, end, until_ms)
            owner = chance.choice(pair.consumers)
            listing = pair.model.listing(start, end, until_ms, owner)
            assert list(pair.real.iterate(start, end, until_ms, owner)) == listing
        pair.check(with_oldest=chance.random() < 0.3)
        if chance.random() < 0.1:
            pair = pair.copy()
    snapshot = pair.real.snapshot() if chance.random() < 0.5 else None
    rows = list(pair.real.iterate())
    owner = chance.choice(pair.consumers)
    gone = [row[0] for row in pair.model.listing(0, 1 << 128, owner=owner)]
    assert pair.real.remove_owner(owner, []) == len(gone)
    pair.model.remove(gone)
    pair.check()
    assert snapshot is None or list(snapshot.iterate()) == rows


def test_a_delivery_count_that_counts_no_further_stays():
    entries, ann, bob = PendingEntries(), Consumer(b"ann", 0), Consumer(b"bob", 0)
    entries.deliver([1, 2, 3], ann, 5)
    entries.set(2, ann, 5, COUNT_MAX)
    entries.take_over([1, 2], bob, 6, True)
    entries.take_over([1, 2, 3], bob, 6, True)
    assert entries.counts_of([1, 2, 3]) == [3, COUNT_MAX, 2]


def test_a_copy_changes_apart_from_its_original():
    for history in product(STEPS, repeat=3):
        pair = Pair()
        for step in history[:2]:
            step(pair)
        pair.real.oldest_ms()  # which makes a heap
        twin = pair.copy()
        history[2](twin)
        twin.check()
        pair.check()
        history[2](pair)
        pair.check()
        twin.check()
