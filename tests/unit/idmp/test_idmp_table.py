"""The window of a stream against a list that anybody can check, over all short histories."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count

import pytest

from streamd.idmp import packed, table, windows
from streamd.idmp.table import IdmpTable

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
        tuple((pid, bytes(window)) for pid, window in subject._packed.items()),
        tuple((pid, tuple(window.items())) for pid, window in subject._indexed.items()),
        schedule and tuple((second, tuple(pids)) for second, pids in sorted(schedule.pids.items())),
    )


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


FORMS = {  # the longest window that is packed whatever happens, indexed windows per table, the longest that is repacked
    "packed": (99, 0, 0),
    "indexed": (0, 99, 0),
    "either": (1, 99, 1),
    "one indexed": (1, 1, 1),
}


@pytest.fixture(params=FORMS)
def form(request, monkeypatch):
    packed_always, indexed_windows, repack = FORMS[request.param]
    monkeypatch.setattr(table, "PACKED_ALWAYS_MAX", packed_always)
    monkeypatch.setattr(table, "INDEXED_WINDOWS_MAX", indexed_windows)
    monkeypatch.setattr(table, "REPACK_MAX", repack)
    return request.param


@pytest.fixture(autouse=True)
def unused_tables_share_dicts_that_stay_empty():
    yield
    assert windows.NO_PACKED == windows.NO_INDEXED == windows.NO_TIMED == {}


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


def test_iids_that_share_a_tag_are_told_apart(monkeypatch):
    monkeypatch.setattr(packed, "hash", lambda iid: 7, raising=False)
    window = packed.of_one(b"0", 0)
    for i in range(1, 20):
        window = packed.record(window, b"%d" % i, i, 10)
    assert isinstance(window, bytearray)
    assert [packed.lookup(window, b"%d" % i) for i in range(21)] == [None] * 10 + [*range(10, 20)] + [None]
    assert packed.lookup(window, b"1") is None  # the beginning of others
    packed.remove(window, packed.find(window, b"15"))
    assert packed.items(window) == [(b"%d" % i, i) for i in range(10, 20) if i != 15]


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


def test_the_number_of_quick_windows_has_a_limit_and_quiet_ones_make_room(monkeypatch):
    monkeypatch.setattr(table, "INDEXED_WINDOWS_MAX", 2)
    subject = IdmpTable(1, 100)
    for pid in (b"p", b"q", b"r"):
        for i in range(30):
            subject.record(pid, b"%d" % i, START_MS + 100 * i << 64)
    assert sorted(subject._indexed) == [b"p", b"q"]
    sweep(subject, START_MS + 1000 + 100 * 27)
    assert sorted(subject._indexed) == []
    assert [iid for _, iid, _ in subject] == [b"%d" % i for i in range(28, 30)] * 3


def test_in_a_crowd_few_windows_stay_quick_and_who_cannot_be_packed_is_passed_over(monkeypatch):
    monkeypatch.setattr(table, "INDEXED_WINDOWS_MAX", 10)
    monkeypatch.setattr(table, "INDEXED_IN_A_CROWD_MAX", 3)
    subject = IdmpTable(100, 300)
    for i in range(300):  # more than a packed window takes
        subject.record(b"busy", b"%d" % i, START_MS + i << 64)
    for number in range(40):
        pid = b"p%d" % number
        for i in range(9):
            subject.record(pid, b"long" * 17 * (number == 2 and i == 7) + b"%d" % i, START_MS + i << 64)
    assert len(subject._indexed) == 3
    assert {b"busy", b"p2"} < set(subject._indexed)
    for number in range(40):
        assert [iid[-1:] for iid, _ in subject.iids(b"p%d" % number)] == [b"%d" % i for i in range(9)]
    subject.clear()
    for number in range(5):
        for i in range(9):
            subject.record(b"p%d" % number, b"%d" % i, START_MS + i << 64)
    assert len(subject._indexed) == 5


@pytest.mark.parametrize("lengths", [[1], [16, 16, 16], [3, 64, 1, 20]])
def test_a_window_packed_at_once_is_as_one_packed_one_by_one(lengths):
    items = [(b"%d" % i * length, START_MS + i << 64 | i) for i, length in enumerate(lengths)]
    singly = packed.of_one(*items[0])
    for iid, entry_id in items[1:]:
        singly = packed.record(singly, iid, entry_id, 100)
    at_once = packed.of_items(items)
    assert packed.items(at_once) == packed.items(singly) == items
    assert [packed.find(at_once, iid) for iid, _ in items] == [*range(len(items))]
    assert packed.record(at_once, b"another", START_MS + 10 << 64, 100) is at_once
    assert packed.items(at_once) == [*items, (b"another", START_MS + 10 << 64)]


GREATEST_IN_ONE_OBJECT = (1 << 48) - 1 << 64 | (1 << 16) - 1


@pytest.mark.parametrize(
    ("entry_id", "is_small"),
    [
        (0, True),
        (START_MS << 64 | 5, True),
        (GREATEST_IN_ONE_OBJECT, True),
        (GREATEST_IN_ONE_OBJECT + 1, False),
        (START_MS << 64 | 1 << 16, False),
        (START_MS << 64 | 1 << 63, False),
        (1 << 112, False),
        (2**128 - 1, False),
    ],
)
@pytest.mark.parametrize("iid", [b"a", b"\0" * 64, b"order-1"])
def test_a_window_of_one_iid_says_its_entry_id_whole_and_is_one_object_where_that_is_small(entry_id, is_small, iid):
    window = packed.of_one(iid, entry_id)
    assert isinstance(window, bytes) == is_small
    assert packed.items(window) == [(iid, entry_id)]
    assert (packed.count(window), packed.oldest_ms(window)) == (1, entry_id >> 64)
    assert packed.lookup(window, iid) == entry_id
    assert packed.lookup(window, iid + b"1") is packed.lookup(window, b"1" + iid) is packed.lookup(window, b"b") is None
    again = packed.record(window, iid, 7, 100)
    assert packed.items(again) == packed.items(packed.record(packed.of_one(b"z", 3), iid, 7, 1)) == [(iid, 7)]
    two = packed.record(packed.copied(packed.of_one(iid, entry_id)), b"z", 9, 100)
    assert packed.items(two) == [(iid, entry_id), (b"z", 9)]


@pytest.mark.parametrize("is_small", [True, False])
def test_a_window_that_has_lost_its_only_iid_is_empty_and_takes_another_one(is_small):
    window = packed.of_one(b"a", START_MS << 64 | (5 if is_small else 1 << 20))
    assert packed.without_expired(window, START_MS - 1) is window
    window = packed.without_expired(window, START_MS)
    assert (packed.count(window), packed.items(window), packed.lookup(window, b"a")) == (0, [], None)
    assert packed.count(packed.without_expired(window, START_MS)) == 0
    window = packed.record(window, b"b", START_MS << 64, 1)
    assert packed.items(window) == [(b"b", START_MS << 64)]


def test_a_producer_that_has_one_iid_left_takes_as_little_as_one_that_never_had_more():
    subject, other = IdmpTable(1, 100), IdmpTable(1, 100)
    for i in range(3):
        subject.record(b"p", b"%d" % i, START_MS + 2000 * i << 64)
    other.record(b"p", b"2", START_MS + 4000 << 64)
    sweep(subject, START_MS + 3000)
    assert list(subject) == list(other)
    assert subject.memory_bytes() == other.memory_bytes()


def test_a_producer_of_long_iids_is_packed_only_when_the_last_of_them_is_gone():
    subject = IdmpTable(1, 100)
    for i, iid in enumerate([b"x" * 65, b"a", b"y" * 65, b"b"]):
        subject.record(b"p", iid, START_MS + 1000 * i << 64)
    held = list(subject)
    for dropped, indexed in enumerate([[b"p"], [b"p"], [b"p"], []]):
        sweep(subject, START_MS + 1000 * dropped)
        assert list(subject) == held[dropped:]
        assert list(subject._indexed) == indexed


@pytest.mark.parametrize("maxsize", [1, 3, 7, 100])
def test_a_run_is_recorded_as_its_iids_would_be_one_by_one(maxsize):
    rng = random.Random(maxsize)
    runs = 0
    for _ in range(300):
        together, singly = IdmpTable(100, maxsize), IdmpTable(100, maxsize)
        for window in (together, singly):
            for number in range(8):
                window.record(b"p", b"w%d" % number, number << 64)
        at = 1
        for size in (rng.randint(1, 12) for _ in range(4)):
            iids = tuple(b"%d" % (rng.randint(0, 40) if rng.random() < 0.1 else 1000 + at + k) for k in range(size))
            ids = [(at + k) << 64 for k in range(size)]
            is_run = together.record_run(b"p", iids, ids)
            runs += is_run
            for window in (singly,) if is_run else (singly, together):
                for iid, entry_id in zip(iids, ids, strict=True):
                    window.record(b"p", iid, entry_id)
            at += size
            assert (together.iids_added, together.iids_tracked) == (singly.iids_added, singly.iids_tracked)
            assert together.iids(b"p") == singly.iids(b"p")
    assert runs > 100 or maxsize < 5


def test_known_iids_whose_ids_come_again_are_known_whatever_they_come_with():
    subject, pids = IdmpTable(100, 8), [b"p%d" % number for number in range(16)]
    for number in range(8):
        for pid in pids:
            subject.record(pid, b"i%d" % number, START_MS << 64)
    assert set(subject._indexed) == set(pids)
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
