"""The heap: when an idle server gives memory back, and that it does."""

import sys

import pytest

from streamd.base import heap
from streamd.base.heap import CHANGES_MIN, UNASKED_BYTES_MAX, IdleTrim
from streamd.base.process import resident_bytes


@pytest.fixture
def unused(monkeypatch):
    """What the C library says that nothing uses; and how often it was told to give back."""
    unused = {"bytes": 0, "given": 0}
    monkeypatch.setattr(heap, "unused_bytes", lambda: unused["bytes"])
    monkeypatch.setattr(heap, "give_back", lambda: unused.update(given=unused["given"] + 1))
    return unused


def test_an_idle_server_gives_back_once_behind_many_changes(unused):
    trim = IdleTrim()
    looks = [0, CHANGES_MIN - 1, CHANGES_MIN - 1, CHANGES_MIN, CHANGES_MIN + 5, CHANGES_MIN + 5, CHANGES_MIN + 5]
    assert [trim.look(changes) for changes in looks] == [False] * 5 + [True, False]
    assert not any(trim.look(2 * CHANGES_MIN) for _ in range(3))
    assert [trim.look(2 * CHANGES_MIN + 5) for _ in range(3)] == [False, True, False]
    assert unused["given"] == 2


def test_what_would_take_long_is_left_to_memory_purge(unused):
    unused["bytes"] = UNASKED_BYTES_MAX + 1
    trim = IdleTrim()
    assert not any(trim.look(CHANGES_MIN) for _ in range(3))
    assert unused["given"] == 0


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
