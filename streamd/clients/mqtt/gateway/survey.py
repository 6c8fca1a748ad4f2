"""Looks at all clients of a gateway: how many there are of each kind, and how far they are behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streamd.clients.mqtt.store.positions import Position
from streamd.clients.topics.entry_ids import END

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.gateway.session import Cursor, Session
    from streamd.clients.mqtt.session.packs import Pack
    from streamd.clients.mqtt.store.tailing import TailedLog

_SLICE: Final = 2_000  # clients between two turns of others


@dataclass(slots=True)
class Behind:
    """The connected sessions that are behind the tail of one log. messages: of the one that is furthest behind.

    replaying: those of them that read from the store; how many messages lie before them is not known.
    """

    sessions: int = 0
    replaying: int = 0
    messages: int = 0
    lag_ms: int = 0


@dataclass(slots=True)
class Applied:
    """The connected applications. lag_ms, retries: of the one with most; unacknowledged: messages of all packs."""

    sessions: list[Session] = field(default_factory=list)
    lag_ms: int = 0
    retries: int = 0
    unacknowledged: int = 0


@dataclass(slots=True)
class Survey:
    """The clients at one moment. recorded: those whose session the store has, too."""

    clients: int = 0
    recorded: int = 0
    subscriptions: int = 0
    shared_subscriptions: int = 0
    in_flight: int = 0
    versions: Counter[int] = field(default_factory=Counter)
    listeners: Counter[str] = field(default_factory=Counter)
    full: int = 0
    behind: dict[str, Behind] = field(default_factory=dict)
    applications: Applied = field(default_factory=Applied)


async def survey(gateway: Gateway) -> Survey:
    """Return a look at all clients; others have their turns meanwhile."""
    found = Survey(behind={tailed.log.name: Behind() for tailed in gateway.tail.logs})
    for at, connection in enumerate(list(gateway.connections)):
        found.listeners[connection.kind] += 1
        found.full += connection.is_full
        if at % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
    for at, session in enumerate(list(gateway.clients.values())):
        _look_at(gateway, found, session)
        if at % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
    return found


def _look_at(gateway: Gateway, found: Survey, session: Session) -> None:
    if session.connection is None:
        return
    found.clients += 1
    found.recorded += session.has_record
    found.versions[session.connection.version] += 1
    found.subscriptions += len(session.subscriptions)
    found.shared_subscriptions += sum(one.startswith("$share/") for one in session.subscriptions)
    if session.outgoing is not None:
        found.in_flight += len(session.outgoing)
    if session.pack is not None:
        _look_at_application(gateway, found.applications, session, session.pack)
    for name, cursor in (session.cursors or {}).items():
        behind = found.behind.get(name)
        if behind is None:
            continue
        behind.sessions += 1
        behind.lag_ms = max(behind.lag_ms, lag_ms_of(gateway, cursor))
        if cursor.number is None:
            behind.replaying += 1
        else:
            behind.messages = max(behind.messages, cursor.tailed.ring.next - cursor.number)


def _look_at_application(gateway: Gateway, found: Applied, session: Session, pack: Pack) -> None:
    found.sessions.append(session)
    for one in (pack, *(session.share_packs or {}).values()):
        found.retries = max(found.retries, one.retries)
        found.unacknowledged += one.unacknowledged
    for cursor in (session.cursors or {}).values():
        found.lag_ms = max(found.lag_ms, lag_ms_of(gateway, cursor))


def lag_ms_of(gateway: Gateway, cursor: Cursor) -> int:
    """Return for how long at most the next message of a session has waited for it, which is behind the tail."""
    tailed = cursor.tailed
    if cursor.number is None:
        return _since(gateway, tailed, cursor.position)
    if cursor.number >= tailed.ring.next:
        return 0
    return max(0, gateway.now_ms() - tailed.ring.entry(cursor.number).entry_id[0])


def _since(gateway: Gateway, tailed: TailedLog, position: Position) -> int:
    """Return the time since the last message that was seen, in the shard where that is longest ago."""
    now_ms, log = gateway.now_ms(), tailed.log
    generation = log.handle.meta.generation(position.generation)
    begun_ms = now_ms if generation is None else generation.since_ms
    oldest_ms = now_ms - 1_000 * log.handle.meta.retention_s
    is_past = position.generation != tailed.generation
    waiting = [
        max(mine[0], begun_ms, oldest_ms)
        for mine, tail in zip(position.at, position.at if is_past else tailed.position.at, strict=True)
        if mine != END and (is_past or mine < tail)
    ]
    return max((now_ms - one for one in waiting), default=0)
