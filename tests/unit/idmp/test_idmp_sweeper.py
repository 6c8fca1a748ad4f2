"""The sweeper frees what has expired, in the order in which it does, and visits nothing else."""

import gc
import weakref
from itertools import product

import pytest

from streamd.idmp.sweeper import Sweeper
from streamd.idmp.table import IdmpTable
from tests.property.window_limits import FORMS, limit_windows

START_MS = 1_000_000


def never() -> bool:
    return False


def always() -> bool:
    return True


@pytest.fixture
def sweeper():
    return Sweeper()


def next_due_ms(sweeper):
    """Return when the first table is to be looked at, 0 if a dead one is to be forgotten, None if there is nothing."""
    if sweeper._dead:
        return 0
    return sweeper._order[0][0] if sweeper._order else None


def one_iid_at(sweeper: Sweeper, ms: int, duration_s: int = 1) -> IdmpTable:
    subject = IdmpTable(duration_s, 100, sweeper)
    subject.record(b"p", b"a", ms << 64)
    return subject


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("offset_ms", [0, 1, 500, 999])
@pytest.mark.parametrize(("waited_ms", "tracked"), [(999, 2), (1000, 0)])
def test_iids_are_freed_by_the_first_run_after_their_end(sweeper, monkeypatch, form, offset_ms, waited_ms, tracked):
    limit_windows(monkeypatch, form)
    subject = one_iid_at(sweeper, START_MS + offset_ms)
    subject.record(b"p", b"b", START_MS + offset_ms << 64)
    assert not sweeper.run(START_MS + offset_ms + waited_ms, never)
    assert (subject.iids_tracked, subject.pids_tracked) == (tracked, tracked // 2)
    assert not sweeper.run(START_MS + offset_ms + waited_ms + 1000, never)
    assert (subject.iids_tracked, subject.pids_tracked) == (0, 0)
    assert next_due_ms(sweeper) is None


def test_runs_a_second_apart_free_every_iid_within_a_second(sweeper):
    subject = IdmpTable(3, 5, sweeper)
    for step in range(400):
        now_ms = START_MS + step * 50
        if step < 200:
            subject.record(b"p%d" % (step % 7), b"%d" % step, now_ms << 64)
        if now_ms % 1000 == 350:
            sweeper.run(now_ms, never)
            assert all(entry_id >> 64 > now_ms - 3000 - 1000 for _, _, entry_id in subject)
    assert (subject.iids_tracked, subject.pids_tracked, len(sweeper)) == (0, 0, 0)


def test_nothing_is_visited_before_it_is_due(sweeper, monkeypatch):
    visited = []
    visit = IdmpTable._visit
    monkeypatch.setattr(IdmpTable, "_visit", lambda self, pid, *rest: (visited.append(pid), visit(self, pid, *rest)))
    subject = IdmpTable(100, 100, sweeper)
    for i in range(1000):
        subject.record(b"%d" % i, b"a", START_MS + i * 1000 << 64)
    for second in range(100):
        sweeper.run(START_MS + second * 1000, never)
    assert visited == []
    assert next_due_ms(sweeper) == START_MS + 100_000
    sweeper.run(START_MS + 102_000, never)
    assert visited == [b"0", b"1", b"2"]


def test_a_table_that_is_due_earlier_after_all_is_visited_earlier(sweeper):
    subject = one_iid_at(sweeper, START_MS + 50_000)
    subject.record(b"q", b"old", START_MS << 64)
    assert next_due_ms(sweeper) == START_MS + 1000
    sweeper.run(START_MS + 1000, never)
    assert list(subject) == [(b"p", b"a", START_MS + 50_000 << 64)]
    assert (next_due_ms(sweeper), len(sweeper)) == (START_MS + 51_000, 1)


def test_a_producer_that_stays_is_visited_again(sweeper):
    subject = IdmpTable(1, 100, sweeper)
    for i in range(5):
        subject.record(b"p", b"%d" % i, START_MS + i * 1500 << 64)
    left = []
    for i in range(9):
        sweeper.run(START_MS + 1000 + i * 1000, never)
        left.append(subject.iids_tracked)
    assert left == [4, 4, 3, 2, 2, 1, 0, 0, 0]


def test_tables_are_freed_in_the_order_in_which_they_are_due(sweeper):
    tables = [one_iid_at(sweeper, START_MS + ms) for ms in (5000, 1000, 3000)]
    freed = []
    for second in range(1, 8):
        sweeper.run(START_MS + second * 1000, never)
        freed.append([one.iids_tracked for one in tables])
    assert freed[:3] == [[1, 1, 1], [1, 0, 1], [1, 0, 1]]
    assert freed[3:] == [[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("form", FORMS)
def test_a_run_stops_when_told_and_the_next_goes_on(sweeper, monkeypatch, form):
    limit_windows(monkeypatch, form)
    tables = [IdmpTable(1, 300, sweeper) for _ in range(3)]
    for one in tables:
        for i in range(2500):
            one.record(b"p%d" % (i % 10), b"%04d" % i, START_MS << 64)
    runs = 1
    tracked = 7500
    while sweeper.run(START_MS + 1000, always):
        runs += 1
        now_tracked = sum(one.iids_tracked for one in tables)
        assert 0 < tracked - now_tracked <= 100
        tracked = now_tracked
    assert runs >= 30
    assert sum(one.iids_tracked + one.pids_tracked for one in tables) == 0
    assert next_due_ms(sweeper) is None


def test_a_run_that_is_always_stopped_is_done_with_those_that_came_too_early(sweeper):
    subject = IdmpTable(1, 100, sweeper)
    for i in range(100):
        subject.record(b"%d" % i, b"a", START_MS + 999 << 64)
    runs = 1
    while sweeper.run(START_MS + 1000, always):
        runs += 1
        assert runs <= 100
    assert subject.iids_tracked == 100
    assert next_due_ms(sweeper) == START_MS + 2000


def test_a_dead_table_is_not_kept_alive_and_leaves_the_order(sweeper):
    subject = one_iid_at(sweeper, START_MS, duration_s=86_400)
    alive = one_iid_at(sweeper, START_MS + 1000, duration_s=86_400)
    died = weakref.ref(subject)
    del subject
    gc.collect()
    assert died() is None
    while sweeper.run(START_MS, always):
        pass
    assert len(sweeper) == len(sweeper._places) == 1
    assert next_due_ms(sweeper) == START_MS + 1000 + 86_400_000
    assert alive.iids_tracked == 1


def test_a_cleared_table_is_found_again_when_it_is_used_again(sweeper):
    subject = one_iid_at(sweeper, START_MS)
    subject.configure(duration_s=2)
    sweeper.run(START_MS + 1000, never)
    subject.record(b"p", b"b", START_MS + 1000 << 64)
    assert next_due_ms(sweeper) == START_MS + 3000
    subject.reconfigure()
    subject.record(b"p", b"c", START_MS + 5000 << 64)
    for second in range(10):
        sweeper.run(START_MS + second * 1000, never)
        assert subject.iids_tracked == (second < 7)
    assert len(sweeper) == 0


def test_a_copy_is_swept_like_its_original(sweeper):
    subject = one_iid_at(sweeper, START_MS)
    twin = subject.copy()
    del subject
    assert len(sweeper) == 2
    sweeper.run(START_MS + 1000, never)
    assert twin.iids_tracked == 0
    assert next_due_ms(sweeper) is None


def test_a_table_that_gets_its_sweeper_late_is_swept(sweeper):
    subject = IdmpTable(1, 100)
    subject.record(b"p", b"a", START_MS << 64)
    subject.leave_to(sweeper)
    sweeper.run(START_MS + 1000, never)
    assert subject.iids_tracked == 0


def test_a_table_moves_from_one_sweeper_to_another():
    first, second = Sweeper(), Sweeper()
    subject = one_iid_at(first, START_MS)
    subject.leave_to(second)
    second.run(START_MS + 1000, never)
    assert subject.iids_tracked == 0
    assert not first.run(START_MS + 1000, never)
    assert len(first) == len(second) == 0


def test_every_short_history_of_two_tables_ends_empty():
    """Whatever is recorded, cleared, dropped and swept in whatever order, the last run frees all of it."""
    for history in product(range(7), repeat=5):
        sweeper = Sweeper()
        tables = [IdmpTable(1, 2, sweeper), IdmpTable(2, 2, sweeper)]
        now_ms = START_MS
        for step, what in enumerate(history):
            if what < 4:
                tables[what % 2].record(b"p%d" % (what // 2), b"%d" % step, now_ms << 64)
            elif what == 4:
                now_ms += 700
            elif what == 5:
                sweeper.run(now_ms, always if step % 2 else never)
            else:
                tables[0] = tables[1].copy()
        for second in range(1, 5):
            sweeper.run(now_ms + second * 1000, never)
        assert [one.iids_tracked + one.pids_tracked for one in tables] == [0, 0], history
        assert (len(sweeper), next_due_ms(sweeper)) == (0, None), history
