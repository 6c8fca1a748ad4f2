"""DUMP payloads: one value, with a version and a checksum behind it."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Final

from streamd.base.errors import CommandError
from streamd.data.types import KeyValue
from streamd.rdb.bytes import body_of, checksum, footer, with_footer
from streamd.rdb.values import kind_of, pieces_of, read_value
from streamd.resp.types import Pause
from streamd.stream.entry_id import ID_MAX
from streamd.stream.stream import Stream

# What a bulk string holds.
_BYTES_MAX: Final = 512 * 1024 * 1024


def ask_for(value: KeyValue) -> None:
    """Return if `payload_of` a value needs no wait for the disk. Raises: Absent; CommandError if it is too long."""
    if isinstance(value, Stream):
        check_length(value)
        value.log.require(0, ID_MAX)


def check_length(value: KeyValue) -> None:
    """Return unless a value that is larger than memory may be has a longer payload than a bulk string holds.

    Raises: CommandError.
    """
    if isinstance(value, Stream) and value.log.content_bytes > max(_BYTES_MAX, value.log.memory_bytes):
        raise CommandError("ERR the value is larger than 512 MB, the most that a payload holds")


def payload_of(value: KeyValue) -> bytes:
    """Return the payload of a value; its version is the earliest that has all of it.

    It waits for entries of a stream that are not in memory; see `ask_for`.
    """
    kind, version = kind_of(value)
    with value.log.at_once() if isinstance(value, Stream) else nullcontext():
        pieces = [piece for piece in pieces_of(kind, value) if isinstance(piece, bytes)]
    return with_footer(b"".join([bytes((kind,)), *pieces]), version)


def payload_in_steps(value: KeyValue) -> Iterator[bytes | Pause | None]:
    """Yield None, each time after well below a millisecond, or a Pause, and then the payload of a value, which must not
    change.
    """
    kind, version = kind_of(value)
    made = [bytes((kind,))]
    so_far = checksum(made[0])
    for piece in pieces_of(kind, value):
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
