"""Commands on the bits of strings."""

import pytest

from tests.session import Error, Session


def test_bits_are_set_and_read(engine: Session):
    assert engine.do("SETBIT k 7 1") == 0
    assert engine.do("SETBIT k 7 0") == 1
    assert engine.do("SETBIT k 17 1") == 0
    assert engine.do("GET k") == b"\x00\x00\x40"
    assert (engine.do("GETBIT k 17"), engine.do("GETBIT k 16"), engine.do("GETBIT k 1000")) == (1, 0, 0)
    for line in ("SETBIT k -1 1", "SETBIT k 4294967296 1", "GETBIT k x"):
        assert engine.do(line) == Error("ERR bit offset is not an integer or out of range")
    assert engine.do("SETBIT k 1 2") == Error("ERR bit is not an integer or out of range")


def test_a_bit_of_a_long_string_costs_a_page(engine: Session):
    records = engine.record()
    engine.do("SETBIT k 80000000 1")
    assert (engine.do("STRLEN k"), engine.do("GETBIT k 80000000"), engine.do("BITCOUNT k")) == (10_000_001, 1, 1)
    engine.do("SETBIT k 5 1")
    assert engine.do("BITPOS k 1") == 5
    assert [words for _, words in records] == [[b"SETBIT", b"k", b"80000000", b"1"], [b"SETBIT", b"k", b"5", b"1"]]


@pytest.mark.parametrize(
    ("request_line", "reply"),
    [
        ("BITCOUNT k", 12),
        ("BITCOUNT k 1 1", 4),
        ("BITCOUNT k 4 11 BIT", 8),
        ("BITCOUNT k 2 1", 0),
        ("BITCOUNT k 0", Error("ERR syntax error")),
        ("BITCOUNT k 0 1 WORD", Error("ERR syntax error")),
        ("BITCOUNT none", 0),
        ("BITPOS k 0", 12),
        ("BITPOS k 1 2", -1),
        ("BITPOS k 0 0 0", -1),
        ("BITPOS k 0 2 -1", 16),
        ("BITPOS k 1 9 15 BIT", 9),
        ("BITPOS full 1 -1 -100", 0),
        ("BITCOUNT full -1 -100", 0),
        ("BITCOUNT full -100 -50", 8),
        ("BITPOS none 0", 0),
        ("BITPOS none 1", -1),
        ("BITPOS full 0", 8),
        ("BITPOS k 2", Error("ERR The bit argument must be 1 or 0.")),
        ("BITOP NOT n k full", Error("ERR BITOP NOT must be called with a single source key.")),
        ("BITOP NAND n k", Error("ERR syntax error")),
        ("BITOP AND n none", 0),
    ],
)
def test_bits_are_counted_and_found(engine: Session, request_line, reply):
    engine.execute(["SET", "k", b"\xff\xf0\x00"])
    engine.execute(["SET", "full", b"\xff"])
    assert engine.do(request_line) == reply


@pytest.mark.parametrize(("operation", "result"), [("AND", b"\xf0\x00"), ("OR", b"\xff\x0f"), ("XOR", b"\x0f\x0f")])
def test_bits_are_combined(engine: Session, operation, result):
    engine.execute(["SET", "a", b"\xff\x0f"])
    engine.execute(["SET", "b", b"\xf0"])
    engine.do("SET n old EX 100")
    assert engine.do(f"BITOP {operation} n a b") == 2
    assert (engine.do("GET n"), engine.do("TTL n")) == (result, -1)
    assert engine.do("BITOP NOT n b") == 1
    assert engine.do("GET n") == b"\x0f"
    assert engine.do("BITOP OR n none none") == 0
    assert engine.do("EXISTS n") == 0


def test_integers_of_any_width_are_read_set_and_added_to(engine: Session):
    assert engine.do("BITFIELD k SET u8 #1 255 GET i5 8 INCRBY u2 100 1") == [0, -1, 1]
    assert engine.do("STRLEN k") == 13
    assert engine.do("BITFIELD k INCRBY u8 #1 10 OVERFLOW SAT INCRBY u8 #1 300 OVERFLOW FAIL INCRBY u8 #1 1") == [
        *(9, 255, None),
    ]
    assert engine.do("BITFIELD_RO k GET u8 #1 GET u8 1000") == [255, 0]
    assert engine.do("BITFIELD_RO none GET u8 0") == [0]
    assert engine.do("BITFIELD none GET u8 0") == [0]
    assert engine.do("EXISTS none") == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("GET u64 0", "Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."),
        ("GET i8 -1", "bit offset is not an integer or out of range"),
        ("GET i8 #4294967296", "bit offset is not an integer or out of range"),
        ("OVERFLOW MAYBE", "Invalid OVERFLOW type specified"),
        ("SET u8 0 x", "value is not an integer or out of range"),
        ("SET u8 0", "syntax error"),
    ],
)
def test_what_bitfield_does_not_take_changes_nothing(engine: Session, words, text):
    assert engine.do(f"BITFIELD k SET u8 0 1 {words}") == Error(f"ERR {text}")
    assert engine.do("EXISTS k") == 0
    assert engine.do("BITFIELD_RO k SET u8 0 1") == Error("ERR BITFIELD_RO only supports the GET subcommand")


def test_bitfield_records_itself_where_it_changed_something(engine: Session):
    records = engine.record()
    engine.do("BITFIELD k OVERFLOW FAIL SET u8 0 300")  # makes the string all the same
    engine.do("BITFIELD k SET u8 0 0")
    engine.do("BITFIELD k SET u8 0 7 GET u8 0")
    assert [words[2:] for _, words in records] == [
        [b"OVERFLOW", b"FAIL", b"SET", b"u8", b"0", b"300"],
        *[
            [b"SET", b"u8", b"0", b"7", b"GET", b"u8", b"0"],
        ],
    ]


def test_bitfield_changes_a_long_string_in_its_place(engine: Session):
    engine.do("SETBIT k 80000000 1")
    assert engine.do("BITFIELD k SET i64 79999990 -1 GET u10 79999990") == [0x20000000000000, 1023]
    assert engine.do("BITCOUNT k") == 64
