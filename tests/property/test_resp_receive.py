"""FastDecoder.receive gives what the strict decoder gives, whether or not it recognises a request."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamd.base.limits import RequestLimits
from streamd.resp.decoder import Decoder
from streamd.resp.fast_decoder import FastDecoder
from streamd.resp.shape import shape_of

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


def received(decoder: Decoder, chunks: list[bytes]) -> list[object]:
    seen: list[object] = []
    for chunk in chunks:
        if isinstance(decoder, FastDecoder):
            requests = decoder.receive(chunk)
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


@settings(max_examples=400, deadline=None)
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


@settings(max_examples=200, deadline=None)
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


def test_every_byte_of_a_header_counts():
    chunk = plain(b"SET", b"key", b"x" * 10) * 3
    for at in range(len(chunk)):
        for byte in (b"\x00", b"9", b"\xff"):
            chunks = [chunk, chunk, chunk[:at] + byte + chunk[at + 1 :]]
            assert received(FastDecoder(), chunks) == received(Decoder(), chunks)


def test_a_pipeline_is_not_recognised_under_other_limits():
    decoder = FastDecoder()
    chunk = plain(b"x" * 30) * 20
    assert decoder.receive(chunk) == decoder.receive(chunk) == decoder.receive(chunk) == [[b"x" * 30]] * 20
    decoder.limits = RequestLimits(bulk_bytes_max=20)
    assert decoder.receive(chunk) == []
    assert decoder.error is not None


def test_a_long_request_has_no_shape():
    assert shape_of([b"x" * 2_000]) is None
    assert shape_of([b""] * 200) is None
    shape = shape_of([b"x" * 900])
    assert shape is not None
    assert shape.cut(plain(b"x" * 900) * 50) == [[b"x" * 900]] * 50


def test_a_request_is_not_recognised_under_other_limits():
    decoder = FastDecoder()
    request = b"*1\r\n$30\r\n" + b"x" * 30 + b"\r\n"
    assert decoder.receive(request) == decoder.receive(request) == [[b"x" * 30]]
    decoder.limits = RequestLimits(bulk_bytes_max=20)
    assert decoder.receive(request) == []
    assert decoder.error is not None
