"""All decoders deliver the same requests and the same error after every piece of any input."""

import random
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamd.base.limits import BEFORE_AUTH, RequestLimits
from streamd.resp import fast_decoder
from streamd.resp.decoder import Decoder
from streamd.resp.fast_decoder import FastDecoder
from tests.examples import examples

LIMITS = [
    RequestLimits(),
    BEFORE_AUTH,
    RequestLimits(arguments_max=3),
    RequestLimits(bulk_bytes_max=5),
    RequestLimits(request_bytes_max=12),
    RequestLimits(inline_bytes_max=5),
]
PARTS = [
    *(b"* $ + - : = ( ~ > % | # , _ ! 0 1 2 9 -1 01 \r \n \r\n \0 \xff ' \" \\ ".split(b" ")),
    b" ",
    b"*0\r\n",
    b"*-1\r\n",
    b"$-1\r\n",
    b"*1\r\n",
    b"+a\r\n",
    b"=5\r\ntxt:a\r\n",
    b"(12\r\n",
    b":1\r\n",
    b"_\r\n",
    b"#t\r\n",
    b"#f\r\n",
    b"-ERR\xff\r\n",
    b",1.5\r\n",
    b"%1\r\n",
    b"~1\r\n",
    b">1\r\n",
    b"|1\r\n",
    b"*99999\r\n",
    b"*999999\r\n",
    b"$3\r\nabcXY",
    b"PING\r\n",
]
word = st.one_of(st.binary(max_size=12), st.sampled_from(PARTS), st.sampled_from([b"XADD", b"*", b"$1", b"x" * 40]))
pipeline = st.lists(st.lists(word, max_size=5), min_size=1, max_size=6)


def encode(requests):
    return b"".join(
        b"*%d\r\n%b" % (len(words), b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))
        for words in requests
    )


@st.composite
def mutated(draw):
    """Some requests, some of their bytes replaced, removed or put between."""
    data = encode(draw(pipeline))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        part = draw(st.one_of(st.sampled_from(PARTS), st.binary(min_size=1, max_size=2)))
        gone = draw(st.sampled_from([0, 0, 1, 2, len(part)]))
        data = data[:at] + draw(st.sampled_from([part, part, b""])) + data[at + gone :]
    return data


@pytest.fixture(autouse=True)
def hiredis_for_the_shortest(monkeypatch):
    monkeypatch.setattr(fast_decoder, "HIREDIS_BYTES_MIN", 1)


def history(decoder, pieces, ask):
    """What was delivered, and the error, after each piece."""
    steps = []
    for piece in pieces:
        decoder.feed(piece)
        steps.append((ask(decoder), str(decoder.error)))
    return steps


def assert_same(pieces, limits):
    expected = history(Decoder(limits), pieces, lambda decoder: list(iter(decoder.next, None)))
    assert history(Decoder(limits), pieces, Decoder.take) == expected
    assert history(FastDecoder(limits), pieces, FastDecoder.take) == expected


def cut(data, places):
    places = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


@settings(max_examples=examples(700), deadline=None)
@given(mutated(), st.lists(st.integers(0, 10_000), max_size=4), st.sampled_from(LIMITS))
@example(b"*3\r\n=7\r\ntxt:abc\r\n+$$$$$$$$\r\n$1\r\naXY", [], RequestLimits())
@example(b"*1\r\n$4\r\n#t\r\n\r\n*\r\n", [1, 2, 14], RequestLimits())
@example(b"*1\r\n$4\r\nPING\r\n#f\r\n#t\r\n*1\r\n", [], RequestLimits())
@example(b"*1\r\n$4\r\nPING\r\n#t\r\n*5\r\n", [], RequestLimits())
@example(b"*1\r\n$4\r\nPING\r\n*2\r\n$1\r\na\r\n", [], RequestLimits())
@example(b"*1\r\n$4\r\nPING\r\n%1\r\n$1\r\na\r\n$1\r\nb\r\n", [], RequestLimits())
def test_decoders_agree_on_any_input_cut_anywhere(data, places, limits):
    assert_same(cut(data, places), limits)
    # Nothing of it is left in the reader that connections share.
    assert_same([b"*1\r\n$4\r\nPING\r\n"], RequestLimits())


