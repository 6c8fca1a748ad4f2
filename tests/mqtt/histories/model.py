"""A broker as plainly as it can be written: what each session must get, may get, and what is wrong with what it got."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tests.mqtt.histories.deviations import NONE, Deviations
from tests.mqtt.histories.steps import LONG_S
from tests.topics.mqtt_model import matches

# So long behind the end of an expiry a broker may still deliver: it counts in whole seconds.
BEHIND_S = 1.3


class Copy(NamedTuple):
    """How a message may arrive: its QoS, retain flag and subscription identifiers."""

    qos: int
    retain: bool
    ids: tuple[int, ...]


class Arrival(NamedTuple):
    """A PUBLISH that a client got. left_s: of its expiry, None without one."""

    payload: bytes
    topic: str
    copy: Copy
    is_dup: bool
    packet_id: int
    left_s: int | None


@dataclass(frozen=True)
class Message:
    """A message that was published; times: it may be there so often, as it was sent again (QoS 1)."""

    number: int
    publisher: str
    topic: str
    qos: int
    retain: bool
    payload: bytes
    expiry: int
    at: float
    times: int = 1
    is_will: bool = False


@dataclass(frozen=True)
class Subscription:
    """One subscription of a session."""

    filter: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0


@dataclass
class Due:
    """A message that a session is to get. ways: the sets of copies that are right; got: those that came.

    least: 0 if it need not come. is_loose: subscriptions have changed meanwhile, so any copies of it are right.
    """

    message: Message
    ways: list[list[Copy]]
    is_retained: bool
    least: int = 1
    is_loose: bool = False
    has_ids: bool = True
    serial: int = 0  # its place in the order of what the session got
    got: list[Copy] = field(default_factory=list)

    def takes(self, copy: Copy) -> bool:
        """Return whether one more copy is right."""
        if not self.has_ids:
            copy = copy._replace(ids=())
        wanted = Counter([*self.got, copy])
        if self.is_loose:
            return len(self.got) < max(len(way) for way in self.ways) * self.message.times
        return any(
            all(count <= way.count(one) * self.message.times for one, count in wanted.items()) for way in self.ways
        )

    def forget_ids(self) -> None:
        """The client speaks 3.1.1, which has no identifiers, and what was kept for it may have none later, too."""
        self.has_ids = False
        self.ways = [[copy._replace(ids=()) for copy in way] for way in self.ways]
        self.got = [copy._replace(ids=()) for copy in self.got]

    def is_satisfied(self) -> bool:
        """Return whether all has come that has to come."""
        if self.is_loose:
            return len(self.got) >= self.least
        if not self.got and not self.least:
            return True
        found = Counter(self.got)
        return any(all(found[one] >= count for one, count in Counter(way).items()) for way in self.ways)


@dataclass
class Flying:
    """A copy of QoS 1 or 2 that a client has got and not completed; is_received: its PUBREC was sent."""

    due: Due
    copy: Copy
    is_received: bool = False
    is_loose: bool = False  # subscriptions have changed meanwhile
    is_unsure: bool = False  # the broker was killed: it may not have had the PUBREC

    def is_same(self, copy: Copy) -> bool:
        """Return whether a copy that comes again is as it was."""
        if not self.due.has_ids:
            return copy[:2] == self.copy[:2]
        return copy == self.copy if not self.is_loose else copy.qos == self.copy.qos


@dataclass
class Session:
    """What a broker knows of a client. expiry: seconds; links: how many connections it had."""

    version: int
    expiry: int
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    dues: list[Due] = field(default_factory=list)
    flying: dict[int, Flying] = field(default_factory=dict)
    # What has to come again on this connection: PUBLISH, or PUBREL.
    again: dict[int, Flying] = field(default_factory=dict)
    is_connected: bool = True
    gone_at: float = 0.0
    links: int = 1
    came: int = 0
    allowed_again: Counter[int] = field(default_factory=Counter)  # after a kill: messages of QoS 1 that it had
    completed: set[int] = field(default_factory=set)  # packet identifiers that had PUBCOMP
    allowed_pubrel: set[int] = field(default_factory=set)  # after a kill: a broker may note PUBCOMP a little later
    newest: dict[tuple[str, str, int, bool], int] = field(default_factory=dict)


class Model:
    """The broker. Each method is one step, or one packet that a client got; faults: what was wrong."""

    def __init__(self, deviations: Deviations = NONE) -> None:
        self.deviations = deviations
        self.sessions: dict[str, Session] = {}
        self.retained: dict[str, Message] = {}
        self.messages: list[Message] = []
        self.wills: dict[str, Message] = {}  # of clients that are connected
        self.wills_out: list[Message] = []  # that were published; whoever awaits them empties the list
        self.faults: list[str] = []

    def connect(
        self, who: str, version: int, clean: bool, expiry: int, now: float, will: Message | None = None
    ) -> bool:
        """Begin a connection; return whether CONNACK has to say that a session is present."""
        before = self.sessions.get(who)
        goes_on = before is not None and bool(before.expiry) and not clean
        self.gone(who, now, has_will=not (goes_on and self.deviations.no_will_at_takeover))
        if will is not None:
            self.wills[who] = will
        session = self._living(who, now)
        if version == 4:
            expiry = 0 if clean else LONG_S
        is_present = session is not None and not clean
        if session is None or clean:
            self.sessions[who] = Session(version, expiry)
            return is_present
        session.version, session.expiry, session.is_connected = version, expiry, True
        session.links += 1
        session.again = dict(sorted(session.flying.items(), key=lambda pair: pair[1].due.serial))
        for due in session.dues:
            if max(copy.qos for way in due.ways for copy in way) == 0:
                due.least = 0
            if version == 4:
                due.forget_ids()
        return is_present

    def gone(self, who: str, now: float, expiry: int | None = None, has_will: bool = True) -> None:
        """End a connection, if there is one, and publish its will. expiry: what DISCONNECT changed it to."""
        will = self.wills.pop(who, None)
        self._end(who, now, expiry)
        if will is not None and has_will:
            will = replace(will, at=now, is_will=True)
            self.wills_out.append(will)
            self.publish(will)

    def _end(self, who: str, now: float, expiry: int | None) -> None:
        session = self.sessions.get(who)
        if session is None or not session.is_connected:
            return
        session.is_connected, session.gone_at = False, now
        session.again.clear()
        if expiry is not None:
            session.expiry = expiry
        for due in session.dues:
            # What has QoS 0 and is under way is lost with the connection.
            due.ways += [[copy for copy in way if copy.qos] for way in due.ways if any(not one.qos for one in way)]
            due.ways = [way for way in due.ways if way] or due.ways
        if not session.expiry:
            del self.sessions[who]

    def stopped(self, now: float) -> None:
        """The broker has ended in an orderly way: as if all connections had broken."""
        for who in list(self.sessions):
            self.gone(who, now)

    def killed(self, now: float) -> None:
        """The broker was killed: what had QoS 1 may come again."""
        for who, session in list(self.sessions.items()):
            seen = {due.message.number: len(due.got) for due in session.dues if any(one.qos < 2 for one in due.got)}
            session.allowed_again.update(seen)
            session.allowed_pubrel |= session.completed
            session.flying = {key: one for key, one in session.flying.items() if one.copy.qos == 2}
            for one in session.flying.values():
                one.is_unsure = True
            self.gone(who, now)

    def subscribe(self, who: str, new: Subscription, handling: int, now: float) -> None:
        """Add or replace a subscription."""
        session = self.sessions[who]
        had = new.filter in session.subscriptions
        for flying in session.flying.values():
            flying.is_loose = True
        if had:
            self._loosen(session)
            if self.deviations.keeps_first_options:
                old = session.subscriptions[new.filter]
                new = replace(new, no_local=old.no_local, retain_as_published=old.retain_as_published)
        session.subscriptions[new.filter] = new
        if handling == 2 or (handling == 1 and had):
            return
        for message in list(self.retained.values()):
            if not matches(new.filter, message.topic) or self._is_over(message, now, BEHIND_S):
                continue
            ids = (new.identifier,) if new.identifier and session.version == 5 else ()
            copy = Copy(min(message.qos, new.qos), True, ids)
            is_free = (new.no_local and message.publisher == who) or self._is_over(
                message, now, -self.deviations.expires_early_s
            )
            session.dues.append(Due(message, [[copy]], True, 0 if is_free else 1))

    def unsubscribe(self, who: str, filter: str) -> bool:
        """Remove a subscription; return whether there was one."""
        session = self.sessions[who]
        self._loosen(session, least=0)
        for flying in session.flying.values():
            flying.is_loose = True
        return session.subscriptions.pop(filter, None) is not None

    def publish(self, message: Message) -> None:
        """Take a message that is the broker's now."""
        self.messages.append(message)
        if message.retain:
            if message.payload:
                self.retained[message.topic] = message
            else:
                self.retained.pop(message.topic, None)
        for who, session in list(self.sessions.items()):
            if self._living(who, message.at) is None:
                continue
            matching = [
                one
                for one in session.subscriptions.values()
                if matches(one.filter, message.topic) and not (one.no_local and message.publisher == who)
            ]
            if matching:
                ways = list(self._ways(message, session, matching))
                is_lost = not session.is_connected and max(one.qos for one in matching) * message.qos == 0
                session.dues.append(Due(message, ways, False, 0 if is_lost else 1))
                if session.version == 4:
                    session.dues[-1].forget_ids()

    def _ways(self, message: Message, session: Session, matching: list[Subscription]) -> Iterator[list[Copy]]:
        """Yield the right sets of copies: one with the highest QoS and all identifiers, or one per subscription."""
        best = min(message.qos, max(one.qos for one in matching))
        all_ids = tuple(sorted(one.identifier for one in matching if one.identifier))
        # Whether the one copy is retained is left open where the subscriptions differ.
        for retain in {message.retain and one.retain_as_published for one in matching}:
            yield [Copy(best, retain, all_ids)]
        if self.deviations.any_qos_of_overlapping and session.version == 4:
            for one in matching:
                yield [Copy(min(message.qos, one.qos), False, ())]
        several = [
            Copy(
                min(message.qos, one.qos),
                message.retain and one.retain_as_published,
                (one.identifier,) if one.identifier else (),
            )
            for one in matching
        ]
        yield several
        if not session.is_connected and any(copy.qos for copy in several):
            yield [copy for copy in several if copy.qos]

    def arrive(self, who: str, arrival: Arrival, now: float) -> Flying | None:
        """Take what a client got; return what it has to acknowledge, None for QoS 0 and what is wrong."""
        session = self.sessions.get(who)
        if session is None:
            return None  # the broker is being killed, and its last packets come
        copy, packet_id = arrival.copy, arrival.packet_id
        flying = session.flying.get(packet_id) if copy.qos else None
        if flying is not None:
            return self._again(who, session, arrival, flying)
        due = self._due(session, arrival)
        if due is None:
            return self._surplus(who, session, arrival)
        message = due.message
        if arrival.is_dup and session.links == 1:
            self._fault(who, f"{_shown(arrival)} has DUP on the first connection")
        if arrival.topic != message.topic:
            self._fault(who, f"{_shown(arrival)} was published to {message.topic}")
        self._check_expiry(who, session, arrival, message, now)
        key = (message.publisher, message.topic, copy.qos, due.is_retained)
        # Of a message that was sent again, a copy of QoS 0 may have been lost with the connection.
        is_ordered = copy.qos > 0 or message.times == 1
        if message.is_will:
            pass  # it has no order with what its client publishes
        elif is_ordered and not due.got and session.newest.get(key, -1) > message.number:
            self._fault(who, f"reordered: {_shown(arrival)} behind message {session.newest[key]} of the same topic")
        if not message.is_will:
            session.newest[key] = max(session.newest.get(key, -1), message.number)
        if not due.got:
            session.came += 1
            due.serial = session.came
        due.got.append(copy if due.has_ids else copy._replace(ids=()))
        flying = Flying(due, copy) if copy.qos else None
        if not session.is_connected and copy.qos < 2:  # it came while the broker was being killed, as in `killed`
            session.allowed_again[message.number] += 1
        elif flying is not None:
            session.flying[packet_id] = flying
        return flying

    def _again(self, who: str, session: Session, arrival: Arrival, flying: Flying) -> Flying | None:
        expected = session.again.get(arrival.packet_id)
        is_same = flying.due.message.payload == arrival.payload and flying.due.message.topic == arrival.topic
        if not is_same:
            self._fault(who, f"{_shown(arrival)}: the identifier is that of message {flying.due.message.number}")
        elif expected is None:
            self._fault(who, f"duplicated: {_shown(arrival)} came twice on one connection")
        elif flying.is_received and not flying.is_unsure:
            self._fault(who, f"duplicated: {_shown(arrival)} came again behind PUBREC")
        elif not arrival.is_dup:
            self._fault(who, f"{_shown(arrival)} came again without DUP")
        elif not flying.is_same(arrival.copy):
            self._fault(who, f"{_shown(arrival)} came again, and was {flying.copy}")
        elif next(iter(session.again)) != arrival.packet_id and arrival.copy.qos == flying.copy.qos:
            first = [one for one in session.again if not session.again[one].is_received]
            if first and first[0] != arrival.packet_id and not self._is_free(session.again[first[0]]):
                self._fault(who, f"reordered: {_shown(arrival)} came again before packet {first[0]}")
        session.again.pop(arrival.packet_id, None)
        return flying

    def _surplus(self, who: str, session: Session, arrival: Arrival) -> Flying | None:
        """Judge what is not due: allowed again after a kill, or wrong."""
        if self.deviations.no_will_at_takeover and any(one.is_will and _is_of(one, arrival) for one in self.messages):
            return None
        for due in session.dues:
            is_same = due.message.payload == arrival.payload and due.message.topic == arrival.topic
            may_repeat = arrival.copy.qos == 1 or (self.deviations.qos_0_again_after_kill and not arrival.copy.qos)
            if is_same and may_repeat and session.allowed_again[due.message.number] > 0:
                session.allowed_again[due.message.number] -= 1
                if not arrival.copy.qos:
                    return None
                session.flying[arrival.packet_id] = Flying(due, arrival.copy)
                return session.flying[arrival.packet_id]
        known = [due for due in session.dues if _is_of(due.message, arrival)]
        if known:
            had = [(one.got, one.ways) for one in known]
            self._fault(who, f"duplicated or not as due: {_shown(arrival)}; had and due: {had}")
        else:
            self._fault(who, f"foreign: {_shown(arrival)}")
        return None

    def _due(self, session: Session, arrival: Arrival) -> Due | None:
        found = [due for due in session.dues if _is_of(due.message, arrival) and due.takes(arrival.copy)]
        # A further copy of a message that was sent again only if nothing else is due.
        return min(found, key=lambda due: (due.is_satisfied(), due.is_loose), default=None)

    def _check_expiry(self, who: str, session: Session, arrival: Arrival, message: Message, now: float) -> None:
        if not arrival.is_dup and self._is_over(message, now, BEHIND_S):  # (what was in flight comes again, also late)
            self._fault(who, f"{_shown(arrival)} is expired since {now - message.at - message.expiry:.1f} s")
        if session.version == 4 or not message.expiry:
            if arrival.left_s is not None:
                self._fault(who, f"{_shown(arrival)} has an expiry")
        elif arrival.left_s is None:
            if not (self.deviations.expires_early_s > 1 and self._is_over(message, now, -1.1)):
                self._fault(who, f"{_shown(arrival)} has no expiry")
        elif not message.expiry - (now - message.at) - BEHIND_S <= arrival.left_s <= message.expiry:
            self._fault(who, f"{_shown(arrival)} has an expiry of {arrival.left_s} of {message.expiry}")

    def released(self, who: str, packet_id: int) -> None:
        """Take a PUBREL that a client got."""
        session = self.sessions.get(who)
        if session is None:
            return
        flying = session.flying.get(packet_id)
        if flying is None and packet_id in session.allowed_pubrel:
            return
        if flying is None or not flying.is_received:
            self._fault(who, f"PUBREL {packet_id} for what was not received")
        session.again.pop(packet_id, None)

    def received(self, who: str, packet_id: int) -> None:
        """The client sent PUBREC."""
        flying = self.sessions[who].flying.get(packet_id) if who in self.sessions else None
        if flying is not None:
            flying.is_received, flying.is_unsure = True, False

    def completed(self, who: str, packet_id: int) -> None:
        """The client sent PUBACK or PUBCOMP."""
        session = self.sessions.get(who)
        if session is None:
            return
        flying = session.flying.pop(packet_id, None)
        if flying is not None and flying.copy.qos == 2:
            session.completed.add(packet_id)

    def left(self, who: str, now: float) -> list[str]:
        """Return what a connected client has yet to get."""
        session = self.sessions[who]
        if self.deviations.stalls_behind_expired and any(
            self._is_over(due.message, now, -self.deviations.expires_early_s) for due in session.dues
        ):
            return []
        found = [
            f"lost: message {due.message.number} ({due.message.topic}, QoS {due.message.qos}); "
            f"had {due.got}, due {due.ways}{' (retained)' if due.is_retained else ''}"
            for due in session.dues
            if not due.is_satisfied() and not self._is_over(due.message, now, -self.deviations.expires_early_s)
        ]
        return found + [
            f"lost: {'PUBREL' if flying.is_received else 'PUBLISH'} {packet_id} again, of message "
            f"{flying.due.message.number}"
            for packet_id, flying in session.again.items()
            if not self._is_free(flying)
        ]

    def _is_free(self, flying: Flying) -> bool:
        """Return whether a message of QoS 1 need not come again, as it has an expiry."""
        return bool(flying.due.message.expiry) and flying.copy.qos == 1

    def lost(self, who: str, what: Iterable[str]) -> None:
        """Note what a client has waited for in vain."""
        for one in what:
            self._fault(who, one)

    def _living(self, who: str, now: float) -> Session | None:
        session = self.sessions.get(who)
        if session is not None and not session.is_connected and now - session.gone_at > session.expiry + BEHIND_S / 2:
            del self.sessions[who]
            return None
        return session

    def _is_over(self, message: Message, now: float, tolerance_s: float) -> bool:
        return bool(message.expiry) and now - message.at > message.expiry + tolerance_s

    def _loosen(self, session: Session, least: int | None = None) -> None:
        for due in session.dues:
            if not due.is_satisfied():
                due.is_loose = True
                if least is not None:
                    due.least = least

    def _fault(self, who: str, text: str) -> None:
        self.faults.append(f"{who}: {text}")


def _is_of(message: Message, arrival: Arrival) -> bool:
    return message.payload == arrival.payload and (bool(message.payload) or message.topic == arrival.topic)


def _shown(arrival: Arrival) -> str:
    copy = arrival.copy
    said = f"message {arrival.payload.decode('utf-8', 'replace') or 'without payload'} ({arrival.topic}, QoS {copy.qos}"
    said += f", packet {arrival.packet_id}" if arrival.packet_id else ""
    return said + f"{', retained' if copy.retain else ''}{', DUP' if arrival.is_dup else ''}, ids {copy.ids})"
