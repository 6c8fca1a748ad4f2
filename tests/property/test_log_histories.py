"""All short histories of a log with small nodes end as those of the obvious model."""

from functools import partial

import pytest

from streamd.stream.log.entry_log import Log
from tests.property.log_model import LogModel, assert_equal, assert_same_nodes

# IDs that the next entry takes in turn: in one millisecond and in another, in a row and with a gap.
STEPS = (1, 2, 1 << 64, (1 << 64) + 3)
FIELDS = ([b"f", b"v"], [b"f", b"v2"], [b"f", b"v", b"g", b"w"], [b"h", b""])


def append(log, model, serial):
    entry_id = 5 + sum(STEPS[turn % len(STEPS)] for turn in range(serial))
    fields = FIELDS[serial // 2 % len(FIELDS)]
    log.append(entry_id, fields)
    model.append(entry_id, fields)


def delete(place, log, model, serial):
    ids = model.ids()
    entry_id = ids[place] if -len(ids) <= place < len(ids) else 1
    assert log.delete(entry_id) == model.delete(entry_id)
    assert not log.delete(entry_id)
    assert not log.delete(entry_id + 1000)


def delete_many(places, log, model, serial):
    ids = model.ids()
    wanted = [ids[place] for place in places if -len(ids) <= place < len(ids)] + [1]
    there = sorted(entry_id for entry_id in wanted if model.delete(entry_id))
    assert log.delete_many(wanted) == there


def delete_each(places, log, model, serial):
    ids = model.ids()
    wanted = [ids[place] for place in places if -len(ids) <= place < len(ids)] + [1]
    assert log.delete_each(wanted) == [model.delete(entry_id) for entry_id in wanted]


def trim_length(less, approximate, limit, log, model, serial):
    maxlen = max(len(model.ids()) - less, 0)
    assert log.trim_to_length(maxlen, approximate, limit) == model.trim_to_length(maxlen, approximate, limit)


def trim_id(place, approximate, limit, log, model, serial):
    ids = model.ids()
    min_id = ids[place] + 1 if -len(ids) <= place < len(ids) else 1
    assert log.trim_before(min_id, approximate, limit) == model.trim_before(min_id, approximate, limit)


def set_node_max(entries, log, model, serial):
    log.node_max_entries = model.node_max_entries = entries


OPERATIONS = [
    append,
    partial(delete, 0),
    partial(delete, 1),
    partial(delete, -1),
    partial(delete_many, (0, 1, 2)),
    partial(delete_many, (-1, 1, 3, 1)),
    partial(delete_each, (1, -1, 0, 1)),
    partial(trim_length, 1, False, 0),
    partial(trim_length, 3, False, 0),
    partial(trim_length, 2, True, 0),
    partial(trim_length, 9, True, 3),
    partial(trim_length, 9, True, 0),
    partial(trim_id, 0, False, 0),
    partial(trim_id, 2, False, 0),
    partial(trim_id, 2, True, 0),
    partial(trim_id, -1, True, 2),
    partial(trim_id, -2, False, 0),
    partial(set_node_max, 4),
]


def explore(log, model, serial, depth):
    ids = model.ids()
    ends = ids[1:3] + ids[-1:] + [7]
    assert_same_nodes(log, model)
    assert_equal(log, model, [(start, end) for start in ends for end in ends] if depth == 0 else [], (1, 2))
    if depth == 0:
        return 1
    histories = 0
    for operation in OPERATIONS:
        other_log, other_model = log.copy(), model.copy()
        operation(other_log, other_model, serial)
        histories += explore(other_log, other_model, serial + 1, depth - 1)
    return histories


@pytest.mark.parametrize("node_max_entries", [1, 2, 3])
@pytest.mark.parametrize("deleted", [0, 1, 2])
def test_all_short_histories_after_the_last_entries_were_deleted_and_nodes_grew(node_max_entries, deleted):
    """The next entry goes into what is the last node now, if that takes one more."""
    log, model = Log(node_max_entries), LogModel(node_max_entries)
    for serial in range(4):
        append(log, model, serial)
    for _ in range(deleted):
        delete(-1, log, model, 0)
    set_node_max(5, log, model, 0)
    explore(log, model, 4, 2)


@pytest.mark.parametrize("node_max_entries", [1, 2, 3])
@pytest.mark.parametrize(("appended", "depth"), [(0, 3), (3, 2), (5, 2), (8, 2)])
def test_all_short_histories(node_max_entries, appended, depth):
    log, model = Log(node_max_entries), LogModel(node_max_entries)
    for serial in range(appended):
        append(log, model, serial)
    assert explore(log, model, appended, depth) == len(OPERATIONS) ** depth


def test_all_short_histories_after_trimming_emptied_a_node_that_had_deleted_entries():
    """It takes entries again if all behind it are deleted and nodes take more."""
    log, model = Log(3), LogModel(3)
    for one in (log, model):
        for entry_id in range(1, 6):
            one.append(entry_id, [b"f", b"v"])
        one.delete(3)
        one.trim_before(3)
        one.delete(5)
        one.node_max_entries = 5
    explore(log, model, 1, 3)
