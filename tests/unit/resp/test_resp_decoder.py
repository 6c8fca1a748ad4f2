"""The decoders keep their promises about limits, memory, cost and what they hold."""

import gc
import subprocess
import sys
import time
import tracemalloc

import pytest

from streamd.base.limits import BEFORE_AUTH, MIB, RequestLimits
from streamd.resp import decoder as decoder_module
from streamd.resp.decoder import Decoder
from streamd.resp.fast_decoder import FastDecoder

PING = b"*1\r\n$4\r\nPING\r\n"
both = pytest.mark.parametrize("kind", [Decoder, FastDecoder])


def encode(*words):
    return b"*%d\r\n%b" % (len(words), b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))


def refused(decoder, data):
    """What comes out before the error, and the error."""
    decoder.feed(data)
    return decoder.take(), str(decoder.error).removeprefix("ERR Protocol error: ")


@both
def test_nothing_is_decoded_after_an_error(kind):
    decoder = kind()
    assert refused(decoder, PING + b"*x\r\n" + PING) == ([[b"PING"]], "invalid multibulk length")

    decoder.feed(PING)

    assert decoder.next() is None
    assert decoder.take() == []
    assert str(decoder.error) == "ERR Protocol error: invalid multibulk length"


@both
def test_short_pieces_behind_long_ones_are_appended_to_what_is_left(kind):
    decoder = kind()
    requests = []
    for piece in (b"ECHO 0123", b"456789", b"\nECHO abc", b"d\n", PING):
        decoder.feed(piece)
        requests += decoder.take()
    assert requests == [[b"ECHO", b"0123456789"], [b"ECHO", b"abcd"], [b"PING"]]


@both
def test_limits_may_be_replaced_between_two_requests_that_came_together(kind):
    long = encode(*[b"x" * 20_000] * 11)
    decoder = kind(BEFORE_AUTH)
    decoder.feed(encode(b"AUTH", b"secret") + long + PING)
    assert decoder.next() == [b"AUTH", b"secret"]

    decoder.limits = RequestLimits()

    assert decoder.take() == [[b"x" * 20_000] * 11, [b"PING"]]


@both
@pytest.mark.parametrize(
    ("data", "error"),
    [
        (encode(*[b"x"] * 11), "unauthenticated multibulk length"),
        (PING * 30 + encode(*[b"x"] * 11) * 9, "unauthenticated multibulk length"),
        (encode(b"x" * 16_385), "unauthenticated bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*2147483648\r\n", "invalid multibulk length"),
    ],
)
def test_an_unauthenticated_client_has_small_limits(kind, data, error):
    assert refused(kind(BEFORE_AUTH), data)[1] == error


@both
def test_a_limit_holds_to_the_byte_and_to_the_word(kind):
    limits = RequestLimits(arguments_max=3, bulk_bytes_max=5, inline_bytes_max=10, request_bytes_max=12)
    for data in (
        encode(b"a", b"b", b"c"),
        encode(b"12345"),
        b"123456789\r\n",
        b"1234567890\n",
        encode(b"12345", b"12345", b"12"),
    ):
        decoder = kind(limits)
        decoder.feed(data * 20)
        assert len(decoder.take()) == 20
        assert decoder.error is None
    for data, error in (
        (encode(b"a", b"b", b"c", b"d"), "invalid multibulk length"),
        (encode(b"123456"), "invalid bulk length"),
        (b"1234567890\r\n"[:10] + b"x", "too big inline request"),
        (encode(b"12345", b"12345", b"123"), "too big request"),
    ):
        assert refused(kind(limits), data) == ([], error)


@both
@pytest.mark.parametrize(
    ("limits", "data", "error"),
    [
        (RequestLimits(arguments_max=3), encode(b"a", b"b", b"c", b"d"), "invalid multibulk length"),
        (RequestLimits(bulk_bytes_max=5), encode(b"a", b"123456"), "invalid bulk length"),
        (RequestLimits(inline_bytes_max=10), b"12345678901\n", "too big inline request"),
        (RequestLimits(request_bytes_max=12), encode(b"12345", b"12345", b"123"), "too big request"),
    ],
)
def test_each_limit_holds_by_itself(kind, limits, data, error):
    assert refused(kind(limits), data) == ([], error)
    assert refused(kind(limits), PING * 20 + data + PING) == ([[b"PING"]] * 20, error)


@both
@pytest.mark.parametrize(
    "data",
    [
        b"*1000000\r\n",
        b"*1\r\n$536870912\r\n",
        PING * 20 + b"*1000000\r\n",
        b"*1\r\n" * 20_000,
        PING * 20 + b"*1\r\n$536870912\r\n",
    ],
)
def test_a_header_alone_takes_no_memory(kind, data):
    decoder = kind()
    tracemalloc.start()
    try:
        decoder.feed(data)
        decoder.take()
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 64 * len(data) + 20_000


