"""Encodes replies, in both protocol versions."""

from collections.abc import Callable, Iterator
from typing import Final

from streamd.base.errors import CommandError
from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.resp.floats import format_float
from streamd.resp.types import (
    NO_REPLY,
    NULL_ARRAY,
    BigNumber,
    Later,
    LongArray,
    LongDouble,
    Pairs,
    Parts,
    Pause,
    Push,
    Raw,
    Reply,
    SetReply,
    Verbatim,
    _Sentinel,
)

Encoder = Callable[[Reply], bytes]

_LINE_ENDS: Final = str.maketrans("\r\n", "  ")


def _line(text: str) -> bytes:
    """Encode text for a line of the protocol: line ends become blanks; bytes that were no UTF-8 stay as they were."""
    return text.translate(_LINE_ENDS).encode("utf-8", "surrogateescape")


# For speed: short bulk strings are most of what is sent, and to join three parts is quicker than to format one.
SHORT_BYTES_MAX: Final = 1023
BULK_HEADERS: Final = [b"$%d\r\n" % length for length in range(SHORT_BYTES_MAX + 1)]


def bulk(data: bytes) -> bytes:
    """Return a bulk string."""
    length = len(data)
    if length <= SHORT_BYTES_MAX:
        return BULK_HEADERS[length] + data + b"\r\n"
    return b"".join((b"$%d\r\n" % length, data, b"\r\n"))


def _integer(number: int) -> bytes:
    return b":%d\r\n" % number


_STATUSES: Final = ("OK", "QUEUED", "PONG", "string", "none", "stream", "hash")
_STATUS: Final = {text: b"+%b\r\n" % text.encode() for text in _STATUSES}


def _status(text: str) -> bytes:
    return _STATUS.get(text) or b"+%b\r\n" % _line(text)


def _error(error: CommandError) -> bytes:
    return b"-%b\r\n" % _line(str(error).rstrip("\r\n"))


def small_array(items: list[Reply]) -> bytes | None:
    """Return an array of short strings, integers and statuses, in either version; None if it has others.

    (The replies of most transactions: it takes half of the time of an encoder for each.)
    """
    pieces = [b"*%d\r\n" % len(items)]
    for item in items:
        kind = type(item)
        if kind is bytes and len(item) <= SHORT_BYTES_MAX:
            pieces.append(BULK_HEADERS[len(item)] + item + b"\r\n")
        elif kind is int:
            pieces.append(b":%d\r\n" % item)
        elif kind is str:
            pieces.append(_status(item))
        else:
            return None
    return b"".join(pieces)


def _raw(reply: Raw) -> bytes:
    return reply.data


def _parts(reply: Parts) -> bytes:
    return b"".join(reply.pieces)


class _Encoders(dict[type, Encoder]):
    """Which function encodes a type; a subclass is looked up once."""

    def __missing__(self, kind: type) -> Encoder:
        for base in kind.__mro__[1:]:
            encoder = self.get(base)
            if encoder is not None:
                self[kind] = encoder
                return encoder
        raise TypeError(f"no reply: {kind.__name__}")


def _for_both() -> _Encoders:
    encoders = _Encoders()
    encoders.update({bytes: bulk, int: _integer, str: _status, CommandError: _error, Raw: _raw, Parts: _parts})
    return encoders


def _pairs(encoders: _Encoders, head: bytes, pair_head: bytes, items: list[tuple[Reply, Reply]]) -> bytes:
    """Encode pairs, joined only once, because entries of streams are replied in pairs."""
    pieces = [head % len(items)]
    for key, value in items:
        if type(key) is bytes and len(key) <= SHORT_BYTES_MAX:
            pieces += (pair_head, BULK_HEADERS[len(key)], key, b"\r\n")
        else:
            pieces += (pair_head, encoders[type(key)](key))
        if type(value) is Parts:
            pieces += value.pieces
        else:
            pieces.append(encoders[type(value)](value))
    return b"".join(pieces)


def _resp2() -> _Encoders:
    encoders = _for_both()

    def array(items: list[Reply] | tuple[Reply, ...]) -> bytes:
        return b"*%d\r\n%b" % (len(items), b"".join([encoders[type(item)](item) for item in items]))

    def flat_map(reply: dict[Reply, Reply]) -> bytes:
        return array([word for pair in reply.items() for word in pair])

    def sentinel(reply: _Sentinel) -> bytes:
        return b"" if reply is NO_REPLY else b"*-1\r\n"

    encoders.update(
        {
            type(None): lambda _: b"$-1\r\n",
            list: array,
            tuple: array,
            dict: flat_map,
            SetReply: lambda reply: array(reply.items),
            Push: lambda reply: array(reply.items),
            Pairs: lambda reply: _pairs(encoders, b"*%d\r\n", b"*2\r\n", reply.items),
            float: lambda number: bulk(format_float(number)),
            bool: _integer,
            Verbatim: lambda reply: bulk(reply.data),
            BigNumber: lambda reply: bulk(reply.digits),
            LongDouble: lambda reply: bulk(reply.digits),
            _Sentinel: sentinel,
        }
    )
    return encoders


