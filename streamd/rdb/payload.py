"""DUMP payloads: one value, with a version and a checksum behind it."""

from collections.abc import Callable, Iterator
from typing import Final

from streamd.base.errors import FixedError
from streamd.data.types import KeyValue
from streamd.rdb.bytes import body_of, checksum, footer, with_footer
from streamd.rdb.values import kind_of, pieces_of, read_value
from streamd.stream.stream import Stream

# As much as RESTORE takes by default, and Redis's clients expect.
PAYLOAD_BYTES_MAX: Final = 512 * 1024 * 1024


class TooLarge(FixedError):
    """A value whose payload nobody could restore."""

    line = "ERR the payload of this value would have more than 512 MB, which RESTORE does not take; read it in parts"


def payload_of(value: KeyValue) -> bytes:
    """Return the payload of a value; its version is the earliest that has all of it. Raises: TooLarge."""
    kind, version = kind_of(value)
    return with_footer(b"".join([bytes((kind,)), *_bounded(pieces_of(kind, value))]), version)


def _bounded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces until they are too large. Raises: TooLarge."""
    left = PAYLOAD_BYTES_MAX
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise TooLarge
        yield piece


def payload_in_steps(value: KeyValue) -> Iterator[bytes | None]:
    """Yield None, each time after well below a millisecond, and then the payload of a value, which must not change.

    Raises: TooLarge.
    """
    kind, version = kind_of(value)
    made = [bytes((kind,))]
    so_far = checksum(made[0])
    for piece in _bounded(pieces_of(kind, value)):
        made.append(piece)
        so_far = checksum(piece, so_far)
        yield None
    yield b"".join([*made, footer(version, so_far)])


def value_in(payload: bytes, new_stream: Callable[[], Stream], now_ms: int | None = None) -> KeyValue:
    """Return the value in a payload. new_stream, now_ms: see `read_value`. Raises: BadFooter, BadData."""
    reader = body_of(payload)
    return read_value(reader.byte(), reader, new_stream, now_ms)
