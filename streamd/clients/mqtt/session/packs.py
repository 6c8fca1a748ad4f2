"""The pack of one reader of an application: what it is sent before it has to acknowledge, in time, all of that."""

from enum import IntEnum
from typing import Final, NamedTuple

# A pack takes messages for so long: one that comes later waits for the next pack, and has all of its time.
OPEN_MS: Final = 1_000


class Policy(NamedTuple):
    """What a reader does with its packs.

    size: messages of a pack. wait_ms: from its last send. retries: how often it is sent again, 0 for ever. skips: it is
    dropped at once, and never sent again.
    """

    size: int
    wait_ms: int
    retries: int = 0
    skips: bool = False


class Due(IntEnum):
    """What has to be done with a pack that was not acknowledged in time."""

    AGAIN = 1  # send what is not acknowledged again
    DROP = 2  # take it for delivered


class Pack:
    """The messages that one reader was sent and that are not all acknowledged.

    A pack is open for messages until it is full, until the first acknowledgement, or for a second. When nothing in it
    is unacknowledged any more, it is committed, and the next one begins. Messages of QoS 0 take a place in it, and are
    never unacknowledged. Times are arguments, in milliseconds of one clock.

    ids: what a session that is resumed has in flight: a pack that is closed. retries: how often that was sent again.
    """

    __slots__ = ("_count", "_first_ms", "_is_closed", "_last_ms", "_policy", "_retries", "_waiting", "is_watched")

    def __init__(self, policy: Policy, ids: list[int], retries: int, now_ms: int) -> None:
        self._policy = policy
        self._waiting: dict[int, None] = dict.fromkeys(ids)
        self._count = len(ids)
        self._is_closed = bool(ids)
        self._retries = retries if ids else 0
        self._first_ms = self._last_ms = now_ms
        self.is_watched = False  # somebody looks at it when it is due

    @property
    def ids(self) -> list[int]:
        """The packet identifiers that are not acknowledged, in the order of their first sends."""
        return list(self._waiting)

    @property
    def unacknowledged(self) -> int:
        """How many of its messages are not acknowledged."""
        return len(self._waiting)

    @property
    def taken(self) -> int:
        """How many messages it has taken: those of a resumed session are what that had in flight."""
        return self._count

    @property
    def retries(self) -> int:
        """How often this pack was sent again."""
        return self._retries

    @property
    def due_ms(self) -> int | None:
        """When `due` has to be asked; None while nothing is unacknowledged."""
        return self._last_ms + self._policy.wait_ms if self._waiting else None

    def room(self, now_ms: int) -> int:
        """Return how many messages it may be given now."""
        if self._count and now_ms - self._first_ms >= OPEN_MS:
            self._close()
        return 0 if self._is_closed else self._policy.size - self._count

    def sent(self, packet_id: int, now_ms: int) -> None:
        """Note a message that is sent for the first time; packet_id: 0 for QoS 0. There has to be room."""
        assert not self._is_closed
        if not self._count:
            self._first_ms = now_ms
        self._count += 1
        if packet_id:
            self._waiting[packet_id] = None
            self._last_ms = now_ms
        if self._count >= self._policy.size:
            self._close()

    def resent(self, now_ms: int) -> None:
        """Note that something in it is sent again: its time begins anew."""
        self._last_ms = now_ms

    def put_off(self, now_ms: int) -> None:
        """Take back the last retry, which could not be sent."""
        if self._retries:  # it may be the next pack by now
            self._retries -= 1
        self._last_ms = now_ms

    def finished(self, packet_id: int) -> None:
        """Note that a message is acknowledged to its end, or is not sent any more."""
        if packet_id in self._waiting:
            del self._waiting[packet_id]
            self._close()

    def due(self, now_ms: int) -> Due | None:
        """Return what has to be done, None while it has time. AGAIN counts as a retry, and its time begins anew."""
        due_ms = self.due_ms
        if due_ms is None or now_ms < due_ms:
            return None
        policy = self._policy
        if policy.skips or (policy.retries and self._retries >= policy.retries):
            return Due.DROP
        self._retries += 1
        self._last_ms = now_ms
        return Due.AGAIN

    def drop(self) -> list[int]:
        """Begin the next pack; return the packet identifiers that were not acknowledged."""
        ids = list(self._waiting)
        self._begin()
        return ids

    def _close(self) -> None:
        self._is_closed = True
        if not self._waiting:
            self._begin()

    def _begin(self) -> None:
        self._waiting.clear()
        self._is_closed = False
        self._count = self._retries = 0
