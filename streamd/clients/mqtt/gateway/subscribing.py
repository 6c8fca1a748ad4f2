"""Adds and removes subscriptions, here and in the session's record, and sends the retained messages of new ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamd.clients.mqtt.codec.names import share_of
from streamd.clients.mqtt.codec.packets import Properties, Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.noting import noted_of
from streamd.clients.mqtt.store.link import StoreFault, Words, encode
from streamd.clients.mqtt.store.positions import Position, furthest
from streamd.clients.mqtt.store.records import Subscribed, Waiting, waiting_field
from streamd.clients.topics.entry_ids import BEGIN, Id, before_ms, parse_id, to_ms
from streamd.clients.topics.reading import Start

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.connection import Connection
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.gateway.session import Session

START: Final = "start"  # the user property that lets a subscription begin in the past: earliest, or a time
SHARE: Final = "share"  # ordered, or any
_3_FAILED: Final = 0x80
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# A subscription as it was asked for, as it is kept, and the one that it replaces.
Added = tuple[Subscription, Subscribed, Subscribed | None]


class Subscribing:
    """The subscriptions of all clients."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def subscribe(self, connection: Connection, packet: Subscribe) -> None:
        """Take a SUBSCRIBE: when the tail has read all that was stored before, so that nothing older comes live."""
        tail = self._gateway.tail
        when_read = tail.when_read_anew if self._gateway.ownership.peers else tail.when_read
        when_read(partial(self._begin, connection, packet))

    def _begin(self, connection: Connection, packet: Subscribe) -> None:
        session = connection.session
        if connection.is_closing or session is None:
            self._gateway.counters.packets_dropped += 1
            return
        start = _user_property(packet.properties, START)
        shared = [one.filter for one in packet.subscriptions if _is_shared(one)]
        if start is None and not shared:
            self._subscribe(connection, session, packet, None, {}, [])
        else:
            self._gateway.spawn(self._prepare(connection, session, packet, start))

    async def _prepare(self, connection: Connection, session: Session, packet: Subscribe, start: str | None) -> None:
        """Find what the store has to say first: where the past is, and the groups of shared subscriptions."""
        try:
            since = None if start is None else await self._positions(start)
        except (ValueError, StoreFault) as error:
            is_of_store = isinstance(error, StoreFault)
            reason = Reason.UNSPECIFIED_ERROR if is_of_store else Reason.IMPLEMENTATION_SPECIFIC_ERROR
            reasons = tuple(reason for _ in packet.subscriptions)
            for one in packet.subscriptions:
                self._gateway.counters.subscribes_refused += 1
                self._gateway.log_refusal(connection, one.filter.encode(), _refusal(reason, str(error)))
            self._answer(connection, packet.packet_id, reasons, str(error))
            connection.go_on()
            return
        allowed = dict.fromkeys(
            one.filter
            for one in packet.subscriptions
            if _is_shared(one) and self._reason_for(session, one) < Reason.UNSPECIFIED_ERROR
        )
        shares = self._gateway.shares
        begin = None if start is None else self._start_of_shares(start)
        refused, notes = await shares.admit(session, allowed, _user_property(packet.properties, SHARE), begin)
        if session.connection is connection:
            self._subscribe(connection, session, packet, since, refused, notes)
        else:
            shares.withdraw(session, [one for one in allowed if one not in session.subscriptions])

    def _subscribe(
        self,
        connection: Connection,
        session: Session,
        packet: Subscribe,
        start: dict[str, Position] | None,
        refused: dict[str, tuple[int, str]],
        texts: list[str],
    ) -> None:
        gateway = self._gateway
        identifier = packet.properties.get(Property.SUBSCRIPTION_IDENTIFIER)
        assert identifier is None or isinstance(identifier, int)
        reasons: list[int] = []
        added: list[Added] = []
        for one in packet.subscriptions:
            reason, text = self._reason_for(session, one), ""
            if one.filter in refused:
                reason, text = refused[one.filter]
                texts.append(text)
            reasons.append(reason)
            if reason >= Reason.UNSPECIFIED_ERROR:
                gateway.counters.subscribes_refused += 1
                gateway.log_refusal(connection, one.filter.encode(), _refusal(reason, text))
                continue
            subscribed = Subscribed(one.filter, one.qos, one.no_local, one.retain_as_published, identifier)
            old = session.subscriptions.get(one.filter)
            if _is_shared(one):
                subscribed.is_ordered = gateway.shares.is_ordered(one.filter)
            else:
                self._place(session, subscribed, start, old)
                gateway.delivery.tree.add(one.filter, session, subscribed)
            session.subscriptions[one.filter] = subscribed
            added.append((one, subscribed, old))
        plain = [new for one, new, _ in added if not _is_shared(one)]
        before = self._set_back(session, start, plain) if start is not None and plain else {}
        text = "; ".join(dict.fromkeys(texts))
        waiting, replaced = self._await_retained(session, added)
        done = partial(self._subscribed, connection, session, packet.packet_id, tuple(reasons), text, added, waiting)
        if not session.has_record or not added:
            done()
            return
        noted = noted_of(session)
        changes = gateway.noting.changes(session) if session.is_recorded else []
        new = {id(one_subscribed) for _, one_subscribed, _ in added}
        words: list[bytes | str | int] = []
        for text, one_subscribed in session.subscriptions.items():
            if one_subscribed.since or id(one_subscribed) in new:
                words += [f"s {text}", one_subscribed.to_text()]
        # Together with the position: a subscription never counts for what was sent before it.
        first, *others = changes or [("HSET", session.key)]
        commands: list[Words] = [[*first, *words], *others, session.look]

        def written(replies: list[Any]) -> None:
            if gateway.noting.is_lost(session, replies[-1]):
                return
            if any(isinstance(one, Exception) for one in replies):
                gateway.noting.refused(session, connection, changes, noted)
            refusal = replies[0] if isinstance(replies[0], Exception) else None
            if refusal is not None:
                self._take_back(connection, session, added, before)
                session.retained = deque([*replaced, *(one for one in session.retained or () if one not in waiting)])
            done(refusal)

        gateway.link.send(b"".join(encode(one) for one in commands), len(commands), written)

    def _reason_for(self, session: Session, one: Subscription) -> int:
        gateway = self._gateway
        if one.filter not in session.subscriptions and len(session.subscriptions) >= gateway.limits.subscriptions_max:
            return Reason.QUOTA_EXCEEDED
        if not session.rights.may_subscribe(one.filter):
            return Reason.NOT_AUTHORIZED
        return one.qos

    def _place(
        self, session: Session, new: Subscribed, start: dict[str, Position] | None, old: Subscribed | None
    ) -> None:
        """Let a new subscription of a session that is behind begin here, or where the one that it replaces began."""
        if start is not None:
            return
        if old is not None:
            new.since = old.since
            return
        if session.cursors is not None:
            new.since = {name: cursor.tailed.position for name, cursor in session.cursors.items()}

    def _set_back(self, session: Session, start: dict[str, Position], new: list[Subscribed]) -> dict[str, Position]:
        """Let a session read the past for its new subscriptions; for the older ones it has seen that.

        Returns the position that it had in each log that it reads again.
        """
        delivery = self._gateway.delivery
        before: dict[str, Position] = {}
        begun = {id(one) for one in new}
        for name, replay in delivery.replays.items():
            position = delivery.position(session, replay.tailed)
            if start[name].has_reached(position):
                continue
            before[name] = position
            for text, one in session.subscriptions.items():
                if id(one) in begun or text.startswith("$share/"):
                    continue
                since = (one.since or {}).get(name)
                if since is None or not since.has_reached(position):
                    one.since = {**(one.since or {}), name: position}
                    delivery.tree.add(text, session, one)
            delivery.set_back(session, replay.tailed, start[name])
        return before

    def _take_back(
        self, connection: Connection, session: Session, added: list[Added], before: dict[str, Position]
    ) -> None:
        """Let a session be as its record is, which the store has not changed."""
        gateway = self._gateway
        if session.connection is not connection:
            if not session.is_ended:
                gateway.shares.withdraw(
                    session, [one.filter for one, _, old in added if old is None and _is_shared(one)]
                )
            return
        for one, subscribed, old in reversed(added):
            if session.subscriptions.get(one.filter) is not subscribed:  # it was ended meanwhile
                continue
            if old is not None:
                session.subscriptions[one.filter] = old
            else:
                del session.subscriptions[one.filter]
            if not _is_shared(one):
                if old is not None:
                    gateway.delivery.tree.add(one.filter, session, old)
                else:
                    gateway.delivery.tree.remove(one.filter, session)
            elif old is None:
                gateway.shares.part(session, one.filter)
        for name, position in before.items():
            tailed = gateway.delivery.replays[name].tailed
            reached = gateway.delivery.position(session, tailed)
            gateway.delivery.set_back(session, tailed, furthest(reached, position))
        if session.is_recorded:
            gateway.noting.note(session)

    def _subscribed(
        self,
        connection: Connection,
        session: Session,
        packet_id: int,
        reasons: tuple[int, ...],
        text: str,
        added: list[Added],
        waiting: list[Waiting],
        refusal: Exception | None = None,
    ) -> None:
        gateway = self._gateway
        if session.connection is not connection:
            return
        if refusal is not None:
            failed = Reason.QUOTA_EXCEEDED if str(refusal).startswith("OOM") else Reason.UNSPECIFIED_ERROR
            reasons = tuple(failed if one < _3_FAILED else one for one in reasons)
            added = []
            gateway.log_fault(connection, f"the store refused a subscription: {refusal}")
        self._answer(connection, packet_id, reasons, text)
        for one, subscribed, _ in added:
            if _is_shared(one):
                gateway.shares.join(session, subscribed)
        for one_waiting in waiting:
            one_waiting.is_begun = True
        if session.connection is connection:
            gateway.delivery.pump(session)
        connection.go_on()

    def _await_retained(self, session: Session, added: list[Added]) -> tuple[list[Waiting], list[Waiting]]:
        """Let what is retained until now wait for its SUBACK. What comes from now on comes by the subscription.

        Returns what waits, and what waited for older subscriptions with the same filters.
        """
        retained = self._gateway.retained
        began = retained.positions()
        found: dict[str, Waiting] = {}
        replaced: list[Waiting] = []
        for one, new, old in added:
            if _is_shared(one) or not (one.retain_handling == 0 or (one.retain_handling == 1 and old is None)):
                continue
            replaced += _forget_waiting(session, new.filter)
            found.pop(new.filter, None)
            waiting = Waiting(new.filter, new.qos, new.identifier, began, is_begun=False)
            if next(retained.waiting(waiting), None) is not None:
                found[new.filter] = waiting
        if found:
            session.retained = deque([*(session.retained or ()), *found.values()])
        return list(found.values()), replaced

    def _answer(self, connection: Connection, packet_id: int, reasons: tuple[int, ...], text: str) -> None:
        if connection.version < 5:
            reasons = tuple(one if one < _3_FAILED else _3_FAILED for one in reasons)
        properties: Properties = {Property.REASON_STRING: text} if text else {}
        connection.answer(Suback(packet_id, reasons, properties))

    def unsubscribe(self, connection: Connection, packet: Unsubscribe) -> None:
        """Take an UNSUBSCRIBE."""
        session = connection.session
        assert session is not None
        reasons: list[int] = []
        gone: dict[str, None] = {}
        for text in packet.filters:
            is_known = text in session.subscriptions and text not in gone
            reasons.append(Reason.SUCCESS if is_known else Reason.NO_SUBSCRIPTION_EXISTED)
            if is_known:
                gone[text] = None
        done = partial(self._unsubscribed, connection, session, packet.packet_id, tuple(reasons), list(gone))
        if session.has_record and gone:
            words = ("HDEL", session.key, *_fields_of(gone))
            self._gateway.link.send(encode(words) + encode(session.look), 2, done)
        else:
            done([])

    def _unsubscribed(
        self,
        connection: Connection,
        session: Session,
        packet_id: int,
        reasons: tuple[int, ...],
        gone: list[str],
        replies: list[Any],
    ) -> None:
        if replies and self._gateway.noting.is_lost(session, replies[-1]):
            return
        refusal = replies[0] if replies and isinstance(replies[0], Exception) else None
        if refusal is None:
            for text in gone:
                self._end(session, text)
        elif connection.version < 5:  # its UNSUBACK cannot say so
            connection.abandon(f"the store did not remove a subscription: {refusal}")
        else:
            reasons = tuple(Reason.UNSPECIFIED_ERROR if one == Reason.SUCCESS else one for one in reasons)
            self._gateway.log_fault(connection, f"the store did not remove a subscription: {refusal}")
        if connection.is_closing:
            return
        connection.answer(Unsuback(packet_id, reasons if connection.version == 5 else ()))
        connection.go_on()

    def _end(self, session: Session, text: str) -> None:
        """End a subscription here, also of a session whose client has left meanwhile."""
        if session.subscriptions.pop(text, None) is None:
            return
        if share_of(text)[0] is not None:
            self._gateway.shares.part(session, text)
        else:
            self._gateway.delivery.tree.remove(text, session)
            _forget_waiting(session, text)

    def end_forbidden(self, session: Session) -> None:
        """End the subscriptions that a session is no longer allowed to have."""
        gone = [text for text in session.subscriptions if not session.rights.may_subscribe(text)]
        for text in gone:
            self._end(session, text)
            assert session.connection is not None
            self._gateway.log_refusal(session.connection, text.encode(), "the subscription is no longer allowed")
        if gone and session.has_record:
            self._gateway.tell_store([("HDEL", session.key, *_fields_of(gone))])

    def _start_of_shares(self, start: str) -> Start:
        """Return a start, which has been checked, as the groups of shared subscriptions take it."""
        if start == "earliest":
            return "earliest"
        start_ms = _start_ms(start)
        return "latest" if start_ms >= self._gateway.now_ms() else _EPOCH + timedelta(milliseconds=start_ms)

    async def _positions(self, start: str) -> dict[str, Position]:
        """Return the position of a start in each log. Raises: ValueError."""
        start_ms: int | None = None
        if start != "earliest":
            start_ms = _start_ms(start)
        found = {}
        for replay in self._gateway.delivery.replays.values():
            log = replay.tailed.log
            oldest = log.handle.meta.generations[0]
            ids: list[Id]
            if start_ms is not None:
                ids = [before_ms(start_ms)] * oldest.shards
            else:
                replies = await self._gateway.link.demand(
                    *[log.trimmed_command(oldest.number, shard) for shard in range(oldest.shards)]
                )
                ids = [BEGIN if one is None else parse_id(one) for one in replies]
            found[log.name] = Position(oldest.number, tuple(ids))
        return found


