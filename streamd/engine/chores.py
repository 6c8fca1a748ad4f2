"""The chores of the cron, ten times a second; each takes a slice at most, and returns whether it has more to do."""

from collections.abc import Callable
from typing import Final

from streamd.connected.state import State
from streamd.data.expiring import expire_due

Chore = Callable[[State, Callable[[], bool]], bool]


def sweep(state: State, stop: Callable[[], bool]) -> bool:
    """Free idempotent IDs whose time has passed."""
    return state.read_only is None and state.sweeper.run(state.time.ms, stop)


def expire(state: State, stop: Callable[[], bool]) -> bool:
    """Remove keys, and fields of hashes, whose time has passed."""
    if not state.active_expire or state.is_loading or state.read_only is not None:
        return False
    more = False
    for db in state.keyspace:
        if (db.deadlines or db.field_times or db.set_aside) and expire_due(db, stop):
            more = True
    return more


def free(state: State, stop: Callable[[], bool]) -> bool:
    """Free a slice of large values that were removed."""
    return state.keyspace.trash.free(stop)


def move(state: State, stop: Callable[[], bool]) -> bool:
    """Write old entries of streams to the disk."""
    return state.mover is not None and state.mover.tick(stop)


def keep_journal(state: State, stop: Callable[[], bool]) -> bool:
    """Have the journal do its due work, and a slice of a rewrite."""
    return state.journal is not None and state.journal.tick()


def replicate(state: State, stop: Callable[[], bool]) -> bool:
    """Have replication do its due work: connect, acknowledge, load what a primary has sent."""
    return state.replication.tick(stop)


CHORES: Final[tuple[Chore, ...]] = (sweep, expire, free, replicate, move, keep_journal)
