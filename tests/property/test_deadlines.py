"""Keys expire when they are due, whatever was set, moved and cleared before, and wherever the clock goes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.base.clock import TurnTime
from streamd.data.keyspace import Database

KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
# Within a step of the deadlines, and over several.
TIMES_MS = st.integers(0, 40) | st.integers(0, 500)
STEPS = st.lists(
    st.tuples(st.just("set"), KEYS, TIMES_MS)
    | st.tuples(st.just("clear"), KEYS, st.none())
    | st.tuples(st.just("remove"), KEYS, st.none())
    | st.tuples(st.just("pass"), st.sampled_from([-120, -20, 3, 20, 60, 150]), st.booleans()),
    max_size=25,
)


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_the_cron_removes_exactly_the_keys_that_are_due(steps):
    time = TurnTime(1_000)
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
            time.set(max(0, time.ms + what))
            if how:  # interrupted behind each key
                calls = 0
                while db.expire_due(lambda: True):
                    calls += 1
                    assert calls < 1_000
            assert not db.expire_due(lambda: False)
            due_ms = {key: due for key, due in due_ms.items() if due is None or due > time.ms}
            assert db.values.keys() == due_ms.keys()
    time.set(10_000)
    db.expire_due(lambda: False)
    assert db.values.keys() == {key for key, due in due_ms.items() if due is None}
    assert len(db.deadlines) == 0
