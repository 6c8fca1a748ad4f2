"""The replies that plain Python values cannot say."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

Reply = Any  # str, bytes, int, float, bool, None, list, tuple, dict, CommandError, or a type of this file


class _Sentinel:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


NULL_ARRAY: Final = _Sentinel("NULL_ARRAY")  # RESP2 `*-1`, RESP3 `_`
NO_REPLY: Final = _Sentinel("NO_REPLY")  # nothing is sent


class Raw:
    """Ready-made RESP that is the same in both protocol versions."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Parts:
    """As `Raw`, in pieces: those of a large reply are sent one after the other and never joined."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    @property
    def size_bytes(self) -> int:
        """The length of all pieces."""
        return sum(map(len, self.pieces))


class SetReply:
    """RESP3 `~`, RESP2 `*`."""

    __slots__ = ("items",)

    def __init__(self, items: list[Reply]) -> None:
        self.items = items


class Push:
    """An out-of-band message: RESP3 `>`, RESP2 `*`."""

    __slots__ = ("items",)

    def __init__(self, items: list[Reply]) -> None:
        self.items = items


class Pairs:
    """Pairs that are a map in RESP3 and an array of two-element arrays in RESP2 (XREAD)."""

    __slots__ = ("items",)

    def __init__(self, items: list[tuple[Reply, Reply]]) -> None:
        self.items = items


class Verbatim:
    """Text for people: RESP3 `=txt:...`, RESP2 a bulk string."""

    __slots__ = ("data", "format")

    def __init__(self, data: bytes, format: str = "txt") -> None:
        self.data = data
        self.format = format


class LongDouble:
    """A number with a fraction, of more digits than a float has: RESP3 `,`, RESP2 a bulk string."""

    __slots__ = ("digits",)

    def __init__(self, digits: bytes) -> None:
        self.digits = digits


class BigNumber:
    """An integer of any length: RESP3 `(`, RESP2 a bulk string."""

    __slots__ = ("digits",)

    def __init__(self, digits: bytes) -> None:
        self.digits = digits


class Pause:
    """Something that a long reply waits for before its next piece, and waits for itself if nobody else does.

    cause: what that is, for makers of replies who can wait while others have their turns.
    """

    __slots__ = ("cause",)

    def __init__(self, cause: object) -> None:
        self.cause = cause


class LongArray:
    """An array, or a map or a set, whose items are made while it is encoded, once.

    count: the number of items (a map: of pairs); or an iterator of numbers that add up to it.
    parts: yields the items, some at a time, in well below a millisecond each: ready-made RESP that is the same in both
        protocol versions, or a list of replies (of a map: keys and values in turn). A Pause is no item.
    Both are used later, and may read only data that no request changes meanwhile.
    """

    __slots__ = ("count", "is_map", "is_set", "parts")

    def __init__(
        self,
        count: int | Iterator[int],
        parts: Iterable[bytes | list[Reply] | Pause],
        *,
        is_map: bool = False,
        is_set: bool = False,
    ) -> None:
        self.count = count
        self.parts = parts
        self.is_map = is_map
        self.is_set = is_set


class Later:
    """A reply that is found while it is encoded, once.

    steps: yields None, each time after well below a millisecond, or a Pause, and then the reply. They are used later,
    and may read only data that no request changes meanwhile.
    """

    __slots__ = ("steps",)

    def __init__(self, steps: Iterator[Reply]) -> None:
        self.steps = steps


class Sliced:
    """A long reply, to be made in slices with others' turns in between, where the client's connection can do that.

    content: the reply: a LongArray, or a dict or Pairs whose values may be some; or a Later. pinned_bytes:
    about how much memory cannot be freed before the reply is made, whatever happens to the value that it shows.
    """

    __slots__ = ("content", "pinned_bytes")

    def __init__(self, content: Reply, pinned_bytes: int = 0) -> None:
        self.content = content
        self.pinned_bytes = pinned_bytes
