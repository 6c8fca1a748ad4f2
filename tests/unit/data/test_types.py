"""A type is one record: what the rest of the server asks of a value comes from there."""

import pytest

from streamd.data.types import TYPES, ValueType, type_of
from streamd.journal.dump import dump_key


class Bag(dict):
    """A type of this test: words and how often each is in it."""


def commands(key, value):
    for word, count in value.items():
        yield [b"BAGADD", key, word, b"%d" % count]


BAG = ValueType(
    "bag",
    Bag,
    encoding=lambda key, value, bound: b"sack",
    memory_bytes=lambda value, samples: 1_000_000 * len(value),
    elements=len,
    commands=commands,
    copy=lambda value: Bag(value),
)


@pytest.fixture
def bag(engine, monkeypatch):
    monkeypatch.setitem(TYPES, Bag, BAG)
    value = Bag({b"a": 1, b"b": 2})
    engine.state.keyspace[0].put(b"bag", value)
    return value


def test_a_new_type_needs_its_record_alone(engine, bag):
    engine.do("SET s v")
    assert engine.do("TYPE bag") == "bag"
    assert engine.do("SCAN 0 TYPE bag") == [b"0", [b"bag"]]
    assert engine.do("OBJECT ENCODING bag") == b"sack"
    assert engine.do("OBJECT REFCOUNT bag") == 1
    assert engine.do("MEMORY USAGE bag") > 2_000_000
    assert engine.do("GET bag").text.startswith("WRONGTYPE")

    assert engine.do("COPY bag other") == 1
    bag.clear()
    assert engine.state.keyspace[0].read_as(b"other", BAG) == {b"a": 1, b"b": 2}


def test_the_journal_writes_a_new_type_as_its_record_says(engine, bag):
    pieces = [data for _, data in dump_key(0, b"bag", bag, None)]
    assert pieces == [b"*4\r\n$6\r\nBAGADD\r\n$3\r\nbag\r\n$1\r\n%b\r\n$1\r\n%d\r\n" % row for row in bag.items()]


@pytest.mark.parametrize(
    ("line", "name", "elements"),
    [
        ("SET k v", "string", 1),
        ("HSET k f v g w", "hash", 2),
        ("HSETEX k PX 50 FIELDS 2 f v g w", "hash", 4),
        ("RPUSH k a b c", "list", 3),
        ("SADD k a b", "set", 2),
        ("ZADD k 1 a 2 b", "zset", 2),
        ("XADD k IDMP p i * f v", "stream", 2),
    ],
)
def test_a_copy_and_a_snapshot_stay_what_they_are(engine, line, name, elements):
    engine.do(line)
    value = engine.state.keyspace[0].values[b"k"]
    kind = type_of(value)
    before = list(dump_key(0, b"k", value, None))

    copies = [kind.copy(value), (kind.snapshot or kind.copy)(value)]
    engine.execute([word + "2" if len(word) == 1 and word not in "k*" else word for word in line.split()])

    assert (kind.name, kind.elements(copies[0])) == (name, elements)
    assert [list(dump_key(0, b"k", one, None)) for one in copies] == [before, before]
