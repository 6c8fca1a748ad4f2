"""SCAN's order: a cursor meets every key that stays, whatever comes and goes meanwhile."""

import gc
import random

import pytest

import streamd.data.scan_order
from streamd.data.scan_order import ScanOrder


def walk(order: ScanOrder, count: int) -> list[bytes]:
    cursor, found = order.page(0, count)
    while cursor:
        cursor, page = order.page(cursor, count)
        found += page
    return found


@pytest.mark.parametrize("count", [1, 2, 7, 10, 1000])
@pytest.mark.parametrize("keys", [0, 1, 2, 17, 300])
def test_every_key_is_met_exactly_once(keys, count):
    names = [b"key:%d" % number for number in range(keys)]
    assert sorted(walk(ScanOrder(names), count)) == sorted(names)


@pytest.mark.parametrize("seed", range(30))
def test_what_stays_is_met_once_while_everything_else_changes(seed):
    choose = random.Random(seed)
    staying = {b"stays:%d" % number for number in range(choose.choice([1, 20, 200]))}
    fleeting = {b"goes:%d" % number for number in range(choose.choice([0, 100, 2000]))}
    present = staying | fleeting
    order = ScanOrder(present)
    cursor, found = order.page(0, 5)
    number = 0
    while cursor:
        for _ in range(choose.choice([0, 1, 20])):
            number += 1
            new = b"new:%d" % number
            order.add(new)
            present.add(new)
        for gone in choose.sample(sorted(present - staying), k=min(len(present - staying), choose.choice([0, 1, 60]))):
            order.remove(gone)
            present.remove(gone)
        if choose.random() < 0.1:  # as the database does when the buckets no longer fit
            order = ScanOrder(present)
        cursor, page = order.page(cursor, 5)
        found += page
    assert sorted(key for key in found if key in staying) == sorted(staying)
    assert len(found) == len(set(found))


def test_an_order_makes_no_bucket_before_a_key_stands_in_it():
    keys = [b"%d" % number for number in range(20_000)]
    order = ScanOrder(keys, at_once=False)
    assert len({id(bucket) for bucket in order._buckets}) == 1
    steps = 0
    while not order.is_built:
        order.place()
        steps += 1
    assert steps == 20
    assert sorted(walk(order, 1_000)) == sorted(keys)
    assert sorted(walk(ScanOrder(keys), 1_000)) == sorted(keys)


def test_a_young_collection_does_not_look_at_the_buckets_of_a_long_order():
    order = ScanOrder([b"%d" % number for number in range(20_000)])
    young = {id(one) for generation in (0, 1) for one in gc.get_objects(generation=generation)}
    assert id(order._buckets) not in young
    assert not young & {id(bucket) for bucket in order._buckets}


def test_a_page_holds_as_many_keys_as_asked_for():
    order = ScanOrder([b"%d" % number for number in range(1000)])
    cursor, page = order.page(0, 10)
    assert len(page) == 10
    assert cursor > 0


def test_keys_with_equal_hashes_stand_on_one_page(monkeypatch):
    monkeypatch.setattr(streamd.data.scan_order, "_hash", lambda key: len(key))
    order = ScanOrder([b"a", b"b", b"c", b"dd", b"ee"])
    first = order.page(0, 1)
    assert (first[0], sorted(first[1])) == (2, [b"a", b"b", b"c"])
    assert (order.page(2, 1)[0], sorted(order.page(2, 1)[1])) == (0, [b"dd", b"ee"])


def test_a_cursor_beyond_every_hash_ends():
    assert ScanOrder([b"a"]).page(2**64 - 1, 10) == (0, [])


def test_the_order_says_when_it_no_longer_fits_the_number_of_keys():
    order = ScanOrder([b"%d" % number for number in range(1000)])
    assert order.fits
    for number in range(1000, 9000):
        order.add(b"%d" % number)
    assert not order.fits
    order = ScanOrder([b"%d" % number for number in range(1000)])
    for number in range(995):
        order.remove(b"%d" % number)
    assert not order.fits
    assert ScanOrder([]).fits


def test_a_random_number_chooses_a_key():
    keys = [b"%d" % number for number in range(40)]
    order = ScanOrder(keys)
    chosen = {order.some_key(number / 1000) for number in range(1000)}
    assert chosen <= set(keys)
    assert len(chosen) > 30
