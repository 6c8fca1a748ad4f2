"""Sends the messages of the logs to the sessions that subscribe to them: live, or from where a session has stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from streamd.clients.mqtt.codec.packets import PropertyValue
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.gateway.counters import Counters
from streamd.clients.mqtt.gateway.session import Cursor, Session
from streamd.clients.mqtt.session.outgoing import Outgoing, Sent, State
from streamd.clients.mqtt.session.subscription_tree import Found, SubscriptionTree
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.records import Flying, Shared, Subscribed, Waiting
from streamd.clients.mqtt.store.replaying import Reader, Replay
from streamd.clients.mqtt.store.stored import Stored
from streamd.clients.mqtt.store.tailing import TailedLog

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.packing import Packing

More = tuple[tuple[int, PropertyValue], ...]
_RECEIVERS_MAX: Final = 50_000  # topics that somebody gets
_ALIAS_BYTES: Final = 8  # that a topic alias may add to a packet
_TURN: Final = 2_000  # entries that one session looks at, before others have their turn
_WALKED_MAX: Final = 64  # entries of the ring that a session goes through one by one
_NOBODY: Final[dict[Session, Target]] = {}
GAP: Final = "gap"  # the user property that tells a client that messages were removed before it got them


class Target:
    """How one session gets the messages of one topic: the subscriptions that match, joined.

    is_plain: nothing depends on the message. more: properties of each delivery.
    """

    __slots__ = ("is_plain", "more", "qos", "retain_as_published", "session", "subscribed")

    def __init__(self, session: Session, subscribed: list[Subscribed]) -> None:
        self.session, self.subscribed = session, subscribed
        self.qos = max(one.qos for one in subscribed)
        self.retain_as_published = any(one.retain_as_published for one in subscribed)
        self.is_plain = not any(one.no_local or one.since for one in subscribed)
        identifiers = tuple(one.identifier for one in subscribed if one.identifier is not None)
        self.more: More = ((Property.SUBSCRIPTION_IDENTIFIER, identifiers),) if identifiers else ()

    def for_entry(self, entry: Stored) -> Target | None:
        """Return the target for one message; None if it is not for this session."""
        client = self.session.client_bytes
        subscribed = [
            one
            for one in self.subscribed
            if not (one.no_local and entry.publisher == client)
            and not (one.since and _is_before(one.since.get(entry.log), entry))
        ]
        if len(subscribed) == len(self.subscribed):
            return self
        return Target(self.session, subscribed) if subscribed else None


def _to_look_at(cursor: Cursor, number: int) -> Iterator[tuple[int, Stored]]:
    """Return the entries of the ring, from a number on, that may be for a session, each with its number.

    Of many they are found by the topics: ten thousand sessions that return must not walk the ring one by one.
    """
    ring = cursor.tailed.ring
    if ring.next - number > _WALKED_MAX:
        filters = cursor.filters
        if "#" not in filters:
            return cursor.tailed.topics.entries(filters, number)
    return enumerate(ring.from_number(number), number)


def _is_before(since: Position | None, entry: Stored) -> bool:
    return since is not None and since.has_passed(entry.generation, entry.shard, entry.entry_id)


class Delivery:
    """The way of messages out of the logs.

    on_fold: gets each retained message of the tails. on_share: gets each message for a group. on_begun: gets packets of
    QoS 2 of a group, which leave when the message is the session's own. on_left_out: gets each message of a group that
    is not sent again, and whether another member may have it. now_ms: the store's time.
    """

    def __init__(
        self,
        counters: Counters,
        now_ms: Callable[[], int],
        note: Callable[[Session], None],
        on_fold: Callable[[TailedLog, Stored], None],
        on_share: Callable[[object, Stored], None],
        on_begun: Callable[[Session, Shared, bytes], None],
        on_left_out: Callable[[Session, Shared, Stored, bool], None],
    ) -> None:
        self.tree: SubscriptionTree[Session, Subscribed] = SubscriptionTree()
        self.shared: SubscriptionTree[object, None] = SubscriptionTree()
        self.replays: dict[str, Replay] = {}
        self._counters, self._now_ms, self._note = counters, now_ms, note
        self._on_fold, self._on_share = on_fold, on_share
        self._on_begun, self._on_left_out = on_begun, on_left_out
        self._receivers: dict[bytes, tuple[tuple[Found[Session, Subscribed], ...], dict[Session, Target]]] = {}
        self._pumped_soon: dict[Session, None] = {}
        self._ahead: set[Cursor] = set()  # at the end of the ring, and beyond the tail
        self._loop = asyncio.get_running_loop()
        self.packing: Packing
        self.retained_for: Callable[[Waiting], Iterator[Stored]] = lambda waiting: iter(())

    def forget_rights(self) -> None:
        """Decide anew who may read what."""
        self._receivers.clear()

    def receivers(self, topic: bytes) -> dict[Session, Target]:
        """Return how the messages of a topic are delivered, by session."""
        found = self.tree.find(topic)
        if not found:
            return _NOBODY
        known = self._receivers.get(topic)
        if known is not None and known[0] is found:
            return known[1]
        by_session: dict[Session, list[Subscribed]] = {}
        for one in found:
            by_session.setdefault(one.key, []).append(one.value)
        targets = {
            session: Target(session, subscribed)
            for session, subscribed in by_session.items()
            if session.rights.may_read(topic)
        }
        if known is None and len(self._receivers) >= _RECEIVERS_MAX:
            self._receivers.clear()
        self._receivers[topic] = found, targets
        return targets

    def deliver(self, tailed: TailedLog, entries: list[Stored], first: int) -> bool:
        """Send what came into a log to the sessions that keep up; return whether a session subscribes to any of it.

        first: the number of the first entry in the ring.
        """
        name = tailed.log.name
        number = first
        is_heard = False
        for entry in entries:
            if entry.is_retained:
                self._on_fold(tailed, entry)
            receivers = self.receivers(entry.topic)
            for session, target in receivers.items():
                if session.cursors is not None and name in session.cursors:
                    continue  # it comes here by itself
                if not self._send(session, target, entry):
                    self._stop(session, tailed, number)
            groups = self.shared.find(entry.topic)
            for group in groups:
                self._on_share(group.key, entry)
            if receivers or groups:
                is_heard = True
            elif entry.expires_ms is not None:
                self._counters.messages_without_receiver += 1
            number += 1
        for cursor in list(self._ahead):
            if cursor.tailed is tailed:
                self._ahead.discard(cursor)
                self._advance(cursor)
        return is_heard

    def show(self, entry: Stored) -> None:
        """Send a message of the gateway's own, of QoS 0, which no log has, to the sessions that have room for it."""
        assert not entry.qos
        for session, target in self.receivers(entry.topic).items():
            self._send(session, target, entry)

    def offer(self, session: Session, entry: Stored) -> bool:
        """Send a message to a session that is behind, if it subscribes to it; return False if there is no room."""
        target = self.receivers(entry.topic).get(session)
        return target is None or self._send(session, target, entry)

    def offer_all(self, session: Session, entries: Sequence[Stored]) -> int:
        """Offer messages in their order, until there is no room; return how many were taken, or not for the session."""
        topic: bytes | None = None
        target: Target | None = None
        for number, entry in enumerate(entries):
            if entry.topic != topic:
                topic = entry.topic
                target = self.receivers(topic).get(session)
            if target is not None and not self._send(session, target, entry):
                return number
        return len(entries)

    def behind(self, log: str, topic: bytes) -> list[Cursor]:
        """Return how far the sessions have come that subscribe to a topic, and are behind in a log."""
        return [
            cursor
            for session in self.receivers(topic)
            if session.cursors is not None and (cursor := session.cursors.get(log)) is not None
        ]

    def has_gone(self, session: Session, entry: Stored, lost_ms: int) -> bool:
        """Return whether a gateway that was killed may have sent a message that must not come twice, one of QoS 0.

        lost_ms: when its session was taken from it, in Unix milliseconds of the store.
        """
        if entry.entry_id[0] > lost_ms:
            return False
        target = self.receivers(entry.topic).get(session)
        return target is not None and not (entry.qos and target.qos)

    def send_retained(self, session: Session, entry: Stored, qos: int, identifier: int | None) -> bool:
        """Send a retained message because of a new subscription; return False if there is no room."""
        more: More = () if identifier is None else ((Property.SUBSCRIPTION_IDENTIFIER, (identifier,)),)
        return self._send_as(session, entry, qos, True, more)

    def send_shared(self, session: Session, target: Target, entry: Stored, share: str) -> bool:
        """Send a message of a group to one of its members; return False if there is no room."""
        retain = entry.is_retained and target.retain_as_published
        return self._send_as(session, entry, target.qos, retain, target.more, share)

    def _send(self, session: Session, target: Target, entry: Stored) -> bool:
        if not target.is_plain:
            narrowed = target.for_entry(entry)
            if narrowed is None:
                return True
            target = narrowed
        retain = entry.is_retained and target.retain_as_published
        return self._send_as(session, entry, target.qos, retain, target.more)

    def _send_as(
        self, session: Session, entry: Stored, qos: int, retain: bool, more: More, share: str | None = None
    ) -> bool:
        connection = session.connection
        if connection is None or connection.is_full:
            return False
        now_ms = 0
        if entry.expires_ms is not None:
            now_ms = self._now_ms()
            if entry.expires_ms <= now_ms:
                self._counters.messages_expired += 1
                return True
        pack = session.pack
        if pack is not None:  # an application
            pack = self.packing.pack_of(session, share)
            if not pack.room(self.packing.now_ms()):
                return False
        if entry.qos < qos:
            qos = entry.qos
        outgoing = session.outgoing
        assert outgoing is not None
        if qos and not outgoing.room:
            return False
        version = connection.version
        if session.gap is not None and version < 5:
            session.gap = None  # there is no way to tell it
        elif session.gap is not None:
            gap = (Property.USER_PROPERTY, ((GAP, session.gap),))
            noted = entry.head(version, qos, retain, now_ms, (*more, gap))
            if noted.whole_bytes + _ALIAS_BYTES <= connection.packet_bytes_max:  # otherwise the next one tells it
                more = (*more, gap)
                session.gap = None
        # (A message of QoS 2 of a group may never leave: it cannot be the one that tells an alias.)
        if connection.aliases is not None and (share is None or qos != 2):
            head = connection.aliased_head(entry, qos, retain, now_ms, more)
        else:
            head = entry.head(version, qos, retain, now_ms, more if version == 5 else ())
        if head.whole_bytes > connection.packet_bytes_max:
            self._counters.publishes_dropped += 1
            return True
        self._counters.publishes_sent += 1
        self._counters.publish_bytes_sent += len(entry.payload)
        if not qos:
            if pack is not None:
                self.packing.sent(session, pack, 0)
            connection.write(head.packet())
            return True
        place = entry.place if share is None else Shared(entry.place, share)
        packet_id = outgoing.send(place, qos, retain)
        if session.is_recorded:
            session.flight_number += 1
            if session.numbers is None:
                session.numbers = {}
            session.numbers[packet_id] = session.flight_number
        if pack is not None:
            self.packing.sent(session, pack, packet_id)
        if qos == 2 and isinstance(place, Shared):
            self._on_begun(session, place, head.packet(packet_id))
            return True
        if session.is_recorded:
            if qos == 2 or pack is not None:
                self.hold(session, head.packet(packet_id))
                return True
            if not session.is_dirty:
                self._note(session)
        connection.write(head.packet(packet_id))
        return True

    def hold(self, session: Session, packet: bytes) -> None:
        """Send a packet when the session's record says so."""
        if session.held is None:
            session.held = []
        session.held.append(packet)
        self._note(session)

    def missed(self, session: Session, tailed: TailedLog) -> None:
        """Tell a client that messages were removed before it got them: with the next one that it gets."""
        self._counters.gaps += 1
        if session.pack is not None:
            self.packing.missed(session, tailed.log.name)
        session.gap = tailed.log.name

    def set_back(self, session: Session, tailed: TailedLog, position: Position, lost_ms: int = 0) -> None:
        """Let a session read a log from a position on, which is behind the tail."""
        cursor = Cursor(self, session, tailed, position)
        cursor.lost_ms = lost_ms
        self._forget_cursor(session, tailed.log.name)
        if session.cursors is None:
            session.cursors = {}
        session.cursors[tailed.log.name] = cursor

    def position(self, session: Session, tailed: TailedLog) -> Position:
        """Return how far a session has come in a log."""
        cursor = (session.cursors or {}).get(tailed.log.name)
        return tailed.position if cursor is None else cursor.reached

    def pump_soon(self, session: Session) -> None:
        """Pump at the end of this turn: acknowledgements come in numbers."""
        if not self._pumped_soon:
            self._loop.call_soon(self._pump_all)
        self._pumped_soon[session] = None

    def _pump_all(self) -> None:
        sessions, self._pumped_soon = self._pumped_soon, {}
        for session in sessions:
            self.pump(session)

    def pump(self, session: Session) -> None:
        """Send what a session has room for: first what has to be sent again, then what it has stopped at."""
        connection = session.connection
        if connection is None or (session.resending is not None and not self._resend(session)):
            return
        while session.retained and session.retained[0].is_begun:
            if not self._send_waiting(session, session.retained[0]):
                return
            session.retained.popleft()
            if session.noted_waiting and not session.is_dirty:
                self._note(session)
        if not session.retained:
            session.retained = None
        if session.cursors is not None:
            for cursor in list(session.cursors.values()):
                self._advance(cursor)

    def _send_waiting(self, session: Session, waiting: Waiting) -> bool:
        """Send the retained messages that a subscription is still to get; return whether that is done."""
        for number, entry in enumerate(self.retained_for(waiting)):
            if number == _TURN:
                self._loop.call_soon(self.pump, session)
                return False
            is_due = waiting.takes(entry) and session.rights.may_read(entry.topic)
            if is_due and not self.send_retained(session, entry, waiting.qos, waiting.identifier):
                return False
            waiting.place = entry.topic
        return True

    def _resend(self, session: Session) -> bool:
        """Send again what was in flight; return whether that is done."""
        outgoing, connection = session.outgoing, session.connection
        assert outgoing is not None
        assert connection is not None
        assert session.resending is not None
        while not connection.is_full and (sent := outgoing.next_resend()) is not None:
            if session.pack is not None:
                self.packing.resent(session, sent.place)
            if sent.state == State.RELEASED:
                connection.write_pubrel(sent.packet_id)
                continue
            entry = session.resending[sent.packet_id]
            if not session.rights.may_read(entry.topic):  # any more
                self._leave_out(session, outgoing, sent, entry, True)
                if not session.is_dirty:
                    self._note(session)
                continue
            qos = 1 if sent.state == State.PUBLISHED_1 else 2
            if isinstance(sent.place, Shared):
                member = (session.shares or {}).get(sent.place.share)
                target = None if member is None else member.target
            else:
                target = self.receivers(entry.topic).get(session)
            more = target.more if target is not None and connection.version == 5 else ()
            head = entry.head(connection.version, qos, sent.retain, self._now_ms(), more)
            if head.whole_bytes > connection.packet_bytes_max:
                self._counters.publishes_dropped += 1
                self._leave_out(session, outgoing, sent, entry, False)
                if not session.is_dirty:
                    self._note(session)
                continue
            connection.write(head.packet(sent.packet_id, dup=True))
            self._counters.publishes_sent += 1
        if outgoing.has_resends:
            return False
        session.resending = None
        return True

    def _leave_out(
        self, session: Session, outgoing: Outgoing[Flying], sent: Sent[Flying], entry: Stored, is_for_others: bool
    ) -> None:
        """Take a message for delivered that is not sent again."""
        outgoing.leave_out(sent)
        if session.pack is not None:
            self.packing.finished(session, sent.packet_id, sent.place)
        if isinstance(sent.place, Shared):
            self._on_left_out(session, sent.place, entry, is_for_others)

    def _stop(self, session: Session, tailed: TailedLog, number: int) -> None:
        """Note that a session that kept up has no room for an entry of the ring."""
        cursor = Cursor(self, session, tailed, tailed.position)
        cursor.number = number
        if session.cursors is None:
            session.cursors = {}
        session.cursors[tailed.log.name] = cursor
        tailed.ring.stop(cursor, number)

    def caught_up(self, reader: Reader) -> None:
        """Let a session that has read from the store go on in the ring."""
        assert isinstance(reader, Cursor)
        reader.skip = reader.position
        reader.number = reader.tailed.ring.number_at(reader.position)
        self._advance(reader)

    def _advance(self, cursor: Cursor) -> None:
        ring = cursor.tailed.ring
        number = cursor.number
        if number is None:
            replay = self.replays[cursor.tailed.log.name]
            if not replay.is_crowd and cursor.position.has_reached(ring.start):
                replay.remove(cursor)  # it may be in the middle of a pass
                cursor.skip, number = cursor.position, ring.number_at(cursor.position)
            else:
                replay.add(cursor)
                return
        elif number < ring.next:
            ring.go_on(cursor, number)
        session, skip, lost_ms = cursor.session, cursor.skip, cursor.lost_ms
        for looked, (at, entry) in enumerate(_to_look_at(cursor, number)):
            is_seen = skip is not None and skip.has_passed(entry.generation, entry.shard, entry.entry_id)
            if lost_ms and not is_seen:
                is_seen = self.has_gone(session, entry, lost_ms)
            if looked < _TURN and (is_seen or self.offer(session, entry)):
                continue
            cursor.number = at
            ring.stop(cursor, at)
            if looked == _TURN:
                self._loop.call_soon(self.pump, session)
            return
        cursor.number = ring.next
        self._keeps_up(session, cursor)

    def _keeps_up(self, session: Session, cursor: Cursor) -> None:
        """From here on the session gets the messages of this log live."""
        assert session.cursors is not None
        name = cursor.tailed.log.name
        if cursor.skip is not None and not cursor.tailed.position.has_reached(cursor.skip):
            # It has read beyond the tail: what it has seen is passed over as the tail comes there.
            self._ahead.add(cursor)
            return
        del session.cursors[name]
        if not session.cursors:
            session.cursors = None
        for text, one in session.subscriptions.items():
            if one.since and name in one.since:
                del one.since[name]
                one.since = one.since or None
                if session.connection is not None:
                    self.tree.add(text, session, one)  # so that the topic's receivers are looked up again

    def _forget_cursor(self, session: Session, name: str) -> None:
        cursor = (session.cursors or {}).pop(name, None)
        if cursor is None:
            return
        if cursor.number is not None and cursor.tailed.ring.first <= cursor.number < cursor.tailed.ring.next:
            cursor.tailed.ring.go_on(cursor, cursor.number)
        self._ahead.discard(cursor)
        self.replays[name].remove(cursor)

    def leave(self, session: Session) -> dict[str, Position]:
        """Take a session out, whose client has left; return how far it had come in each log."""
        positions = {name: replay.tailed.position for name, replay in self.replays.items()}
        for name, cursor in list((session.cursors or {}).items()):
            positions[name] = cursor.reached
            self._forget_cursor(session, name)
        session.cursors = None
        for text in session.subscriptions:
            if not text.startswith("$share/"):
                self.tree.remove(text, session)
        return positions
