"""DUMP payloads: one value, with a version and a checksum behind it."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

from streamd.data.types import KeyValue
from streamd.rdb.bytes import PAYLOAD_BYTES_MAX, TooLarge, body_of, checksum, footer, with_footer
from streamd.rdb.values import kind_of, pieces_of, read_value
from streamd.resp.types import Pause
from streamd.stream.entry_id import ID_MAX
from streamd.stream.stream import Stream


def check_size(value: KeyValue) -> None:
    """Return if a payload of the value may be small enough, without looking at its entries. Raises: TooLarge."""
    # What is not in memory takes at most twice as much as in a payload, with an entry in each node.
    if isinstance(value, Stream) and value.log.content_bytes - value.log.memory_bytes > 2 * PAYLOAD_BYTES_MAX:
        raise TooLarge


def ask_for(value: KeyValue) -> None:
    """Return if `payload_of` a value needs no wait for the disk. Raises: Absent, TooLarge."""
    if isinstance(value, Stream):
        check_size(value)
        value.log.require(0, ID_MAX)


def payload_of(value: KeyValue) -> bytes:
    """Return the payload of a value; its version is the earliest that has all of it. Raises: TooLarge.

    It waits for entries of a stream that are not in memory; see `ask_for`.
    """
    kind, version = kind_of(value)
    with value.log.at_once() if isinstance(value, Stream) else nullcontext():
        pieces = [piece for piece in _bounded(pieces_of(kind, value)) if isinstance(piece, bytes)]
    return with_footer(b"".join([bytes((kind,)), *pieces]), version)


def _bounded(pieces: Iterator[bytes | Pause]) -> Iterator[bytes | Pause]:
    """Yield pieces until they are too large. Raises: TooLarge."""
    left = PAYLOAD_BYTES_MAX
    for piece in pieces:
        if isinstance(piece, bytes):
            left -= len(piece)
            if left < 0:
                raise TooLarge
        yield piece


def payload_in_steps(value: KeyValue) -> Iterator[bytes | Pause | None]:
    """Yield None, each time after well below a millisecond, or a Pause, and then the payload of a value, which must not
    change.

    Raises: TooLarge.
    """
    kind, version = kind_of(value)
    made = [bytes((kind,))]
    so_far = checksum(made[0])
    for piece in _bounded(pieces_of(kind, value)):
        if isinstance(piece, Pause):
            yield piece
            continue
        made.append(piece)
        so_far = checksum(piece, so_far)
        yield None
    yield b"".join([*made, footer(version, so_far)])


def value_in(payload: bytes, new_stream: Callable[[], Stream], now_ms: int | None = None) -> KeyValue:
    """Return the value in a payload. new_stream, now_ms: see `read_value`. Raises: BadFooter, BadData."""
    reader = body_of(payload)
    return read_value(reader.byte(), reader, new_stream, now_ms)
