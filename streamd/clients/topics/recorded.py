"""Counts the iids that each publisher has recorded, and warns a publisher that may fill its window."""

import warnings
from collections import Counter, deque
from threading import Lock
from typing import Final

from streamd.clients.topics.entry_ids import BEGIN, Id
from streamd.clients.topics.layout import WINDOW_MAXSIZE, WINDOW_S

_WINDOW_MS: Final = WINDOW_S * 1_000
_PARTS: Final = 20  # of a window's duration
_PART_MS: Final = _WINDOW_MS // _PARTS
# Iids are noted so many at a time: a publisher with fewer has no more than a number.
_FEW: Final = WINDOW_MAXSIZE // 40
# Not noted are so many of this span of time, and so many of the one before.
_NOTED_MAX: Final = WINDOW_MAXSIZE - 2 * _FEW

Place = tuple[int, int]  # generation, shard: each has a window of its own


class IidsForgotten(UserWarning):
    """A publisher recorded so many iids that the window may forget the oldest before their time is over."""


class _Busy:
    """A publisher of many iids: their number in each span of time, oldest first, and the time of its last warning."""

    __slots__ = ("parts", "told", "total")

    def __init__(self) -> None:
        self.parts: deque[tuple[int, int]] = deque()
        self.total = 0
        self.told = -_PARTS

    def add(self, part: int, count: int) -> None:
        if self.parts and self.parts[-1][0] >= part:
            part, before = self.parts.pop()
            self.parts.append((part, before + count))
        else:
            self.parts.append((part, count))
        self.total += count
        while self.parts[0][0] < part - _PARTS:
            self.total -= self.parts.popleft()[1]


class Recorded:
    """The iids that one open log has recorded, by the times of the entry IDs.

    An entry ID is a duplicate's if it is not newer than the newest one known when the request was sent. A duplicate
    from before this process began counts, for its own time. Each estimate errs upwards. Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._newest: dict[Place, Id] = {}
        self._span = 0
        self._few: dict[Place, Counter[bytes]] = {}  # not noted yet, of this span of time, which is as long as a window
        self._busy: dict[tuple[Place, bytes], _Busy] = {}

    def newest(self, place: Place) -> Id:
        """Return the newest entry ID that was received."""
        return self._newest.get(place, BEGIN)

    def count(self, place: Place, publishers: list[bytes], last: Id, known: Id) -> None:
        """Count the iids of one request, each by its publisher; warn of one whose window may have forgotten some.

        last: the entry ID of the last of them. known: the newest one when the request was sent.
        """
        if last <= known:
            return
        for publisher in self.note(place, publishers, last):
            warnings.warn(
                f"publisher {publisher.decode()!r} records more iids than the {WINDOW_MAXSIZE:,} that the server knows "
                f"of it: the oldest may be forgotten before {WINDOW_S:,} seconds are over, and a message that is "
                "published again under one of them is stored twice; deal the messages out to several publishers",
                IidsForgotten,
                stacklevel=2,
            )

    def note(self, place: Place, publishers: list[bytes], last: Id) -> list[bytes]:
        """Count the iids of one request; return the publishers whose window may have forgotten some."""
        with self._lock:
            return self._count(place, publishers, last)

    def _count(self, place: Place, publishers: list[bytes], last: Id) -> list[bytes]:
        """Return the publishers to warn."""
        self._newest[place] = max(last, self.newest(place))
        part = last[0] // _PART_MS
        if last[0] // _WINDOW_MS > self._span:
            self._begin(last[0] // _WINDOW_MS, part)
        few = self._few.setdefault(place, Counter())
        few.update(publishers)
        found = []
        for publisher in set(publishers):
            if few[publisher] >= _FEW:
                busy = self._busy.setdefault((place, publisher), _Busy())
                busy.add(part, few.pop(publisher))
                if busy.total > _NOTED_MAX and part - busy.told >= _PARTS:
                    busy.told = part
                    found.append(publisher)
        return found

    def _begin(self, span: int, part: int) -> None:
        """Begin a span of time, and forget the publishers that no window knows any more."""
        self._span = span
        self._few.clear()
        self._busy = {key: busy for key, busy in self._busy.items() if busy.parts[-1][0] >= part - _PARTS}
