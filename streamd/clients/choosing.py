"""Chooses the streams that a view of a server shows, where it has more than a view can hold.

A view of 10,000 streams shows the largest, and those whose groups are furthest behind. To know them, every stream is
asked for its length and its groups in turn, some at each look; the chosen ones are asked for everything at each look.
"""

import heapq
import time
from collections.abc import Callable
from typing import Any, Final

import redis

# Streams that are asked about in one look, the chosen ones besides; the first look goes on for a while, so that it
# shows the right ones of some thousands.
SURVEYED_MAX: Final = 900
FIRST_LOOK_S: Final = 1.0
_PART: Final = 300
# The walk through the keys: so many steps of SCAN in one look, each of so many keys.
STEPS: Final = 10
KEYS_A_STEP: Final = 1_000
# Streams whose names are kept: about 20 MB.
KNOWN_MAX: Final = 100_000
# A server tells all groups of a stream or none. A stream with more of them is surveyed once only.
GROUPS_MAX: Final = 1_000

# From a cursor and a number of keys to look at: the next cursor, and keys of streams.
Scan = Callable[[bytes, int], tuple[bytes, list[bytes]]]
# From requests, each a command's name and its key, to replies, errors among them.
Ask = Callable[[list[tuple[str, bytes]]], list[Any]]


class Chooser:
    """The choice among the streams of one server, over many looks.

    known: the streams that were found; surveyed: those of them whose size is known; walked: all keys were seen once;
    is_full: there are more streams than it keeps names of.
    """

    def __init__(self, scan: Scan, ask: Ask, most: int) -> None:
        """most: the number of streams that a view shows."""
        self._scan, self._ask, self._most = scan, ask, most
        # Length, lag of the group that is furthest behind; None before the survey. The longest unasked come first.
        self._known: dict[bytes, tuple[int, int] | None] = {}
        self._unreadable: set[bytes] = set()
        self._crowded: set[bytes] = set()
        self._cursor = b"0"
        self._is_first = True
        self.walked = self.is_full = False
        self.surveyed = 0

    @property
    def known(self) -> int:
        """The number of streams that were found."""
        return len(self._known)

    def look(self) -> list[bytes]:
        """Go on with the walk through the keys and with the survey; return the keys of the chosen streams.

        These are all streams while there are at most as many as a view shows. Raises: what `scan` and `ask` raise.
        """
        until_s = time.monotonic() + FIRST_LOOK_S if self._is_first else 0.0
        self._walk(until_s)
        if len(self._known) > self._most:
            self._survey(until_s)
        self._is_first = False
        return self._chosen()

    def drop(self, key: bytes, is_unreadable: bool = False) -> None:
        """Forget a stream. is_unreadable: the user may not read it; it is left out when it is found again."""
        if self._known.pop(key, None) is not None:
            self.surveyed -= 1
        self._crowded.discard(key)
        if is_unreadable and len(self._unreadable) < KNOWN_MAX:
            self._unreadable.add(key)

    def _walk(self, until_s: float) -> None:
        steps = 0
        while steps < STEPS or time.monotonic() < until_s:
            self._cursor, keys = self._scan(self._cursor, KEYS_A_STEP)
            for key in keys:
                if key in self._unreadable:
                    continue
                if len(self._known) < KNOWN_MAX:
                    self._known.setdefault(key, None)
                elif key not in self._known:
                    self.is_full = True
            if self._cursor == b"0":
                self.walked = True
                return
            steps += 1

    def _survey(self, until_s: float) -> None:
        left = len(self._known)
        asked = 0
        while left > 0 and (asked < SURVEYED_MAX or time.monotonic() < until_s):
            part = min(_PART, left) if time.monotonic() < until_s else min(_PART, left, SURVEYED_MAX - asked)
            self._survey_part([key for key, _ in zip(self._known, range(part), strict=False)])
            asked, left = asked + part, left - part

    def _survey_part(self, keys: list[bytes]) -> None:
        lengths = self._ask([("XLEN", key) for key in keys])
        with_groups = [key for key in keys if key not in self._crowded]
        groups = dict(zip(with_groups, self._ask([("XINFO GROUPS", key) for key in with_groups]), strict=True))
        for key, length in zip(keys, lengths, strict=True):
            reply = groups.get(key, [])
            if isinstance(length, Exception) or isinstance(reply, Exception):
                error = length if isinstance(length, Exception) else reply
                self.drop(key, isinstance(error, redis.exceptions.NoPermissionError))
                continue
            if len(reply) > GROUPS_MAX:
                self._crowded.add(key)
            if self._known.pop(key) is None:
                self.surveyed += 1
            self._known[key] = length, max(map(_lag, reply), default=0)

    def _chosen(self) -> list[bytes]:
        if len(self._known) <= self._most:
            return list(self._known)
        heard = [(key, *facts) for key, facts in self._known.items() if facts is not None]
        behind = heapq.nlargest(self._most // 2, (one for one in heard if one[2]), key=lambda one: one[2])
        chosen = {one[0] for one in behind}
        largest = heapq.nlargest(self._most, heard, key=lambda one: one[1])
        for one in largest:
            if len(chosen) == self._most:
                break
            chosen.add(one[0])
        return sorted(chosen)


def _lag(group: list[Any]) -> int:
    """Return the lag in a reply about a group; 0 if the server does not know it."""
    facts = dict(zip(group[::2], group[1::2], strict=False))
    return int(facts.get(b"lag") or 0)
