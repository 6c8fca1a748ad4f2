"""FAILOVER: a primary hands its role to a replica that has caught up, while writers wait."""

from collections.abc import Callable
from typing import Final

from streamd.base.errors import CommandError, reason_of
from streamd.base.log import log
from streamd.connected.state import State
from streamd.replication.feeding import Feeding, Follower
from streamd.replication.standing import Standing

NONE: Final = "no-failover"
WAITING: Final = "waiting-for-sync"
UNDER_WAY: Final = "failover-in-progress"


class Failover:
    """One failover at a time. state: as INFO shows it.

    settle: writes and ships what this turn has, or raises OSError. hand_over: has this server follow another one, which
    is to become the primary. end_pause: lets waiting writers go on.
    """

    def __init__(
        self,
        state: State,
        standing: Standing,
        feeding: Feeding,
        settle: Callable[[], None],
        hand_over: Callable[[str, int], None],
        end_pause: Callable[[], None],
    ) -> None:
        self._state, self._standing, self._feeding = state, standing, feeding
        self._settle, self._hand_over, self._end_pause = settle, hand_over, end_pause
        self.state = NONE
        self._target: tuple[str, int] | None = None
        self._is_forced = False
        self._until_ms: int | None = None

    def start(self, target: tuple[str, int] | None, is_forced: bool, timeout_ms: int | None) -> None:
        """Begin. target: None for the first replica that has caught up. Raises: CommandError, with Redis's texts."""
        if self.state != NONE:
            raise CommandError("ERR FAILOVER already in progress.")
        if self._standing.is_replica:
            raise CommandError("ERR FAILOVER is not valid when server is a replica.")
        if not any(one.is_online for one in self._feeding.followers.values()):
            raise CommandError("ERR FAILOVER requires connected replicas.")
        if target is not None and self._find(target) is None:
            raise CommandError("ERR FAILOVER target HOST and PORT is not a replica.")
        if is_forced and (target is None or timeout_ms is None):
            raise CommandError("ERR FAILOVER with force option requires both a timeout and target HOST and IP.")
        self.state, self._target, self._is_forced = WAITING, target, is_forced
        now_ms = self._state.time.monotonic_ms
        self._until_ms = None if timeout_ms is None else now_ms + timeout_ms
        self._state.writes_wait = True
        self._state.restrict()
        self._feeding.ask_all()
        log.warning("failover", "a failover begins: writers wait for a replica that has all")

    def abort(self) -> None:
        """Give up. Raises: CommandError."""
        if self.state == NONE:
            raise CommandError("ERR No failover in progress.")
        self.end("it was aborted")

    def end(self, why: str) -> None:
        """Let writers go on."""
        if self.state == NONE:
            return
        self.state = NONE
        log.warning("failover-ended", "the failover has ended: %s", why)
        state = self._state
        state.writes_wait = False
        until_ms = state.pause_until_ms
        self._end_pause()
        state.pause_until_ms = until_ms  # a pause of CLIENT PAUSE goes on: who is still to wait parks again
        state.restrict()

    def tick(self) -> None:
        """Hand over as soon as a replica has all; give up when the time is over."""
        if self.state != WAITING:
            return
        try:
            self._settle()
        except OSError as error:
            self.end(f"the journal cannot be written: {reason_of(error)}")
            return
        offset = self._standing.history.offset
        ready = next((one for one in self._candidates() if one.acked >= offset), None)
        if ready is None and self._until_ms is not None and self._state.time.monotonic_ms >= self._until_ms:
            ready = self._find(self._target) if self._is_forced and self._target is not None else None
            if ready is None:
                self.end("no replica has caught up in time")
                return
        if ready is None:
            self._feeding.ask_all()
            return
        self.state = UNDER_WAY
        self._hand_over(*ready.address)

    def _candidates(self) -> list[Follower]:
        if self._target is not None:
            found = self._find(self._target)
            return [] if found is None else [found]
        return [one for one in self._feeding.followers.values() if one.is_online]

    def _find(self, target: tuple[str, int]) -> Follower | None:
        for one in self._feeding.followers.values():
            if one.is_online and one.address == target:
                return one
        return None
