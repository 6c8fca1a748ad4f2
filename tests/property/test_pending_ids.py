"""The IDs of a chunk of pending entries, ints or packed, are those of a list, whatever parts IDs have."""

import random
from bisect import bisect_left

import pytest

from streamd.stream.entry_id import ID_MAX, format_id
from streamd.stream.groups.chunk_ids import ChunkIds
from streamd.stream.groups.pending import Consumer, PendingEntries
from streamd.stream.log.entry_log import Log
from streamd.stream.wire.entry_encoder import encode_id_rows

STEPS = {
    "a millisecond each": lambda r: (1, 0),
    "counting up": lambda r: (0, 1),
    "bursts": lambda r: (r.randrange(3), r.randrange(1, 4)),
    "seqs": lambda r: (r.randrange(2), r.randrange(1, 300)),
    "minutes": lambda r: (r.choice([1, 40_000]), 0),
    "wide": lambda r: (r.choice([0, 1, 1 << 34]), r.choice([1, 1 << 17, 1 << 34])),
}


def ascending(step, r, count):
    ms, seq = r.choice([0, 1_795_248_000_123]), r.choice([0, 5])
    ids = []
    for _ in range(count):
        further, more = step(r)
        ms, seq = ms + further, (r.choice([0, seq]) if further and more else seq) + more
        if not ids or ms << 64 | seq > ids[-1]:
            ids.append(ms << 64 | seq)
    return ids


def log_of(ids, node):
    log = Log(node)
    for entry_id in ids:
        log.append(entry_id, [b"f", b"v"])
    return log


def check(chunk, model, r):
    assert len(chunk.stamps) == len(model)
    assert chunk.ids(0, len(model)) == model
    if not model:
        return
    low, high = sorted(r.sample(range(len(model) + 1), 2))
    assert chunk.ids(low, high) == chunk.part(low, high).ids(0, high - low) == model[low:high]
    assert (chunk.id_at(low), chunk.id_at(-1)) == (model[low], model[-1])
    rows = encode_id_rows(chunk.part(low, high).parts(), high - low, b"", b"")
    assert rows == b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in map(format_id, model[low:high]))
    for near in (0, ID_MAX, *(model[low] + one for one in (-1, 0, 1, 1 << 64, -(1 << 64)))):
        if near >= 0:
            at = bisect_left(model, near)
            assert chunk.place(near) == at
            assert chunk.find(near) == (at if model[at : at + 1] == [near] else -1)
    some = model[low:high]
    base, seqs = some[0] >> 64, [one & (1 << 64) - 1 for one in some]
    columns = base, [(one >> 64) - base for one in some], seqs[0] if seqs.count(seqs[0]) == len(seqs) else seqs
    assert chunk.have(low, *columns)
    assert not chunk.have(low, base + 1, *columns[1:])
    assert not chunk.have(low, base, columns[1], seqs[0] + 1 if columns[2] == seqs[0] else [*seqs[:-1], seqs[-1] + 1])
    assert not chunk.have(low + 1, *columns)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("seed", range(25))
def test_ids_of_any_parts_are_those_of_a_list(name, seed):
    r = random.Random(f"{name} {seed}")
    every = ascending(STEPS[name], r, 120)
    log = log_of(every, r.choice([7, 30]))
    first = r.randrange(1, 20)
    chunk, model, at = ChunkIds(every[:first]), every[:first], first
    for _ in range(12):
        action = r.randrange(6)
        if action == 0 and model:
            low, high = sorted(r.sample(range(len(model) + 1), 2))
            chunk.drop_ids(low, high)
            del model[low:high]
        elif action == 1 and model:
            chunk.pack()
        elif action == 2:
            assert chunk.unpack() == model
        elif action == 3:
            chunk.add_ids(every[at : at + 5])
            model += every[at : at + 5]
            at += 5
        elif action == 4 and at < len(every) and model:
            source, low, high = next(iter(log.runs(every[at], ID_MAX, 9)))
            if source is not log:
                chunk.pack()
                chunk.add_run(source, low, high)
                model += source.ids(low, high)
                at += high - low
        check(chunk, model, r)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("seed", range(10))
def test_pending_entries_of_any_ids_are_those_of_a_dict(name, seed):
    r = random.Random(f"{name} {seed}")
    every = ascending(STEPS[name], r, 900)
    log, consumers = log_of(every, r.choice([20, 100])), [Consumer(b"a", 0), Consumer(b"b", 0)]
    entries, model, at, snapshots = PendingEntries(), {}, 0, []
    while at < len(every):
        count, owner, now_ms = r.choice([1, 5, 30, 100, 400]), r.choice(consumers), r.randrange(100)
        runs = list(log.runs(every[at], ID_MAX, count))
        entries.deliver_runs(runs, every[at], owner, now_ms)
        model.update((one, (one, owner, now_ms, 1)) for one in every[at : at + count])
        at += count
        known = sorted(model)
        start = r.randrange(len(known))
        some = known[start : start + r.choice([1, 2, 60, 200])]
        action = r.randrange(6)
        if action == 0:
            base = some[0] >> 64
            columns = base, [(one >> 64) - base for one in some], [one & (1 << 64) - 1 for one in some]
            done = entries.remove_leading(*columns)
            assert done == len(some)
        elif action == 1:
            assert entries.remove_each(some[::-1]) == [True] * len(some)
        elif action == 2:
            assert entries.remove_many(some[1:] + some[:1]) == some
        elif action == 3:
            entries.take_over(some, consumers[0], 7, True)
            model.update((one, (one, consumers[0], 7, model[one][3] + 1)) for one in some)
        elif action == 4:
            for one in some[:20]:
                entries.remove(one)
                entries.set(one, consumers[1], 9, 3)
                model[one] = (one, consumers[1], 9, 3)
        else:
            snapshots.append((entries.snapshot(), [model[one] for one in known]))
        if action < 3:
            for one in some:
                del model[one]
        assert list(entries.iterate()) == [model[one] for one in sorted(model)]
        assert [one.pending for one in consumers] == [sum(row[1] is one for row in model.values()) for one in consumers]
        assert entries.ids_of(consumers[0], every[at // 2]) == [
            one for one in sorted(model) if model[one][1] is consumers[0] and one >= every[at // 2]
        ]
    for snapshot, rows in snapshots:
        assert list(snapshot.iterate()) == rows
