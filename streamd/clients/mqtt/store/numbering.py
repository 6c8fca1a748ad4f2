"""Draws the numbers of retained messages, for all of a turn by one request; what follows them waits with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from streamd.clients.mqtt.store.link import Link, encode
from streamd.clients.topics import layout, numbers
from streamd.clients.topics.entry_ids import parse_id
from streamd.clients.topics.numbers import Number

if TYPE_CHECKING:
    from streamd.clients.mqtt.store.publishing import Publication


class Group:
    """Messages that wait for the reply to one request. began_s: when the first came; count: of their numbers."""

    __slots__ = ("began_s", "count", "messages")

    def __init__(self) -> None:
        self.messages: list[Publication] = []
        self.count = 0
        self.began_s = perf_counter()


class Numbering:
    """The messages of one log that wait for numbers.

    Messages without the retain flag wait only behind a retained one of the same publisher. ready: gets each group whose
    messages have their numbers, in the order of the requests; or why they have none.
    """

    def __init__(self, link: Link, log: str, ready: Callable[[Group, str | None], None]) -> None:
        self._link, self._ready = link, ready
        self._key = layout.numbers_key(log)
        self._open: Group | None = None  # for whose messages nothing was requested yet
        self._asked: deque[Group] = deque()
        self._last: dict[bytes, Group] = {}  # by publisher: where its newest message waits
        self.highest: Number = numbers.NONE  # that is known: drawn, or read in the log

    def holds(self, publisher: bytes) -> bool:
        """Return whether messages of a publisher wait here."""
        return publisher in self._last

    def add(self, one: Publication) -> None:
        """Let a message wait: a retained one for its number, another one behind those of its publisher."""
        group = self._last.get(one.publisher)
        if group is None or (one.is_retained and group is not self._open):
            if self._open is None:
                self._open = Group()
            group = self._last[one.publisher] = self._open
        group.messages.append(one)

    def drop(self, publisher: bytes) -> list[Publication]:
        """Forget the messages of a publisher, and return them."""
        if self._last.pop(publisher, None) is None:
            return []
        gone: list[Publication] = []
        for group in (*self._asked, self._open):
            if group is not None:
                gone += [one for one in group.messages if one.publisher == publisher]
                group.messages = [one for one in group.messages if one.publisher != publisher]
        return gone

    def draw(self) -> None:
        """Request numbers for the messages that have come since the last request."""
        group = self._open
        if group is None:
            return
        self._open = None
        group.count = max(1, sum(one.is_retained for one in group.messages))
        self._asked.append(group)
        self._ask(group, b"", 0)

    def _ask(self, group: Group, before: bytes, before_count: int) -> None:
        packed = before + encode(numbers.drawing(self._key, group.count))
        self._link.send(packed, before_count + 1, partial(self._replied, group))
        self._link.send_now()

    def _replied(self, group: Group, replies: list[Any]) -> None:
        reply = replies[-1]
        is_first = self._asked[0] is group
        if type(reply) is not bytes:
            self._release(group, str(reply))
        elif parse_id(reply) <= self.highest[:2] or not is_first:
            # The stream was removed, and the store's clock is behind; or that had befallen the group before this one.
            self._ask(group, encode(numbers.raising(self._key, self.highest)), 1)
        else:
            drawn = iter(numbers.drawn(reply, group.count))
            for one in group.messages:
                if one.is_retained:
                    self.highest = next(drawn)
                    one.put_number(numbers.format_number(self.highest))
            self._release(group, None)

    def _release(self, group: Group, error: str | None) -> None:
        self._asked.remove(group)
        for one in group.messages:
            if self._last.get(one.publisher) is group:
                del self._last[one.publisher]
        self._ready(group, error)
