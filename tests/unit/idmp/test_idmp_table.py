"""The window of a stream against a list that anybody can check, over all short histories."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from itertools import count

import pytest

from streamd.idmp import few, table, windows
from streamd.idmp.ring import RingWindow
from streamd.idmp.table import IdmpTable
from tests.property.window_limits import FORMS, limit_windows

START_MS = 1_000_000


@dataclass
class ObviousTable:
    """Every iid that was recorded, in order, less those that newer ones pushed out. Nothing is ever swept."""

    duration_s: int
    maxsize: int
    recorded: list[tuple[bytes, bytes, int]] = field(default_factory=list)
    added: int = 0

    def lookup(self, pid: bytes, iid: bytes, now_ms: int) -> int | None:
        for a_pid, an_iid, entry_id in self.recorded:
            if (a_pid, an_iid) == (pid, iid) and not self.expired(entry_id, now_ms):
                return entry_id
        return None

    def expired(self, entry_id: int, now_ms: int) -> bool:
        return entry_id // 2**64 <= now_ms - self.duration_s * 1000

    def record(self, pid: bytes, iid: bytes, entry_id: int) -> None:
        self.added += 1
        self.recorded = [one for one in self.recorded if one[:2] != (pid, iid)]
        self.recorded.append((pid, iid, entry_id))
        if len(self.of(pid)) > self.maxsize:
            self.recorded.remove(self.of(pid)[0])

    def of(self, pid: bytes) -> list[tuple[bytes, bytes, int]]:
        return [one for one in self.recorded if one[0] == pid]

    def copy(self) -> ObviousTable:
        return ObviousTable(self.duration_s, self.maxsize, self.recorded.copy(), self.added)


def sweep(subject: IdmpTable, now_ms: int) -> None:
    """Free all that is due, in the smallest slices possible."""
    while (due_ms := subject.expire(now_ms, lambda: True)) is not None and due_ms <= now_ms:
        pass


def insides(subject: IdmpTable) -> tuple[object, ...]:
    schedule = subject._schedule
    return (
        subject.iids_tracked,
        tuple(subject._few.items()),
        tuple((pid, type(window), *window.items(), *shape(window)) for pid, window in subject._larger.items()),
        schedule and tuple((second, tuple(pids)) for second, pids in sorted(schedule.pids.items())),
    )


def shape(window: object) -> tuple[object, ...]:
    """How the slots of a ring are used: equal lists of iids may have come about in several ways."""
    return (window._at, window._span, window._capacity()) if isinstance(window, RingWindow) else ()


def check_against(model: ObviousTable, subject: IdmpTable, now_ms: int, names: list[tuple[bytes, bytes]]) -> None:
    """Check all that can be seen of the subject; its look-ups drop what expired, so a copy is asked."""
    held = list(subject)
    assert subject.iids_tracked == len(held)
    assert subject.iids_added == model.added
    pids = subject.pids()
    assert subject.pids_tracked == len(pids) == len(set(pids))
    if subject._schedule is not None:  # everybody is to be looked at again, once
        schedule = subject._schedule
        assert sorted(pid for bucket in schedule.pids.values() for pid in bucket) == sorted(pids)
        assert sorted(schedule.seconds) == sorted(schedule.pids)
    else:
        assert pids == []
    for pid in {pid for pid, _ in names}:
        recorded = model.of(pid)
        mine = [one for one in held if one[0] == pid]
        missing = recorded[: len(recorded) - len(mine)]
        assert missing + mine == recorded
        assert all(model.expired(entry_id, now_ms) for _, _, entry_id in missing)
    for pid, iid in names:
        assert subject.copy().lookup(pid, iid, now_ms) == model.lookup(pid, iid, now_ms)


@pytest.fixture(params=FORMS)
def form(request, monkeypatch):
    limit_windows(monkeypatch, request.param)
    return request.param


@pytest.fixture(autouse=True)
def unused_tables_share_dicts_that_stay_empty():
    yield
    assert windows.NO_FEW == windows.NO_LARGER == windows.NO_TIMED == {}


def every_history(maxsize: int, names: list[tuple[bytes, bytes]], depth: int) -> int:
    """Walk all histories of `depth` steps, those that led to the same insides only once; return how many insides."""
    start = (ObviousTable(1, maxsize), IdmpTable(1, maxsize), IdmpTable(1, maxsize), START_MS)
    level = [start]
    total = 0
    for _ in range(depth):
        found = {}
        for model, swept, unswept, now_ms in level:
            known = 1 + max((names.index(one[:2]) for one in model.recorded), default=-1)
            steps = [("tick", 400, 0), ("tick", 1000, 0), ("sweep", 0, 0)]
            # An iid that was not used yet is like any other that was not.
            for i in range(min(known + 1, len(names))):
                steps += [("add", i, 0), ("once", i, 700), ("record", i, 0)]
            for what, number, age_ms in steps:
                now = now_ms + (number if what == "tick" else 0)
                before = model.copy()
                state = (before, swept.copy(), unswept.copy())
                entry_id = now - age_ms << 64 | number
                pid, iid = names[number] if what != "tick" else names[0]
                if what == "sweep":
                    sweep(state[1], now)
                elif what == "add":
                    known_id = model.lookup(pid, iid, now)
                    twins = [subject.copy() for subject in state[1:]]
                    for subject in state[1:]:
                        assert subject.lookup(pid, iid, now) == known_id
                    if known_id is None:
                        for subject in state:
                            subject.record(pid, iid, entry_id)
                    for twin, subject in zip(twins, state[1:], strict=True):
                        assert twin.lookup_or_record(pid, iid, entry_id, now) == known_id
                        assert insides(twin) == insides(subject)
                        assert twin.iids_added == subject.iids_added
                elif what == "once":
                    known_id = model.lookup(pid, iid, now)
                    if known_id is None:
                        before.record(pid, iid, entry_id)
                    for subject in state[1:]:
                        assert subject.lookup(pid, iid, now) == known_id
                        if known_id is None:
                            subject.record(pid, iid, entry_id)
                elif what == "record":
                    for subject in state:
                        subject.record(pid, iid, entry_id)
                key = now, tuple(before.recorded), insides(state[1]), insides(state[2])
                if key not in found:
                    check_against(before, state[1], now, names)
                    check_against(before, state[2], now, names)
                    found[key] = (*state, now)
        level = list(found.values())
        total += len(level)
    return total


@pytest.mark.parametrize("maxsize", [1, 2, 3])
def test_every_short_history_of_one_producer_gives_the_answers_of_a_list_swept_or_not(form, maxsize):
    names = [(b"p", b"a"), (b"p", b"bb"), (b"p", b"c"), (b"p", b"d")][: maxsize + 1]
    assert every_history(maxsize, names, depth=6 if maxsize == 1 else 5) > 1000


def test_every_short_history_of_two_producers_gives_the_answers_of_a_list_swept_or_not(form):
    names = [(b"p", b"a"), (b"q", b"a"), (b"p", b"bb")]
    assert every_history(1, names, depth=5) > 1000


@pytest.mark.parametrize(("age_ms", "entry_id"), [(0, 5 << 64 | 7), (99_999, 5 << 64 | 7), (100_000, None)])
def test_an_iid_is_forgotten_exactly_at_the_end_of_its_window(form, age_ms, entry_id):
    subject = IdmpTable(100, 100)
    subject.record(b"p", b"a", 5 << 64 | 7)
    assert subject.lookup(b"p", b"a", 5 + age_ms) == entry_id


def test_the_newest_of_maxsize_iids_are_remembered_in_every_form_and_length(form):
    for maxsize in (1, 2, 15, 16, 17, 100, 254, 255, 256, 300):
        subject = IdmpTable(100, maxsize)
        for i in range(maxsize + 30):
            subject.record(b"p", b"iid-%d" % i, i)
            assert subject.lookup(b"p", b"iid-%d" % i, 0) == i
        held = [(b"p", b"iid-%d" % i, i) for i in range(30, maxsize + 30)]
        assert list(subject) == held
        assert subject.lookup(b"p", b"iid-29", 0) is None
        assert subject.lookup(b"p", b"iid-30", 0) == 30


@pytest.mark.parametrize("length", [1, 63, 64, 65, 255, 256, 65_536])
def test_iids_of_any_length_are_remembered_beside_short_ones(form, length):
    subject = IdmpTable(100, 3)
    names = [b"s", b"x" * length, b"t", b"y" * length, b"y" * (length - 1) + b"z"]
    for entry_id, iid in enumerate(names):
        subject.record(b"p", iid, entry_id)
    assert list(subject) == [(b"p", iid, entry_id) for entry_id, iid in enumerate(names)][-3:]
    assert [subject.lookup(b"p", iid, 0) for iid in names] == [None, None, 2, 3, 4]
    assert subject.memory_bytes() > length


def test_the_greatest_entry_id_comes_back_whole(form):
    subject = IdmpTable(86_400, 10)
    subject.record(b"p", b"a", 2**128 - 1)
    subject.record(b"p", b"b", 1)
    assert list(subject) == [(b"p", b"a", 2**128 - 1), (b"p", b"b", 1)]
    assert subject.lookup(b"p", b"a", START_MS) == 2**128 - 1


def filled(producers: int = 3, iids: int = 20) -> IdmpTable:
    subject = IdmpTable(100, 50)
    numbers = count()
    for pid in range(producers):
        for iid in range(iids):
            subject.record(b"p%d" % pid, b"i%d" % iid, START_MS + next(numbers) << 64)
    subject.iids_duplicates = 9
    return subject


@pytest.mark.parametrize("settings", [{"duration_s": 99}, {"maxsize": 51}, {"duration_s": 100, "maxsize": 49}])
def test_a_changed_setting_forgets_all_iids_and_keeps_the_counters(settings):
    subject = filled()
    assert subject.configure(**settings)
    now_set = {"duration_s": subject.duration_s, "maxsize": subject.maxsize}
    assert now_set == {"duration_s": 100, "maxsize": 50} | settings
    assert (subject.pids_tracked, subject.iids_tracked, subject.iids_added, subject.iids_duplicates) == (0, 0, 60, 9)
    assert list(subject) == []
    assert subject.lookup(b"p0", b"i0", START_MS) is None


def test_identical_settings_change_nothing_in_one_command_and_forget_all_in_the_other():
    subject = filled()
    assert not subject.configure(duration_s=100, maxsize=50)
    assert not subject.configure(maxsize=50)
    assert subject.iids_tracked == 60
    subject.reconfigure(duration_s=100)
    assert (subject.iids_tracked, subject.duration_s, subject.maxsize) == (0, 100, 50)


def test_a_copy_is_equal_and_of_its_own(form):
    subject = filled()
    twin = subject.copy()
    assert list(twin) == list(subject)
    assert (twin.duration_s, twin.maxsize, twin.iids_added, twin.iids_duplicates) == (100, 50, 60, 9)
    before = list(subject)
    sweep(twin, START_MS + 200_000)
    for i in range(100):
        twin.record(b"p1", b"new%d" % i, 1)
    assert list(subject) == before
    assert subject.lookup(b"p1", b"i3", START_MS) is not None
    subject.clear()
    assert twin.iids_tracked == 50


def test_an_export_recorded_again_makes_the_same_table(form):
    subject = filled()
    for i in range(70):
        subject.record(b"p2", b"more%d" % i, START_MS << 64)
    twin = IdmpTable(100, 50)
    for pid, iid, entry_id in subject:
        twin.record(pid, iid, entry_id)
    assert sorted(twin) == sorted(subject)
    assert all(twin.iids(pid) == subject.iids(pid) for pid in subject.pids())


def test_a_table_may_change_while_it_is_exported(form):
    subject = filled()
    export = iter(subject)
    first = next(export)
    subject.record(b"p1", b"late", START_MS << 64)
    subject.record(b"p9", b"late", START_MS << 64)
    sweep(subject, START_MS + 1_000_000)
    assert first in {(b"p0", b"i0", START_MS << 64), (b"p1", b"i0", START_MS + 20 << 64)}
    assert all(pid in (b"p0", b"p1", b"p2") for pid, _, _ in export)


def test_an_unused_table_takes_next_to_nothing():
    subject = IdmpTable(100, 100)
    assert subject.lookup(b"p", b"a", START_MS) is None
    assert (subject.pids_tracked, subject.iids_tracked, list(subject)) == (0, 0, [])
    assert subject.memory_bytes() < 150
    other = IdmpTable(100, 100)
    subject.record(b"p", b"a", START_MS << 64)
    assert other.lookup(b"p", b"a", START_MS) is None


def test_a_table_is_as_small_after_its_last_iid_as_before_its_first(form):
    subject = IdmpTable(1, 100)
    small = subject.memory_bytes()
    for i in range(30):
        subject.record(b"p", b"%d" % i, START_MS << 64)
    assert subject.memory_bytes() > small
    sweep(subject, START_MS + 1000)
    assert subject.memory_bytes() == small
    assert subject.pids_tracked == 0


def test_a_table_that_is_cleared_hands_over_what_it_held(form):
    subject = filled(producers=100, iids=1)
    held = sorted(subject)
    forgotten = subject.clear()
    assert (subject.pids_tracked, subject.iids_tracked, list(subject)) == (0, 0, [])
    assert sorted(forgotten) == held


def kinds(subject: IdmpTable) -> dict[bytes, str]:
    return {pid: type(window).__name__ for pid, window in subject._larger.items()}


def test_windows_beyond_a_few_iids_are_dicts_until_there_are_many_and_in_a_crowd_longer_ones_are_bytes(monkeypatch):
    limit_windows(monkeypatch, "bytes, then dicts")
    for module in (table, windows):
        monkeypatch.setattr(module, "DICTS_MAX", 4)
    monkeypatch.setattr(table, "CROWD", 4)
    monkeypatch.setattr(table, "FEW_IN_A_CROWD_MAX", 20)
    subject = IdmpTable(1, 100)
    pids = [b"p%d" % number for number in range(8)]
    for i in range(60):
        for pid in pids:
            if i < 30 or pid == b"p0":
                subject.record(pid, b"%02d" % i, START_MS + 100 * i << 64)
        if i == 10:
            assert kinds(subject) == dict.fromkeys(pids[:4], "IndexedWindow")
            assert sorted(subject._few) == pids[4:]
    assert kinds(subject) == dict.fromkeys(pids, "RingWindow")
    held = [iid for _, iid, _ in subject]
    assert sorted(held) == sorted([b"%02d" % i for i in range(30)] * 8 + [b"%02d" % i for i in range(30, 60)])
    sweep(subject, START_MS + 1000 + 100 * 27)
    assert sorted(subject._larger) == [b"p0"]
    assert subject.iids(b"p5") == [(b"%02d" % i, START_MS + 100 * i << 64) for i in range(28, 30)]


def test_a_batch_turns_some_dicts_into_rings_where_a_table_has_many(monkeypatch):
    limit_windows(monkeypatch, "bytes, then dicts")
    for module in (table, windows):
        monkeypatch.setattr(module, "DICTS_MAX", 8)
    monkeypatch.setattr(table, "_MOVED_PER_TURN_MAX", 25)
    subject, numbers = IdmpTable(100, 3_000), itertools.count()
    pids = [b"p%d" % number for number in range(8)]
    wanted: dict[bytes, list[tuple[bytes, int]]] = {pid: [] for pid in pids}

    def send() -> None:
        first = next(numbers) * 8
        iids, ids = [b"%d" % (first + k) for k in range(8)], [START_MS << 64 | first + k for k in range(8)]
        assert subject.lookup_or_record_columns(pids, iids, ids, START_MS) == [None] * 8
        for pid, *item in zip(pids, iids, ids, strict=True):
            wanted[pid].append((item[0], item[1]))

    for _ in range(7):
        send()
    assert kinds(subject) == dict.fromkeys(pids, "IndexedWindow")
    for i in range(5):  # (these fit into no ring)
        subject.record(b"q", b"x" * 70 + b"%d" % i, START_MS << 64 | i)
    send()
    assert sorted(kinds(subject).values()) == ["IndexedWindow"] * 5 + ["RingWindow"] * 4
    send()
    assert kinds(subject) == {**dict.fromkeys(pids, "RingWindow"), b"q": "IndexedWindow"}
    assert {pid: subject.iids(pid) for pid in pids} == wanted
    assert subject.iids_tracked == 8 * 9 + 5


def test_a_ring_that_gets_an_iid_too_long_for_it_is_a_dict_from_then_on(monkeypatch):
    limit_windows(monkeypatch, "rings alone")
    subject = IdmpTable(100, 3_000)
    for i in range(5):
        subject.record(b"p", b"%d" % i, START_MS << 64 | i)
    assert kinds(subject) == {b"p": "RingWindow"}
    subject.record(b"p", b"x" * 65, START_MS << 64 | 5)
    assert kinds(subject) == {b"p": "IndexedWindow"}
    assert subject.lookup_or_record(b"p", b"y", START_MS << 64 | 6, START_MS) is None
    assert kinds(subject) == {b"p": "IndexedWindow"}
    assert (subject.iids_tracked, len(subject.iids(b"p"))) == (7, 7)


@pytest.mark.parametrize("lengths", [[1], [16, 16, 16], [64, 64]])
def test_a_window_of_bytes_made_at_once_is_as_one_made_one_by_one(lengths):
    items = [(b"%d" % i * length, START_MS + i << 64 | i) for i, length in enumerate(lengths)]
    singly = b""
    for iid, entry_id in items:
        singly = few.record(singly, iid, entry_id, 100)
    assert few.of_items(items) == singly
    assert few.items(singly) == items
    assert [few.find(singly, iid) for iid, _ in items] == [entry_id for _, entry_id in items]
    assert few.record(singly, b"another length", START_MS << 64, 100) is None
    assert few.of_items([*items, (b"another length", 1)]) is None


def test_an_iid_is_found_only_where_a_row_has_it():
    window = b""
    rows = [(b"ab", 0x6161 << 64 | 0x6162), (b"bb", 0x6262 << 64 | 0x6261), (b"ba", 1 << 64)]
    for iid, entry_id in rows:
        window = few.record(window, iid, entry_id, 100)
    assert [few.find(window, iid) for iid in (b"aa", b"bb", b"a", b"\0\0", b"ba")] == [
        None,
        rows[1][1],
        None,
        None,
        1 << 64,
    ]


GREATEST_OF_8_BYTES = (1 << 47) - 1 << 64 | (1 << 16) - 1


@pytest.mark.parametrize(
    ("entry_id", "is_small"),
    [
        (0, True),
        (START_MS << 64 | 5, True),
        (GREATEST_OF_8_BYTES, True),
        (GREATEST_OF_8_BYTES + 1, False),
        (START_MS << 64 | 1 << 16, False),
        (START_MS << 64 | 1 << 63, False),
        (1 << 111, False),
        (2**128 - 1, False),
    ],
)
@pytest.mark.parametrize("iid", [b"a", b"\0" * 64, b"order-1"])
def test_a_window_says_its_entry_id_whole(form, entry_id, is_small, iid):
    assert few.number_if_fits(iid, entry_id) == (few.number_of(entry_id) if is_small else -1)
    assert (few.record(b"", iid, entry_id, 100) is not None) == is_small
    assert few.number_if_fits(iid + b"1" * 64, entry_id) == -1
    if is_small:
        assert few.entry_id_of(few.number_of(entry_id)) == entry_id
        assert few.number_of(entry_id) < 1 << 63
    subject = IdmpTable(86_400, 100)
    for n, (one, its_id) in enumerate([(iid, entry_id), (b"z", 9), (iid + b"1", 1 << 64)]):
        subject.record(b"p", one, its_id)
        assert len(subject.iids(b"p")) == n + 1
    assert subject.iids(b"p") == [(iid, entry_id), (b"z", 9), (iid + b"1", 1 << 64)]
    assert subject.lookup(b"p", iid, 0) == entry_id
    subject.record(b"p", iid, 7)
    assert subject.iids(b"p") == [(b"z", 9), (iid + b"1", 1 << 64), (iid, 7)]


def test_a_window_of_bytes_that_has_lost_its_only_iid_is_empty_and_takes_another_one():
    window = few.record(b"", b"a", START_MS << 64 | 5, 100)
    assert few.without_expired(window, START_MS - 1) is window
    window = few.without_expired(window, START_MS)
    assert (window, few.count(window), few.items(window), few.find(window, b"a")) == (b"", 0, [], None)
    assert few.without_expired(window, START_MS) == b""
    assert few.items(few.record(window, b"b", START_MS << 64, 1)) == [(b"b", START_MS << 64)]


def test_a_producer_that_has_one_iid_left_takes_as_little_as_one_that_never_had_more():
    subject, other = IdmpTable(1, 100), IdmpTable(1, 100)
    for i in range(3):
        subject.record(b"p", b"%d" % i, START_MS + 2000 * i << 64)
    other.record(b"p", b"2", START_MS + 4000 << 64)
    sweep(subject, START_MS + 3000)
    assert list(subject) == list(other)
    assert subject.memory_bytes() == other.memory_bytes()


def test_a_producer_of_long_iids_has_bytes_only_when_the_last_of_them_is_gone():
    subject = IdmpTable(1, 100)
    for i, iid in enumerate([b"x" * 65, b"a", b"y" * 65, b"b"]):
        subject.record(b"p", iid, START_MS + 1000 * i << 64)
    held = list(subject)
    for dropped, indexed in enumerate([[b"p"], [b"p"], [b"p"], []]):
        sweep(subject, START_MS + 1000 * dropped)
        assert list(subject) == held[dropped:]
        assert list(subject._larger) == indexed


@pytest.mark.parametrize("maxsize", [1, 3, 7, 100])
def test_a_run_is_recorded_as_its_iids_would_be_one_by_one(form, maxsize):
    rng = random.Random(maxsize)
    runs = parts = 0
    for _ in range(200):
        together, singly = IdmpTable(100, maxsize), IdmpTable(100, maxsize)
        for window in (together, singly):
            for number in range(8):
                window.record(b"p", b"w%03d" % number, number << 64)
        at = 1
        for size in (rng.randint(1, 12) for _ in range(4)):
            iids = tuple(b"%d" % (rng.randint(0, 40) if rng.random() < 0.1 else 1000 + at + k) for k in range(size))
            ids = [9 << 64 | at + k for k in range(size)]
            done = together.record_run(b"p", iids, ids)
            runs += done == size
            parts += 0 < done < size
            for iid, entry_id in zip(iids[:done], ids, strict=False):
                assert singly.lookup_or_record(b"p", iid, entry_id, 0) is None
            for iid, entry_id in zip(iids[done:], ids[done:], strict=True):
                for window in (singly, together):
                    window.record(b"p", iid, entry_id)
            at += size
            assert (together.iids_added, together.iids_tracked) == (singly.iids_added, singly.iids_tracked)
            assert together.iids(b"p") == singly.iids(b"p")
    assert runs > 100 or maxsize < 8 or form == "bytes alone"
    assert parts > 5 or maxsize < 8 or not form.endswith("rings alone")


def test_known_iids_whose_ids_come_again_are_known_whatever_they_come_with():
    subject, pids = IdmpTable(100, 8), [b"p%d" % number for number in range(16)]
    for number in range(8):
        for pid in pids:
            subject.record(pid, b"i%d" % number, START_MS << 64)
    iids, ids = [b"again"] * 16, [START_MS << 64 | seq for seq in range(1, 17)]
    assert subject.lookup_or_record_columns(pids, iids, ids, START_MS) == [None] * 16
    # As behind XSETID, or where the clock stepped back.
    tracked = subject.iids_tracked
    assert subject.known_columns(pids, iids, START_MS) == ids
    assert subject.lookup_or_record_columns(pids, iids, [*map(int, map(str, ids))], START_MS) == ids
    assert subject.iids_tracked == tracked


def test_one_iid_again_and_again_is_known_in_a_small_window_too():
    subject = IdmpTable(100, 8)
    subject.record(b"p", b"i", START_MS << 64)
    assert subject.known_columns([b"p"] * 20, [b"i"] * 20, START_MS) == [START_MS << 64] * 20
    assert subject.known_columns([b"p"] * 2, [b"i", b"j"], START_MS) is None
    assert subject.known_columns([b"p", b"q"], [b"i", b"i"], START_MS) is None