def _is_shared(one: Subscription) -> bool:
    return share_of(one.filter)[0] is not None


def _fields_of(filters: Iterable[str]) -> list[str]:
    """Return the fields of a record that subscriptions have."""
    return [field for one in filters for field in (f"s {one}", waiting_field(one))]


def _forget_waiting(session: Session, filter: str) -> list[Waiting]:
    """Send no more retained messages for a subscription that has ended, or was made anew; return what waited."""
    gone = [one for one in session.retained or () if one.filter == filter]
    if gone:
        session.retained = deque(one for one in session.retained or () if one.filter != filter)
    return gone


def _start_ms(start: str) -> int:
    if start.isdecimal() and start.isascii() and len(start) <= 15:
        return int(start)
    try:
        return to_ms(datetime.fromisoformat(start))
    except ValueError:
        raise ValueError(
            f"start {start[:60]!r}: give earliest, Unix milliseconds, or a time such as 2026-01-31T14:05+00:00"
        )


def _refusal(reason: int, text: str) -> str:
    return f"SUBSCRIBE refused with {reason:#04x}{text and f': {text}'}"


def _user_property(properties: Properties, name: str) -> str | None:
    pairs = properties.get(Property.USER_PROPERTY)
    if pairs is None:
        return None
    assert isinstance(pairs, tuple)
    for pair in pairs:
        assert isinstance(pair, tuple)
        if pair[0] == name:
            return str(pair[1])
    return None