@settings(max_examples=examples(150), deadline=None)
@given(mutated(), st.sampled_from(LIMITS))
def test_decoders_agree_on_any_input_byte_by_byte(data, limits):
    assert_same([data[i : i + 1] for i in range(len(data))], limits)


@pytest.mark.parametrize(
    "pieces",
    [
        [b"*10", b"\r\n" + b"$1\r\na\r\n" * 10 + b"*0\r\nPI", b"NG\r\n"],
        [b"*10", b"\r\n" + b"$1\r\na\r\n" * 10 + b"*\r\nPI", b"NG\r\n"],
        [b"*2\r\n$10", b"\r\n0123456789\r\n$\r\n", b"abc\r\n"],
        [b"PING", b"\r\n*\r\n"],
    ],
)
def test_a_line_that_came_in_two_pieces_does_not_hide_the_end_of_the_next(pieces):
    assert_same(pieces, RequestLimits())


def test_what_one_connection_left_incomplete_does_not_reach_another():
    ping = encode([[b"PING"]])
    for missing in range(4 * len(ping)):
        for left in (ping + b"*1\r\n$%d\r\n" % missing, ping + b"*%d\r\n" % (missing + 1), ping + b"*2\r\n$1\r\na\r\n"):
            assert_same([left], RequestLimits())
            assert_same([ping * 3], RequestLimits())


def test_decoders_agree_on_every_change_of_one_byte():
    data = encode([[b"XADD", b"s", b"*", b"=+", b"(~>|%"], [], [b"", b"0123456789"], [b"\r\n$1\r\n"]])
    for at in range(len(data)):
        for byte in range(256):
            assert_same([data[:at] + bytes([byte]) + data[at + 1 :]], RequestLimits())


def test_decoders_agree_on_every_short_sequence_of_types():
    pieces = [
        b"*1\r\n",
        b"*0\r\n",
        b"$1\r\na\r\n",
        b"+a\r\n",
        b"=5\r\ntxt:a\r\n",
        b"~1\r\n",
        b"#t\r\n",
        b"%1\r\n",
        b"(1\r\n",
    ]
    sequences = [b""]
    for _ in range(4):
        sequences = [sequence + piece for sequence in sequences for piece in pieces]
        for sequence in sequences:
            assert_same([sequence], RequestLimits())


@pytest.mark.parametrize("seed", range(4))
def test_decoders_agree_on_long_pipelines_in_large_chunks(seed, monkeypatch):
    monkeypatch.undo()
    choose = random.Random(seed)
    words = [b"XADD", b"s", b"*", b"a=b", b"\r\n*1\r\n", b"v" * 64, b"v" * 700, b"v" * 5_000, b"v" * 70_000, b""]
    weights = [30, 30, 30, 10, 1, 30, 3, 1, 0.1, 1]
    requests = [choose.choices(words, weights, k=choose.randrange(1, 7)) for _ in range(3_000)]
    data = encode(requests)
    for chunk in (1_000, 65_536, 262_144):
        decoder = FastDecoder()
        delivered = []
        for at in range(0, len(data), chunk):
            decoder.feed(data[at : at + chunk])
            delivered += decoder.take()
        assert delivered == requests
        assert decoder.error is None
        assert decoder.buffered_bytes == 0


@pytest.mark.parametrize("odd", [b"", b"a\r\nb", b"\r\n", b"$3\r\n", b"\r", b"x" * 1_500, b"*2\r\n"])
def test_a_request_of_many_words_is_the_same_however_it_is_cut(odd):
    words = [b"DEL", *(b"word:%d" % number for number in range(40))]
    words[20] = odd
    data = encode([words, [b"PING"]])
    broken = data.replace(b"$7\r\nword:30", b"$07\r\nword:30")
    for sent in (data, broken):
        plain = Decoder()
        plain.feed(sent)
        expected, error = plain.take(), str(plain.error)
        assert (error == "None") == (sent is data)
        for size in (*range(1, 60), 200, 500, len(sent)):
            for decoder in (Decoder(), FastDecoder()):
                requests = []
                for at in range(0, len(sent), size):
                    decoder.feed(sent[at : at + size])
                    requests += decoder.take()
                assert requests == expected
                assert str(decoder.error) == error
