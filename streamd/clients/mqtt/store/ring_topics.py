"""The entries of a ring by their topics: who returns finds its own among others', without a walk along all of them."""

from collections import deque
from collections.abc import Iterator, Sequence

from streamd.clients.mqtt.session.retained_tree import RetainedTree
from streamd.clients.mqtt.store.ring import Ring
from streamd.clients.mqtt.store.stored import Stored


class RingTopics:
    """Follows a ring, but only when it is asked: entries that nobody returns to cost nothing here."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._next = ring.next  # the number of the first entry that is not here yet
        self._numbers: dict[bytes, deque[int]] = {}
        self._order: deque[bytes] = deque()  # the topics of the entries before _next, oldest first
        self._tree: RetainedTree[deque[int]] = RetainedTree()

    def entries(self, filters: Sequence[str], number: int) -> Iterator[tuple[int, Stored]]:
        """Yield the entries from a number on whose topics match one of the filters, each with its number, in order.

        Nothing comes into the ring meanwhile.
        """
        self._follow()
        found: set[int] = set()
        for text in filters:
            if "#" in text or "+" in text:
                for numbers in self._tree.matching(text):
                    found.update(numbers)
            else:
                found.update(self._numbers.get(text.encode(), ()))
        for one in sorted(found):
            if one >= number:
                yield one, self._ring.entry(one)

    def _follow(self) -> None:
        """Take up what has come, and let go of what the ring has dropped."""
        ring = self._ring
        if self._next <= ring.first:
            self._numbers, self._tree = {}, RetainedTree()
            self._order.clear()
            self._next = ring.first
        for _ in range(ring.first - (self._next - len(self._order))):
            topic = self._order.popleft()
            numbers = self._numbers[topic]
            numbers.popleft()
            if not numbers:
                del self._numbers[topic]
                self._tree.remove(topic)
        for entry in ring.from_number(self._next):
            known = self._numbers.get(entry.topic)
            if known is None:
                known = self._numbers[entry.topic] = deque()
                self._tree.put(entry.topic, known)
            known.append(self._next)
            self._order.append(entry.topic)
            self._next += 1
