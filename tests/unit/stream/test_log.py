"""A log's promises beyond its content: what it costs, and what stays as it is while it changes."""

import gc
import sys
from functools import partial
from time import process_time

import pytest

from streamd.stream.entry_id import ID_MAX, make_id
from streamd.stream.log.entry_log import Log
from streamd.stream.log.segment_cache import CACHE
from streamd.stream.wire.entry_columns import EntryColumns
from tests.property.log_model import LogModel, assert_same_nodes, encode_entry, encoded


def filled(entries, node_max_entries=100, step=1):
    log = Log(node_max_entries)
    ids = [1 + number * step for number in range(entries)]
    log.append_columns(ids, EntryColumns((b"f",), [b"v"] * entries, None))
    return log, ids


@pytest.fixture(autouse=True)
def empty_cache():
    yield
    kept, CACHE.bytes_max = CACHE.bytes_max, 0
    CACHE.shrink()
    CACHE.bytes_max = kept


def test_an_empty_log_answers_everything():
    log = Log()
    assert (len(log), log.first_id, log.last_id, log.segments) == (0, None, None, 0)
    assert 1 not in log
    assert not log.delete(1)
    assert log.trim_to_length(0) == log.trim_before(ID_MAX) == 0
    assert list(log.iterate()) == log.ids_between() == log.split(0, ID_MAX, 1) == []
    assert encoded(log, 0, ID_MAX) == (0, b"")
    assert log.count_range(0, ID_MAX) == 0
    assert len(log.copy()) == 0


def test_a_log_can_be_emptied_and_filled_again():
    log, ids = filled(250)
    assert log.trim_to_length(0) == 250
    assert (len(log), log.segments, log.first_id) == (0, 0, None)
    log.append(ids[-1] + 1, [b"g", b"w"])
    assert list(log.iterate()) == [(ids[-1] + 1, [b"g", b"w"])]


def test_fields_given_and_fields_got_are_no_part_of_the_log():
    log = Log(2)
    for entry_id in (1, 2, 3):
        fields = [b"f", b"v"]
        log.append(entry_id, fields)
        fields.clear()
        next(log.iterate(entry_id))[1].clear()
    assert list(log.iterate()) == [(entry_id, [b"f", b"v"]) for entry_id in (1, 2, 3)]


@pytest.mark.parametrize("count", [-1, 0])
def test_a_count_of_nothing_reads_nothing(count):
    log, _ = filled(5)
    assert encoded(log, 0, ID_MAX, count) == (0, b"")
    assert log.ids_between(0, ID_MAX, count) == []


def test_a_range_is_cut_into_even_parts():
    log, ids = filled(1050)
    assert log.split(0, ID_MAX, 100) == ids[100::100]
    assert log.split(ids[7], ids[407], 100) == [ids[107], ids[207], ids[307], ids[407]]
    assert log.split(ids[7], ids[406], 100) == [ids[107], ids[207], ids[307]]
    assert log.split(ids[7], ids[106], 100) == []
    assert log.split(ids[1020], ID_MAX, 10) == [ids[1030], ids[1040]]


def test_what_is_read_again_comes_from_the_cache():
    log, ids = filled(350)
    body = b"".join(encode_entry(entry_id, [b"f", b"v"]) for entry_id in ids)
    for _ in range(2):
        assert encoded(log, 0, ID_MAX) == (350, body)
    _, first = log.encode_parts(0, ID_MAX)
    _, second = log.encode_parts(0, ID_MAX)
    assert len(first) == 4
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_the_cached_tail_is_forgotten_when_it_changes():
    log, ids = filled(5)
    encoded(log, ids[0], ids[1])
    log.delete(ids[0])
    assert encoded(log, ids[1], ids[2])[1] == b"".join(encode_entry(entry_id, [b"f", b"v"]) for entry_id in ids[1:3])
    encoded(log, ids[2], ids[3])
    log.trim_to_length(0)
    for entry_id in (11, 12, 13, 14):
        log.append(entry_id, [b"g", b"w"])
    assert encoded(log, 12, 13)[1] == b"".join(encode_entry(entry_id, [b"g", b"w"]) for entry_id in (12, 13))


def test_memory_is_estimated_as_entries_come_and_go():
    log = Log()
    empty = log.memory_bytes
    assert 200 < empty < 700
    for number in range(1000):
        log.append(number + 1, [b"f", bytes(100)[:99] + b"%d" % (number % 10)])
    full = log.memory_bytes
    log.trim_to_length(500)
    assert empty < log.memory_bytes < full
    log.trim_to_length(0)
    assert log.memory_bytes == empty


def test_a_log_of_one_entry_is_small():
    log = Log()
    log.append(make_id(1_795_246_993_860, 0), [b"field", b"value"])
    parts = [log, log._ids, log._texts, *log._ids, *log._texts]
    assert sum(map(sys.getsizeof, parts)) < 600


def test_nothing_per_entry_is_left_for_the_garbage_collector():
    gc.collect()
    before = len(gc.get_objects())
    log, _ = filled(10_000)
    for number in range(10_000):
        log.append((2 << 64) + number, [b"f", b"v"])
    gc.collect()
    assert len(gc.get_objects()) - before < 200 * 3


def seconds(work):
    began = process_time()
    work()
    return process_time() - began


@pytest.mark.parametrize(
    "work",
    [
        lambda log, ids: [log.delete(entry_id) for entry_id in ids[::10]],
        lambda log, ids: [log.delete(entry_id) for entry_id in ids[: len(ids) // 10]],
        lambda log, ids: [log.trim_to_length(len(log) - 1) for _ in range(len(ids) // 10)],
        lambda log, ids: [log.trim_before(entry_id) for entry_id in ids[::10]],
        lambda log, ids: [log.encode_parts(entry_id, ID_MAX, 1) for entry_id in ids[::10]],
        lambda log, ids: [next(log.iterate(entry_id)) for entry_id in ids[::10]],
    ],
    ids=["delete one in ten", "delete at the front", "trim one by one", "trim before", "encode one", "read one"],
)
def test_work_grows_with_what_it_touches_and_not_with_the_log(work):
    """Ten times the log is ten times the work; forty times would be quadratic."""

    def cost(entries):
        logs = [filled(entries, 10) for _ in range(3)]
        return min(seconds(partial(work, *prepared)) for prepared in logs)

    assert cost(40_000) < 40 * cost(4_000) + 0.01


def test_trimming_a_million_entries_is_a_matter_of_segments():
    log, ids = filled(1_000_000)
    assert log.segments == 10_000
    assert seconds(lambda: log.trim_before(ids[-1])) < 0.5
    assert log.ids_between() == ids[-1:]


def test_an_emptied_node_that_stayed_open_goes_with_a_later_trim():
    log, model = Log(3), LogModel(3)
    for one in (log, model):
        for entry_id in range(1, 6):
            one.append(entry_id, [b"f", b"v"])
        for entry_id in (3, 4, 5):
            one.delete(entry_id)
        one.trim_before(3)
        one.node_max_entries = 0
        one.trim_before(6)
        one.append(7, [b"f", b"v"])
    assert_same_nodes(log, model)
