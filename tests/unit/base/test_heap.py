"""The heap: when an idle server gives memory back, and that it does."""

import errno
import sys

import pytest

from streamd.base import heap
from streamd.base.heap import CHANGES_MIN, UNASKED_BYTES_MAX, IdleTrim, packed
from streamd.base.process import resident_bytes


@pytest.fixture
def unused(monkeypatch):
    """What the C library says that nothing uses; and how often it was told to give back."""
    unused = {"bytes": 0, "given": 0}
    monkeypatch.setattr(heap, "unused_bytes", lambda: unused["bytes"])
    monkeypatch.setattr(heap, "give_back", lambda: unused.update(given=unused["given"] + 1))
    return unused


def test_an_idle_server_gives_back_once_behind_many_changes(unused):
    trim = IdleTrim(lambda: iter(()))
    looks = [0, CHANGES_MIN - 1, CHANGES_MIN - 1, CHANGES_MIN, CHANGES_MIN + 5, CHANGES_MIN + 5, CHANGES_MIN + 5]
    assert [trim.look(changes) for changes in looks] == [False] * 5 + [True, False]
    assert not any(trim.look(2 * CHANGES_MIN) for _ in range(3))
    assert [trim.look(2 * CHANGES_MIN + 5) for _ in range(3)] == [False, True, False]
    assert unused["given"] == 2


def test_what_would_take_long_is_left_to_memory_purge(unused):
    unused["bytes"] = UNASKED_BYTES_MAX + 1
    trim = IdleTrim(lambda: iter(()))
    assert not any(trim.look(CHANGES_MIN) for _ in range(3))
    assert unused["given"] == 0


def test_an_idle_server_lets_go_of_one_dict_with_each_look(unused, engine):
    for number in range(2_000):
        engine.execute(["SET", f"k{number}", "v", "EX", "1000"])
    db = engine.state.keyspace[0]
    sizes = lambda: [sys.getsizeof(rows) for rows in (db.values, db.expires_ms, db.used_s)]  # noqa: E731
    engine.execute(["DEL", *(f"k{number}" for number in range(2_000))])
    trim = IdleTrim(engine.state.packing)
    trim.look(CHANGES_MIN)

    shrank = []
    done = False
    while not done:
        before = sizes()
        done = trim.look(CHANGES_MIN)
        shrank.append(sum(now < then for now, then in zip(sizes(), before, strict=True)))

    assert sum(shrank) == 3
    assert max(shrank) == 1
    assert unused["given"] == 1


def test_without_a_free_descriptor_nothing_is_given_back_until_there_is_one(monkeypatch):
    def none_is_free():
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(heap, "_loaded_library", none_is_free)
    trim = IdleTrim(lambda: iter(()))
    assert [trim.look(changes) for changes in (0, 0, CHANGES_MIN, CHANGES_MIN)] == [False, False, False, True]
    assert heap.unused_bytes() == 0


@pytest.mark.skipif(sys.platform != "linux" or heap.unused_bytes() == 0, reason="wants glibc 2.33 or newer")
def test_memory_purge_gives_holes_back(engine):
    # Less than a quarter of a MB each: larger ones have a mapping of their own, and leave no hole.
    pieces = [b"x" * 100_000 for _ in range(600)]
    kept = pieces[::2]
    pieces.clear()
    before = resident_bytes()
    assert engine.execute([b"MEMORY", b"PURGE"]) == "OK"
    assert before - resident_bytes() > 20_000_000
    assert len(kept) == 300


def test_a_dict_that_had_many_rows_is_packed():
    rows = {number: number for number in range(100_000)}
    assert packed(rows) is rows
    for number in range(99_990):
        del rows[number]

    small = packed(rows)

    assert small == rows
    assert list(small) == list(rows)
    assert sys.getsizeof(small) < sys.getsizeof(rows) / 1_000
    assert packed(small) is small


def test_what_is_packed_is_still_what_it_was(engine, clock):
    engine.do("CONFIG SET slowlog-log-slower-than 0")
    for number in range(5_000):
        engine.execute(["XADD", f"s{number}", "IDMP", "p", "i", "*", "f", "v"])
        engine.execute(["PEXPIRE", f"s{number}", "1000000"])
    engine.execute(["DEL", *(f"s{number}" for number in range(4_990))])
    clock.advance(3_000)
    slow = engine.do("SLOWLOG GET 128")

    assert engine.do("MEMORY PURGE") == "OK"

    assert engine.do("SLOWLOG GET 128")[2:] == slow[:-2]
    assert sorted(engine.do("KEYS *")) == [b"s%d" % number for number in range(4_990, 5_000)]
    assert engine.do("OBJECT IDLETIME s4995") == 3
    assert engine.do("PTTL s4995") == 997_000
    clock.advance(97_000)
    engine.sweep()
    assert len(engine.state.sweeper) == 0
    clock.advance(900_000)
    engine.sweep()
    assert engine.do("DBSIZE") == 0
