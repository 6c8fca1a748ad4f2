"""Shared subscriptions: the topics' shared replay, with each client as a member.

An entry that was sent to a member stays pending in the group until the client has acknowledged it. Of QoS 2 it leaves
the group when the session's record has it, and before the packet leaves: so nobody else ever gets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import redis
import redis.asyncio

from streamd.clients.mqtt.codec.names import share_of
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.delivering import Target
from streamd.clients.mqtt.gateway.noting import Noted, noted_of
from streamd.clients.mqtt.gateway.share_ends import check_member
from streamd.clients.mqtt.gateway.share_groups import Group
from streamd.clients.mqtt.gateway.share_leases import LeasedPart
from streamd.clients.mqtt.gateway.share_members import Membership
from streamd.clients.mqtt.gateway.share_parts import Part, UnorderedPart
from streamd.clients.mqtt.session.outgoing import State
from streamd.clients.mqtt.store import share_records
from streamd.clients.mqtt.store.confirming import linked
from streamd.clients.mqtt.store.link import StoreFault, Words, encode
from streamd.clients.mqtt.store.link import Target as StoreTarget
from streamd.clients.mqtt.store.patience import patiently
from streamd.clients.mqtt.store.positions import Place, key_of
from streamd.clients.mqtt.store.records import Record, Shared
from streamd.clients.mqtt.store.share_records import consumer_name, share_name
from streamd.clients.sentinels import async_pool
from streamd.clients.topics import shares
from streamd.clients.topics.entry_ids import format_id
from streamd.clients.topics.filters import names_for
from streamd.clients.topics.reading import Start

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.connection import Connection
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.gateway.session import Session
    from streamd.clients.mqtt.store.logs import OpenLog
    from streamd.clients.mqtt.store.records import Subscribed
    from streamd.clients.mqtt.store.stored import Stored

_CONNECTIONS_MAX: Final = 10  # to the store, for what topics do; it does not grow with the members
_POOL_S: Final = 30.0
_CLOSE_S: Final = 5.0
_HOLD_MS: Final = 5_000  # of a gateway that is killed meanwhile
_HELD_S: Final = 0.02
MODES: Final = ("ordered", "any")


class Shares:
    """The groups that clients of this gateway are members of."""

    def __init__(self, gateway: Gateway, url: str, replicas: int) -> None:
        self.gateway = gateway
        self.link = linked(StoreTarget.of(url), "streamd-mqtt-shares", replicas)
        kind = redis.asyncio.BlockingConnectionPool
        pool = async_pool(url, kind, max_connections=_CONNECTIONS_MAX, timeout=_POOL_S)
        self.client: redis.asyncio.Redis = redis.asyncio.Redis(connection_pool=pool)
        self.groups: dict[str, Group] = {}
        self.is_closed = False
        self._acknowledged: dict[tuple[str, str], list[str]] = {}
        self._begun: dict[Session, list[tuple[Shared, bytes]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # Start and end.

    async def start(self) -> None:
        """Take up the groups that the store has, before anybody reads: what a killed gateway left half done."""
        (names,) = await self.link.demand(("SMEMBERS", share_records.INDEX))
        for one in names:
            name = one.decode()
            (reply,) = await self.link.demand(("HGETALL", share_records.share_key(name)))
            fields = dict(zip(reply[::2], reply[1::2], strict=True))
            if b"filter" not in fields or b"mode" not in fields:
                await self.link.demand(*share_records.forgetting(name))
                continue
            text = fields[b"filter"].decode()
            for log in self._logs_of(share_of(text)[1]):  # one that is new for the gateway, too
                await self._join(log, name, share_of(text)[1], fields[b"mode"] == b"ordered")
            for field in fields:
                if field.startswith(b"m "):
                    await check_member(self, fields, field[2:])

    async def finish(self, record: Record) -> None:
        """Let the groups forget what a session has as its own, when its gateway has ended amid saying so."""
        for sent in record.in_flight:
            if sent.state == State.PUBLISHED_2 and isinstance(sent.place, Shared):
                self.acknowledge(sent.place)

    async def close(self) -> None:
        """End what is under way, and let go of the store."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_CLOSE_S)
        self._send_acknowledged()
        if self.link.is_up:
            await asyncio.wait([asyncio.ensure_future(self.link.ask(("PING",)))], timeout=_CLOSE_S)
        self.is_closed = True
        for group in list(self.groups.values()):
            group.close()
        self.groups.clear()
        for task in self._tasks:
            task.cancel()
        await self.link.close()
        await self.client.aclose()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.gateway.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.gateway.warn(f"shared subscriptions: {type(fault).__name__}: {fault}")

    def warn(self, group: Group, fault: Exception) -> None:
        """Write a line to the gateway's log."""
        self.gateway.warn(f"shared subscription {group.text[:100]!r}: {fault}")

    # The store.

    def tell(self, commands: list[Words]) -> None:
        """Send commands whose replies nobody waits for; a group may be gone meanwhile."""
        if commands:
            self.link.send(b"".join(encode(one) for one in commands), len(commands), self._told)

    def _told(self, replies: list[Any]) -> None:
        for one in replies:
            if isinstance(one, Exception) and not str(one).startswith("NOGROUP"):
                self.gateway.warn(f"the store refused what belongs to a shared subscription: {one}")
                return

    def acknowledge(self, place: Shared) -> None:
        """Let the group forget an entry, with others of this turn."""
        if not self._acknowledged:
            self.gateway.loop.call_soon(self._send_acknowledged)
        key = key_of(place.place)
        self._acknowledged.setdefault((key, place.share), []).append(format_id(place.place.entry_id))

    def _send_acknowledged(self) -> None:
        acknowledged, self._acknowledged = self._acknowledged, {}
        self.tell([("XACK", key, share, *ids) for (key, share), ids in acknowledged.items()])

    @asynccontextmanager
    async def _hold(self, name: str) -> AsyncIterator[None]:
        """Let one gateway at a time, and one task of it, change who is a member of a group."""
        async with self.gateway.lock(f"\0{name}"):  # no client identifier has this character
            key, mine = share_records.lock_key(name), self.gateway.owner_name()
            while (await self.link.demand(("SET", key, mine, "NX", "PX", _HOLD_MS)))[0] is None:
                await asyncio.sleep(_HELD_S)
            try:
                yield
            finally:
                self.tell([("DELEX", key, "IFEQ", mine)])

    def _logs_of(self, filter: str) -> list[OpenLog]:
        """Return the logs that may have messages for a filter."""
        logs = self.gateway.logs
        return [logs.by_name[one] for one in names_for(filter, {log.name: log.filters for log in logs.all})]

    async def _join(
        self, log: OpenLog, name: str, filter: str, is_ordered: bool, start: Start = "latest"
    ) -> shares.Member:
        lease_ms = self.gateway.limits.share_lease_ms
        joining = partial(shares.join, log.handle, name, filter, start, "gateway", lease_ms, is_ordered)
        return await patiently(self.client, joining)

    async def join_log(self, log: OpenLog, group: Group, start: Start = "latest") -> shares.Member:
        """Return a group's shared replay of a log, which begins at the start if the log has no such replay."""
        return await self._join(log, group.name, group.filter, group.is_ordered, start)

    async def _open(self, text: str, is_ordered: bool, start: Start = "latest") -> Group:
        """Return a group, at work. Its lock has to be held. start: where one begins that the store does not have."""
        group = self.groups.get(text)
        if group is None:
            group = Group(self, text, is_ordered)
            parts: dict[str, Part] = {}
            lease_ms = self.gateway.limits.share_lease_ms
            for log in self._logs_of(group.filter):
                view = await self.join_log(log, group, start)
                lease_ms = min(lease_ms, view.agreement.lease_ms)
                parts[log.name] = (LeasedPart if is_ordered else UnorderedPart)(group, log, view)
            group.start(parts, lease_ms)
            self.groups[text] = group
        return group

    def forget(self, group: Group) -> None:
        """Close a group without members here."""
        if self.groups.get(group.text) is group:
            del self.groups[group.text]
        group.close()

    # Subscriptions.

    async def admit(
        self, session: Session, texts: Iterable[str], mode: str | None, start: Start | None
    ) -> tuple[dict[str, tuple[int, str]], list[str]]:
        """Make a session a member in the store, so that nothing that comes from now on is lost.

        mode: as the client says it; None follows the others. start: where a group begins that has no member yet; None
        for now. Returns for each filter that is refused the reason, and what else the client is told.
        """
        refused: dict[str, tuple[int, str]] = {}
        notes: list[str] = []
        for text in texts:
            if mode is not None and mode not in MODES:
                refused[text] = (Reason.IMPLEMENTATION_SPECIFIC_ERROR, f"share {mode[:60]!r}: give ordered, or any")
                continue
            if share_of(text)[1].startswith("$"):
                refused[text] = (Reason.TOPIC_FILTER_INVALID, "topics that begin with $ are not shared")
                continue
            try:
                found, is_begun = await self._admit(session, text, mode, start or "latest")
            except (redis.RedisError, StoreFault, ValueError, OSError) as fault:
                refused[text] = (Reason.UNSPECIFIED_ERROR, str(fault))
                if text not in session.subscriptions:
                    self.withdraw(session, [text])
                continue
            if found != (mode or found):
                refused[text] = (Reason.IMPLEMENTATION_SPECIFIC_ERROR, f"{text[:100]} has share={found}, not {mode}")
            elif start is not None and not is_begun:
                notes.append(f"{text[:100]} was there before, and goes on where it is: start does not count")
        return refused, notes

    async def _admit(self, session: Session, text: str, mode: str | None, start: Start) -> tuple[str, bool]:
        """Return the mode of a group, after the session is a member of it, if it wants the same; and whether that is
        the group's first member, which has set its start.
        """
        name = share_name(text)
        async with self._hold(name):
            uid, client_id, run = session.uid, session.client_id, self.gateway.run
            commands = share_records.entering(name, text, mode or "any", uid, client_id, run)
            *_, found, is_new = await self.link.demand(*commands)
            said: str = found.decode()
            if mode in (None, said):
                is_open = text in self.groups
                group = await self._open(text, said == "ordered", start)
                return said, not is_open and all(one.view.is_first for one in group.parts.values())
            if is_new:
                await self.link.demand(share_records.leaving(name, session.uid)[0])
            return said, False

    def withdraw(self, session: Session, texts: Iterable[str]) -> None:
        """End memberships in the store, of a session that is over, or that has left before it had the answer."""
        for text in texts:
            self._spawn(self.end_member(text, session.uid, session.client_id))

    def is_ordered(self, text: str) -> bool:
        """Return whether a group that has admitted a session has an order."""
        group = self.groups.get(text)
        return group is not None and group.is_ordered

    def join(self, session: Session, subscribed: Subscribed) -> None:
        """Give a session what its group has for it."""
        name = share_name(subscribed.filter)
        member = (session.shares or {}).get(name)
        group = self.groups.get(subscribed.filter)
        if member is not None and member.group is group and not member.is_parted:
            member.target = Target(session, [subscribed])
            return
        if group is None:
            self._spawn(self._join_again(session, subscribed))
            return
        new = Membership(group, session, consumer_name(session.client_id, session.uid), Target(session, [subscribed]))
        if member is not None:
            group.parted.pop(member, None)
            new.flying = member.flying
        else:
            assert session.outgoing is not None
            for sent in session.outgoing.in_flight:
                if isinstance(sent.place, Shared) and sent.place.share == name and sent.is_qos_1:
                    part = group.parts.get(sent.place.place.log)
                    if part is not None:
                        new.flying[sent.place.place] = part
        if session.shares is None:
            session.shares = {}
        session.shares[name] = new
        group.join(new)

    async def _join_again(self, session: Session, subscribed: Subscribed) -> None:
        """Open a group that was closed while its member came."""
        text = subscribed.filter
        async with self._hold(share_name(text)):
            await self._open(text, subscribed.is_ordered)
        if session.connection is not None and session.subscriptions.get(text) is subscribed:
            self.join(session, subscribed)

    def part(self, session: Session, text: str) -> None:
        """End a membership; what the client has begun is finished."""
        member = (session.shares or {}).get(share_name(text))
        if member is not None:
            member.group.part(member)
            self._drop_if_done(session, member)
        self._spawn(self.end_member(text, session.uid, session.client_id, is_finishing=True))

    def _drop_if_done(self, session: Session, member: Membership) -> None:
        if member.is_parted and not member.flying and session.shares is not None:
            member.group.parted.pop(member, None)
            session.shares.pop(member.group.name, None)
            session.shares = session.shares or None

    # Clients that come and go.

    async def take_up(self, record: Record) -> set[int]:
        """Prepare the memberships of a session whose client is back.

        Returns the packet identifiers of messages that others have got meanwhile. Raises: StoreFault.
        """
        texts = _shared(record.subscriptions)
        shared = [one for one in record.in_flight if isinstance(one.place, Shared)]
        if not texts and not shared:
            return set()
        try:
            return await self._take_up(record, sorted(texts))
        except (redis.RedisError, ValueError, OSError) as fault:
            raise StoreFault(str(fault))

    async def _take_up(self, record: Record, texts: list[str]) -> set[int]:
        consumer = consumer_name(record.client_id, record.uid)
        gone: set[int] = set()
        async with AsyncExitStack() as stack:
            parts: list[Part] = []
            for text in texts:
                name = share_name(text)
                async with self._hold(name):
                    mode = "ordered" if record.subscriptions[text].is_ordered else "any"
                    *_, found, _ = await self.link.demand(
                        *share_records.entering(name, text, mode, record.uid, record.client_id, self.gateway.run)
                    )
                    group = await self._open(text, found == b"ordered")
                for _, part in sorted(group.parts.items()):
                    await stack.enter_async_context(part.lock)
                    parts.append(part)
            kept: set[Place] = set()
            asked = [(one.packet_id, one.place) for one in record.in_flight if isinstance(one.place, Shared)]
            states = {one.packet_id: one.state for one in record.in_flight}
            commands: list[Words] = []
            for _, place in asked:
                entry_id = format_id(place.place.entry_id)
                commands.append(("XPENDING", key_of(place.place), place.share, entry_id, entry_id, 1))
            replies = await self.link.ask(*commands) if commands else []
            for (packet_id, place), reply in zip(asked, replies, strict=True):
                is_mine = not isinstance(reply, Exception) and bool(reply) and reply[0][1] == consumer.encode()
                if states[packet_id] == State.PUBLISHED_1:
                    if is_mine or isinstance(reply, Exception):  # without its group it is nobody else's
                        kept.add(place.place)
                    else:
                        gone.add(packet_id)
                elif is_mine:
                    self.acknowledge(place)
            self._send_acknowledged()
            for part in parts:
                await part.take_back(consumer, kept)
        return gone

    def resume(self, session: Session) -> None:
        """Go on with the memberships of a session that is connected again."""
        for text in _shared(session.subscriptions):
            self.join(session, session.subscriptions[text])

    def leave(self, session: Session, is_over: bool) -> None:
        """Pause the memberships of a session; end them if it is over."""
        for member in list((session.shares or {}).values()):
            member.group.leave(member, is_over)
        session.shares = None
        if is_over:
            self.withdraw(session, _shared(session.subscriptions))

    async def end(self, record: Record) -> None:
        """End the memberships of a session that the store has."""
        for text in _shared(record.subscriptions):
            await self.end_member(text, record.uid, record.client_id)

    async def end_member(self, text: str, uid: str, client_id: str, is_finishing: bool = False) -> None:
        """Forget a member; the last one takes the group along. is_finishing: what it has in flight stays its own."""
        name = share_name(text)
        async with self._hold(name):
            _, fields = await self.link.demand(*share_records.leaving(name, uid))
            if not share_records.has_members(fields):
                await self._drop(text, name)
                return
            if is_finishing:
                return
            group = self.groups.get(text)
            if group is None:
                group = await self._open(text, b"mode" in fields and await self._has_order(name))
            for part in group.parts.values():
                await part.end_consumer(consumer_name(client_id, uid))

    async def _has_order(self, name: str) -> bool:
        (mode,) = await self.link.demand(("HGET", share_records.share_key(name), "mode"))
        return bool(mode == b"ordered")

    async def _drop(self, text: str, name: str) -> None:
        group = self.groups.get(text)
        if group is not None:
            self.forget(group)
        for log in self._logs_of(share_of(text)[1]):
            try:
                await patiently(self.client, partial(shares.drop_share, log.handle, name))
            except ValueError:
                continue  # it has none
        await self.link.demand(*share_records.forgetting(name))

    # Messages.

    def wake(self, group: object, entry: Stored) -> None:
        """Note that there is a message for a group."""
        assert isinstance(group, Group)
        group.wake(entry)

    def left_out(self, session: Session, place: Shared, entry: Stored, is_for_others: bool) -> None:
        """Note that a message in flight is not sent again: it counts as delivered, or goes to another member.

        One of QoS 2 is its member's own from its first PUBLISH on, and goes to nobody else.
        """
        member = (session.shares or {}).get(place.share)
        part = None if member is None or not is_for_others else member.flying.pop(place.place, None)
        if member is None or part is None:
            self.acknowledged(session, place)
            return
        part.pass_on(entry)
        part.finished(member, place.place)
        self._drop_if_done(session, member)

    def acknowledged(self, session: Session, place: object) -> None:
        """Note that a client has acknowledged a message, of a group or not, and has room for another one."""
        if isinstance(place, Shared):
            self.acknowledge(place)
            member = (session.shares or {}).get(place.share)
            if member is not None:
                part = member.flying.pop(place.place, None) or member.group.parts.get(place.place.log)
                if part is not None:
                    part.finished(member, place.place)
                self._drop_if_done(session, member)
        self.go_on(session)

    def go_on(self, session: Session) -> None:
        """Give a session what it has room for."""
        for member in list((session.shares or {}).values()):
            member.group.go_on(member)

    def begun(self, session: Session, place: Shared, packet: bytes) -> None:
        """Take a packet of QoS 2 that may leave when the message is the session's own."""
        if session not in self._begun:
            self._begun[session] = []
            self.gateway.loop.call_soon(self._begin, session, session.connection)
        self._begun[session].append((place, packet))

    def _begin(self, session: Session, connection: Connection | None) -> None:
        items = self._begun.pop(session)
        # When the client is gone meanwhile, the record was written with its position of then.
        is_here = session.is_recorded and session.connection is connection
        noted = noted_of(session)
        commands = [*self.gateway.noting.changes(session), session.look] if is_here else []
        sent = self.gateway.link.begin(*commands)  # now: if the client leaves next, its session rests behind this
        self._spawn(self._send_begun(session, connection, items, commands, noted, sent))

    async def _send_begun(
        self,
        session: Session,
        connection: Connection | None,
        items: list[tuple[Shared, bytes]],
        commands: list[Words],
        noted: Noted,
        sent: asyncio.Future[list[Any]],
    ) -> None:
        noting, replies = self.gateway.noting, await sent
        if any(isinstance(one, Exception) for one in replies):
            noting.refused(session, connection, commands, noted)
        is_lost = session.is_fenced or (bool(commands) and noting.is_lost(session, replies.pop()))
        if is_lost or session.is_ended or (not session.is_recorded and session.connection is not connection):
            return  # it goes to another one
        by_key: dict[tuple[str, str], list[str]] = {}
        for place, _ in items:
            by_key.setdefault((key_of(place.place), place.share), []).append(format_id(place.place.entry_id))
        if not (faults := [one for one in replies if isinstance(one, Exception)]):
            replies = await self.link.ask(*[("XACK", key, share, *ids) for (key, share), ids in by_key.items()])
            faults = [one for one in replies if isinstance(one, Exception) and not str(one).startswith("NOGROUP")]
        if connection is None or session.connection is not connection:
            return
        if faults:
            connection.abandon(f"the store did not write the session: {faults[0]}")
            return
        for place, packet in items:
            if (member := (session.shares or {}).get(place.share)) is not None:
                member.flying.pop(place.place, None)
            connection.write(packet)


def _shared(texts: Iterable[str]) -> list[str]:
    return [one for one in texts if one.startswith("$") and share_of(one)[0] is not None]
