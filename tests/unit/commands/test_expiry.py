"""Keys expire by the clock: when somebody asks, and when nobody does."""

import pytest

from streamd.base.clock import ManualClock, TurnTime
from streamd.data.expiring import expire_due
from streamd.data.keyspace import Database

NOW_MS = 1_000_000_000_000


@pytest.mark.parametrize(("waited_ms", "reply"), [(9_999, b"v"), (10_000, None)])
def test_a_key_is_gone_exactly_when_its_time_has_come(engine, clock, waited_ms, reply):
    engine.do("SET k v EX 10")
    clock.advance(waited_ms)
    assert engine.do("GET k") == reply


@pytest.mark.parametrize(
    ("request_", "expires_ms"),
    [
        ("SET k v EX 10", NOW_MS + 10_000),
        ("SET k v PX 10", NOW_MS + 10),
        ("SET k v EXAT 1000000001", NOW_MS + 1_000),
        ("SET k v PXAT 1000000000001", NOW_MS + 1),
        ("SETEX k 10 v", NOW_MS + 10_000),
        ("PSETEX k 10 v", NOW_MS + 10),
        ("GETEX k PX 10", NOW_MS + 10),
        ("EXPIRE k 10", NOW_MS + 10_000),
        ("PEXPIRE k 10", NOW_MS + 10),
        ("EXPIREAT k 1000000001", NOW_MS + 1_000),
        ("PEXPIREAT k 1000000000001", NOW_MS + 1),
        ("SET k v", -1),
        ("SET k v KEEPTTL", NOW_MS + 5_000),
        ("GETEX k", NOW_MS + 5_000),
        ("GETEX k PERSIST", -1),
        ("PERSIST k", -1),
        ("GETSET k v", -1),
        ("INCR k", NOW_MS + 5_000),
        ("APPEND k 1", NOW_MS + 5_000),
        ("MSET k v", -1),
        ("EXPIRE k 0", -2),
        ("PEXPIREAT k 1", -2),
    ],
)
def test_each_command_sets_keeps_or_ends_the_expiry(engine, request_, expires_ms):
    engine.do("SET k 1 PX 5000")
    engine.do(request_)
    assert engine.do("PEXPIRETIME k") == expires_ms


@pytest.mark.parametrize(("left_ms", "seconds"), [(1_499, 1), (1_500, 2), (499, 0), (1, 0)])
def test_ttl_rounds_to_the_nearest_second(engine, left_ms, seconds):
    engine.do(f"SET k v PX {left_ms}")
    assert engine.do("TTL k") == seconds


@pytest.mark.parametrize(
    ("condition", "without", "shorter", "longer"),
    [("NX", 1, 0, 0), ("XX", 0, 1, 1), ("GT", 0, 0, 1), ("LT", 1, 1, 0), ("XX GT", 0, 0, 1), ("XX LT", 0, 1, 0)],
)
def test_conditions_compare_with_the_expiry_that_is_there(engine, condition, without, shorter, longer):
    engine.do("SET k v")
    assert engine.do(f"EXPIRE k 100 {condition}") == without
    for seconds, set_ in ((50, shorter), (150, longer), (100, int(condition == "XX"))):
        engine.do("EXPIRE k 100")
        assert engine.do(f"EXPIRE k {seconds} {condition}") == set_
        assert engine.do("TTL k") == (seconds if set_ else 100)


def test_expired_keys_that_nobody_reads_are_removed_by_the_cron(engine, clock):
    for number in range(100):
        engine.do(f"SET k{number} v PX {number + 1}")
    records = engine.record()
    clock.advance(50)
    engine.sweep()
    assert engine.do("DBSIZE") == 50
    assert records == [(0, [b"DEL", b"k%d" % number]) for number in range(50)]
    assert engine.state.stats.expired_keys == 50


def test_debug_lets_expired_keys_stay_until_somebody_asks(engine, clock):
    engine.do("SET k v PX 1")
    engine.do("DEBUG SET-ACTIVE-EXPIRE 0")
    clock.advance(10)
    engine.sweep()
    assert engine.do("DBSIZE") == 1
    assert engine.do("EXISTS k") == 0
    assert engine.do("DBSIZE") == 0