def _resp3() -> _Encoders:
    encoders = _for_both()

    def joined(items: list[Reply] | tuple[Reply, ...]) -> bytes:
        return b"".join([encoders[type(item)](item) for item in items])

    def array(items: list[Reply] | tuple[Reply, ...]) -> bytes:
        return b"*%d\r\n%b" % (len(items), joined(items))

    def pairs(items: list[tuple[Reply, Reply]]) -> bytes:
        return _pairs(encoders, b"%%%d\r\n", b"", items)

    def sentinel(reply: _Sentinel) -> bytes:
        return b"" if reply is NO_REPLY else b"_\r\n"

    encoders.update(
        {
            type(None): lambda _: b"_\r\n",
            list: array,
            tuple: array,
            dict: lambda reply: pairs(list(reply.items())),
            SetReply: lambda reply: b"~%d\r\n%b" % (len(reply.items), joined(reply.items)),
            Push: lambda reply: b">%d\r\n%b" % (len(reply.items), joined(reply.items)),
            Pairs: lambda reply: pairs(reply.items),
            float: lambda number: b",%b\r\n" % format_float(number),
            bool: lambda truth: b"#t\r\n" if truth else b"#f\r\n",
            LongDouble: lambda reply: b",%b\r\n" % reply.digits,
            BigNumber: lambda reply: b"(%b\r\n" % reply.digits,
            Verbatim: lambda reply: b"=%d\r\n%b:%b\r\n" % (len(reply.data) + 4, reply.format.encode(), reply.data),
            _Sentinel: sentinel,
        }
    )
    return encoders


def _but_long(whole: _Encoders, set_head: bytes) -> _Encoders:
    """Return encoders that raise TypeError for an array or a set of many items; those within others they make whole."""

    def several(items: list[Reply]) -> bytes:
        if len(items) > SLICED_ITEMS_MIN:
            raise TypeError("made in slices")
        return b"%d\r\n%b" % (len(items), b"".join([whole[type(item)](item) for item in items]))

    encoders = _Encoders(whole)
    encoders[list] = lambda items: b"*" + several(items)
    encoders[SetReply] = lambda reply: set_head + several(reply.items)
    return encoders


# By the protocol's version, then by the reply's type. (`Sliced` is in none: what it becomes depends on the client.)
_WHOLE: Final = (_for_both(), _for_both(), _resp2(), _resp3())
for _protocol, _encoders in enumerate(_WHOLE):
    for _long in (LongArray, Later):
        _encoders[_long] = lambda reply, protocol=_protocol: _joined(encode_pieces(reply, protocol))  # type: ignore[misc]
# The same, but for replies of many items: a TypeError says that one may have to be made in slices.
ENCODERS: Final = (*_WHOLE[:2], _but_long(_WHOLE[2], b"*"), _but_long(_WHOLE[3], b"~"))
assert NULL_ARRAY is not NO_REPLY


def encode(reply: Reply, protocol: int) -> bytes:
    """A reply as it is sent to a client that speaks protocol 2 or 3.

    Each kind of value is in tests/unit/resp/test_resp_encoder.py. Raises: TypeError for a value that is no reply.
    """
    return _WHOLE[protocol][type(reply)](reply)


def _joined(pieces: Iterator[bytes | Pause]) -> bytes:
    return b"".join([piece for piece in pieces if type(piece) is bytes])


def encode_pieces(reply: Reply, protocol: int) -> Iterator[bytes | Pause]:
    """Yield a long reply piece by piece, as it is sent; an empty piece is work that has led to nothing yet.

    Long arrays are looked for where commands put them: at the top, in the values of dicts and of Pairs, and where the
    items of a long array are dicts or lists that have some.
    """
    kind = type(reply)
    encoders = _WHOLE[protocol]
    if kind is LongArray:
        count = 0
        for more in (reply.count,) if isinstance(reply.count, int) else reply.count:
            count += more
            yield b""
        if protocol > 2:
            head = b"%%%d\r\n" if reply.is_map else b"~%d\r\n" if reply.is_set else b"*%d\r\n"
            yield head % count
        else:
            yield b"*%d\r\n" % (2 * count if reply.is_map else count)
        for part in reply.parts:
            if type(part) is bytes or type(part) is Pause:
                yield part
            elif part and type(part[0]) is dict and _has_long(part[0]):
                for item in part:
                    yield from encode_pieces(item, protocol)
            else:
                yield b"".join([encoders[type(item)](item) for item in part])
    elif kind is Later:
        for step in reply.steps:
            yield b"" if step is None else step if type(step) is Pause else encoders[type(step)](step)
    elif kind is dict:
        yield b"%%%d\r\n" % len(reply) if protocol > 2 else b"*%d\r\n" % (2 * len(reply))
        for key, value in reply.items():
            yield encoders[type(key)](key)
            yield from encode_pieces(value, protocol)
    elif kind is Pairs:
        yield (b"%%%d\r\n" if protocol > 2 else b"*%d\r\n") % len(reply.items)
        for key, value in reply.items:
            yield (b"" if protocol > 2 else b"*2\r\n") + encoders[type(key)](key)
            yield from encode_pieces(value, protocol)
    elif kind is Parts:
        yield from reply.pieces
    else:
        yield encoders[kind](reply)


def _has_long(item: dict[Reply, Reply]) -> bool:
    return any(type(value) is LongArray for value in item.values())