@both
def test_a_header_beyond_the_limit_is_never_shown_to_hiredis(kind):
    """It would make a list of 8 GB."""
    for type_byte in b"*~>|%":
        data = PING * 20 + b"%c1000000000\r\n" % type_byte + PING
        decoder = kind()
        tracemalloc.start()
        try:
            decoder.feed(data)
            decoder.take()
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()


@both
def test_a_long_word_is_held_once_while_it_arrives_and_not_copied_at_the_end(kind):
    chunk = bytes(64 * 1024)
    decoder = kind()
    decoder.feed(b"*2\r\n$3\r\nSET\r\n$%d\r\n" % (32 * MIB))
    assert decoder.take() == []
    tracemalloc.start()
    try:
        for _ in range(512):
            decoder.feed(chunk)
            assert decoder.take() == []
        assert decoder.buffered_bytes == 32 * MIB + 3
        decoder.feed(b"\r\n")
        [[_, value]] = decoder.take()
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(value) == 32 * MIB
    assert peak_bytes < 32 * MIB * 9 // 8 + MIB
    assert decoder.buffered_bytes == 0


@both
@pytest.mark.parametrize(
    "data",
    [encode(b"SET", b"k", bytes(2_000_000)), encode(*[b"w"] * 200_000), (b"a" * 60_000 + b"\n") * 30],
    ids=["a long word", "many words", "long lines"],
)
def test_the_cost_grows_with_the_input_and_not_with_its_square(kind, data):
    """Eight times the input in pieces of 16 bytes: about 8 times the CPU time, while the square would be 64 times."""

    def cpu_s(pieces):
        decoder = kind()
        start_s = time.process_time()
        for piece in pieces:
            decoder.feed(piece)
            decoder.take()
        return time.process_time() - start_s

    pieces = [data[i : i + 16] for i in range(0, len(data), 16)]
    eighth_s = min(cpu_s(pieces[: len(pieces) // 8]) for _ in range(3))
    assert cpu_s(pieces) < 24 * eighth_s


@both
@pytest.mark.parametrize("cut", range(len(encode(b"SET", b"key", b"value"))))
def test_the_rest_continues_in_another_decoder(kind, cut):
    data = encode(b"SET", b"key", b"value")
    first = kind()
    first.feed(PING + data[:cut])
    assert first.take() == [[b"PING"]]

    second = FastDecoder(RequestLimits(), first.rest())

    assert first.buffered_bytes == 0
    assert second.take() == []
    second.feed(data[cut:])
    assert second.take() == [[b"SET", b"key", b"value"]]
    first.feed(PING)
    assert first.take() == [[b"PING"]]


def test_the_rest_includes_the_part_of_a_long_word():
    word = bytes(range(256)) * 400
    data = encode(b"SET", b"k", word)
    decoder = Decoder()
    for at in range(0, 90_000, 30_000):
        decoder.feed(data[at : at + 30_000])
        assert decoder.next() is None

    assert decoder.rest() == data[:90_000]


@both
def test_buffered_bytes_are_what_was_not_delivered(kind):
    decoder = kind()
    decoder.feed(PING * 2 + b"*2\r\n$4\r\nECHO\r\n$100\r\nabc")
    assert decoder.buffered_bytes == len(PING) * 2 + 23

    decoder.take()

    assert decoder.buffered_bytes == len(b"ECHO") + len(b"abc")


@both
def test_a_decoder_between_two_requests_is_small(kind):
    decoder = kind()
    for _ in range(3):
        decoder.feed(PING * 1000)
        decoder.take()

    parts = [decoder, *(part for part in gc.get_referents(decoder) if not isinstance(part, type))]
    assert sum(map(sys.getsizeof, parts)) < 1_000


@both
def test_a_client_that_stops_within_a_request_leaves_no_large_chunk(kind):
    decoder = kind()
    decoder.feed(PING * 10_000 + b"*2\r\n$4\r\nECHO\r\n$4\r\nab")

    assert len(decoder.take()) == 10_000
    assert len(decoder._data) < decoder_module.DECODED_BYTES_MAX + 100


def test_without_hiredis_the_fast_decoder_works_all_the_same():
    script = """
import sys
sys.modules["hiredis"] = None
from streamd.resp import fast_decoder
decoder = fast_decoder.FastDecoder()
decoder.feed(b"*1\\r\\n$4\\r\\nPING\\r\\n" * 1000 + b"*")
assert decoder.take() == [[b"PING"]] * 1000
assert not hasattr(fast_decoder, "hiredis")
"""
    subprocess.run([sys.executable, "-c", script], check=True)
