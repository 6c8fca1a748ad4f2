"""Which keys of a database end when, found in about the order of time."""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Final

# The keys of a span of time stand together, without an order. As a power of two, so that a shift finds the span.
_SPAN_BITS: Final = 8
# Of a span that is not over yet so many keys are looked at for those that are due: that takes a few ten microseconds.
# Where there are more, those of the first milliseconds are removed when the span is over, a quarter of a second later.
_LOOKED_AT_MAX: Final = 1_000
_TAKEN_AT_ONCE: Final = 32


class Deadlines:
    """When keys end: to add one, to move one and to take one out takes the same time however many there are.

    (A heap of all takes 8 us for each of a million keys that end in one second, and keeps rows of what was moved.)

    Shape: _spans has for the number of a span (its first millisecond >> _SPAN_BITS) its one key, or a dict of its keys;
    _order is a heap of these numbers, which may have some more than _spans.
    """

    __slots__ = ("_order", "_spans")

    def __init__(self) -> None:
        self._spans: dict[int, bytes | dict[bytes, None]] = {}
        self._order: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._spans)

    def __len__(self) -> int:
        """How many rows are held, those of no use included."""
        return len(self._order) + sum(len(one) for one in self._spans.values() if isinstance(one, dict))

    def add(self, key: bytes, due_ms: int) -> None:
        """Add a key that has no deadline."""
        number = due_ms >> _SPAN_BITS
        keys = self._spans.get(number)
        if keys is None:
            self._spans[number] = key
            heappush(self._order, number)
            # A span that became empty stays in the heap: no more of them than of others, so O(1) for each.
            if len(self._order) > 2 * len(self._spans) + 1_000:
                self._order = list(self._spans)
                heapify(self._order)
        elif isinstance(keys, dict):
            keys[key] = None
        elif keys != key:
            self._spans[number] = {keys: None, key: None}

    def discard(self, key: bytes, due_ms: int) -> None:
        """Take out a key that has this deadline; it may have been taken."""
        number = due_ms >> _SPAN_BITS
        keys = self._spans.get(number)
        if isinstance(keys, dict):
            keys.pop(key, None)
            if not keys:
                del self._spans[number]
        elif keys == key:
            del self._spans[number]

    def take_due(self, now_ms: int, due_ms: Mapping[bytes, int]) -> Iterator[list[bytes]]:
        """Yield the keys whose deadline has come, a few at a time: those of a short span one by one in the order of
        time, of one that is long not before it is over. They are taken out when they are yielded.

        due_ms: the deadline of each.
        """
        spans, order = self._spans, self._order
        while order and order[0] << _SPAN_BITS <= now_ms:
            number = order[0]
            keys = spans.get(number)
            is_over = (number + 1) << _SPAN_BITS <= now_ms + 1
            if isinstance(keys, dict) and len(keys) > _LOOKED_AT_MAX:
                if not is_over:
                    return
                while keys:
                    some = [keys.popitem()[0] for _ in range(min(_TAKEN_AT_ONCE, len(keys)))]
                    if not keys:
                        del spans[number]
                    yield some
            elif keys is not None:
                every = keys if isinstance(keys, dict) else (keys,)
                for key in sorted((key for key in every if due_ms[key] <= now_ms), key=due_ms.__getitem__):
                    self.discard(key, number << _SPAN_BITS)
                    yield [key]
                if number in spans:
                    return
            spans.pop(number, None)
            if order and order[0] == number:
                heappop(order)

    def due(self, now_ms: int, due_ms: Mapping[bytes, int]) -> set[bytes]:
        """Return the keys whose deadline has come; O(1) for each."""
        found: set[bytes] = set()
        for number in _up_to(self._order, now_ms >> _SPAN_BITS):
            keys = self._spans.get(number)
            if keys is not None:
                some = keys if isinstance(keys, dict) else (keys,)
                found.update(key for key in some if due_ms[key] <= now_ms)
        return found


def _up_to(heap: list[int], most: int) -> Iterator[int]:
    """Yield the numbers of a heap that are not above another one."""
    at = [0]
    while at:
        place = at.pop()
        if place < len(heap) and heap[place] <= most:
            yield heap[place]
            at += (2 * place + 1, 2 * place + 2)
