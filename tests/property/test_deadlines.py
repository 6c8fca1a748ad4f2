"""Deadlines give what a dict of them gives, whatever is added, moved and taken out, and however little at a time."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.base.clock import ManualClock, TurnTime
from streamd.data import deadlines
from streamd.data.deadlines import Deadlines
from streamd.data.expiring import expire_due
from streamd.data.keyspace import Database
from tests.examples import examples

# Of two spans of four milliseconds each, and of a third.
STEPS = [("set", b"a", 1), ("set", b"a", 6), ("set", b"b", 2), ("set", b"b", 7), ("set", b"c", 3), ("set", b"c", 9),
         ("clear", b"a", 0), ("clear", b"b", 0), ("one", b"", 2), ("all", b"", 3), ("all", b"", 7)]  # fmt: skip


def rows_of(deadlines):
    """How many rows there are, outdated ones included."""
    return len(deadlines._order) + sum(len(one) for one in deadlines._spans.values() if isinstance(one, list))


@pytest.fixture(autouse=True)
def short_spans(monkeypatch):
    monkeypatch.setattr(deadlines, "_SPAN_BITS", 2)
    monkeypatch.setattr(deadlines, "_TAKEN_AT_ONCE", 2)


def run(steps, looked_at_max, is_awaited=False):
    """Take the steps with a Database and with a dict, and compare what is there after each.

    is_awaited: somebody waits for a key; keys are removed one by one then.
    """
    time = TurnTime(ManualClock(0))
    db, model = Database(0, time), {}
    if is_awaited:
        db.waiting[b"another"] = 1
    expired: list[bytes] = []
    db.on_expired = lambda _, keys: expired.extend(keys)
    for kind, key, number in steps:
        if kind == "set":
            db.put(key, b"v")
            db.set_expiry(key, number)
            model[key] = number
        elif kind == "clear":
            assert db.clear_expiry(key) == (model.pop(key, None) is not None)
        else:
            time.ms = max(time.ms, number)
            due = {one for one, due_ms in model.items() if due_ms <= time.ms}
            assert db.overdue() == due
            expired.clear()
            if kind == "one":
                expire_due(db, lambda: True)
                assert len(expired) <= 2
            else:
                while expire_due(db, lambda: False):
                    pass
                # Those of a long span may stay until it is over.
                over = {one for one in due if model[one] // 4 < (time.ms + 1) // 4}
                assert over <= set(expired)
                if looked_at_max:
                    assert set(expired) == due
            assert set(expired) <= due
            assert len(set(expired)) == len(expired)
            for one in expired:
                assert one not in db.values
                del model[one]
        assert db.expires_ms == model
        assert db.expires_sum_ms == sum(model.values())
        assert bool(db.deadlines) or not model
        assert rows_of(db.deadlines) <= 2 * len(model) + 1_000
        assert db.deadlines._gone.keys() <= db.deadlines._spans.keys()
    time.ms = 100
    while expire_due(db, lambda: False):
        pass
    assert not db.deadlines
    assert not db.expires_ms


@pytest.mark.parametrize(("looked_at_max", "is_awaited"), [(0, False), (0, True), (1_000, False)])
def test_every_short_history_of_deadlines_is_that_of_a_dict(looked_at_max, is_awaited, monkeypatch):
    monkeypatch.setattr(deadlines, "_LOOKED_AT_MAX", looked_at_max)
    for length in range(1, 5):
        for steps in product(STEPS, repeat=length):
            run(steps, looked_at_max, is_awaited)


@given(st.lists(st.one_of(
    st.tuples(st.just("set"), st.sampled_from([b"%d" % number for number in range(12)]), st.integers(0, 40)),
    st.tuples(st.just("clear"), st.sampled_from([b"%d" % number for number in range(12)]), st.just(0)),
    st.tuples(st.sampled_from(["one", "all"]), st.just(b""), st.integers(0, 40)),
), max_size=40), st.sampled_from([0, 2, 1_000]), st.booleans())  # fmt: skip
def test_long_histories_of_deadlines_are_those_of_a_dict(steps, looked_at_max, is_awaited):
    deadlines._LOOKED_AT_MAX, before = looked_at_max, deadlines._LOOKED_AT_MAX
    try:
        run(steps, looked_at_max == 1_000, is_awaited)
    finally:
        deadlines._LOOKED_AT_MAX = before


def test_what_ends_in_a_short_span_ends_in_the_order_of_time():
    held = Deadlines()
    due_ms = {b"c": 3, b"a": 1, b"b": 2, b"d": 5}
    for key, moment in due_ms.items():
        held.add(key, moment)

    taken = []
    for keys in held.take_due(5, due_ms):
        taken += keys
    assert taken == [b"a", b"b", b"c", b"d"]


def test_keys_of_which_others_are_gone_are_all_removed_one_by_one(monkeypatch):
    monkeypatch.setattr(deadlines, "_LOOKED_AT_MAX", 4)
    time = TurnTime(ManualClock(0))
    db = Database(0, time)
    keys = [b"%d" % number for number in range(20)]
    for key in keys:
        db.put(key, b"v")
        db.set_expiry(key, 1)
    db.waiting[b"another"] = 1
    for key in keys[:9]:
        db.clear_expiry(key)
    time.ms = 100

    assert not expire_due(db, lambda: False)

    assert sorted(db.values) == sorted(keys[:9])
    assert not db.deadlines


KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
# Within a step of the deadlines, and over several.
TIMES_MS = st.integers(0, 40) | st.integers(0, 500)
HISTORIES = st.lists(
    st.tuples(st.just("set"), KEYS, TIMES_MS)
    | st.tuples(st.just("clear"), KEYS, st.none())
    | st.tuples(st.just("remove"), KEYS, st.none())
    | st.tuples(st.just("pass"), st.sampled_from([-120, -20, 3, 20, 60, 150]), st.booleans()),
    max_size=25,
)


@settings(max_examples=examples(400))
@given(HISTORIES)
def test_the_cron_removes_exactly_the_keys_that_are_due(steps):
    time = TurnTime(ManualClock(1_000))
    db = Database(0, time)
    due_ms = {}
    for kind, what, how in steps:
        if kind == "set":
            db.put(what, b"v")
            db.set_expiry(what, time.ms + how + 1)
            due_ms[what] = time.ms + how + 1
        elif kind == "clear":
            if what in due_ms:
                db.clear_expiry(what)
                due_ms[what] = None
        elif kind == "remove":
            db.remove(what)
            due_ms.pop(what, None)
        else:
            time.ms = max(0, time.ms + what)
            if how:  # interrupted behind each key
                calls = 0
                while expire_due(db, lambda: True):
                    calls += 1
                    assert calls < 1_000
            assert not expire_due(db, lambda: False)
            due_ms = {key: due for key, due in due_ms.items() if due is None or due > time.ms}
            assert db.values.keys() == due_ms.keys()
    time.ms = 10_000
    expire_due(db, lambda: False)
    assert db.values.keys() == {key for key, due in due_ms.items() if due is None}
    assert rows_of(db.deadlines) == 0
