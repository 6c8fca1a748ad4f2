"""The rows of a dict by their positions: walks that miss nothing, and choices at random."""

import random
from collections import Counter

import pytest

from streamd.data import positions
from streamd.data.positions import any_rows, page, some_row, some_rows


@pytest.fixture(autouse=True, params=["array", "plain"])
def reader(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(positions, "_reader", lambda: positions.PLAIN)
    return request.param


def rows_of(count: int) -> dict[bytes, None]:
    return dict.fromkeys(b"%d" % number for number in range(count))


def walk(rows: dict[bytes, None], count: int) -> list[bytes]:
    cursor, found = page(rows, 0, count)
    while cursor:
        cursor, more = page(rows, cursor, count)
        found += more
    return found


@pytest.mark.parametrize("count", [1, 2, 7, 10, 1000])
@pytest.mark.parametrize("size", [0, 1, 2, 17, 300])
def test_every_row_is_met_exactly_once(size, count):
    rows = rows_of(size)
    assert walk(rows, count) == [*reversed(rows)]


@pytest.mark.parametrize("seed", range(60))
def test_what_stays_is_met_whatever_else_comes_and_goes(seed):
    choose = random.Random(seed)
    staying = {b"stays:%d" % number for number in range(choose.choice([1, 20, 200]))}
    fleeting = {b"goes:%d" % number for number in range(choose.choice([0, 100, 2000]))}
    rows = dict.fromkeys(choose.sample(sorted(staying | fleeting), len(staying | fleeting)))
    cursor, found = page(rows, 0, 5)
    number = pages = 0
    while cursor:
        for _ in range(choose.choice([0, 1, 20])):
            number += 1
            rows[b"new:%d" % number] = None
        for gone in choose.sample(sorted(rows.keys() - staying), min(len(rows) - len(staying), choose.choice([0, 60]))):
            del rows[gone]
        if choose.random() < 0.1:  # as the keys are by a database that packs itself
            rows = {**rows}
        before = cursor
        cursor, more = page(rows, cursor, 5)
        assert cursor < before
        found += more
        pages += 1
    assert staying <= set(found)
    assert pages < 3_000


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_only_come_or_only_go_are_met_once(seed, reader):
    if reader == "plain":
        pytest.skip("each removal moves the rows behind it")
    choose = random.Random(seed)
    rows = rows_of(500)
    cursor, found = page(rows, 0, 7)
    while cursor:
        if seed % 2:
            for number in range(choose.choice([0, 30, 300])):
                rows[b"new:%d:%d" % (len(found), number)] = None
        else:
            for gone in choose.sample(sorted(rows), 20 if len(rows) > 200 else 0):
                del rows[gone]
        cursor, more = page(rows, cursor, 7)
        found += more
    assert len(found) == len(set(found))


def test_a_page_holds_as_many_keys_as_asked_for_where_nine_of_ten_rows_are_gone():
    rows = rows_of(10_000)
    for number in range(10_000):
        if number % 10:
            del rows[b"%d" % number]
    cursor, found = page(rows, 0, 10)
    assert len(found) == 10
    assert cursor > 0
    assert len(walk(rows, 10)) == 1_000


def test_a_walk_over_a_few_rows_among_holes_ends_soon():
    rows = rows_of(100_000)
    for number in range(100_000):
        if number not in (5, 77_777):
            del rows[b"%d" % number]
    cursor, found = page(rows, 0, 10)
    assert (cursor, sorted(found)) == (0, [b"5", b"77777"])


def test_a_cursor_beyond_every_position_begins_at_the_end():
    assert page(rows_of(3), 2**64 - 1, 10) == (0, [b"2", b"1", b"0"])


@pytest.mark.parametrize("removed", [0, 300, 590])
def test_every_row_is_chosen_about_as_often(removed):
    rows = rows_of(600)
    for number in range(removed):
        del rows[b"%d" % (number * 7 % 600)]
    choose = random.Random(7)
    chosen = Counter(some_row(rows, choose) for _ in range(100 * len(rows)))
    assert chosen.keys() == rows.keys()
    assert min(chosen.values()) > 40
    assert max(chosen.values()) < 180


@pytest.mark.parametrize("count", [1, 50, 200, 400, 599, 600, 700])
def test_different_rows_differ_and_others_need_not(count):
    rows = rows_of(600)
    some = some_rows(rows, random.Random(3), count)
    assert len(some) == len(set(some)) == min(count, 600)
    assert rows.keys() >= set(some)
    many = any_rows(rows, random.Random(3), count)
    assert len(many) == count
    assert rows.keys() >= set(many)


def test_the_holes_of_a_dict_that_was_emptied_are_not_looked_at_for_ever(reader):
    rows = rows_of(100_000)
    for number in range(99_500):
        del rows[b"%d" % number]
    assert walk(rows, 10) == [*reversed(rows)]
    assert [*rows] == [b"%d" % number for number in range(99_500, 100_000)]
    if reader == "array":
        assert rows.__sizeof__() < 100_000
