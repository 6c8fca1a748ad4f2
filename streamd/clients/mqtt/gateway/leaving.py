"""What happens to a session when its client leaves, and when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis

from streamd.clients.mqtt.codec.packets import Will
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.session import Session
from streamd.clients.mqtt.store.link import StoreFault, Words
from streamd.clients.mqtt.store.records import (
    WILLS,
    Pointer,
    Record,
    indexing,
    removal,
    resting,
    taking,
    taking_over,
)
from streamd.clients.topics.drivers import run_async

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.connection import Connection
    from streamd.clients.mqtt.gateway.gateway import Gateway


class Refused(Exception):
    """A CONNECT is refused."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Leaving:
    """The clients that leave, and the sessions that end."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def left(self, connection: Connection, session: Session) -> None:
        """Note that a client is no longer connected. What follows is sent to the store, in order, and not awaited."""
        gateway = self._gateway
        if session.connection is not connection:
            return
        if gateway.clients.get(session.client_id) is session:
            del gateway.clients[session.client_id]
        gateway.wills.held.discard(session)
        if session.storing:
            gateway.leaving[session.client_id] = session
        session.held = session.flushing = None
        unsure_ms = max((one.lost_ms for one in (session.cursors or {}).values()), default=0)
        positions = gateway.delivery.leave(session)
        gateway.shares.leave(session, is_over=not session.expiry_s)
        will = None if connection.is_clean_end or session.is_fenced else session.will
        delay_s = 0
        if will is not None:
            asked = will.properties.get(Property.WILL_DELAY_INTERVAL, 0)
            assert isinstance(asked, int)
            delay_s = min(asked, session.expiry_s)
            if not delay_s and session.looked_up:
                gateway.spawn(self._publish_behind(session, will, session.will_name))
            elif not delay_s:
                gateway.wills.publish(session.client_id, session.uid, will, session.will_name)
        commands: list[Words] = []
        ending: list[Words] = []  # what lets go of the session
        if not session.expiry_s:
            session.is_ended = True
        is_noting = session.storing > 0 and bool(session.awaiting_keys)
        if not session.expiry_s and will is None and not is_noting:
            gateway.counters.sessions_ended += 1
            if session.pointer is not None:
                keys = self.awaiting_keys(session)
                *commands, last = removal(session.client_id, session.pointer, session.user, keys)
                ending = [last]
        elif session.pointer is not None:
            # A session that is over ends when its will is stored, and its messages with the notes of their identifiers.
            changes = gateway.noting.changes(session, positions)
            ends_ms = gateway.now_ms() + session.expiry_s * 1_000
            key = session.key
            words: list[bytes | str | int] = ["HSET", key, "ends_ms", ends_ms, "expiry_s", session.expiry_s]
            gone = []
            if unsure_ms:
                words += ["unsure_ms", unsure_ms]
            if will is not None:
                will_ms = gateway.now_ms() + delay_s * 1_000
                words += ["will_ms", will_ms]
                commands.append(("ZADD", WILLS, will_ms, session.client_id))
            elif session.will is not None:
                gone += ["will", "will_name"]
            commands += indexing(session.client_id, ends_ms, is_application=session.is_application)
            changes += [words, *([("HDEL", key, *gone)] if gone else [])]
            if session.storing:
                commands += changes
                changes = []
            ending = resting(session.client_id, session.pointer, changes)
        session.connection = None
        connection.session = None
        pointer = session.pointer
        if pointer is None or session.is_fenced:
            return
        if session.storing:
            # Another gateway goes on with the session when all that its client has begun to publish is stored.
            gateway.spawn(self._let_go(session, pointer, ending))
            ending = []
        gateway.unwritten.write(session.client_id, pointer, [*commands, *ending])

    async def _publish_behind(self, session: Session, will: Will, name: str) -> None:
        """Publish a will when all that its client has published is stored."""
        await self._gateway.until_stored(session)
        self._gateway.wills.publish(session.client_id, session.uid, will, name)

    async def _let_go(self, session: Session, pointer: Pointer, ending: list[Words]) -> None:
        await self._gateway.until_stored(session)
        self._gateway.unwritten.write(session.client_id, pointer, ending)

    async def end(self, record: Record) -> bool:
        """End a session that the store has: its will goes out, and all that belongs to it is removed.

        Returns whether it is this gateway that has ended it.
        """
        gateway = self._gateway
        pointer = await take(gateway, record.client_id, record.pointer)
        if pointer is None:
            return False
        record.pointer = pointer
        if record.will is not None:
            await gateway.wills.publish_now(record.client_id, record.uid, record.will, record.will_name)
        gateway.counters.sessions_ended += 1
        session = Session(record, gateway.no_rights)
        await gateway.shares.end(record)
        commands: list[Words] = [("ZREM", WILLS, record.client_id)]
        commands += removal(record.client_id, pointer, record.user, self.awaiting_keys(session))
        raise_faults(await gateway.link.ask(*commands))
        return True

    def awaiting_keys(self, session: Session) -> list[str]:
        """Return the keys where packet identifiers of the session may be noted."""
        keys = []
        for log in self._gateway.logs.all:
            shards = {one.shard_named(session.client_bytes) for one in log.handle.meta.generations}
            keys += [log.awaiting_key(shard, session.uid) for shard in sorted(shards)]
        return keys


async def take(gateway: Gateway, client_id: str, pointer: Pointer) -> Pointer | None:
    """Become the owner of a session; return its new pointer, or None if it has moved. Raises: Refused; StoreFault."""
    if pointer.owner is None:
        new, command = taking(client_id, pointer, gateway.owner_name())
        replies = await gateway.link.ask(command)
        raise_faults(replies)
        return None if replies[0] is None else new
    for _, found in await take_over(gateway, [(client_id, pointer)]):
        return found
    return None


async def take_over(gateway: Gateway, sessions: list[tuple[str, Pointer]]) -> list[tuple[str, Pointer]]:
    """Take sessions from other owners; return those that they still had. Raises: Refused; StoreFault."""
    try:
        return await run_async(gateway.shares.client, taking_over(sessions, gateway.owner_name()))
    except redis.exceptions.OutOfMemoryError as error:
        raise Refused(Reason.QUOTA_EXCEEDED, f"the store is full: {error}")
    except redis.RedisError as error:
        raise StoreFault(str(error))


def raise_faults(replies: list[Any]) -> None:
    """Raise the first error among replies. Raises: Refused; StoreFault."""
    for reply in replies:
        if isinstance(reply, Exception):
            if str(reply).startswith("OOM"):
                raise Refused(Reason.QUOTA_EXCEEDED, f"the store is full: {reply}")
            raise StoreFault(str(reply))
