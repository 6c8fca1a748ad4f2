"""SORT and LCS."""

import pytest

from tests.session import Error, Session

NO_NUMBER = Error("ERR One or more scores can't be converted into double")


@pytest.fixture
def sortable(engine: Session) -> Session:
    engine.do("RPUSH l 10 2 1 30")
    engine.do("SADD s b a c")
    engine.do("ZADD z 3 x 1 y 2 w")
    engine.do("MSET w_10 1 w_2 4 w_1 3 w_30 2")
    engine.do("HSET h_1 f one n 5")
    return engine


@pytest.mark.parametrize(
    ("request_line", "reply"),
    [
        ("SORT l", [b"1", b"2", b"10", b"30"]),
        ("SORT l DESC LIMIT 1 2", [b"10", b"2"]),
        ("SORT l ALPHA", [b"1", b"10", b"2", b"30"]),
        ("SORT l BY w_*", [b"10", b"30", b"1", b"2"]),
        ("SORT l BY nosort GET # GET w_*", [b"10", b"1", b"2", b"4", b"1", b"3", b"30", b"2"]),
        ("SORT l GET h_*->f", [b"one", None, None, None]),
        ("SORT l BY h_*->n DESC", [b"1", b"30", b"2", b"10"]),
        ("SORT l BY w_* ALPHA DESC", [b"2", b"1", b"30", b"10"]),
        ("SORT s ALPHA DESC", [b"c", b"b", b"a"]),
        ("SORT s", NO_NUMBER),
        ("SORT z BY nosort", [b"y", b"w", b"x"]),
        ("SORT z BY nosort DESC", [b"x", b"w", b"y"]),
        ("SORT l BY nosort DESC LIMIT 0 2", [b"30", b"1"]),
        ("SORT none", []),
        ("SORT w_1", Error("WRONGTYPE Operation against a key holding the wrong kind of value")),
        ("SORT l UP", Error("ERR syntax error")),
        ("SORT_RO l LIMIT 0 1", [b"1"]),
        ("SORT_RO l STORE n", Error("ERR syntax error")),
    ],
)
def test_elements_come_in_the_order_that_is_asked_for(sortable, request_line, reply):
    assert sortable.do(request_line) == reply


@pytest.mark.parametrize("element", ["", " -1", "1 "])
def test_an_element_that_is_no_number_is_an_error(engine: Session, element: str):
    engine.execute(["RPUSH", "l", "1", element])
    assert engine.do("SORT l") == Error("ERR One or more scores can't be converted into double")


def test_what_is_sorted_can_be_stored(sortable):
    records = sortable.record()
    assert sortable.do("SORT l GET h_*->f GET # STORE s") == 8
    assert sortable.do("LRANGE s 0 -1") == [b"one", b"1", b"", b"2", b"", b"10", b"", b"30"]
    assert sortable.do("SORT none STORE s") == 0
    assert sortable.do("EXISTS s") == 0
    assert [words[:2] for _, words in records] == [[b"DEL", b"s"], [b"RPUSH", b"s"], [b"DEL", b"s"]]
    assert sortable.do("COMMAND GETKEYS SORT l STORE a STORE b") == [b"l", b"b"]


@pytest.mark.parametrize(
    ("options", "reply"),
    [
        ("", b"mytext"),
        ("LEN", 6),
        ("IDX", [b"matches", [[[4, 7], [5, 8]], [[2, 3], [0, 1]]], b"len", 6]),
        ("IDX WITHMATCHLEN MINMATCHLEN 4", [b"matches", [[[4, 7], [5, 8], 4]], b"len", 6]),
        ("IDX LEN", Error("ERR If you want both the length and indexes, please just use IDX.")),
        ("MOST", Error("ERR syntax error")),
    ],
)
def test_the_longest_common_sequence(engine: Session, options, reply):
    engine.do("MSET a ohmytext b mynewtext")
    assert engine.do(f"LCS a b {options}") == reply


def test_strings_without_anything_in_common(engine: Session):
    engine.do("MSET a xyz long " + "x" * 12_000)
    assert (engine.do("LCS a none"), engine.do("LCS none a LEN")) == (b"", 0)
    assert engine.do("LCS long long").text.startswith("ERR Insufficient memory")
    engine.do("HSET h f v")
    assert engine.do("LCS a h") == Error("ERR The specified keys must contain string values")


def test_every_command_has_a_syntax_that_can_be_documented(engine: Session):
    documented = dict(zip(*[iter(engine.do("COMMAND DOCS"))] * 2, strict=True))
    assert {b"sort", b"zadd", b"bzmpop", b"lcs", b"bitop"} <= documented.keys()
