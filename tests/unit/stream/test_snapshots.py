"""What a rewrite reads of a large stream: taken in few steps, and as it was then, whatever happens after."""

import gc
import random
import sys

import pytest

from streamd.idmp.table import IdmpTable
from streamd.stream.groups.group import Group
from streamd.stream.groups.pending import PendingEntries
from streamd.stream.stream import Stream

MS = 1 << 64


def steps(action) -> int:
    """Return how many functions, of Python or C, `action` calls."""
    count = 0

    def on_event(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # what a collection happens to free makes calls, too
    sys.setprofile(on_event)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def rows(pending: PendingEntries) -> list:
    return [(entry_id, owner and owner.name, *rest) for entry_id, owner, *rest in pending.iterate()]


def of_each(group: Group) -> list:
    """Return what each consumer has, by its own count and by the pending entries, in two parts as well."""
    return [
        (name, consumer.seen_ms, consumer.active_ms, consumer.pending, [(row[0], *row[2:]) for row in whole])
        for name, consumer in group.consumers.items()
        if (whole := [*group.pending.iterate(owner=consumer)])
        == [*group.pending.iterate(0, 700, owner=consumer), *group.pending.iterate(701, owner=consumer)]
    ]


def with_pending(entries: int) -> Group:
    group = Group(0)
    ann, _ = group.consumer(b"ann", 0)
    bob, _ = group.consumer(b"bob", 0)
    for at in range(0, entries, 100):
        group.own_pending().deliver(list(range(at, at + 100)), bob if at % 600 else ann, at, 1)
    return group


def with_iids(producers: int, each: int, maxsize: int = 1_000) -> IdmpTable:
    table = IdmpTable(100, maxsize)
    for number in range(producers * each):
        table.record(b"p%d" % (number % producers), b"i%d" % number, number * MS)
    return table


def test_a_snapshot_takes_as_many_steps_however_large_the_stream_is():
    taken = []
    for size in (1, 20):
        stream = Stream(100, 100, 1_000)
        stream.groups = {b"g": with_pending(1_000 * size)}
        stream.idmp = with_iids(100 * size, 10)
        for number in range(1, 5_000 * size):
            stream.log.append(number, [b"f", b"v"])
        taken.append(steps(stream.snapshot))
    assert taken[0] == taken[1] < 200


@pytest.mark.parametrize("seed", range(30))
def test_pending_entries_of_a_snapshot_stay_and_the_others_change_as_without_it(seed):
    chance = random.Random(seed)
    group, other = with_pending(2_000), with_pending(2_000)
    taken = []
    for step in range(200):
        if step % 40 == 7:
            taken.append((group.snapshot(), rows(group.pending), of_each(group)))
        if step % 40 == 11:
            taken.append((taken[0][0], *taken[0][1:]))  # which may be looked at in between
            assert of_each(taken[-1][0]) == taken[-1][2]
        entry_id, now = chance.randrange(2_200), 10_000 + step
        kind = chance.randrange(7)
        for one in (group, other):
            ann, bob = one.consumers[b"ann"], one.consumer(b"bob", now)[0]
            ann.active_ms = now
            if kind == 0:
                one.pending.remove_many(list(range(entry_id, entry_id + 50)))
            elif kind == 1:
                one.own_pending().set(entry_id, bob, now, 3)
            elif kind == 2:
                one.own_pending().set(entry_id, None, 0, 2)
            elif kind == 3:
                one.pending.take_over(list(range(entry_id, entry_id + 30)), ann, now, True)
            elif kind == 4:
                one.own_pending().deliver([3_000 + step], bob, now)
            elif kind == 5:
                one.pending.remove_each([entry_id, entry_id + 1, entry_id + 300])
            else:
                one.pending.remove(entry_id)
    assert rows(group.pending) == rows(other.pending)
    assert list(group.pending.nacked) == list(other.pending.nacked)
    for name in (b"ann", b"bob"):
        assert group.consumers[name].pending == other.consumers[name].pending
        assert list(group.pending.iterate(owner=group.consumers[name])) == [
            (entry_id, group.consumers[name], *rest)
            for entry_id, _, *rest in other.pending.iterate(owner=other.consumers[name])
        ]
    for snapshot, before, of_consumers in taken:
        assert rows(snapshot.pending) == before
        assert of_each(snapshot) == of_consumers


@pytest.mark.parametrize("seed", range(30))
def test_iids_of_a_snapshot_stay_and_the_others_change_as_without_it(seed):
    chance = random.Random(seed)
    table, other = with_iids(20, 8), with_iids(20, 8)
    taken = []
    for step in range(200):
        if step % 40 == 7:
            taken.append((table.snapshot(), list(table)))
        if step == 100:
            taken.pop(0)  # nobody has that snapshot any more
        pid, iid, now_ms = b"p%d" % chance.randrange(25), b"i%d" % chance.randrange(300), 60_000 + step * 700
        kind = chance.randrange(40)
        for one in (table, other):
            if kind == 0:
                one.expire(now_ms)
            elif kind == 1:
                one.reconfigure(100, 5)
            elif one.lookup(pid, iid, now_ms) is None:
                one.record(pid, iid, now_ms * MS)
    assert list(table) == list(other)
    assert table.iids_tracked == other.iids_tracked
    for snapshot, before in taken:
        assert list(snapshot) == before


@pytest.mark.parametrize("seed", range(10))
def test_runs_of_iids_leave_a_snapshot_as_it_is(seed):
    chance = random.Random(seed)
    table, other = with_iids(4, 12, 100), with_iids(4, 12, 100)
    taken = []
    for step in range(60):
        if step % 15 == 7:
            taken.append((table.snapshot(), list(table)))
        pid, now_ms = b"p%d" % chance.randrange(5), 60_000 + step * 700
        iids = [b"i%d" % chance.randrange(2_000) for _ in range(chance.randint(1, 30))]
        first_id = now_ms * MS
        took = table.record_run(pid, iids, range(first_id, first_id + len(iids)))
        assert not (took and step % 15 == 7)
        for at, iid in enumerate(iids):
            expected = other.lookup(pid, iid, now_ms)
            if expected is None:
                other.record(pid, iid, first_id + at)
            if not took:
                assert table.lookup_or_record(pid, iid, first_id + at, now_ms) == expected
            else:
                assert expected is None
        if step % 15 == 12:
            taken.clear()
    assert list(table) == list(other)
    assert (table.iids_tracked, table.iids_added) == (other.iids_tracked, other.iids_added)
    for snapshot, before in taken:
        assert list(snapshot) == before
