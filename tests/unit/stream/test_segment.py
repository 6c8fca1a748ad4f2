"""A sealed segment gives back what was sealed, in every layout, and in less memory."""

import json
import random
from bisect import bisect_left
from itertools import pairwise

import pytest

from streamd.stream.entry_id import ID_MAX, make_id
from streamd.stream.log.segment import Segment
from streamd.stream.log.segment_cache import _ENCODED_BYTES, CACHE, SegmentCache
from streamd.stream.wire.packed_numbers import index_of, pack, view
from tests.entry_ways import way
from tests.property.log_model import encode_entry

__all__ = ["way"]

MS = 1_795_246_993_860


def seal(ids, entries, like=None):
    widths = [len(fields) for fields in entries]
    texts = [text for fields in entries for text in fields]
    return Segment(ids, texts, widths[0], None if len(set(widths)) == 1 else widths, like)


def encode(ids, entries):
    return b"".join(map(encode_entry, ids, entries))


def ids_of(first_ms, first_seq, steps):
    """`steps` yields (ms more, seq more); the seq begins anew where it is None."""
    ms, seq, ids = first_ms, first_seq, []
    for more_ms, more_seq in steps:
        ids.append(make_id(ms, seq))
        ms += more_ms
        seq = 0 if more_seq is None else seq + more_seq
    return ids


ID_SHAPES = {
    "counting up in one millisecond": lambda n: [(0, 1)] * n,
    "gaps in one millisecond": lambda n: [(0, 1 + 7 * (i % 3)) for i in range(n)],
    "wide gaps in one millisecond": lambda n: [(0, 1 + 400 * (i % 3)) for i in range(n)],
    "one per millisecond": lambda n: [(1, 0)] * n,
    "one per 37 milliseconds": lambda n: [(37, 0)] * n,
    "one per second": lambda n: [(1000, 0)] * n,
    "one per hour": lambda n: [(3_600_000, 0)] * n,
    "five per millisecond": lambda n: [(1, None) if i % 5 == 4 else (0, 1) for i in range(n)],
    "thirty per 900 milliseconds": lambda n: [(900, None) if i % 30 == 29 else (0, 1) for i in range(n)],
    "seqs go on in the next millisecond": lambda n: [(i % 2, 1 + 60 * (i % 4)) for i in range(n)],
    "a seq of a thousand": lambda n: [(1, 1000 if i == 0 else 0) for i in range(n)],
    "seqs far apart": lambda n: [(i % 2, 1 << 40) for i in range(n)],
    "years apart": lambda n: [(1 << 40, i % 2) for i in range(n)],
}
FIRST_IDS = [(0, 0), (0, 995), (7, 1), (993, 96), (9_993, 0), (MS, 0), (MS, 9), (MS, 12_345_678), (1 << 63, 1 << 63)]
FIELD_SHAPES = {
    "one field, values alike": lambda i: [b"f", b"%08d" % i],
    "one field, lengths differ": lambda i: [b"f", b"v" * (i % 7)],
    "one field, long and short values": lambda i: [b"field", b"v" * (i % 3 * 900)],
    "one field, empty values": lambda i: [b"", b""],
    "three fields": lambda i: [b"a", b"%d" % i, b"b", b"x" * 8, b"a", b"%d" % (i * i)],
    "three fields, values alike": lambda i: [b"a", b"%02d" % (i % 100), b"bc", b"", b"def", b"\r\n$5"],
    "other names in some": lambda i: [b"f%d" % (i % 3), b"v", b"g", b"w" * i],
    "other numbers of fields": lambda i: [b"f", b"v%d" % i] * (1 + i % 3),
    "large values": lambda i: [b"f", bytes([65 + i % 26]) * (2000 + i)],
    "large values alike": lambda i: [b"f", bytes([65 + i % 26]) * 60_000],
    "large values of any fields": lambda i: [b"f%d" % i, b"v" * 50_000] * (1 + i % 2),
}


