"""The types that the value of a key may have."""

from collections import deque
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from streamd.stream.stream import Stream

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class ValueType(Generic[T]):
    """What the server knows of a type.

    name: as TYPE says it. holds: the class of the values.
    """

    name: str
    holds: type[T]


STRING: Final[ValueType[bytes]] = ValueType("string", bytes)
HASH: Final[ValueType[dict[bytes, bytes]]] = ValueType("hash", dict)
LIST: Final[ValueType[deque[bytes]]] = ValueType("list", deque)
SET: Final[ValueType[set[bytes]]] = ValueType("set", set)
STREAM: Final[ValueType[Stream]] = ValueType("stream", Stream)

KeyValue = bytes | dict[bytes, bytes] | deque[bytes] | set[bytes] | Stream

TYPES: Final[dict[type, ValueType[Any]]] = {one.holds: one for one in (STRING, HASH, LIST, SET, STREAM)}
