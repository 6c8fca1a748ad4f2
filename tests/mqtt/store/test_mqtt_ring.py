"""The ring of the newest entries, against a list of all of them."""

import random

import pytest

from streamd.clients.mqtt.store.positions import Place, Position, furthest
from streamd.clients.mqtt.store.ring import Ring
from streamd.clients.mqtt.store.stored import Stored


class Reader:
    """A reader that has stopped: it is told the position when the ring drops its next entry."""

    def __init__(self):
        self.position = None

    def fell_out(self, position):
        self.position = position


def stored(shard, number):
    return Stored("log", 1, shard, (number, 0), b"t", b"p", [])


@pytest.mark.parametrize("seed", range(200))
def test_readers_find_what_is_there_and_are_told_where_they_fell_out(seed):
    chance = random.Random(seed)
    position = Position.begin(1, 3)
    ring = Ring(position, chance.randint(1, 30), chance.choice([1_000, 10**9]))
    entries, positions = [], [position]
    waiting: dict[Reader, int] = {}
    number = 0
    for _ in range(60):
        chunk = []
        for _ in range(chance.randint(0, 6)):
            number += 1
            chunk.append(stored(chance.randrange(3), number))
        for one in chunk:
            position = position.moved(one.shard, one.entry_id)
            entries.append(one)
            positions.append(position)
        ring.append(chunk, position)
        assert ring.next == len(entries)
        assert ring.end == positions[-1]
        assert ring.start == positions[ring.first]
        for at in range(ring.first, ring.next + 1):
            assert ring.position_at(at) == positions[at]
            assert list(ring.from_number(at)) == entries[at:]
            found = ring.number_at(positions[at])  # where the entries begin that were read together with the next one
            assert at - 6 < found <= at
            assert found == at or at < ring.next
        for reader, at in list(waiting.items()):
            if at < ring.first:
                assert reader.position == positions[at]
                del waiting[reader]
            else:
                assert reader.position is None
                if chance.random() < 0.3:
                    ring.go_on(reader, at)
                    del waiting[reader]
        if ring.first < ring.next:
            reader, at = Reader(), chance.randrange(ring.first, ring.next)
            ring.stop(reader, at)
            waiting[reader] = at


def test_positions_compare_by_generation_first():
    older, newer = Position(1, ((9, 0), (9, 0))), Position(2, ((1, 0),))
    assert newer.has_reached(older)
    assert not older.has_reached(newer)
    assert newer.has_passed(1, 1, (10, 0))
    assert not older.has_passed(2, 0, (1, 0))
    assert furthest(older, newer) == newer
    assert furthest(older, Position(1, ((1, 0), (10, 0)))) == Position(1, ((9, 0), (10, 0)))


def test_texts_say_what_they_were_made_of():
    position = Position(3, ((1, 2), (3, 4)))
    assert Position.from_text(position.to_text()) == position
    place = Place("log", 3, 1, (5, 6))
    assert Place.from_text(place.to_text()) == place
