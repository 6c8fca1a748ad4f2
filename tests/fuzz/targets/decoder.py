"""The fast decoder delivers the same requests and the same error as the strict one, after every piece of any input.

Input: a byte that chooses the limits, a byte that says how the rest is cut into pieces, then what a client sends.
"""

from streamd.base.limits import BEFORE_AUTH, RequestLimits
from streamd.resp import fast_decoder
from streamd.resp.decoder import Decoder
from streamd.resp.fast_decoder import FastDecoder
from streamd.resp.template import RequestColumns

LIMITS = [
    RequestLimits(),
    BEFORE_AUTH,
    RequestLimits(arguments_max=3),
    RequestLimits(bulk_bytes_max=5),
    RequestLimits(request_bytes_max=12),
    RequestLimits(inline_bytes_max=5),
]
WORDS = [b"*1\r\n", b"$3\r\nabc\r\n", b"+a\r\n", b"=5\r\ntxt:a\r\n", b"~1\r\n", b">1\r\n", b"|1\r\n", b"%1\r\n",
         b"#t\r\n", b"$-1\r\n", b"*99999\r\n", b"(12\r\n", b"PING\r\n", b"\r\n", b"\\x", b"'", b'"']  # fmt: skip

Steps = list[tuple[list[list[bytes]], str]]


def pieces_of(data: bytes, size: int) -> list[bytes]:
    """Return the data in pieces of `size` bytes, whole for 0."""
    return [data[at : at + size] for at in range(0, len(data), size)] if size else [data]


def strict(pieces: list[bytes], limits: RequestLimits) -> Steps:
    """Return what the definition delivers, and its error, after each piece."""
    decoder, steps = Decoder(limits), []
    for piece in pieces:
        decoder.feed(piece)
        steps.append((list(iter(decoder.next, None)), str(decoder.error)))
    return steps


def fast(pieces: list[bytes], limits: RequestLimits) -> Steps:
    """Return what a connection's decoder delivers, in the way in which connections ask it."""
    decoder, steps = FastDecoder(limits), []
    for piece in pieces:
        requests = decoder.receive(piece)
        rows = requests.rows() if isinstance(requests, RequestColumns) else requests
        if isinstance(requests, RequestColumns):
            assert (len(requests.first), requests.count) == (len(rows[0]), len(rows))
        steps.append((rows, str(decoder.error)))
    return steps


def check(data: bytes) -> None:
    """Raise AssertionError unless all decoders agree."""
    if len(data) < 3:
        return
    limits, sent = LIMITS[data[0] % len(LIMITS)], data[2:]
    fast_decoder.HIREDIS_BYTES_MIN = min(fast_decoder.HIREDIS_BYTES_MIN, 1)  # also for the shortest
    for size in (0, 1 + data[1] % 60):
        pieces = pieces_of(sent, size)
        assert fast(pieces, limits) == strict(pieces, limits)
    # Sent twice in two chunks as long as each other, it may have a shape; and nothing is left in the shared reader.
    assert fast([sent, sent, sent], limits) == strict([sent, sent, sent], limits)
    ping = [b"*1\r\n$4\r\nPING\r\n"]
    assert fast(ping, LIMITS[0]) == strict(ping, LIMITS[0])
