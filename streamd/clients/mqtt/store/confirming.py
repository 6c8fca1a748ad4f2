"""A link whose answers count when replicas have all that they speak of."""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from streamd.clients.mqtt.store.link import Done, Link, StoreFault, Target, Words, encode

# For so long replicas may take; then the store counts as away. (Less than a link waits for a silent store.)
CONFIRM_MS: Final = 5_000
# Written behind all of a turn: what the turn has read is older, though others have written it. So WAIT speaks of that,
# too, and no client gets a message that a failover takes away.
_MARK: Final = "mqtt:confirmed"


class ConfirmedLink(Link):
    """A link that holds back the answers of a turn until so many replicas have confirmed what is behind them.

    Too few replicas are a store that is away: the requests are sent again, there or at the next primary, until they are
    confirmed. Every one may be made twice.
    """

    def __init__(
        self, target: Target, name: str, replicas: int, on_change: Callable[[bool], None] | None = None
    ) -> None:
        super().__init__(target, name, on_change)
        self._replicas = replicas
        self._fence = encode(("SET", _MARK, "1")) + encode(("WAIT", replicas, CONFIRM_MS))
        self._held: list[tuple[bytes, int, Done, list[Any]]] = []

    @property
    def waiting(self) -> int:
        """The number of requests without an answer that counts."""
        return len(self._waiting) + len(self._held)

    def greeting(self) -> Words:
        """Return a WAIT: a connection that has written nothing is told the number of replicas at once."""
        return ("WAIT", self._replicas, 1)

    def greeted(self, reply: Any) -> None:
        """Raises: StoreFault, if too few replicas follow."""
        if (fault := self._few(reply)) is not None:
            raise StoreFault(fault)

    def _few(self, confirmed: Any) -> str | None:
        if isinstance(confirmed, Exception):
            return str(confirmed)
        return None if confirmed >= self._replicas else f"{confirmed} of {self._replicas} replicas confirm"

    def _flush(self) -> None:
        if self._out and self.is_up:
            self._waiting.append((self._fence, 2, self._confirmed))
            self._out.append(self._fence)
        super()._flush()

    def _up(self) -> None:
        again = deque([(packed, count, done) for packed, count, done, _ in self._held])
        again += [one for one in self._waiting if one[0] is not self._fence]
        self._held.clear()
        if again:
            again.append((self._fence, 2, self._confirmed))
        self._waiting = again
        super()._up()

    def take(self, packed: bytes, count: int, done: Done, replies: list[Any]) -> None:
        """Hold replies back; or, behind a turn, look at how many replicas have confirmed it."""
        if packed is self._fence:
            done(replies)
        else:
            self._held.append((packed, count, done, replies))

    def _confirmed(self, replies: list[Any]) -> None:
        if (fault := self._few(replies[1])) is not None:
            self.give_up(fault)
            return
        held, self._held = self._held, []
        for _, _, done, answer in held:
            done(answer)


def linked(target: Target, name: str, replicas: int, on_change: Callable[[bool], None] | None = None) -> Link:
    """Return a link that waits for so many replicas; an ordinary one for 0."""
    return ConfirmedLink(target, name, replicas, on_change) if replicas else Link(target, name, on_change)
