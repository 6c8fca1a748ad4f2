"""The types of values, each a record of the properties and functions that the rest of the server needs."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice
from typing import Any, Final, Generic, TypeVar

from streamd.data.element_list import ElementList
from streamd.data.encodings import (
    Bound,
    hash_encoding,
    list_encoding,
    set_encoding,
    sorted_set_encoding,
    string_encoding,
)
from streamd.data.growing import GrowingString
from streamd.data.hash import Hash
from streamd.data.member_set import MemberSet
from streamd.data.sizes import hash_bytes, list_bytes, set_bytes, sorted_set_bytes, stream_bytes, string_bytes
from streamd.data.sorted_set import SortedSet
from streamd.data.timed_hash import TimedHash, times_of
from streamd.stream.stream import Stream

T = TypeVar("T")
V = TypeVar("V")
E = TypeVar("E")

KeyValue = bytes | GrowingString | Hash | ElementList | MemberSet | SortedSet | Stream

# What a Python bytes object, and a row of a container take beside their contents, where that is to be bounded.
BYTES_OVERHEAD: Final = 33
ROW_OVERHEAD: Final = 100
# So many elements are said in one command: that takes a few ten microseconds.
_ELEMENTS_AT_ONCE: Final = 64


# (No dataclass: `holds` is asked for by every command, and compiled such a class with a type parameter is an ordinary
# one; and a start has to make the class.)
class ValueType(Generic[T, V]):
    """The properties of a type. Commands take its values as a T; a V is a value in any of its forms.

    (Compiled code refuses an argument of another class than declared. So functions of a value as it stands at a key
    take a V.)

    name: the reply of TYPE. holds: the class of the values.
    encoding: Redis's name for the encoding that it would choose at that key, by the numbers of its options.
    memory_bytes: estimated from this many elements; 0 means from all.
    elements: the number of elements to write with the value; a value with few is written at once.
    commands: the commands that make the value again at a free key, each made in well below a millisecond; None for a
        type that needs more than commands, which the journal knows how to write.
    also: classes of values in another form; plain: turns such a value into a T.
    copy: returns an independent value. snapshot: returns a value for reading only, which may share unchanging parts;
        None: `copy` does.
    """

    __slots__ = (
        "also",
        "commands",
        "copy",
        "elements",
        "encoding",
        "holds",
        "memory_bytes",
        "name",
        "plain",
        "snapshot",
    )

    def __init__(
        self,
        name: str,
        holds: type[T],
        *,
        encoding: Callable[[bytes, V, Bound], bytes],
        memory_bytes: Callable[[V, int], int],
        elements: Callable[[V], int],
        commands: Callable[[bytes, V], Iterator[list[bytes]]] | None,
        copy: Callable[[V], T],
        snapshot: Callable[[V], T] | None = None,
        also: tuple[type[V], ...] = (),
        plain: Callable[[V], T] | None = None,
    ) -> None:
        self.name = name
        self.holds = holds
        self.encoding = encoding
        self.memory_bytes = memory_bytes
        self.elements = elements
        self.commands = commands
        self.copy = copy
        self.snapshot = snapshot
        self.also = also
        self.plain = plain


def _plain_string(value: bytes | GrowingString) -> bytes:
    return value if isinstance(value, bytes) else value.whole()


def _set_string(key: bytes, value: bytes | GrowingString) -> Iterator[list[bytes]]:
    yield [b"SET", key, _plain_string(value)]


STRING: Final[ValueType[bytes, bytes | GrowingString]] = ValueType(
    "string",
    bytes,
    encoding=string_encoding,
    memory_bytes=string_bytes,
    elements=lambda value: 1,
    commands=_set_string,
    copy=_plain_string,
    also=(GrowingString,),
    plain=_plain_string,
)


def _parts(elements: Iterable[E]) -> Iterator[list[E]]:
    left = iter(elements)
    while part := list(islice(left, _ELEMENTS_AT_ONCE)):
        yield part


def _set_fields(key: bytes, value: Hash) -> Iterator[list[bytes]]:
    for pairs in _parts(value.items()):
        yield [b"HSET", key, *(word for pair in pairs for word in pair)]
    for time_ms, fields in groupby(times_of(value).items(), key=lambda row: row[1]):
        for part in _parts(fields):
            yield [b"HPEXPIREAT", key, b"%d" % time_ms, b"FIELDS", b"%d" % len(part), *(field for field, _ in part)]


HASH: Final[ValueType[Hash, Hash]] = ValueType(
    "hash",
    Hash,
    encoding=hash_encoding,
    memory_bytes=hash_bytes,
    elements=lambda value: len(value) + len(times_of(value)),
    commands=_set_fields,
    copy=lambda value: value.copy(),
    also=(TimedHash,),
    plain=lambda value: value,
)


def _elements_added(name: bytes, key: bytes, value: ElementList | MemberSet) -> Iterator[list[bytes]]:
    for part in _parts(value):
        yield [name, key, *part]


LIST: Final[ValueType[ElementList, ElementList]] = ValueType(
    "list",
    ElementList,
    encoding=list_encoding,
    memory_bytes=list_bytes,
    elements=len,
    commands=lambda key, value: _elements_added(b"RPUSH", key, value),
    copy=ElementList.copy,
)

SET: Final = ValueType(
    "set",
    MemberSet,
    encoding=set_encoding,
    memory_bytes=set_bytes,
    elements=len,
    commands=lambda key, value: _elements_added(b"SADD", key, value),
    copy=MemberSet.copy,
)


def _add_members(key: bytes, value: SortedSet) -> Iterator[list[bytes]]:
    for run in _parts(value.scores.items()):
        yield [b"ZADD", key, *(word for member, score in run for word in (b"%.17g" % score, member))]


SORTED_SET: Final = ValueType(
    "zset",
    SortedSet,
    encoding=sorted_set_encoding,
    memory_bytes=sorted_set_bytes,
    elements=len,
    commands=_add_members,
    copy=SortedSet.copy,
)


def _stream_elements(value: Stream) -> int:
    groups = (value.groups or {}).values()
    return len(value) + value.idmp.iids_tracked + sum(len(group.pending) + len(group.consumers) for group in groups)


STREAM: Final = ValueType(
    "stream",
    Stream,
    encoding=lambda key, value, bound: b"stream",
    memory_bytes=stream_bytes,
    elements=_stream_elements,
    commands=None,
    copy=Stream.copy,
    snapshot=Stream.snapshot,
)

TYPES: Final[dict[type, ValueType[Any, Any]]] = {
    holds: one for one in (STRING, HASH, LIST, SET, SORTED_SET, STREAM) for holds in (one.holds, *one.also)
}


def type_of(value: object) -> ValueType[Any, Any]:
    """Return the type of a key's value."""
    return TYPES[type(value)]
