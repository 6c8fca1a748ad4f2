"""APPEND and SETRANGE on long strings: they cost what they write."""

import tracemalloc

import pytest

from streamd.journal.dump import dump_key

LENGTH = 20_000_000


@pytest.fixture
def long_string(engine):
    value = b"0123456789" * (LENGTH // 10)
    engine.execute(["SET", "k", value])
    return value


def memory_taken(*actions):
    """Return how many bytes were taken at most while the actions ran."""
    tracemalloc.start()
    for action in actions:
        action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("line", ["APPEND k x", "SETRANGE k 7 x", "SETRANGE k 12000000 x", "SETRANGE k 20000000 x"])
def test_a_byte_that_is_written_does_not_copy_the_string(engine, long_string, line):
    assert memory_taken(lambda: engine.do(line), lambda: engine.do(line), lambda: engine.do("STRLEN k")) < 1_000_000


def test_a_part_that_is_read_does_not_copy_the_string(engine, long_string):
    engine.do("APPEND k abc")
    engine.do("SETRANGE k 19999999 XY")
    read = lambda: engine.do("GETRANGE k 19999998 -1")  # noqa: E731
    assert memory_taken(read) < 1_000_000
    assert read() == b"8XYbc"


def test_the_string_is_read_as_what_was_written(engine, long_string):
    assert engine.do("APPEND k abc") == LENGTH + 3
    assert engine.do("SETRANGE k 5 VWXYZ") == LENGTH + 3
    expected = long_string[:5] + b"VWXYZ" + long_string[10:] + b"abc"

    assert engine.do("STRLEN k") == LENGTH + 3
    assert engine.do("GETRANGE k 3 11") == b"34VWXYZ01"
    assert engine.do("GET k") == expected
    assert engine.do("GETRANGE k -4 -1") == b"9abc"
    assert engine.do("APPEND k d") == LENGTH + 4
    assert engine.do("GET k") == expected + b"d"


READERS = {
    "GET k": lambda value: value,
    "MGET k": lambda value: [value],
    "GETSET k x": lambda value: value,
    "SET k x GET": lambda value: value,
    "GETDEL k": lambda value: value,
    "GETEX k": lambda value: value,
    "GETRANGE k 0 -1": lambda value: value,
    "STRLEN k": len,
    "TYPE k": lambda value: "string",
    "OBJECT ENCODING k": lambda value: b"raw",
    "OBJECT REFCOUNT k": lambda value: 1,
    "SCAN 0 TYPE string": lambda value: [b"0", [b"k"]],
    "EXISTS k": lambda value: 1,
}


@pytest.mark.parametrize("line", READERS)
def test_every_reader_sees_a_string_that_grew(engine, line):
    value = b"x" * 50_000
    engine.execute(["SET", "k", value])
    engine.do("APPEND k abc")
    engine.do("SETRANGE k 1 y")

    assert engine.do(line) == READERS[line](b"xy" + value[2:] + b"abc")


@pytest.mark.parametrize("line", ["INCR k", "INCRBYFLOAT k 1"])
def test_a_string_that_grew_is_no_number(engine, line):
    engine.execute(["SET", "k", b"1" * 50_000])
    engine.do("APPEND k 1")
    assert "not a" in engine.do(line).text


@pytest.mark.parametrize("line", ["HGET k f", "LPUSH k a", "XADD k * f v", "SADD k a"])
def test_a_string_that_grew_is_of_no_other_type(engine, line):
    engine.execute(["SET", "k", b"1" * 50_000])
    engine.do("APPEND k 1")
    assert engine.do(line).text.startswith("WRONGTYPE")


@pytest.mark.parametrize("line", ["COPY k other", "RENAME k other", "MOVE k 1"])
def test_a_string_that_grew_can_be_moved_and_copied(engine, line):
    engine.execute(["SET", "k", b"x" * 50_000])
    engine.do("APPEND k abc")
    engine.do(line)
    if line.startswith("COPY"):
        engine.do("APPEND k not-in-the-copy")
    elif line.startswith("MOVE"):
        engine.do("SELECT 1")
    assert engine.do("GET k" if line.startswith("MOVE") else "GET other") == b"x" * 50_000 + b"abc"


def test_the_journal_writes_a_string_that_grew_as_it_is_at_its_cut(engine):
    engine.execute(["SET", "k", b"x" * 50_000])
    engine.do("APPEND k abc")
    db = engine.state.keyspace[0]

    pieces = list(dump_key(0, b"k", db.values[b"k"], None))

    assert pieces == [(False, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$50003\r\n" + b"x" * 50_000 + b"abc\r\n")]
    assert engine.do("MEMORY USAGE k") > 50_000


def test_appending_and_setting_are_recorded_and_counted(engine):
    records = engine.record()
    engine.execute(["SET", "k", b"x" * 50_000])
    engine.do("APPEND k abc")
    engine.do("SETRANGE k 1 y")
    assert records[1:] == [(0, [b"APPEND", b"k", b"abc"]), (0, [b"SETRANGE", b"k", b"1", b"y"])]


def test_a_string_must_not_grow_beyond_the_limit(engine):
    engine.do("CONFIG SET proto-max-bulk-len 1048576")
    engine.execute(["SET", "k", b"x" * 1_048_576])
    assert engine.do("APPEND k x").text == "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
    assert engine.do("SETRANGE k 1048576 x").text == "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
    assert engine.do("STRLEN k") == 1_048_576
