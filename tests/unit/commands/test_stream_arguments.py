"""Options of the stream commands at their edges, and the fast ways against the general ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamd.base.errors import CommandError
from streamd.commands.stream.options import parse_append_options, parse_ids, stream_keys
from streamd.stream.entry_id import parse_id
from tests.session import Error, Session

NUMBERS = st.one_of(st.integers(0, 1100), st.sampled_from([2**63, 2**64 - 1, 2**64, 10**19, 10**20])).map(str)
PLAIN = st.builds("{}-{}".format, NUMBERS, NUMBERS)
ODD = st.sampled_from(
    ["", "-", "1-", "-1", "1-2-3", "x", "1-x", "01-002", "+", "1 -2", "1-*", "1-2,3-4", ",", "1,2-3", "1e5-1"]
)
DIGITS = st.integers(0, 999).map("{:03}".format)
LISTS = st.one_of(
    st.lists(st.one_of(NUMBERS, PLAIN, ODD), max_size=6),
    st.lists(PLAIN, min_size=2, max_size=3),
    st.lists(st.builds("{}-{}".format, st.integers(1, 10**13), st.integers(0, 10))),
    st.lists(st.builds("{}-0".format, st.integers(0, 10**13))),
    st.tuples(
        st.sampled_from(["1{}-7", "1\0{}-7", "1{}-+7", "1{}-x", "1{}-7-8", "12345{}", "+1{}-7", "{}-7"]),
        st.lists(DIGITS),
    ).map(lambda form: [form[0].format(digits) for digits in form[1]]),
    st.tuples(st.just("1234-7"), st.sampled_from(["1x01-7", "1002-07", "1,03-7", "1004-7,", "2005-7", "1006-8"])).map(
        list
    ),
)


@given(LISTS.map(lambda words: [word.encode() for word in words]))
def test_a_list_of_ids_is_read_as_its_ids_one_by_one(words):
    try:
        expected = [parse_id(word) for word in words]
    except CommandError as error:
        with pytest.raises(CommandError, match=str(error)):
            parse_ids(words)
    else:
        assert parse_ids(words) == expected


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("XTRIM s MAXLEN ~", "ERR value is not an integer or out of range"),
        ("XTRIM s MINID =", "ERR Invalid stream ID specified as stream command argument"),
        ("XTRIM s LIMIT 5 MAXLEN ~", "ERR value is not an integer or out of range"),
        ("XTRIM s LIMIT 0", "ERR syntax error, XTRIM must be called with a trimming strategy"),
        ("XTRIM s KEEPREF ACKED MAXLEN 5", "ERR syntax error"),
        ("XTRIM s NOMKSTREAM MAXLEN 5", "ERR syntax error"),
        ("XTRIM s MAXLEN 5 foo", "ERR syntax error"),
        ("XTRIM s MAXLEN 5 LIMIT", "ERR syntax error"),
        ("XTRIM s MAXLEN", "ERR wrong number of arguments for 'xtrim' command"),
    ],
)
def test_errors_of_xtrim(engine, line, error):
    assert engine.do(line) == Error(error)


@pytest.mark.parametrize(
    ("node_max_entries", "options", "limit"),
    [
        (100, "MAXLEN ~ 5", 10_000),
        (7, "MAXLEN ~ 5", 700),
        (0, "MAXLEN ~ 5", 10_000),
        (10_001, "MINID ~ 5", 1_000_000),
        (100, "MAXLEN ~ 5 LIMIT 0", 0),
        (100, "MAXLEN ~ 5 LIMIT 33", 33),
        (100, "MAXLEN 5", 0),
    ],
)
def test_how_much_an_approximate_trim_may_remove(node_max_entries, options, limit):
    words = [b"XTRIM", b"s", *options.encode().split()]
    trim = parse_append_options(words, node_max_entries, adding=False).trim
    assert trim is not None
    assert trim.limit == limit


@pytest.mark.parametrize(
    ("line", "removed", "left"),
    [
        ("XTRIM s MAXLEN 7", 5, 7),
        ("XTRIM s MAXLEN = 7", 5, 7),
        ("XTRIM s MAXLEN ~ 7", 3, 9),
        ("XTRIM s MAXLEN ~ 0 LIMIT 7", 6, 6),
        ("XTRIM s MAXLEN ~ 0 LIMIT 2", 0, 12),
        ("XTRIM s MAXLEN 0", 12, 0),
        ("XTRIM s MAXLEN 99", 0, 12),
        ("XTRIM s MINID 9-1", 8, 4),
        ("XTRIM s MINID ~ 9", 6, 6),
        ("XTRIM s MINID 0", 0, 12),
        ("XTRIM none MAXLEN 0", 0, 12),
    ],
)
def test_xtrim_removes_whole_nodes_when_it_may_be_approximate(engine, line, removed, left):
    engine.do("XADD s 1-1 f v")
    engine.do("CONFIG SET stream-node-max-entries 3")
    for number in range(2, 13):
        engine.do(f"XADD s {number}-1 f v")
    assert engine.do(line) == removed
    assert engine.do("XLEN s") == left


def test_xsetid(engine):
    engine.do("XADD s 5-1 f v")
    engine.do("XADD s 6-1 f v")
    engine.do("XDEL s 6-1")
    smaller = "ERR The ID specified in XSETID is smaller than"
    for line, reply in [
        ("XSETID s 5-0", Error(f"{smaller} current max_deleted_entry_id")),
        ("XSETID s 5-9", Error(f"{smaller} current max_deleted_entry_id")),
        ("XSETID s 7-0 MAXDELETEDID 8-0", Error(f"{smaller} the provided max_deleted_entry_id")),
        ("XSETID s 7-0 ENTRIESADDED -1", Error("ERR entries_added must be positive")),
        (
            "XSETID s 7-0 ENTRIESADDED 0",
            Error("ERR The entries_added specified in XSETID is smaller than the target stream length"),
        ),
        ("XSETID s 7-0 ENTRIESADDED", Error("ERR syntax error")),
        ("XSETID none 7-0", Error("ERR no such key")),
        ("XSETID none x", Error("ERR Invalid stream ID specified as stream command argument")),
        ("XSETID s 7-0 MAXDELETEDID 6-5 ENTRIESADDED 9", "OK"),
    ]:
        assert engine.do(line) == reply, line
    info = engine.do("XINFO STREAM s")
    info = dict(zip(info[::2], info[1::2], strict=True))
    assert (info[b"last-generated-id"], info[b"max-deleted-entry-id"], info[b"entries-added"]) == (b"7-0", b"6-5", 9)


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("XRANGE s - + COUNT 0", b"*-1\r\n"),
        ("XRANGE s - + COUNT -5", b"*-1\r\n"),
        ("XRANGE none - + COUNT 0", b"*0\r\n"),
        ("XRANGE s + -", b"*0\r\n"),
        ("XRANGE s 2 2", b"*1\r\n*2\r\n$3\r\n2-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"),
        ("XREVRANGE s + (1-1 COUNT 1", b"*1\r\n*2\r\n$3\r\n2-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"),
        ("XRANGE s - + COUNT", b"-ERR syntax error\r\n"),
        ("XRANGE s - + COUNT x", b"-ERR value is not an integer or out of range\r\n"),
        ("XRANGE s x +", b"-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("XREVRANGE s - (0-0", b"*0\r\n"),
        ("XSPLIT s - + 1", b"*1\r\n$3\r\n2-1\r\n"),
        ("XSPLIT s - + 2", b"*0\r\n"),
        ("XSPLIT none - + 2", b"*0\r\n"),
        ("XSPLIT s - + 0", b"-ERR value is out of range, must be positive\r\n"),
        ("XDEL s 1-1 9-9 1-1", b":1\r\n"),
        ("XDEL s 1-1 x", b"-ERR Invalid stream ID specified as stream command argument\r\n"),
        ("XDEL none x", b":0\r\n"),
        ("XLEN s", b":2\r\n"),
    ],
)
def test_ranges_and_deletion(engine, line, reply):
    engine.do("XADD s 1-1 f v")
    engine.do("XADD s 2-1 f v")
    assert engine.raw(line.split()) == reply


@given(
    st.lists(
        st.tuples(
            st.sampled_from([[], ["IDMP", "p", "1"], ["idmp", "p", "2"], ["IDMP", "q", "*"], ["IDMP", "", "1"]]),
            st.sampled_from([["f", "v"], ["f"], ["f", "v", "f", "v"], []]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_the_fast_shapes_of_xadd_do_what_the_loop_over_the_options_does(requests):
    fast, general = Session(), Session()
    for idmp, fields in requests:
        quick = fast.raw(["XADD", "s", *idmp, "*", *fields])
        assert general.raw(["XADD", "s", "KEEPREF", *idmp, "*", *fields]) == quick or len(fields) + len(idmp) < 2
    assert fast.do("XRANGE s - +") == general.do("XRANGE s - +")


def test_the_keys_of_xread_stand_behind_streams():
    assert stream_keys(b"XREAD COUNT 1 streams a b 0 0".split()) == [b"a", b"b"]
    assert stream_keys([b"XREAD", b"COUNT", b"1"]) == []
