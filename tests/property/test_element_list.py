"""A list in blocks is a list: against Python's own, for random histories with blocks of three elements."""

import random

import pytest

from streamd.data import element_list
from streamd.data.element_list import ElementList


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr(element_list, "_BLOCK", 3)


def step(choose: random.Random, value: ElementList, model: list[bytes]) -> None:
    """Do the same to both, whatever it is."""
    elements = [b"%d" % choose.randrange(9) for _ in range(choose.choice([0, 1, 1, 2, 5, 11]))]
    size, kind, one = len(model), choose.randrange(12), b"%d" % choose.randrange(9)
    if kind == 0:
        value.append(one)
        model.append(one)
    elif kind == 1:
        value.appendleft(one)
        model.insert(0, one)
    elif kind == 2:
        value.extend(elements)
        model.extend(elements)
    elif kind == 3:
        value.extendleft(elements)
        model[:0] = elements[::-1]
    elif kind == 4 and model:
        assert value.pop() == model.pop()
    elif kind == 5 and model:
        assert value.popleft() == model.pop(0)
    elif kind in (6, 7):
        place = choose.randint(0, size)
        value.insert(place, one)
        model.insert(place, one)
    elif kind == 8 and model:
        place = choose.randrange(size)
        value[place] = model[place] = one
    elif kind == 9 and choose.random() < 0.3:
        start, stop = choose.randint(0, size), choose.randint(0, size)
        value.keep(start, stop)
        model[:] = model[start:stop]
    elif kind == 11 and model:
        count = choose.choice([0, 1, 2, 5, 20])
        assert value.take(count, left=True) == model[:count]
        del model[:count]
        count = min(count, len(model))
        if model:
            assert value.take(count, left=False) == model[::-1][:count]
            del model[len(model) - count :]
    elif kind == 10 and choose.random() < 0.1:
        value.replace(elements)
        model[:] = elements


@pytest.mark.parametrize("seed", range(150))
def test_every_history_is_that_of_a_list(seed):
    choose = random.Random(seed)
    value, model = ElementList(), []
    for _ in range(120):
        step(choose, value, model)
        assert [*value] == model
        assert [*reversed(value)] == model[::-1]
        assert (len(value), bool(value)) == (len(model), bool(model))
        assert [value[place] for place in range(len(model))] == model
        assert value.place_of(b"4") == (model.index(b"4") if b"4" in model else None)
        start, stop = choose.randint(0, len(model)), choose.randint(0, len(model))
        assert value.part(start, stop) == model[start:stop]
        assert all(value._blocks)
        assert {len(block) for block in value._blocks[1:-1]} <= {3}
        assert max(map(len, value._blocks), default=0) <= 3


def test_a_copy_does_not_change_with_its_original():
    value = ElementList([b"%d" % number for number in range(10)])
    other = value.copy()
    value[4] = b"x"
    value.pop()
    other.popleft()
    assert [*other] == [b"%d" % number for number in range(1, 10)]


def test_what_is_removed_at_an_end_is_handed_over_in_blocks():
    value = ElementList([b"%d" % number for number in range(10)])
    assert value.keep(4, 7) == [[b"0", b"1", b"2"], [b"9"]]
    assert value.keep(1, 1) == [[b"4", b"5"], [b"6"]]
    assert not value
