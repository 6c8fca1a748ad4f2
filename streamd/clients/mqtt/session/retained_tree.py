"""Retained messages by topic, found by filter."""

from collections.abc import Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class _Level(Generic[V]):
    __slots__ = ("below", "value")

    def __init__(self) -> None:
        self.below: dict[str, _Level[V]] | None = None
        self.value: V | None = None


class RetainedTree(Generic[V]):
    """One value per topic. `matching` visits only the topics that match a filter, and the levels above them."""

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
            level = level.below.setdefault(name, _Level())
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
            del below[names[len(path) - 1]]
        return True

    def matching(self, filter: str) -> Iterator[V]:
        """Yield the values whose topics match a filter, which has been checked."""
        names = filter.split("/")
        # A wildcard on the first level does not match topics of the server's own.
        yield from self._matching(self._root, names, 0)

    def _matching(self, level: _Level[V], names: list[str], at: int) -> Iterator[V]:
        if at == len(names):
            if level.value is not None:
                yield level.value
            return
        name = names[at]
        if name == "#":
            yield from _all(level, at == 0)
            return
        below = level.below
        if name != "+":
            found = (below or {}).get(name)
            if found is not None:
                yield from self._matching(found, names, at + 1)
            return
        for text, one in list((below or {}).items()):
            if at or not text.startswith("$"):
                yield from self._matching(one, names, at + 1)


def _all(level: _Level[V], is_first: bool) -> Iterator[V]:
    if level.value is not None:
        yield level.value
    for text, one in list((level.below or {}).items()):
        if not (is_first and text.startswith("$")):
            yield from _all(one, False)
