"""The subscriptions of all sessions, found by the topic of a message."""

from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")  # whose subscription it is
V = TypeVar("V")  # what is known of it

# Topics whose subscriptions are remembered. Walking the tree takes ten times as long as a look-up.
_KNOWN_MAX = 10_000


class Found(NamedTuple, Generic[K, V]):
    """A subscription whose filter matches a topic."""

    key: K
    filter: str
    value: V


class _Node(Generic[K, V]):
    """A level of filters. Dicts are made when there is something in them: most nodes belong to one client."""

    __slots__ = ("below", "ended", "open")

    def __init__(self) -> None:
        self.below: dict[str, _Node[K, V]] | None = None  # by level; "+" among them
        self.ended: dict[K, Found[K, V]] | None = None  # filters that end here
        self.open: dict[K, Found[K, V]] | None = None  # filters that end here in "/#"

    def is_empty(self) -> bool:
        return not (self.below or self.ended or self.open)


class SubscriptionTree(Generic[K, V]):
    """Subscriptions by filter; the filters have been checked.

    A key has one subscription per filter. `find` answers a topic that it has seen before by one look-up; a subscription
    to exactly that topic voids only this topic's answer, one with a wildcard all answers.
    """

    def __init__(self) -> None:
        self._root: _Node[K, V] = _Node()
        self._known: dict[bytes, tuple[Found[K, V], ...]] = {}

    def add(self, text: str, key: K, value: V) -> bool:
        """Add a subscription, or replace it; return whether the key had one with this filter."""
        levels = text.split("/")
        is_open = levels[-1] == "#"
        node = self._root
        for level in levels[:-1] if is_open else levels:
            if node.below is None:
                node.below = {}
            node = node.below.setdefault(level, _Node())
        if is_open:
            if node.open is None:
                node.open = {}
            there = node.open
        else:
            if node.ended is None:
                node.ended = {}
            there = node.ended
        had = key in there
        there[key] = Found(key, text, value)
        self._forget(text, levels)
        return had

    def remove(self, text: str, key: K) -> bool:
        """Remove a subscription; return whether it was there."""
        levels = text.split("/")
        is_open = levels[-1] == "#"
        path = [self._root]
        for level in levels[:-1] if is_open else levels:
            node = (path[-1].below or {}).get(level)
            if node is None:
                return False
            path.append(node)
        there = path[-1].open if is_open else path[-1].ended
        if there is None or there.pop(key, None) is None:
            return False
        while len(path) > 1 and path.pop().is_empty():
            below = path[-1].below
            assert below is not None
            del below[levels[len(path) - 1]]
        self._forget(text, levels)
        return True

    def find(self, topic: bytes) -> tuple[Found[K, V], ...]:
        """Return the subscriptions whose filters match a topic."""
        known = self._known.get(topic)
        if known is not None:
            return known
        found: list[Found[K, V]] = []
        levels = topic.decode().split("/")
        nodes = [self._root]
        # A wildcard on the first level does not match topics of the server's own.
        is_hidden = levels[0].startswith("$")
        for level in levels:
            following = []
            for node in nodes:
                if node.open is not None and not is_hidden:
                    found.extend(node.open.values())
                if node.below is not None:
                    for one in (level, "+") if not is_hidden else (level,):
                        below = node.below.get(one)
                        if below is not None:
                            following.append(below)
            nodes = following
            is_hidden = False
        for node in nodes:
            if node.open is not None:  # "a/#" matches "a"
                found.extend(node.open.values())
            if node.ended is not None:
                found.extend(node.ended.values())
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        answer = self._known[topic] = tuple(found)
        return answer

    def _forget(self, text: str, levels: list[str]) -> None:
        if levels[-1] == "#" or "+" in levels:
            self._known.clear()
        else:
            self._known.pop(text.encode(), None)
