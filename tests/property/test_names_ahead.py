"""The window of a stream whose IDs are ahead of the clock at times, against a list; the clock moves and jumps back."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.idmp.table import IdmpTable
from tests.examples import examples
from tests.property.window_limits import FORMS, limit_windows

START_MS = 1_000_000
DURATION_MS = 2_000
PIDS = [b"p", b"q"]

steps = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(PIDS), st.integers(0, 7)),
    st.tuples(st.just("add"), st.sampled_from(PIDS), st.integers(0, 7)),
    st.tuples(st.just("burst"), st.sampled_from(PIDS), st.integers(1, 9)),
    st.tuples(st.just("ahead"), st.just(b""), st.sampled_from([1, 500, 3_000, 1 << 60])),
    st.tuples(st.just("behind"), st.just(b""), st.just(0)),
    st.tuples(st.just("tick"), st.just(b""), st.sampled_from([1, 400, 999, 1_999, 2_000, -1, -700, -5_000])),
    st.tuples(st.just("sweep"), st.just(b""), st.integers(1, 3)),
    st.tuples(st.sampled_from(["copy", "reload", "snapshot", "columns"]), st.sampled_from(PIDS), st.integers(0, 9)),
)


@dataclass
class Name:
    """A name: of which producer, its entry's ID, the time by which it expires, and the latest time seen since."""

    pid: bytes
    iid: bytes
    entry_id: int
    from_ms: int
    latest_ms: int


@dataclass
class Names:
    """All names in the order of their recording, less those that newer ones pushed out."""

    maxsize: int
    known: list[Name] = field(default_factory=list)

    def see(self, now_ms: int) -> None:
        for name in self.known:
            name.latest_ms = max(name.latest_ms, now_ms)

    def of(self, pid: bytes) -> list[Name]:
        return [name for name in self.known if name.pid == pid]

    def record(self, pid: bytes, iid: bytes, entry_id: int, now_ms: int) -> None:
        self.known = [name for name in self.known if (name.pid, name.iid) != (pid, iid)]
        self.known.append(Name(pid, iid, entry_id, min(entry_id >> 64, now_ms), now_ms))
        if len(self.of(pid)) > self.maxsize:
            self.known.remove(self.of(pid)[0])

    def check(self, pid: bytes, iid: bytes, now_ms: int, answer: int | None) -> None:
        """Check an answer. A name that had expired may be known again behind a clock that jumps back, or not."""
        name = next((name for name in self.of(pid) if name.iid == iid), None)
        if name is None or name.from_ms <= now_ms - DURATION_MS:
            assert answer is None
        elif name.from_ms > name.latest_ms - DURATION_MS:
            assert answer == name.entry_id
        else:
            assert answer in (None, name.entry_id)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=examples(150), deadline=None)
@given(maxsize=st.sampled_from([1, 2, 5, 40]), history=st.lists(steps, max_size=50))
def test_names_ahead_of_the_clock_expire_by_the_time_of_their_recording(form, maxsize, history):
    with pytest.MonkeyPatch.context() as patch:
        limit_windows(patch, form)
        model, subject = Names(maxsize), IdmpTable(DURATION_MS // 1000, maxsize)
        now_ms, last_id = START_MS, 0
        snapshots: list = []

        def next_id():
            return max(now_ms << 64, last_id + 1)

        def add(pid, iid):
            nonlocal last_id
            made = next_id()
            if made >> 64 > now_ms:
                answer = subject.lookup(pid, iid, now_ms)
                if answer is None:
                    subject.record(pid, iid, made, now_ms)
            else:
                answer = subject.lookup_or_record(pid, iid, made, now_ms)
            model.check(pid, iid, now_ms, answer)
            if answer is None:
                model.record(pid, iid, made, now_ms)
                last_id = made

        for what, pid, number in history:
            if what == "add":
                add(pid, b"%d" % number)
            elif what == "burst":
                for one in range(number):
                    add(pid, b"burst %d" % one)
            elif what == "ahead":
                last_id = max(last_id, now_ms + number << 64)
            elif what == "behind":
                last_id = min(last_id, now_ms - 1 << 64)  # XSETID
            elif what == "tick":
                now_ms += number
                model.see(now_ms)
            elif what == "sweep":
                for _ in range(number):
                    subject.expire(now_ms, lambda: True)
            elif what == "copy":
                subject = subject.copy()
            elif what == "reload":
                again = IdmpTable(DURATION_MS // 1000, maxsize)
                for a_pid, iid, made in subject:
                    again.record(a_pid, iid, made, subject.recorded_ms(a_pid).get(iid))
                subject = again
            elif what == "snapshot":
                snapshots.append((subject.snapshot(), list(subject), list(subject.remembered(START_MS))))
            elif what == "columns" and next_id() >> 64 == now_ms:
                iids = [b"%d" % one for one in range(number, number + 12)]
                pids = [PIDS[one % 2] for one in range(12)] if pid == b"p" else [pid] * 12
                ids = [next_id() + one for one in range(12)]
                answers = subject.lookup_or_record_columns(pids, iids, ids, now_ms)
                for one_pid, iid, answer in zip(pids, iids, answers, strict=True):
                    model.check(one_pid, iid, now_ms, answer)
                    if answer is None:
                        last_id = ids.pop(0)
                        model.record(one_pid, iid, last_id, now_ms)
            for snapshot, whole, remembered in snapshots:
                assert (list(snapshot), list(snapshot.remembered(START_MS))) == (whole, remembered)
            held = list(subject)
            assert subject.iids_tracked == len(held)
            assert subject.pids_tracked == len(set(subject.pids()))
            for one_pid in PIDS:
                recorded = model.of(one_pid)
                mine = [(iid, made) for a_pid, iid, made in held if a_pid == one_pid]
                missing = recorded[: len(recorded) - len(mine)]
                assert [(name.iid, name.entry_id) for name in recorded[len(missing) :]] == mine
                assert all(name.from_ms <= name.latest_ms - DURATION_MS for name in missing)
                left = [row[1:] for row in subject.remembered(now_ms) if row[0] == one_pid]
                there = [name for name in recorded[len(missing) :] if name.from_ms > now_ms - DURATION_MS]
                assert left == [(name.iid, name.entry_id) for name in there]
        while (due_ms := subject.expire(max(now_ms, START_MS + 10_000_000), lambda: True)) is not None:
            assert due_ms <= START_MS + 20_000_000  # names are not kept for the sake of an ID that is ahead
        assert (subject.iids_tracked, subject.pids_tracked) == (0, 0)


def test_a_name_that_is_used_again_has_no_time_any_more_where_its_new_id_is_not_ahead():
    subject = IdmpTable(DURATION_MS // 1000, 5)
    subject.record(b"p", b"first", 10_000 << 64, 9_000)
    subject.record(b"p", b"again", 10_000 << 64 | 1, 5_000)  # the clock was set back
    assert subject.lookup(b"p", b"again", 7_500) is None
    subject.record(b"p", b"again", 7_500 << 64)
    assert subject.lookup(b"p", b"again", 9_499) == 7_500 << 64
    assert subject.lookup(b"p", b"again", 9_500) is None
    assert subject.recorded_ms(b"p") == {b"first": 9_000}
