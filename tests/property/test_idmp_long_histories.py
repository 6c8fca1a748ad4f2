"""The window of a stream against a dict, over long histories that cross from one form to the other."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.idmp.table import IdmpTable
from tests.property.window_limits import FORMS, limit_windows

START_MS = 1_000_000
PIDS = [b"p", b"q", b"long-" * 20]

iids = st.integers(0, 60).map(
    lambda number: b"%d" % number * (1 + 25 * (number % 17 == 0))
)  # some of 50 bytes and more
steps = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(PIDS), iids, st.just(0)),
    st.tuples(st.just("burst"), st.sampled_from(PIDS), st.integers(0, 40), st.integers(1, 40)),
    st.tuples(st.just("record"), st.sampled_from(PIDS), iids, st.integers(0, 2500)),
    st.tuples(st.just("tick"), st.just(b""), st.just(b""), st.sampled_from([1, 50, 400, 2500])),
    st.tuples(st.just("sweep"), st.just(b""), st.just(b""), st.integers(1, 3)),
    st.tuples(st.just("copy"), st.just(b""), st.just(b""), st.just(0)),
    st.tuples(st.just("reload"), st.just(b""), st.just(b""), st.just(0)),
)


class DictTable:
    """Every producer's iids in a dict, youngest last; nothing is ever swept."""

    def __init__(self, maxsize):
        self.maxsize = maxsize
        self.producers = {}

    def lookup(self, pid, iid, now_ms):
        entry_id = self.producers.get(pid, {}).get(iid)
        return entry_id if entry_id is not None and entry_id // 2**64 > now_ms - 2000 else None

    def record(self, pid, iid, entry_id):
        window = self.producers.setdefault(pid, {})
        window.pop(iid, None)
        window[iid] = entry_id
        if len(window) > self.maxsize:
            del window[next(iter(window))]


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=40, deadline=None)
@given(maxsize=st.sampled_from([1, 2, 5, 16, 17, 40]), history=st.lists(steps, max_size=60))
def test_a_long_history_gives_the_answers_of_a_dict_swept_or_not(form, maxsize, history):
    with pytest.MonkeyPatch.context() as patch:
        limit_windows(patch, form)
        model = DictTable(maxsize)
        swept, unswept = IdmpTable(2, maxsize), IdmpTable(2, maxsize)
        now_ms = START_MS
        seq = 0

        def add(pid, iid):
            nonlocal seq
            seq += 1
            known = model.lookup(pid, iid, now_ms)
            assert swept.lookup(pid, iid, now_ms) == known
            assert unswept.lookup(pid, iid, now_ms) == known
            if known is None:
                for one in (model, swept, unswept):
                    one.record(pid, iid, now_ms << 64 | seq)

        for what, pid, iid, number in history:
            if what == "add":
                add(pid, iid)
            elif what == "burst":
                for i in range(iid, iid + number):
                    add(pid, b"%d" % i)
            elif what == "record":
                for one in (model, swept, unswept):
                    one.record(pid, iid, now_ms - number << 64)
            elif what == "tick":
                now_ms += number
            elif what == "sweep":
                for _ in range(number):
                    swept.expire(now_ms, lambda: True)
            elif what == "copy":
                swept = swept.copy()
            elif what == "reload":
                again = IdmpTable(2, maxsize)
                for one in swept:
                    again.record(*one)
                swept = again
            held = {pid: swept.iids(pid) for pid in swept.pids()}
            assert swept.iids_tracked == sum(map(len, held.values()))
            for pid, window in model.producers.items():
                recorded = list(window.items())
                mine = held.get(pid, [])
                missing = recorded[: len(recorded) - len(mine)]
                assert missing + mine == recorded
                assert all(entry_id >> 64 <= now_ms - 2000 for _, entry_id in missing)
        for pid, window in model.producers.items():
            for iid in window:
                known = model.lookup(pid, iid, now_ms)
                assert swept.copy().lookup(pid, iid, now_ms) == unswept.copy().lookup(pid, iid, now_ms) == known


COLUMNS = st.lists(st.tuples(st.sampled_from(PIDS), st.integers(0, 25)), min_size=1, max_size=30)
RUNS = st.tuples(st.sampled_from(PIDS), st.integers(0, 25), st.integers(1, 30)).map(
    lambda run: [(run[0], number) for number in range(run[1], run[1] + run[2])]
)
COLUMN_STEPS = st.one_of(
    st.tuples(st.just("ask"), COLUMNS),
    st.tuples(st.just("ask"), RUNS),
    st.tuples(st.just("ask new"), st.lists(st.sampled_from(PIDS), min_size=1, max_size=40)),
    st.tuples(st.just("ask again"), st.just([])),
    st.tuples(st.just("ask the last two again"), st.just([])),
    st.tuples(st.just("tick"), st.sampled_from([1, 400, 1999, 2000, 2500])),
    st.tuples(st.just("sweep"), st.integers(1, 3)),
    st.tuples(st.just("snapshot"), st.booleans()),
)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=80, deadline=None)
@given(maxsize=st.sampled_from([1, 2, 5, 17, 40]), history=st.lists(COLUMN_STEPS, max_size=25))
def test_columns_are_answered_as_one_request_after_the_other(form, maxsize, history):
    with pytest.MonkeyPatch.context() as patch:
        limit_windows(patch, form)
        one_by_one, together = IdmpTable(2, maxsize), IdmpTable(2, maxsize)
        now_ms, seq = START_MS, 0
        asked: list = []
        before_that: list = []
        fresh = count(1_000)
        taken: list = []
        for what, given in history:
            if what == "ask new":
                given = [(pid, next(fresh)) for pid in given]
            elif what == "ask the last two again":
                given = before_that + asked
            if what.startswith("ask") and (given or asked):
                if given:
                    before_that, asked = asked, given
                pids = [pid for pid, _ in asked]
                iids = [b"%d" % number * (1 + 40 * (number == 7)) for _, number in asked]
                ids = [now_ms << 64 | seq + number for number in range(len(pids))]
                expected, new = [], 0
                for pid, iid in zip(pids, iids, strict=True):
                    expected.append(one_by_one.lookup_or_record(pid, iid, ids[new], now_ms))
                    new += expected[-1] is None
                known = together.known_columns(pids, iids, now_ms)
                assert known in (None, expected)
                if known is None:
                    assert together.lookup_or_record_columns(pids, iids, ids, now_ms) == expected
                seq += new
            elif what == "tick":
                now_ms += given
            elif what == "sweep":
                for _ in range(given):
                    one_by_one.expire(now_ms, lambda: True)
                    together.expire(now_ms, lambda: True)
            elif what == "snapshot":
                taken = taken if given else []
                taken.append((together.snapshot(), list(together)))
            assert list(together) == list(one_by_one)
            assert (together.iids_tracked, together.iids_added) == (one_by_one.iids_tracked, one_by_one.iids_added)
            for snapshot, before in taken:
                assert list(snapshot) == before
