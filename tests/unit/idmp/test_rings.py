"""A ring of idempotent IDs gives the answers of a dict, whatever is recorded, expires, and comes again."""

import importlib
import random

import pytest

from streamd.idmp.few import IID_BYTES_MAX
from streamd.idmp.ring import RingWindow
from streamd.idmp.table import IdmpTable
from tests.property.window_limits import FORMS, limit_windows


@pytest.fixture(params=["ring", "native_ring"])
def ring(request):
    """The class of one form of rings."""
    if request.param == "ring":
        return RingWindow
    pytest.importorskip("librt")
    return importlib.import_module("streamd.idmp.native_ring").NativeRingWindow


def trim(model, maxsize):
    while len(model) > maxsize:
        del model[next(iter(model))]


def check(window, model):
    assert window.items() == list(model.items())
    assert window.count == len(model)
    for iid, entry_id in model.items():
        assert window.find(iid) == entry_id
    if model:
        assert window.oldest_ms() == next(iter(model.values())) >> 64


@pytest.mark.parametrize("maxsize", [1, 2, 3, 8, 21])
@pytest.mark.parametrize("longest", [3, 20, IID_BYTES_MAX])
def test_every_step_leaves_what_a_dict_has(ring, maxsize, longest):
    chance = random.Random(maxsize)
    for _ in range(40):
        first = chance.randrange(maxsize + 1)
        model = {b"%d" % number: number << 64 for number in range(first)}
        window, ms = ring(list(model.items())), first
        for _ in range(60):
            ms += 1
            step = chance.random()
            iid = b"%d" % chance.randrange(2 * maxsize + 2)
            iid = iid.rjust(chance.choice([0, 0, longest]), b"-")
            if step < 0.5:  # (as from a journal: known iids come again, too)
                window.record(iid, ms << 16 | 7, maxsize)
                model.pop(iid, None)
                model[iid] = ms << 64 | 7
            elif step < 0.7:
                known = window.put(iid, ms << 16, maxsize)
                assert known == (model[iid] >> 48 | model[iid] & 0xFFFF if iid in model else -1)
                model.setdefault(iid, ms << 64)
            elif step < 0.8:
                iids = [b"%d" % number for number in range(ms * 100, ms * 100 + chance.randrange(1, 30))] + [iid]
                wanted = 0
                for at, one in enumerate(iids):
                    if one in model:
                        break
                    model[one] = ms << 64 | at
                    trim(model, maxsize)
                    wanted += 1
                assert window.put_run(iids, ms << 16, maxsize) == wanted
            elif step < 0.9:
                until, limit = ms - chance.randrange(2 * maxsize), chance.choice([1, 2, 100])
                expired = []
                for one, entry_id in model.items():
                    if entry_id >> 64 > until or len(expired) == limit:
                        break
                    expired.append(one)
                assert window.drop_expired(until, limit) == len(expired)
                for one in expired:
                    del model[one]
            else:
                window, other = window.copy(), window
                other.record(b"other", 1 << 16, maxsize)
            trim(model, maxsize)
            assert window.find(b"none") is None
            check(window, model)


def test_65_536_iids_later_an_iid_is_not_known_any_more(ring):
    window = ring()
    for number in range(200_000):
        assert window.put(b"%d" % number, number << 16, 100) == -1
        if number % 1_000 == 999:
            assert [window.find(b"%d" % one) for one in (number - 100, number - 99, number - 65_536)] == [
                None,
                number - 99 << 64,
                None,
            ]


def test_a_run_ends_before_an_iid_that_is_too_long(ring):
    window = ring()
    iids = [b"a", b"b" * IID_BYTES_MAX, b"c" * (IID_BYTES_MAX + 1), b"d"]
    assert window.put_run(iids, 5 << 16, 100) == 2
    assert window.items() == [(iids[0], 5 << 64), (iids[1], 5 << 64 | 1)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("odd_id", [1 << 64 | 1 << 16, 1 << 111, 2**128 - 1])
def test_an_entry_id_that_is_too_great_for_a_ring_is_kept_whole(monkeypatch, form, odd_id):
    limit_windows(monkeypatch, form)
    wanted = [(b"iid-%d" % number, 1 << 64 | number) for number in range(8)]
    for way in range(3):
        subject = IdmpTable(86_400, 100)
        for iid, entry_id in wanted:
            subject.record(b"p", iid, entry_id)
        if way == 0:
            subject.record(b"p", b"odd", odd_id)
        elif way == 1:
            assert subject.lookup_or_record(b"p", b"odd", odd_id, 0) is None
        else:
            assert subject.lookup_or_record_columns([b"p"] * 2, [b"iid-1", b"odd"], [odd_id - 1, odd_id], 0) == [
                1 << 64 | 1,
                None,
            ]
            odd_id -= 1
        assert subject.iids(b"p") == [*wanted, (b"odd", odd_id)]
        assert subject.lookup(b"p", b"odd", 0) == odd_id


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [IID_BYTES_MAX, IID_BYTES_MAX + 1, 300])
def test_a_long_iid_among_several_turns_a_ring_into_a_dict(monkeypatch, form, length):
    limit_windows(monkeypatch, form)
    subject, long = IdmpTable(86_400, 100), b"x" * length
    for number in range(8):
        subject.record(b"p", b"iid-%d" % number, 1 << 64 | number)
    ids = [1 << 64 | number for number in range(8, 11)]
    assert subject.lookup_or_record_columns([b"p"] * 3, [b"iid-1", long, b"y"], ids, 0) == [1 << 64 | 1, None, None]
    assert subject.iids(b"p")[8:] == [(long, ids[0]), (b"y", ids[1])]
    is_ring = isinstance(subject._larger.get(b"p"), RingWindow)
    if length > IID_BYTES_MAX or "rings alone" in form:
        assert is_ring == (length == IID_BYTES_MAX)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pids", [[b"p"] * 3, [b"p", b"q", b"p"]])
def test_entry_ids_with_gaps_between_them_are_recorded_as_they_are(monkeypatch, form, pids):
    limit_windows(monkeypatch, form)
    subject, iids = IdmpTable(86_400, 100), [b"new-1", b"new-2", b"new-3"]
    for number in range(8):
        for pid in (b"p", b"q"):
            subject.record(pid, b"iid-%d" % number, 1 << 64 | number)
    ids = [1 << 64 | 8, 1 << 64 | 20, 2 << 64]
    assert subject.lookup_or_record_columns(pids, iids, ids, 0) == [None] * 3
    assert [subject.lookup(pid, iid, 0) for pid, iid in zip(pids, iids, strict=True)] == ids
