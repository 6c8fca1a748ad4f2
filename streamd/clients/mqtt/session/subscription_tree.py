"""The subscriptions of all sessions, found by the topic of a message."""

from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")  # whose subscription it is
V = TypeVar("V")  # what is known of it

# Topics whose subscriptions are remembered. Walking the tree takes ten times as long as a look-up.
_KNOWN_MAX = 50_000
# Changes by a filter with a wildcard that a remembered answer is held against: many together cost more than a walk.
_CHANGES_MAX = 8


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


class _Change(Generic[K, V]):
    """A filter with a wildcard whose subscriptions have changed. before: the answers that were known then."""

    __slots__ = ("_at", "_fixed", "_is_open", "_length", "_start", "before")

    def __init__(self, levels: list[str], before: dict[bytes, tuple[Found[K, V], ...]]) -> None:
        self.before = before
        self._is_open = levels[-1] == "#"
        named = levels[:-1] if self._is_open else levels
        self._length = len(named)
        first = levels.index("+") if "+" in levels else len(named)
        self._start = "/".join(levels[:first]).encode()
        self._at = [at for at, one in enumerate(named) if one != "+"]
        self._fixed = [named[at].encode() for at in self._at]

    def may_concern(self, topic: bytes) -> bool:
        """Return whether the filter matches a topic; also for one of the server's own, that a wildcard hides."""
        if not topic.startswith(self._start):
            return False
        levels = topic.split(b"/")
        if len(levels) < self._length or (len(levels) > self._length and not self._is_open):
            return False
        return [levels[at] for at in self._at] == self._fixed


class SubscriptionTree(Generic[K, V]):
    """Subscriptions by filter; the filters have been checked.

    A key has one subscription per filter. `find` answers a topic that it has seen before by one look-up. A subscription
    to exactly that topic voids only this topic's answer. One with a wildcard makes all answers doubtful: each is held
    against the filter when its topic is looked up next, so that the change itself costs nothing.
    """

    def __init__(self) -> None:
        self._root: _Node[K, V] = _Node()
        self._known: dict[bytes, tuple[Found[K, V], ...]] = {}
        self._changes: list[_Change[K, V]] = []  # oldest first; a topic is in one of their dicts at most

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
        answer = self._confirmed(topic)
        if answer is None:
            answer = self._look_up(topic)
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[topic] = answer
        return answer

    def _confirmed(self, topic: bytes) -> tuple[Found[K, V], ...] | None:
        """Return a doubtful answer that no change since concerns."""
        for at, change in enumerate(self._changes):
            answer = change.before.pop(topic, None)
            if answer is not None:
                return None if any(one.may_concern(topic) for one in self._changes[at:]) else answer
        return None

    def _look_up(self, topic: bytes) -> tuple[Found[K, V], ...]:
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
        return tuple(found)

    def _forget(self, text: str, levels: list[str]) -> None:
        if levels[-1] != "#" and "+" not in levels:
            topic = text.encode()
            self._known.pop(topic, None)
            for one in self._changes:
                one.before.pop(topic, None)
            return
        changes = self._changes
        while changes and not changes[0].before:
            del changes[0]
        if not changes and not self._known:
            return
        changes.append(_Change(levels, self._known))
        self._known = {}
        while len(changes) > _CHANGES_MAX or sum(len(one.before) for one in changes) > _KNOWN_MAX:
            del changes[0]
