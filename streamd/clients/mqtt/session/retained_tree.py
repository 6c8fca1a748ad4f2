"""Retained messages by topic, found by filter."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

V = TypeVar("V")
_NOWHERE: Final = 2**31  # deeper than any topic


class _Level(Generic[V]):
    __slots__ = ("below", "order", "value")

    def __init__(self) -> None:
        self.below: dict[str, _Level[V]] | None = None
        self.value: V | None = None
        self.order: list[str] | None = None  # the names below, sorted, once somebody has walked along them


class RetainedTree(Generic[V]):
    """One value per topic. `matching` visits only the topics that match a filter, and the levels above them.

    Its order is that of the topics' names, level by level: so a topic is a place where a walk can go on, whatever was
    put or removed meanwhile.
    """

    def __init__(self) -> None:
        self._root: _Level[V] = _Level()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, topic: bytes) -> V | None:
        """Return the value of a topic."""
        level = self._root
        for name in topic.decode().split("/"):
            found = (level.below or {}).get(name)
            if found is None:
                return None
            level = found
        return level.value

    def put(self, topic: bytes, value: V) -> None:
        """Set the value of a topic."""
        level = self._root
        for name in topic.decode().split("/"):
            if level.below is None:
                level.below = {}
            found = level.below.get(name)
            if found is None:
                found = level.below[name] = _Level()
                if level.order is not None:
                    insort(level.order, name)
            level = found
        self._count += level.value is None
        level.value = value

    def remove(self, topic: bytes) -> bool:
        """Remove the value of a topic; return whether it had one."""
        names = topic.decode().split("/")
        path = [self._root]
        for name in names:
            found = (path[-1].below or {}).get(name)
            if found is None:
                return False
            path.append(found)
        if path[-1].value is None:
            return False
        path[-1].value = None
        self._count -= 1
        while len(path) > 1 and path[-1].value is None and not path[-1].below:
            path.pop()
            below = path[-1].below
            assert below is not None
            name = names[len(path) - 1]
            del below[name]
            order = path[-1].order
            if order is not None:
                del order[bisect_left(order, name)]
        return True

    def matching(self, filter: str, after: bytes | None = None) -> Iterator[V]:
        """Yield the values whose topics match a filter, which has been checked, and come after a topic.

        Nothing is put or removed meanwhile.
        """
        names = filter.split("/")
        open_at = len(names) - 1 if names[-1] == "#" else _NOWHERE
        # Iterators over levels, one inside the other, and no calls: a topic may have 65,536 levels.
        rest = None if after is None else after.decode().split("/")
        walks: list[Iterator[tuple[_Level[V], list[str] | None]]] = [iter(((self._root, rest),))]
        while walks:
            found = next(walks[-1], None)
            if found is None:
                walks.pop()
                continue
            level, rest = found
            at = len(walks) - 1
            is_open = at >= open_at
            if rest is None and level.value is not None and (is_open or at == len(names)):
                yield level.value
            if is_open:
                walks.append(_below(level, at, rest))
            elif at < len(names):
                walks.append(_below(level, at, rest) if names[at] == "+" else _named(level, names[at], at, rest))


def _named(
    level: _Level[V], name: str, at: int, after: list[str] | None
) -> Iterator[tuple[_Level[V], list[str] | None]]:
    """Yield the level below one with a name, if it does not come before the topic to go on from."""
    found = (level.below or {}).get(name)
    if found is None:
        return
    if after is None or at >= len(after) or name > after[at]:
        yield found, None
    elif name == after[at]:
        yield found, after


def _below(level: _Level[V], at: int, after: list[str] | None) -> Iterator[tuple[_Level[V], list[str] | None]]:
    """Yield the levels below one, from the topic to go on from; with that topic where it is below the level, too."""
    if not level.below:
        return
    if level.order is None:
        level.order = sorted(level.below)
    first = after[at] if after is not None and at < len(after) else None
    number = 0 if first is None else bisect_left(level.order, first)
    while number < len(level.order):
        name = level.order[number]
        number += 1
        # A wildcard on the first level does not match topics of the server's own.
        if at or not name.startswith("$"):
            yield level.below[name], after if name == first else None
