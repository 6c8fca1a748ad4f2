"""Lengths, strings and footers in RDB form, as Redis wrote them."""

import pytest

from streamd.rdb.bytes import (
    STRING_BYTES_MAX,
    BadData,
    BadFooter,
    Reader,
    body_of,
    checksum,
    decompressed,
    with_footer,
    write_double,
    write_int64,
    write_length,
    write_string,
)

# What Redis 8.10.2 answered to DUMP of "hello".
HELLO = b"\x00\x05hello\x0f\x00x\xf6\xbaz\xcb\x98\xdd\xf2"


def test_the_checksum_is_crc_64_jones():
    assert checksum(b"123456789") == 0xE9C6D914C4B8D9CA
    assert checksum(b"6789", checksum(b"12345")) == checksum(b"123456789")


@pytest.mark.parametrize(
    ("length", "size"), [(0, 1), (63, 1), (64, 2), (16383, 2), (16384, 5), (2**32 - 1, 5), (2**32, 9), (2**64 - 1, 9)]
)
def test_a_length_is_read_as_it_was_written(length, size):
    out = bytearray()
    write_length(out, length)

    assert len(out) == size
    assert Reader(bytes(out)).length() == length
    for cut in range(size):
        with pytest.raises(BadData):
            Reader(bytes(out[:cut])).length()


@pytest.mark.parametrize("size", [0, 1, 63, 64, 70_000])
def test_a_string_is_read_as_it_was_written(size):
    out = bytearray()
    write_string(out, b"x" * size)
    reader = Reader(bytes(out))

    assert reader.string() == b"x" * size
    assert reader.left() == 0


def test_numbers_are_read_as_they_were_written():
    out = bytearray()
    write_int64(out, -5)
    write_double(out, float("-inf"))
    reader = Reader(bytes(out))

    assert (reader.int64(), reader.double()) == (-5, float("-inf"))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xc0\xff", b"-1"),
        (b"\xc0\x7f", b"127"),
        (b"\xc1\x39\x30", b"12345"),
        (b"\xc1\x00\x80", b"-32768"),
        (b"\xc2\x00\x00\x00\x80", b"-2147483648"),
        (b"\x40\x03abc", b"abc"),
        (b"\xc3\x09\x40\x64\x01aa\xe0\x57\x00\x01aa", b"a" * 100),
    ],
)
def test_the_other_forms_of_strings_are_read(data, text):
    reader = Reader(data + b"behind")

    assert reader.string() == text
    assert reader.take(6) == b"behind"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x05abcd",
        b"\xc0",
        b"\xc4",
        b"\xbf",
        b"\x81" + b"\xff" * 8,
        b"\xc3\x02\x05\x00a",  # shorter than it says
        b"\xc3\x02\x00\x00a",  # longer than it says
        b"\xc3\x02\x03\x20\x00",  # refers to bytes in front of it
        b"\xc3\x02\x01\x01a",  # a literal that ends too early
        b"\xc3\x01\x09\xe0",  # a copy that ends too early
        b"\xc3\x02\x40\xb1\x00a",  # 177 bytes of 2
        b"\xc3\x81" + (STRING_BYTES_MAX + 1).to_bytes(8, "big") + b"\x81" + (STRING_BYTES_MAX + 1).to_bytes(8, "big"),
    ],
)
def test_damaged_strings_are_refused(data):
    with pytest.raises(BadData):
        Reader(data).string()


def test_a_copy_may_run_into_itself():
    assert decompressed(b"\x01ab\xe0\x00\x01", 11) == b"ab" * 5 + b"a"


def test_a_number_of_things_is_not_believed_beyond_the_bytes():
    assert Reader(b"\x02abcd").count(2) == 2
    with pytest.raises(BadData):
        Reader(b"\x03abcd").count(2)


def test_a_payload_of_redis_is_opened():
    reader = body_of(HELLO)

    assert (reader.byte(), reader.string(), reader.left()) == (0, b"hello", 0)
    assert with_footer(b"\x00\x05hello", 15) == HELLO


def test_a_checksum_of_zero_is_not_compared():
    assert body_of(b"\x00\x05hello\x0f\x00" + bytes(8)).left() == 7


@pytest.mark.parametrize(
    "payload", [b"", HELLO[:9], HELLO[:-1] + b"x", b"\x01" + HELLO[1:], with_footer(b"\x00\x05hello", 16)]
)
def test_a_wrong_footer_is_refused(payload):
    with pytest.raises(BadFooter):
        body_of(payload)