def test_an_expiry_moves_with_its_key(engine):
    engine.do("SET k v PX 5000")
    engine.do("RENAME k j")
    assert engine.do("PTTL j") == 5000
    engine.do("SET k w")
    engine.do("RENAME k j")
    assert engine.do("PTTL j") == -1
    engine.do("PEXPIRE j 7000")
    engine.do("COPY j c DB 1")
    engine.do("MOVE j 1")
    engine.do("SELECT 1")
    assert (engine.do("PTTL c"), engine.do("PTTL j")) == (7000, 7000)
    engine.do("SWAPDB 0 1")
    engine.do("SELECT 0")
    assert engine.do("PTTL j") == 7000


def test_what_moved_with_swapdb_expires_in_its_new_place(engine, clock):
    engine.do("SET k v PX 10")
    engine.do("SWAPDB 0 5")
    clock.advance(10)
    engine.sweep()
    engine.do("SELECT 5")
    assert engine.do("DBSIZE") == 0


def test_removing_what_is_due_stops_when_told_to():
    time = TurnTime(ManualClock(0))
    db = Database(0, time)
    for number in range(10):
        db.put(b"%d" % number, b"v")
        db.set_expiry(b"%d" % number, number)
    time.ms = 100
    assert expire_due(db, lambda: True)
    assert len(db) == 9
    assert not expire_due(db, lambda: False)
    assert len(db) == 0


def test_expiries_that_were_moved_or_cleared_leave_nothing_behind():
    time = TurnTime(ManualClock(0))
    db = Database(0, time)
    db.put(b"moved", b"v")
    db.put(b"cleared", b"v")
    for due_ms in range(1, 100_000):
        db.set_expiry(b"moved", due_ms)
        db.set_expiry(b"cleared", due_ms)
        db.clear_expiry(b"cleared")
        spans = db.deadlines._spans.values()
        assert len(db.deadlines._order) + sum(len(one) for one in spans if isinstance(one, list)) < 2_000
    time.ms = 99_998
    assert not expire_due(db, lambda: False)
    assert len(db) == 2
    time.ms = 99_999
    expire_due(db, lambda: False)
    assert list(db.values) == [b"cleared"]


def keyspace_line(engine):
    return engine.do("INFO keyspace").decode().split("db0:")[1].splitlines()[0]


def test_info_counts_keys_that_expire_and_their_mean_time_left_without_looking_at_each(engine, clock):
    class Watched(dict):
        def values(self):
            raise AssertionError("every key was looked at")

        items = keys = __iter__ = values

    for number in range(1, 5):
        engine.execute(["SET", f"k{number}", "v", "PX", 1_000 * number])
    engine.do("SET forever v")
    db = engine.state.keyspace[0]
    db.expires_ms = Watched(db.expires_ms)

    assert keyspace_line(engine) == "keys=5,expires=4,avg_ttl=2500"
    engine.do("PERSIST k1")
    engine.do("PEXPIRE k2 7000")
    engine.do("DEL k3")
    engine.do("RENAME k4 k5")
    clock.advance(1_000)
    assert keyspace_line(engine) == "keys=4,expires=2,avg_ttl=4500"
    engine.do("SET k2 v")
    engine.do("SWAPDB 0 1")
    engine.do("SET only v PX 10")
    assert "db1:keys=4,expires=1,avg_ttl=3000" in engine.do("INFO keyspace").decode()
    engine.do("SWAPDB 0 1")
    engine.do("FLUSHDB")
    engine.do("SET again v PX 600")
    assert keyspace_line(engine) == "keys=1,expires=1,avg_ttl=600"


def test_the_mean_time_left_is_never_negative(engine, clock):
    engine.do("DEBUG SET-ACTIVE-EXPIRE 0")
    engine.do("SET k v PX 10")
    clock.advance(1_000)
    assert keyspace_line(engine) == "keys=1,expires=1,avg_ttl=0"
