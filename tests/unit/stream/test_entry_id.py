"""Entry IDs: every form Redis knows, and the ones it refuses."""

import pytest

from streamd.base.errors import CommandError, InvalidStreamId
from streamd.stream.entry_id import (
    ID_MAX,
    SEQ_MAX,
    consecutive_parts,
    format_id,
    format_ids,
    make_id,
    parse_id,
    parse_new_id,
    parse_range_end,
    parse_range_start,
)

MAX_TEXT = b"18446744073709551615"


@pytest.mark.parametrize(
    ("text", "ms", "seq"),
    [
        (b"0", 0, 7),
        (b"0-0", 0, 0),
        (b"1-2", 1, 2),
        (b"5", 5, 7),
        (b"007-01", 7, 1),
        (b"0" * 60 + b"1-" + b"0" * 60 + b"2", 1, 2),
        (MAX_TEXT, SEQ_MAX, 7),
        (MAX_TEXT + b"-" + MAX_TEXT, SEQ_MAX, SEQ_MAX),
    ],
)
def test_an_id_is_read(text, ms, seq):
    assert parse_id(text, 7) == make_id(ms, seq)


INVALID = [
    b"",
    b"-",
    b"+",
    b"*",
    b"--",
    b"1-",
    b"-1",
    b"1--2",
    b"1-2-3",
    b"1-*",
    b"a",
    b"1-a",
    b"1a-1",
    b"0x1-1",
    b"1_0-1",
    b"1-1_0",
    b"1 -1",
    b"1-1 ",
    b"1-1\n",
    b"(1-1",
    b"1.0-1",
    b"1e3-1",
    "١-1".encode(),
    b"\xb2-1",
    b"18446744073709551616",
    b"1-18446744073709551616",
    b"9" * 40,
    b"0" * 127 + b"1",
]


# What C's strtoull takes, redis-server 7.0.15 was seen to take. The seq of the last but two is 2**64 - 5.
ODD = {
    b" 1-1": (1, 1),
    b"\n\t1- 1": (1, 1),
    b"+1-+1": (1, 1),
    b"1\x00-1": (1, 0),
    b"1-2\x00x": (1, 2),
    b"1--0": (1, 0),
    b"1--05": (1, 2**64 - 5),
    b"1- -1": (1, 2**64 - 1),
    b"1--9223372036854775809": (1, 2**63 - 1),
}


@pytest.mark.parametrize("text", ODD)
def test_an_odd_number_is_read_as_redis_reads_it(text):
    assert parse_id(text) == make_id(*ODD[text])


@pytest.mark.parametrize("text", INVALID)
def test_what_is_no_id_is_refused_everywhere(text):
    with pytest.raises(InvalidStreamId):
        parse_id(text, 0)
    if text != b"1-*":
        with pytest.raises(InvalidStreamId):
            parse_new_id(text)
    if text not in (b"-", b"+", b"(1-1"):
        for parse in (parse_range_start, parse_range_end):
            with pytest.raises(InvalidStreamId):
                parse(text)


@pytest.mark.parametrize(
    ("text", "entry_id", "seq_is_chosen"),
    [
        (b"5-3", make_id(5, 3), False),
        (b"5", make_id(5, 0), False),
        (b"5-*", make_id(5, 0), True),
        (b"05-*", make_id(5, 0), True),
        (MAX_TEXT + b"-*", make_id(SEQ_MAX, 0), True),
    ],
)
def test_a_new_id_may_leave_its_seq_open(text, entry_id, seq_is_chosen):
    assert parse_new_id(text) == (entry_id, seq_is_chosen)


@pytest.mark.parametrize("text", [b"*", b"-*", b"5-1-*", b"5-*1", b"*-*", b"5*", b"5--*", b"18446744073709551616-*"])
def test_a_malformed_new_id_is_refused(text):
    with pytest.raises(InvalidStreamId):
        parse_new_id(text)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        (b"-", 0, 0),
        (b"+", ID_MAX, ID_MAX),
        (b"5", make_id(5, 0), make_id(5, SEQ_MAX)),
        (b"5-3", make_id(5, 3), make_id(5, 3)),
        (b"(5-3", make_id(5, 4), make_id(5, 2)),
        (b"(5", make_id(5, 1), make_id(5, SEQ_MAX - 1)),
        (b"(5-0", make_id(5, 1), make_id(4, SEQ_MAX)),
        (b"(5-" + MAX_TEXT, make_id(6, 0), make_id(5, SEQ_MAX - 1)),
    ],
)
def test_a_range_reads_its_ends(text, start, end):
    assert parse_range_start(text) == start
    assert parse_range_end(text) == end


def test_nothing_lies_beyond_the_first_and_the_last_id():
    with pytest.raises(CommandError, match=r"^ERR invalid start ID for the interval$"):
        parse_range_start(b"(" + MAX_TEXT + b"-" + MAX_TEXT)
    with pytest.raises(CommandError, match=r"^ERR invalid end ID for the interval$"):
        parse_range_end(b"(0-0")


@pytest.mark.parametrize("text", [b"(", b"(-", b"(+", b"((1", b"(1-*", b"(18446744073709551616"])
def test_a_malformed_exclusive_end_is_refused(text):
    for parse in (parse_range_start, parse_range_end):
        with pytest.raises(InvalidStreamId):
            parse(text)


def test_an_id_is_written_as_it_is_read():
    for text in (b"0-0", b"5-3", MAX_TEXT + b"-" + MAX_TEXT):
        assert format_id(parse_id(text)) == text


@pytest.mark.parametrize("first", [0, 8, 95, 995, 1_230, 999_990, 2**64 - 31])
@pytest.mark.parametrize("count", [1, 2, 30])
def test_consecutive_ids_are_written_as_single_ones_are(first, count):
    ids = range(7 << 64 | first, (7 << 64 | first) + count)
    expected = [format_id(entry_id) for entry_id in ids]
    parts = list(consecutive_parts(ids[0], count))
    assert [head + tail for head, tails in parts for tail in tails] == expected
    assert all(len({*map(len, tails)}) == 1 for _, tails in parts)
    assert format_ids(ids) == expected


def test_ids_of_several_milliseconds_are_written_as_single_ones_are():
    for ids in ([], [5 << 64], [5 << 64, 6 << 64], [5 << 64 | 2**64 - 1, 6 << 64], [1, 2, 4], [1, 3]):
        assert format_ids(ids) == [format_id(entry_id) for entry_id in ids]
