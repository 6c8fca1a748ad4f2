"""Pending entries that are missing in their stream: found as by an obvious model, and looked at once."""

import random
from unittest.mock import patch

import pytest

from streamd.stream.entry_id import ID_MAX
from streamd.stream.groups import pending
from tests.property.test_pending_model import Pair


class Missing(Pair):
    """A structure and its model, and which entries their stream has."""

    def __init__(self):
        super().__init__()
        self.deleted = set()
        self.asked = 0

    def is_there(self, entry_id):
        self.asked += 1
        return entry_id not in self.deleted

    def oldest(self, until_ms, count):
        found = self.model.oldest(until_ms, None)
        there = [row[0] for row in found if row[0] not in self.deleted]
        first_id = min((one for one in range(10, self.next_id, 2) if one not in self.deleted), default=self.next_id)
        rows = self.real.oldest(until_ms, count, self.is_there, first_id, self.next_id - 1)
        assert rows == [row for row in found if row[0] not in self.deleted][:count]
        return there

    def step(self, chance):
        """Let something happen."""
        ids = [*self.model.rows]
        some = sorted(chance.sample(ids, min(len(ids), chance.choice((1, 2, 9)))))
        time_ms, who = chance.randrange(20), chance.randrange(2)
        match chance.randrange(9):
            case 0 | 1:
                self.deliver(chance.choice((1, 3, 10)), who, time_ms)
            case 2:
                self.take_over(some, who, time_ms, True)
            case 3:
                self.remove(some)
            case 4:
                for entry_id in some:
                    self.set(entry_id, who, time_ms, 1)
            case 5:
                for entry_id in some:
                    self.set(entry_id, None, 0, 1)
            case 6:
                self.deleted.update(some)
            case 7:  # trimmed
                upto = chance.randrange(10, self.next_id + 1)
                self.deleted.update(range(10, upto))
            case 8:
                if self.deleted and chance.random() < 0.3:  # as behind an XSETID that goes back
                    self.deleted -= {*chance.sample(sorted(self.deleted), 1)}
                    self.real.forget_missing()


@pytest.mark.parametrize("size", [4, 256])
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.interpreted(reason="it replaces the size of a chunk")
def test_the_oldest_entries_that_are_there_are_those_of_the_model(seed, size):
    chance = random.Random(seed)
    with patch.object(pending, "CHUNK_ENTRIES_MAX", size):
        pair = Missing()
        for _ in range(120):
            pair.step(chance)
            if chance.random() < 0.6:
                until_ms = chance.choice((3, 10, 19, 30))
                there = pair.oldest(until_ms, chance.choice((1, 3, 1_000)))
                if chance.random() < 0.5 and there:
                    pair.take_over(sorted(there[:2]), 0, 25, True)
                if not there:
                    later = [row[1] for row in pair.model.rows.values() if row[0] is not None and row[1] > until_ms]
                    alive = [row[1] for one, row in pair.model.rows.items() if row[0] and one not in pair.deleted]
                    next_ms = pair.real.first_ms_behind(until_ms)
                    assert next_ms in (None, *later)
                    assert not alive or (next_ms is not None and next_ms <= min(alive))
        pair.check(with_oldest=False)


@pytest.mark.parametrize("is_released", [False, True])
@pytest.mark.parametrize("how", ["trimmed", "deleted"])
def test_missing_entries_are_looked_at_once(how, is_released):
    pair = Missing()
    pair.deliver(3_000, 0, 5)
    pair.deliver(20, 0, 6)
    missing = [*range(10, pair.next_id - 40, 2)]
    if is_released:
        for entry_id in missing:
            pair.set(entry_id, None, 0, 1)
    pair.deleted.update(missing)
    first_id = pair.next_id - 40 if how == "trimmed" else 0
    for taken in range(2):
        pair.asked = 0
        rows = pair.real.oldest(10, 10, pair.is_there, first_id, ID_MAX)
        assert [row[0] for row in rows] == [*range(pair.next_id - 40 + 20 * taken, pair.next_id - 20 + 20 * taken, 2)]
        if taken or (how == "trimmed" and not is_released):
            assert pair.asked == 10
        pair.take_over([row[0] for row in rows], 1, 20, True)


def test_what_the_question_raises_changes_nothing():
    pair = Missing()
    pair.deliver(600, 0, 5)
    pair.deleted.update(range(10, 800, 2))

    def raises(entry_id):
        if entry_id > 700:
            raise LookupError
        return pair.is_there(entry_id)

    for _ in range(2):
        with pytest.raises(LookupError):
            pair.real.oldest(10, 1_000, raises, 0, ID_MAX)
    pair.oldest(10, 1_000)


def test_an_entry_behind_the_last_id_is_looked_at_again():
    pair = Missing()
    pair.deliver_ids([10, 12], 0, 5)
    pair.set(14, None, 0, 1)
    pair.deleted.update((10, 12, 14))
    assert pair.real.oldest(10, 10, pair.is_there, 10, 9) == []
    pair.deleted.clear()
    assert [row[0] for row in pair.real.oldest(10, 10, pair.is_there, 10, 14)] == [14, 10, 12]
