"""Every request of the table is decoded the same, however the input is cut and whichever decoder reads it."""

import pytest

from streamd.resp import fast_decoder
from streamd.resp.decoder import Decoder
from streamd.resp.fast_decoder import FastDecoder
from tests.protocol.request_table import ACCEPTED, REFUSED


def by_next(decoder):
    return list(iter(decoder.next, None))


WAYS = {
    "strict, one at a time": (Decoder, by_next),
    "strict": (Decoder, Decoder.take),
    "fast": (FastDecoder, FastDecoder.take),
}
TABLE = [*((data, requests, None) for data, requests in ACCEPTED), *REFUSED]


@pytest.fixture(params=WAYS)
def decode(request, monkeypatch):
    monkeypatch.setattr(fast_decoder, "HIREDIS_BYTES_MIN", 1)
    kind, ask = WAYS[request.param]

    def decode(pieces):
        decoder = kind()
        requests = []
        for piece in pieces:
            decoder.feed(piece)
            requests += ask(decoder)
        return requests, decoder.error and str(decoder.error)

    return decode


def result(requests, error):
    return requests, error and f"ERR Protocol error: {error}"


@pytest.mark.parametrize(("data", "requests", "error"), TABLE, ids=lambda value: repr(value)[:40])
def test_a_request_is_decoded_whole(decode, data, requests, error):
    assert decode([data]) == result(requests, error)


@pytest.mark.parametrize(("data", "requests", "error"), TABLE, ids=lambda value: repr(value)[:40])
def test_a_request_is_decoded_byte_by_byte(decode, data, requests, error):
    assert decode([data[i : i + 1] for i in range(len(data))]) == result(requests, error)


@pytest.mark.parametrize(("data", "requests", "error"), TABLE, ids=lambda value: repr(value)[:40])
def test_a_request_is_decoded_split_at_every_byte(decode, data, requests, error):
    for cut in range(0, len(data), 1 + len(data) // 2000):
        assert decode([data[:cut], data[cut:]]) == result(requests, error), cut