@pytest.mark.parametrize("ids", ID_SHAPES.values(), ids=ID_SHAPES)
@pytest.mark.parametrize("first", FIRST_IDS, ids=str)
def test_ids_of_every_shape_are_given_back(first, ids, way):
    for count in (1, 2, 8, 30, 100):
        entry_ids = ids_of(*first, ids(count))
        assert entry_ids == sorted(set(entry_ids))
        if entry_ids[-1] > ID_MAX:
            continue
        entries = [[b"f", b"v"]] * count
        segment = seal(entry_ids, entries)
        for low, high in ((0, count), (0, 1), (count - 1, count), (count // 3, count // 3 + (count + 1) // 2)):
            assert list(segment.ids(low, high)) == entry_ids[low:high]
            assert segment.encode(low, high) == encode(entry_ids[low:high], entries)
            assert segment.encode(low, high, True) == encode(entry_ids[low:high][::-1], entries)
        for entry_id in entry_ids:
            for near in {max(entry_id + by, 0) for by in (-1 << 64, -1, 0, 1, 1 << 64)}:
                assert segment.position(near) == bisect_left(entry_ids, near)
            assert segment.find(entry_id) == entry_ids.index(entry_id)
        assert segment.find(entry_ids[0] + (1 << 90)) == -1


@pytest.mark.parametrize("before", [1, 2, 8])
def test_ids_that_count_up_into_the_next_millisecond_are_given_back(before):
    entry_ids = list(range(make_id(6, 0) - before, make_id(6, 7)))
    entries = [[b"f", b"v"]] * len(entry_ids)
    segment = seal(entry_ids, entries)
    assert segment.encode(0, len(entry_ids)) == encode(entry_ids, entries)


@pytest.mark.parametrize("fields", FIELD_SHAPES.values(), ids=FIELD_SHAPES)
@pytest.mark.parametrize("compressing", [True, False])
def test_fields_of_every_shape_are_given_back(fields, compressing, monkeypatch, way):
    if not compressing:
        monkeypatch.setattr("streamd.stream.log.sealing.compress", None)
    for count in (1, 3, 40):
        ids = ids_of(MS, 0, [(i % 2, 1) for i in range(count)])
        entries = [fields(i) for i in range(count)]
        segment = seal(ids, entries)
        assert not segment.raw_bytes or compressing
        for low in range(0, count, 1 + count // 5):
            for high in range(low + 1, count + 1, 1 + count // 5):
                assert segment.entries(low, high) == entries[low:high]
                assert segment.encode(low, high) == encode(ids[low:high], entries[low:high])
                assert segment.encode(low, high, True) == encode(ids[low:high][::-1], entries[low:high][::-1])


def test_entries_of_segments_in_turn_have_their_own_fields(way):
    """What stands between values is remembered from one segment to the next."""
    kinds = [[b"f", b"vv"], [b"f", b"v"], [b"g", b"vv"], [b"f", b"vv", b"g", b"w"]]
    segments = [seal([make_id(MS, 1), make_id(MS, 2)], [kind, kind]) for kind in kinds]
    for _ in range(2):
        for segment, kind in zip(segments, kinds, strict=True):
            assert segment.encode(0, 2) == encode([make_id(MS, 1), make_id(MS, 2)], [kind, kind])


def test_an_entry_is_found_where_it_stands_whatever_was_deleted(way):
    """All ways to delete from 6 entries, a millisecond each, before the rest is written anew."""
    for seq in (0, 3):
        ids = [make_id(MS + ms, seq) for ms in range(6)]
        for deleted in range((1 << 6) - 1):
            segment = seal(ids, [[b"f", b"v"]] * 6)
            left = [entry_id for place, entry_id in enumerate(ids) if not deleted >> place & 1]
            for entry_id in set(ids) - set(left):
                segment.delete_at(ids.index(entry_id))
            rewritten = segment.rewritten()
            for near in [make_id(MS + ms, some) for ms in range(-1, 8) for some in (0, 2, 3, 4)]:
                assert segment.position(near) == bisect_left(ids, near)
                assert rewritten.position(near) == bisect_left(left, near)


def test_what_segments_have_in_common_is_shared():
    first = seal([1], [[b"a long name of a field", b"v"]])
    second = seal([2], [[b"a long name of a field".replace(b"o", b"o"), b"w"]], first)
    third = seal([3], [[b"another", b"w"]], second)
    assert second.fields is first.fields
    assert second.lengths is first.lengths
    assert third.fields == (b"another",)


@pytest.mark.parametrize(
    ("value", "steps", "bytes_max"),
    [
        (lambda r, i: r.randbytes(8), (1, 0), 14),
        (lambda r, i: r.randbytes(64), (1, 0), 70),
        (lambda r, i: r.randbytes(64), (0, 1), 68),
        (lambda r, i: r.randbytes(512), (1, 0), 519),
        (lambda r, i: json.dumps({"order": i, "amount": r.random(), "status": "paid"}).encode(), (1, 0), 36),
    ],
    ids=["8 random bytes", "64 random bytes", "64 in one millisecond", "512 random bytes", "JSON of 60 bytes"],
)
def test_an_entry_takes_little_more_than_its_value(value, steps, bytes_max):
    pytest.importorskip("lz4")
    source = random.Random(7)
    ids = ids_of(MS, 0, [steps] * 100)
    like = seal(ids, [[b"f", value(source, i)] for i in range(100)])
    segment = seal(ids, [[b"f", value(source, i)] for i in range(100)], like)
    assert segment.memory_bytes <= 100 * bytes_max


def test_deleted_entries_are_left_out_of_runs():
    """All ways to delete from 6 entries, and all ranges."""
    for deleted in range(1 << 6):
        segment = seal(list(range(6)), [[b"f", b"v"]] * 6)
        for position in range(6):
            if deleted >> position & 1:
                assert segment.delete(position, position + 1) == 1
                assert segment.delete(position, position + 1) == 0
        left = [position for position in range(6) if not deleted >> position & 1]
        assert segment.live_count == len(left)
        assert [segment.nth_position(number) for number in range(len(left))] == left
        assert [position for position in range(6) if segment.find(position) >= 0] == left
        for low in range(7):
            for high in range(low, 7):
                forwards = list(segment.runs(low, high))
                found = [position for run in forwards for position in range(*run)]
                assert found == [position for position in left if low <= position < high]
                assert all(before[1] < after[0] for before, after in pairwise(forwards))
                assert list(segment.runs(low, high, True)) == forwards[::-1]
                assert segment.count_live(low, high) == sum(to - start for start, to in forwards)


def test_a_rewritten_segment_is_the_same_node_without_the_dead():
    entries = [[b"f", b"v%d" % i] * (1 + i // 8) for i in range(10)]
    segment = seal(list(range(10)), entries)
    segment.delete(0, 3)
    segment.delete(5, 10)
    rewritten = segment.rewritten()
    assert (rewritten.count, rewritten.live_count, rewritten.used, rewritten.last_id) == (2, 2, 10, 9)
    assert list(rewritten.ids(0, 2)) == [3, 4]
    assert rewritten.entries(0, 2) == entries[3:5]
    assert rewritten.memory_bytes < segment.memory_bytes


def test_a_copy_is_changed_apart():
    segment = seal([1, 2, 3], [[b"f", b"v"]] * 3)
    segment.delete(0, 1)
    copy = segment.copy()
    copy.delete(1, 2)
    assert (segment.live_count, copy.live_count) == (2, 1)
    assert (list(segment.runs(0, 3)), list(copy.runs(0, 3))) == ([(1, 3)], [(2, 3)])


@pytest.mark.parametrize("fields", FIELD_SHAPES.values(), ids=FIELD_SHAPES)
@pytest.mark.parametrize(
    "ids",
    [
        ids_of(MS, 0, [(0, 1)] * 40),
        ids_of(MS, 100, [(0, 1)] * 40),
        ids_of(MS, 980, [(0, 1)] * 40),
        ids_of(MS, 0, [(1, 0)] * 40),
        ids_of(MS, 0, [(1, None) if i % 12 == 11 else (0, 1) for i in range(40)]),
    ],
    ids=["of one and two digits", "of three digits", "of three and four digits", "the same", "of one, two, one digits"],
)
def test_a_segment_reads_the_same_from_the_cache(fields, ids):
    entries = [fields(i) for i in range(40)]

    def check(low, high, reverse=False):
        step = -1 if reverse else 1
        assert segment.read(low, high, reverse) == encode(ids[low:high][::step], entries[low:high][::step])

    for first_whole in (True, False):
        segment = seal(ids, entries)
        check(25, 33)
        assert segment.encoded is None
        if first_whole:
            check(0, 40)
            assert not segment.encoded.raw_bytes
        for part in [(25, 33), (0, 1), (39, 40), (0, 40, True), (0, 3, True), (25, 33, True), (38, 40, True)]:
            check(*part)
            assert (segment.encoded is not None) == (first_whole or type(segment.texts) is bytes)
        check(0, 40)
        assert not segment.encoded.raw_bytes
        check(0, 40)
        segment.delete(3, 4)
        assert segment.encoded is None


def test_what_is_read_in_part_is_kept_compressed():
    entries = [[b"f", b"v" * 64]] * 100
    segment = seal(list(range(100)), entries)
    for _ in range(2):
        segment.read(5, 10)
    assert segment.encoded.raw_bytes == len(encode(list(range(100)), entries)) > 10 * len(segment.encoded.data)


@pytest.mark.parametrize(
    ("entries", "value_bytes", "compressed"), [(257, 8, None), (100, 1500, None), (100, 400, False), (100, 200, True)]
)
def test_large_segments_are_not_encoded_for_the_sake_of_a_part(entries, value_bytes, compressed):
    segment = seal(list(range(entries)), [[b"f", b"v" * value_bytes]] * entries)
    for _ in range(3):
        segment.read(5, 10)
    assert compressed == (None if segment.encoded is None else segment.encoded.raw_bytes > 0)


EACH = _ENCODED_BYTES + 100


def test_the_cache_keeps_to_its_bound_and_to_what_is_read():
    cache = SegmentCache(bytes_max=10 * EACH)
    kept = []
    for _ in range(30):
        kept.append(cache.keep(bytes(100), 0, False))
        kept[0].hot = True
        assert cache.bytes == sum(EACH for one in kept if one.data is not None) <= 10 * EACH
    assert kept[0].data is not None
    assert kept[1].data is None
    fourth = 10 * EACH // 4 - _ENCODED_BYTES
    assert cache.keep(bytes(fourth), 0, False) is not None
    assert cache.keep(bytes(fourth + 1), 0, False) is None
    cache.bytes_max = 3 * EACH // 2
    cache.shrink()
    assert cache.bytes == sum(EACH for one in kept if one.data is not None) == EACH


def test_the_cache_lets_go_of_segments_that_are_gone():
    cache = SegmentCache(bytes_max=10 * EACH)
    for _ in range(50):
        encoded = cache.keep(bytes(100), 0, False)
        encoded.hot = True
    assert cache.bytes <= 10 * EACH
    cache.bytes_max = 0
    cache.shrink()
    assert cache.bytes == 0
    assert encoded.data is None


def test_a_segment_whose_kept_entries_were_taken_away_is_read_as_before():
    entries = [[b"f", b"v%d" % i] for i in range(20)]
    segment = seal(list(range(20)), entries)
    for _ in range(3):
        for low, high in [(0, 20), (3, 9), (3, 9)]:
            assert segment.read(low, high) == encode(list(range(low, high)), entries[low:high])
            if segment.encoded is not None:
                segment.encoded.data = segment.encoded.ends = None


def test_the_cache_keeps_one_run_of_one_tail():
    cache = SegmentCache(bytes_max=400)
    ids = [1, 2, 3]
    cache.keep_tail(ids, 0, 2, False, b"one")
    assert cache.tail(ids, 0, 2, False) == b"one"
    for other in ((list(ids), 0, 2, False), (ids, 1, 2, False), (ids, 0, 3, False), (ids, 0, 2, True)):
        assert cache.tail(*other) is None
    cache.keep_tail(ids, 0, 3, False, bytes(101))
    assert cache.tail(ids, 0, 3, False) is None
    cache.forget_tail([1, 2, 3])
    assert cache.tail(ids, 0, 2, False) == b"one"
    cache.forget_tail(ids)
    assert cache.tail(ids, 0, 2, False) is None


def test_the_process_has_one_cache_with_a_bound():
    assert CACHE.bytes_max > 0


@pytest.mark.parametrize("greatest", [0, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1])
def test_a_column_is_as_narrow_as_its_greatest_int_allows(greatest):
    values = [greatest, 0, greatest // 2]
    column = pack(values)
    assert len(column) == 3 * next(size for size in (1, 2, 4, 8) if greatest < 1 << 8 * size)
    assert list(view(column, 3)) == values


@pytest.fixture
def full_cache(monkeypatch):
    monkeypatch.setattr(SegmentCache, "is_full", True)


def hundred() -> Segment:
    return Segment([n << 64 for n in range(1, 101)], [b"f", b"v"] * 100, 2, None)


def test_parts_at_random_places_take_nobodys_place_in_a_full_cache(full_cache):
    segment = hundred()
    for low in (50, 20, 80, 0, 40, 60, 10, 30, 70, 5) * 2:
        assert segment.read(low, low + 10) == segment.encode(low, low + 10)
    assert segment.encoded is None
    segment.read(90, 100)
    segment.read(55, 65)
    assert segment.encoded is not None


@pytest.mark.parametrize(
    ("parts", "reverse"), [([(10, 20), (20, 30)], False), ([(10, 20), (10, 20)], False), ([(20, 30), (10, 20)], True)]
)
def test_who_reads_on_or_reads_again_gets_a_place(full_cache, parts, reverse):
    segment = hundred()
    for low, high in parts:
        assert segment.encoded is None
        assert segment.read(low, high, reverse) == segment.encode(low, high, reverse)
    assert segment.encoded is not None


@pytest.mark.parametrize(("value", "kept"), [(b"v" * 30, True), (b"v", False)])
def test_while_there_is_room_the_second_part_is_enough_if_values_are_compressed(monkeypatch, value, kept):
    monkeypatch.setattr(SegmentCache, "is_full", False)
    segment = Segment([n << 64 for n in range(1, 101)], [b"f", value] * 100, 2, None)
    assert bool(segment.raw_bytes) == kept
    segment.read(50, 60)
    segment.read(20, 30)
    assert (segment.encoded is not None) == kept


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_number_is_found_where_it_stands_and_not_in_the_bytes_of_two_others(size):
    for seed in range(300):
        random_ = random.Random(seed)
        # Few different bytes, so that those of two neighbours are often those of a third one.
        values = sorted({int.from_bytes(random_.choices(b"\0\1\2\xff", k=size), "big") for _ in range(40)})
        column = pack([*values, 256**size - 1] if values[-1] < 256**size - 1 else values)
        values = list(view(column, len(column) // size))
        asked = [*values, *(value + 1 for value in values), *random_.sample(range(256 ** min(size, 7)), 9), 256**size]
        for number in asked:
            expected = values.index(number) if number in values else -1
            assert index_of(column, len(values), number, number - values[0]) == expected
