"""The log of refused requests."""

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Final

# What is refused again within so long only counts, if it is among so many of the last entries.
_SAME_MS: Final = 60_000
_LOOKED_AT: Final = 10
# A key may be long, and is not kept alive by having been refused.
_OBJECT_BYTES_MAX: Final = 1_024


@dataclass(slots=True)
class Refusal:
    """One entry.

    reason: command, key, channel or auth. context: toplevel, multi or lua. object: the command, key or channel; for
    auth, the command of the login. created_ms and updated_ms: Unix times of the first and of the last time.
    """

    number: int
    reason: str
    context: str
    object: bytes
    username: bytes
    client: bytes
    created_ms: int
    updated_ms: int
    count: int = 1


class RefusalLog:
    """Entries, last first."""

    def __init__(self) -> None:
        self.entries: deque[Refusal] = deque()
        self._numbers = 0

    def add(
        self, reason: str, context: str, named: bytes, username: bytes, client: bytes, now_ms: int, length_max: int
    ) -> None:
        """Note a refusal: a new entry, or one more of the same."""
        named = named[:_OBJECT_BYTES_MAX]
        for entry in islice(self.entries, _LOOKED_AT):
            is_same = (entry.reason, entry.context, entry.object, entry.username) == (reason, context, named, username)
            if is_same and abs(now_ms - entry.updated_ms) <= _SAME_MS:
                self.entries.remove(entry)
                self.entries.appendleft(entry)
                entry.client, entry.updated_ms = client, now_ms
                entry.count += 1
                return
        self.entries.appendleft(Refusal(self._numbers, reason, context, named, username, client, now_ms, now_ms))
        self._numbers += 1
        while len(self.entries) > length_max:
            self.entries.pop()
