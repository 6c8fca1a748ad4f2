"""Values in RDB form: all that Redis wrote is read as what it was, and all that is no value is refused."""

import pytest

from streamd.data.element_list import ElementList
from streamd.rdb import streams
from streamd.rdb.bytes import BadData
from streamd.rdb.packs import integer_element, listpack, listpack_of, string_element, texts_of
from streamd.rdb.payload import payload_of, value_in
from streamd.rdb.values import pieces_of
from tests.crash.state_dump import dump
from tests.session import Error
from tests.unit.rdb.payloads import new_stream, payloads, read, string, ziplist_of

PAYLOADS = list(payloads())


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.name)
def test_a_payload_of_redis_is_the_value_that_its_requests_make(engine, payload):
    for request in payload.requests:
        assert not isinstance(engine.execute(request), Error)
    made = dump(engine.engine)
    assert engine.execute(["RESTORE", "k", "0", payload.data, "REPLACE"]) == "OK"
    restored = dump(engine.engine)
    assert restored == made

    # And what streamd writes of it is the same once more.
    ours = engine.execute(["DUMP", "k"])
    assert engine.execute(["RESTORE", "k", "0", ours, "REPLACE"]) == "OK"
    assert dump(engine.engine) == made


@pytest.mark.parametrize(
    ("requests", "kind", "version"),
    [
        ("SET k v", 0, 10),
        ("APPEND k v ; APPEND k w", 0, 10),
        ("RPUSH k v", 1, 10),
        ("SADD k v", 2, 10),
        ("HSET k f v", 4, 10),
        ("ZADD k 1 v", 5, 10),
        ("HSET k f v g w ; HPEXPIREAT k 9999999999999 FIELDS 1 f", 24, 12),
        ("XADD k 1-1 f v", 19, 10),
        ("XADD k 1-1 f v ; XGROUP CREATE k g 0", 19, 10),
        ("XADD k 1-1 f v ; XGROUP CREATE k g 0 ; XREADGROUP GROUP g c STREAMS k >", 19, 10),
        ("XADD k 1-1 f v ; XGROUP CREATE k g 0 ; XGROUP CREATECONSUMER k g c", 21, 11),
        ("XADD k IDMP p i * f v", 26, 13),
        ("XADD k 1-1 f v ; XCFGSET k IDMP-DURATION 5", 26, 13),
        ("XADD k 1-1 f v ; XGROUP CREATE k g 0 ; XNACK k g FAIL IDS 1 1-1 FORCE", 27, 14),
    ],
)
def test_a_value_is_written_for_the_oldest_redis_that_knows_all_of_it(engine, requests, kind, version):
    for line in requests.split(" ; "):
        engine.do(line)

    payload = engine.do("DUMP k")

    assert (payload[0], int.from_bytes(payload[-10:-8], "little")) == (kind, version)


@pytest.mark.parametrize("kind", streams.TYPES[1:])
def test_a_stream_is_read_as_each_type_tells_it(engine, kind):
    for line in (
        "XADD k 1-1 f v", "XADD k 2-1 f v", "XADD k 3-1 g w", "XGROUP CREATE k g 0", "XGROUP CREATECONSUMER k g idle",
        "XREADGROUP GROUP g c COUNT 2 STREAMS k >", "XDEL k 2-1",
    ):  # fmt: skip
        engine.do(line)
    value = engine.state.keyspace[0].values[b"k"]
    engine.clock.advance(5)

    other = read(bytes((kind,)) + b"".join(pieces_of(kind, value)))

    assert list(other.log.iterate()) == list(value.log.iterate())
    assert (other.last_id, other.entries_added, other.max_deleted_id) == (3 << 64 | 1, 3, 2 << 64 | 1)
    (group,) = other.groups.values()
    assert [(row[0] >> 64, row[1].name, *row[2:]) for row in group.pending.iterate()] == [
        (1, b"c", 1_000_000_000_000, 1),
        (2, b"c", 1_000_000_000_000, 1),
    ]
    # Before Redis 7.2 a consumer is taken for active when it was seen.
    assert (group.consumers[b"idle"].active_ms is None) == (kind >= streams.TIMED)
    assert group.consumers[b"c"].active_ms == 1_000_000_000_000
    assert other.gaps_to == 2 << 64 | 1


def test_a_stream_of_redis_5_has_no_counters():
    data = bytearray(b"\x0f\x01\x10" + (5 << 64 | 1).to_bytes(16, "big"))
    parts = [1, 0, 1, b"f", 0, 2, 0, 0, b"v", 4]
    node = listpack_of([integer_element(part) if isinstance(part, int) else string_element(part) for part in parts])
    data += bytes((len(node),)) + node + b"\x01\x05\x01" + b"\x01\x01g\x05\x01\x00\x00"

    stream = read(bytes(data))

    assert list(stream.log.iterate()) == [(5 << 64 | 1, [b"f", b"v"])]
    assert (stream.entries_added, stream.groups[b"g"].entries_read) == (1, 1)


# -- packs

INTEGERS = [0, 12, 13, 127, 128, 4095, 4096, -1, -4096, -4097, 2**15, -(2**15), 2**23, -(2**23) - 1, 2**31, -(2**63)]
TEXTS = [b"", b"x" * 63, b"x" * 64, b"x" * 125, b"x" * 126, b"x" * 4095, b"x" * 4096, b"x" * 16378, b"x" * 70_000]


def test_a_listpack_is_read_as_it_was_written():
    packed = listpack_of([*map(integer_element, INTEGERS), *map(string_element, TEXTS)])

    assert listpack(packed) == [*INTEGERS, *TEXTS]
    for cut in range(0, len(packed), 97):
        with pytest.raises(BadData):
            listpack(packed[:cut])


def test_a_listpack_does_not_count_more_than_65534_elements():
    packed = listpack_of([integer_element(1)] * 70_000)

    assert packed[4:6] == b"\xff\xff"
    assert len(listpack(packed)) == 70_000


def test_ziplists_of_older_redis_are_read():
    every = [*INTEGERS, *TEXTS]

    assert list(read(b"\x0a" + string(ziplist_of(every)))) == texts_of(every)
    assert list(read(b"\x0e\x02" + string(ziplist_of([1, b"a"])) + string(ziplist_of([b"b"])))) == [b"1", b"a", b"b"]
    assert read(b"\x0c" + string(ziplist_of([b"a", 3, b"b", b"2.5"]))).scores == {b"a": 3.0, b"b": 2.5}
    assert read(b"\x0d" + string(ziplist_of([b"a", 3, 4, b""]))) == {b"a": b"3", b"4": b""}


def test_sorted_sets_with_scores_as_text_are_read():
    assert read(b"\x03\x03\x01a\x031.5\x01b\xfe\x01c\xff").scores == {
        b"a": 1.5,
        b"b": float("inf"),
        b"c": -float("inf"),
    }


def test_large_entries_are_nodes_of_their_own():
    stream = new_stream()
    for number in range(1, 150):
        stream.append(number << 64, [b"f", b"x" * 3000] if number % 3 else [b"g", b"y"])

    again = value_in(payload_of(stream), new_stream)

    assert list(again.log.iterate()) == list(stream.log.iterate())


def test_a_list_of_any_length_comes_back():
    value = ElementList([b"%d" % number for number in range(1000)])

    assert list(value_in(payload_of(value), new_stream)) == list(value)
