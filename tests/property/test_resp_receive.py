"""FastDecoder.receive gives what the strict decoder gives, whether or not it recognises a request."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamd.base.limits import RequestLimits
from streamd.resp.decoder import Decoder
from streamd.resp.fast_decoder import ROWS_MIN, FastDecoder
from streamd.resp.shape import shape_of
from streamd.resp.template import RequestColumns
from tests.examples import examples

WORDS = st.sampled_from([b"", b"a", b"b", b"*", b"$1", b"\r\n", b"ab\r\n$1\r\nx", b"x" * 40])
PLAIN = st.lists(WORDS, min_size=1, max_size=4).map(
    lambda words: b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
)
ODD = st.sampled_from(
    [
        b"PING\r\n",
        b"PONG\r\n",
        b"*0\r\n",
        b"*0\r\n*1\r\n$1\r\na\r\n",
        b"*1\r\n$1\r\na**",
        b"*1\r\n$1\r\nbxx",
        b"\r\n",
        b"*1\r\n!",
        b"*1\r",
    ]
)
CHUNKS = st.lists(
    st.one_of(PLAIN, PLAIN, st.lists(PLAIN, max_size=3).map(b"".join), ODD, st.binary(max_size=9)), max_size=8
)


def rows_of(requests: list[list[bytes]] | RequestColumns) -> list[list[bytes]]:
    return requests.rows() if isinstance(requests, RequestColumns) else requests


def received(decoder: Decoder, chunks: list[bytes]) -> list[object]:
    seen: list[object] = []
    for chunk in chunks:
        if isinstance(decoder, FastDecoder):
            requests = rows_of(decoder.receive(chunk))
        else:
            decoder.feed(chunk)
            requests = decoder.take()
        for request in requests:
            seen.append(list(request))
            request.append(b"who got it may change it")
        seen.append((str(decoder.error), decoder.buffered_bytes))
        if decoder.error is not None:
            break
    return seen


@settings(max_examples=examples(400), deadline=None)
@given(CHUNKS)
@example([b"*0\r\n", b"*1\r\n$1\r\na\r\n"])
@example([b"*1\r\n$1\r\na\r\n", b"*1\r\n$1\r\nb\r\n", b"*1\r\n$1\r\n", b"c\r\n", b"*1\r\n$1\r\nd\r\n"])
@example([b"*1\r\n$1\r\na\r\n", b"*2\r\n$1\r\na\r\n", b"*1\r\n$1\r\nb\r\n"])
@example([b"*2\r\n$1\r\n%b\r\n$1\r\n%b\r\n" % (word, other) for word in (b"a", b"b", b"c") for other in (b"x", b"y")])
@example([b"*2\r\n$1\r\na\r\n$2\r\nbb\r\n", b"*2\r\n$1\r\nb\r\n$2\r\nbb\r\n", b"*2\r\n$2\r\nbb\r\n$1\r\nb\r\n"])
@example([b"*1\r\n$1\r\na\r\n", b"*1\r\n$2\r\na\r\n", b"*1\r\n$1\r\nb\r\n"])
def test_it_gives_what_the_strict_decoder_gives(chunks: list[bytes]):
    assert received(FastDecoder(), chunks) == received(Decoder(), chunks)
    doubled = [chunk for chunk in chunks for _ in range(2)]
    assert received(FastDecoder(), doubled) == received(Decoder(), doubled)


def plain(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


LENGTHS = st.lists(st.sampled_from([0, 1, 2, 9, 10, 300]), min_size=1, max_size=5)


@settings(max_examples=examples(200), deadline=None)
@given(LENGTHS, st.lists(st.integers(1, 90), min_size=1, max_size=5), st.data())
def test_pipelines_of_one_shape_are_cut_as_the_strict_decoder_does(lengths: list[int], counts: list[int], data):
    """Each chunk twice, so that its shape is known, then with one byte changed, then once more."""
    chunks = []
    for count in counts:
        words = data.draw(st.binary(min_size=sum(lengths), max_size=sum(lengths)))
        request = plain(*[words[sum(lengths[:at]) : sum(lengths[: at + 1])] for at in range(len(lengths))])
        chunk = request * count
        at = data.draw(st.integers(0, len(chunk) - 1))
        changed = chunk[:at] + data.draw(st.sampled_from([b"*", b"1", b"2", b"\r", b"$", b"\x00"])) + chunk[at + 1 :]
        chunks += [chunk, chunk, changed, chunk]
    assert received(FastDecoder(), chunks) == received(Decoder(), chunks)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, 12, 300]), min_size=3, max_size=9), st.integers(1, 60), st.data())
def test_pipelines_that_share_most_words_are_cut_as_the_strict_decoder_does(lengths: list[int], count: int, data):
    """Words that differ within a chunk, from one chunk to the next, or in one byte that should be a header's."""
    source = data.draw(st.randoms(use_true_random=False))
    own = data.draw(st.sets(st.integers(0, len(lengths) - 1), max_size=3))
    shared = [source.randbytes(length) for length in lengths]
    chunks = []
    for _ in range(data.draw(st.integers(3, 6))):
        requests = [
            plain(*[source.randbytes(len(word)) if at in own else word for at, word in enumerate(shared)])
            for _ in range(max(2, source.choice([count, count, count - 1])))
        ]
        chunks.append(b"".join(requests))
        if source.random() < 0.3:  # another one of what was the same so far
            at = source.randrange(len(shared))
            shared[at] = source.randbytes(len(shared[at]))
        if source.random() < 0.3:
            at = source.randrange(len(chunks[-1]))
            changed = chunks[-1][:at] + source.choice([b"*", b"1", b"2", b"\r", b"$", b"\x00"]) + chunks[-1][at + 1 :]
            chunks.append(changed)
    chunks = [chunks[0], *chunks]
    assert received(FastDecoder(), chunks) == received(Decoder(), chunks)


