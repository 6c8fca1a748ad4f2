"""Values of every type in RDB form, behind the byte of the type, as DUMP payloads and RDB files hold them."""

from collections.abc import Callable, Iterator
from typing import Final

from streamd.data.element_list import ElementList
from streamd.data.growing import GrowingString
from streamd.data.hash import Hash
from streamd.data.member_set import MemberSet
from streamd.data.sorted_set import SortedSet
from streamd.data.timed_hash import TimedHash
from streamd.data.types import KeyValue
from streamd.rdb import collections, streams
from streamd.rdb.bytes import BadData, Reader, write_string
from streamd.resp.types import Pause
from streamd.stream.stream import Stream

_STRING: Final = 0

# The version of the format that has a type first, where that is not the one of Redis 7.0.
_VERSION_7_0: Final = 10
_VERSIONS: Final = {
    streams.TIMED: 11,
    collections.TIMED_HASH: 12,
    streams.WITH_WINDOW: 13,
    streams.WITH_RELEASED: 14,
}


def read_value(kind: int, reader: Reader, new_stream: Callable[[], Stream], now_ms: int | None = None) -> KeyValue:
    """Return the value behind its type's byte; the cursor stands behind it then.

    kind: that byte. new_stream: makes an empty stream with the settings that a stream has whose type tells none.
    now_ms: the time at which names whose IDs are ahead of it count as recorded; None if that is not known.
    Raises: BadData; nothing else, whatever the bytes are.
    """
    if kind == _STRING:
        return reader.string()
    if kind in streams.TYPES:
        return streams.read_stream(kind, reader, new_stream(), now_ms)
    read = collections.READERS.get(kind)
    if read is None:
        raise BadData("a value has an unknown type")
    return read(reader)


def kind_of(value: KeyValue) -> tuple[int, int]:
    """Return the byte of the type that a value is written as, and the version of the format that has it first."""
    if isinstance(value, Stream):
        kind = streams.type_of(value)
    elif isinstance(value, TimedHash):
        kind = collections.TIMED_HASH
    elif isinstance(value, Hash):
        kind = collections.HASH
    elif isinstance(value, ElementList):
        kind = collections.LIST
    elif isinstance(value, MemberSet):
        kind = collections.SET
    elif isinstance(value, SortedSet):
        kind = collections.SORTED_SET
    else:
        kind = _STRING
    return kind, _VERSIONS.get(kind, _VERSION_7_0)


def pieces_of(kind: int, value: KeyValue) -> Iterator[bytes | Pause]:
    """Yield a value behind its type's byte, `kind`, in pieces that take well below a millisecond each to make, and a
    Pause where entries of a stream are not in memory.

    The value must not change meanwhile; of a stream, a snapshot may be taken for that.
    """
    if isinstance(value, Stream):
        return streams.stream_pieces(kind, value)
    if isinstance(value, Hash):
        return collections.hash_pieces(value)
    if isinstance(value, ElementList):
        return collections.list_pieces(value)
    if isinstance(value, MemberSet):
        return collections.set_pieces(value)
    if isinstance(value, SortedSet):
        return collections.sorted_set_pieces(value)
    return _string_piece(value.whole() if isinstance(value, GrowingString) else value)


def _string_piece(value: bytes) -> Iterator[bytes]:
    out = bytearray()
    write_string(out, value)
    yield bytes(out)
