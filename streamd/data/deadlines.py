"""The deadlines of a database's keys, found in about the order of time."""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

# The keys of a span of time stand together, without an order. As a power of two, so that a shift finds the span.
_SPAN_BITS: Final = 8
# Of a span that is not over yet so many keys are looked at for those that are due: that takes a few ten microseconds.
# Where there are more, those of the first milliseconds are removed when the span is over, a quarter of a second later.
_LOOKED_AT_MAX: Final = 1_000
# So many are handed out at once: to remove them takes a fifth of a millisecond.
_TAKEN_AT_ONCE: Final = 128


class Deadlines:
    """When keys end. Adding, moving and removing a key take the same time for any number of keys, and a key takes eight
    bytes where many end together, as sessions and caches do.

    The owner has the deadlines by key (`due_ms`): a row here that disagrees is out of date and ignored. At most half of
    the rows of a span are out of date.

    Shape: `_spans` maps the number of a span (its first millisecond >> _SPAN_BITS) to its one key, or to a list of
    rows. `_gone` maps it to the number of rows that may be out of date, if there are any. `_order` is a heap of the
    spans' numbers; it may have some numbers more than `_spans`.
    """

    __slots__ = ("_gone", "_order", "_spans")

    def __init__(self) -> None:
        self._spans: dict[int, bytes | list[bytes]] = {}
        self._gone: dict[int, int] = {}
        self._order: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._spans)

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
        elif isinstance(keys, list):
            keys.append(key)
        elif keys != key:
            self._spans[number] = [keys, key]

    def add_all(self, keys: Sequence[bytes], due_ms: int) -> None:
        """Add keys that have no deadline, each named once."""
        known = self._spans.get(due_ms >> _SPAN_BITS)
        if isinstance(known, list):
            known += keys
        else:
            for key in keys:
                self.add(key, due_ms)

    def discard(self, key: bytes, before_ms: int, due_ms: Mapping[bytes, int]) -> None:
        """Remove a key whose deadline was `before_ms`; in `due_ms` it has another deadline by now, or none."""
        number = before_ms >> _SPAN_BITS
        keys = self._spans.get(number)
        if isinstance(keys, list):
            gone = self._gone[number] = self._gone.get(number, 0) + 1
            if 2 * gone > len(keys):
                self._clear_up(number, key, keys, due_ms)
        elif keys == key:
            del self._spans[number]
            self._gone.pop(number, None)

    def _clear_up(self, number: int, without: bytes, keys: list[bytes], due_ms: Mapping[bytes, int]) -> None:
        del self._gone[number]
        rows = _in_span(keys, number, due_ms)
        if without in due_ms and due_ms[without] >> _SPAN_BITS == number:
            rows.remove(without)  # it comes back into the same span: `add` makes a row for it
        if len(rows) > 1:
            self._spans[number] = rows
        elif rows:
            self._spans[number] = rows[0]
        else:
            del self._spans[number]

    def take_due(self, now_ms: int, due_ms: Mapping[bytes, int]) -> Iterator[list[bytes]]:
        """Yield the keys whose deadline has come, a few at a time. The keys of a short span come one by one in the
        order of time, the keys of a long span when it is over. The caller removes them from `due_ms`.
        """
        spans, order = self._spans, self._order
        while order and order[0] << _SPAN_BITS <= now_ms:
            number = order[0]
            keys = spans.get(number)
            is_over = (number + 1) << _SPAN_BITS <= now_ms + 1
            if isinstance(keys, list) and len(keys) > _LOOKED_AT_MAX:
                if not is_over:
                    return
                # (The caller may call `discard` for each of them, which may put another list in the place of this one.)
                while isinstance(keys, list):
                    some = keys[-_TAKEN_AT_ONCE:]
                    del keys[-_TAKEN_AT_ONCE:]
                    if number in self._gone:
                        some = _in_span(some, number, due_ms)
                    if not keys:
                        del spans[number]
                        self._gone.pop(number, None)
                    if some:
                        yield some
                    keys = spans.get(number)
            elif keys is not None:
                rows = _in_span(keys if isinstance(keys, list) else [keys], number, due_ms)
                for key in sorted((key for key in rows if due_ms[key] <= now_ms), key=due_ms.__getitem__):
                    self._gone[number] = self._gone.get(number, 0) + 1
                    yield [key]
                if not is_over:
                    return
                spans.pop(number, None)
                self._gone.pop(number, None)
            if number not in spans and order and order[0] == number:
                heappop(order)

    def due(self, now_ms: int, due_ms: Mapping[bytes, int]) -> set[bytes]:
        """Return the keys whose deadline has come; O(1) for each."""
        found: set[bytes] = set()
        for number in _up_to(self._order, now_ms >> _SPAN_BITS):
            keys = self._spans.get(number)
            if keys is not None:
                rows = keys if isinstance(keys, list) else (keys,)
                found.update(key for key in rows if key in due_ms and due_ms[key] <= now_ms)
        return found


def _in_span(keys: list[bytes], number: int, due_ms: Mapping[bytes, int]) -> list[bytes]:
    """Return the keys whose deadline is in a span, each once."""
    return [key for key in dict.fromkeys(keys) if key in due_ms and due_ms[key] >> _SPAN_BITS == number]


def _up_to(heap: list[int], most: int) -> Iterator[int]:
    """Yield the numbers of a heap that are not above `most`."""
    at = [0]
    while at:
        place = at.pop()
        if place < len(heap) and heap[place] <= most:
            yield heap[place]
            at += (2 * place + 1, 2 * place + 2)