def test_requests_of_many_clients_share_the_words_that_are_the_same_in_all_of_them():
    decoders = [FastDecoder(), FastDecoder()]
    numbers = iter(range(1_000))
    seen = []
    for _ in range(5):
        for decoder in decoders:
            chunk = b"".join([plain(b"XADD", b"s", b"*", b"f", b"%04d" % next(numbers)) for _ in range(8)])
            requests = rows_of(decoder.receive(chunk))
            assert [request[:4] for request in requests] == [[b"XADD", b"s", b"*", b"f"]] * 8
            seen.append(requests)
    assert [int(request[4]) for requests in seen for request in requests] == [*range(80)]
    assert len({id(word) for requests in seen[-2:] for request in requests for word in request[:4]}) == 4


def test_a_template_stays_known_while_lengths_change_for_a_moment():
    decoder = FastDecoder()
    wide, narrow = plain(b"SET", b"key", b"10") * 9, plain(b"SET", b"key", b"9") * 4 + plain(b"SET", b"key", b"10") * 5
    for chunk in (wide, wide, wide, narrow, narrow, narrow):
        assert len(rows_of(decoder.receive(chunk))) == 9
    template = decoder._template
    assert template is not None
    assert rows_of(decoder.receive(wide)) == [[b"SET", b"key", b"10"]] * 9


def test_every_byte_of_a_header_counts():
    chunk = plain(b"SET", b"key", b"x" * 10) * 3
    for at in range(len(chunk)):
        for byte in (b"\x00", b"9", b"\xff"):
            chunks = [chunk, chunk, chunk[:at] + byte + chunk[at + 1 :]]
            assert received(FastDecoder(), chunks) == received(Decoder(), chunks)


def test_a_pipeline_is_not_recognised_under_other_limits():
    decoder = FastDecoder()
    chunk = plain(b"x" * 30) * 20
    assert [rows_of(decoder.receive(chunk)) for _ in range(3)] == [[[b"x" * 30]] * 20] * 3
    decoder.limits = RequestLimits(bulk_bytes_max=20)
    assert decoder.receive(chunk) == []
    assert decoder.error is not None


def test_a_long_request_has_no_shape():
    assert shape_of([b"x" * 2_000]) is None
    assert shape_of([b""] * 200) is None
    shape = shape_of([b"x" * 900])
    assert shape is not None
    assert shape.cut_words(plain(b"x" * 900)) == (b"x" * 900,)


def test_a_request_is_not_recognised_under_other_limits():
    decoder = FastDecoder()
    request = b"*1\r\n$30\r\n" + b"x" * 30 + b"\r\n"
    assert decoder.receive(request) == decoder.receive(request) == [[b"x" * 30]]
    decoder.limits = RequestLimits(bulk_bytes_max=20)
    assert decoder.receive(request) == []
    assert decoder.error is not None


@pytest.mark.interpreted(reason="counts the calls of a method")
@pytest.mark.parametrize("count", range(2, ROWS_MIN))
@pytest.mark.parametrize("is_asked_for_rows", [False, True])
def test_of_few_requests_of_a_known_template_nothing_is_learned_again(monkeypatch, count, is_asked_for_rows):
    learned: list[int] = []
    learn = FastDecoder._learn

    def noted(decoder: FastDecoder, requests: list[list[bytes]]) -> None:
        learned.append(len(requests))
        learn(decoder, requests)

    monkeypatch.setattr(FastDecoder, "_learn", noted)
    decoder = FastDecoder()
    few = b"".join([plain(b"SET", b"k", b"%d" % number) for number in range(count)])
    for _ in range(4):
        decoder.receive(few, is_shared=False)
    if is_asked_for_rows:
        assert decoder._template is not None
        decoder._template.is_asked_for_rows = True
    before = len(learned)
    for _ in range(4):
        assert rows_of(decoder.receive(few, is_shared=is_asked_for_rows)) == [
            [b"SET", b"k", b"%d" % number] for number in range(count)
        ]
    assert len(learned) == before

    # What came alone, or is another command of the same size, is learned.
    longer = [plain(b"SET", key, b"x" * length) for key in (b"k", b"kk") for length in range(len(few))]
    alone = next(request for request in longer if len(request) == len(few))
    for _ in range(3):
        decoder.receive(alone, is_shared=False)
    assert decoder._shape is not None
    assert decoder._shape.size_bytes == len(few)
    other = b"".join([plain(b"GET", b"k", b"%d" % number) for number in range(count)])
    for _ in range(3):
        decoder.receive(other, is_shared=False)
    assert decoder._template is not None
    assert decoder._template.places == (0, 2)
