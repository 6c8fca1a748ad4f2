"""The messages of QoS 1 and 2 that a client has been sent and has not acknowledged."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar

from streamd.clients.mqtt.codec.faults import against_protocol
from streamd.clients.mqtt.codec.reason_codes import Reason

P = TypeVar("P")  # the place of a message in its log

PACKET_IDS = 65_535


class State(IntEnum):
    """How far a message has come."""

    PUBLISHED_1 = 1  # QoS 1: a PUBACK is awaited
    PUBLISHED_2 = 2  # QoS 2: a PUBREC is awaited
    RELEASED = 3  # QoS 2: PUBREL was sent, a PUBCOMP is awaited


# (To look up a member of an enumeration costs more than all else in `send`.)
_PUBLISHED_1: Final = State.PUBLISHED_1
_PUBLISHED_2: Final = State.PUBLISHED_2


class Sent(NamedTuple, Generic[P]):
    """A message in flight. retain: the flag that its PUBLISH has."""

    packet_id: int
    place: P
    state: State
    retain: bool = False

    @property
    def is_qos_1(self) -> bool:
        """Whether a PUBACK ends it."""
        return self.state == State.PUBLISHED_1

    @property
    def needs_entry(self) -> bool:
        """Whether the message itself is sent again, not only its PUBREL."""
        return self.state != State.RELEASED


class Answer(IntEnum):
    """What has to be done after a PUBREC."""

    RELEASE = 1  # send PUBREL
    DONE = 2  # nothing: the client has refused the message
    UNKNOWN = 3  # send PUBREL 0x92


class Outgoing(Generic[P]):
    """The messages in flight to one client, in the order of their first PUBLISH.

    receive_maximum: at most so many may be in flight; it is the connection's. last_packet_id, sent: what a session
    that is resumed had at its end. Those are sent again first, with DUP and the same identifiers, by `next_resend`.
    """

    def __init__(self, receive_maximum: int, last_packet_id: int = 0, sent: Iterable[Sent[P]] = ()) -> None:
        self.last_packet_id = last_packet_id
        self._in_flight = {one.packet_id: one for one in sent}
        self._again = dict.fromkeys(self._in_flight)  # what has to be sent again, in its order
        self._quota = receive_maximum
        # Messages of the connection before take no part of the quota, until they are published again.
        self._uncounted = set(self._in_flight)
        self._abandoned: set[int] | None = None  # dropped, but the client may still count them

    def __len__(self) -> int:
        return len(self._in_flight)

    def __bool__(self) -> bool:
        return bool(self._in_flight)

    @property
    def in_flight(self) -> list[Sent[P]]:
        """The messages in flight, in their order."""
        return list(self._in_flight.values())

    def next_resend(self) -> Sent[P] | None:
        """Return the next message, or PUBREL, that has to be sent again; None while nothing has to be, or may be."""
        for packet_id in self._again:
            sent = self._in_flight[packet_id]
            if sent.state != State.RELEASED and packet_id in self._uncounted:
                if not self._quota:
                    return None
                self._quota -= 1
                self._uncounted.remove(packet_id)
            del self._again[packet_id]
            return sent
        return None

    def leave_out(self, sent: Sent[P]) -> None:
        """Take a message of `next_resend` for delivered, because it is too large for the client."""
        self._finish(sent.packet_id, sent.state)

    @property
    def has_resends(self) -> bool:
        """Whether something has to be sent again before new messages."""
        return bool(self._again)

    def drop(self, packet_id: int) -> None:
        """Forget a message that was not sent again yet, because the log has it no more."""
        del self._in_flight[packet_id], self._again[packet_id]
        self._uncounted.discard(packet_id)

    def again(self, ids: Iterable[int]) -> None:
        """Let `next_resend` return messages in flight once more, in their order; the quota counts them once."""
        wanted = {*ids, *self._again}
        self._again = {packet_id: None for packet_id in self._in_flight if packet_id in wanted}

    def abandon(self, ids: Iterable[int], keeps_quota: bool) -> None:
        """Take messages out of flight that the client has not acknowledged.

        keeps_quota: they count as in flight for the client, as in MQTT 5, until it acknowledges them or comes again.
        """
        for packet_id in ids:
            if self._in_flight.pop(packet_id, None) is None:
                continue
            self._again.pop(packet_id, None)
            if packet_id in self._uncounted:
                self._uncounted.remove(packet_id)
            elif keeps_quota:
                if self._abandoned is None:
                    self._abandoned = set()
                self._abandoned.add(packet_id)
            else:
                self._quota += 1

    def _late(self, packet_id: int) -> None:
        """Give back the quota of a message that was abandoned."""
        if self._abandoned is not None and packet_id in self._abandoned:
            self._abandoned.remove(packet_id)
            self._quota += 1

    @property
    def room(self) -> int:
        """How many new messages may be sent now; 0 while old ones have to be sent again."""
        if self._again or len(self._in_flight) >= PACKET_IDS:
            return 0
        return self._quota

    def send(self, place: P, qos: int, retain: bool = False) -> int:
        """Put a new message in flight; return its packet identifier. There has to be room."""
        assert self._quota
        in_flight = self._in_flight
        packet_id = self.last_packet_id % PACKET_IDS + 1
        while packet_id in in_flight or (self._abandoned is not None and packet_id in self._abandoned):
            packet_id = packet_id % PACKET_IDS + 1
        self.last_packet_id = packet_id
        in_flight[packet_id] = Sent(packet_id, place, _PUBLISHED_1 if qos == 1 else _PUBLISHED_2, retain)
        self._quota -= 1
        return packet_id

    def place_of(self, packet_id: int) -> P | None:
        """Return the place of a message in flight; None if it is not known."""
        sent = self._in_flight.get(packet_id)
        return None if sent is None else sent.place

    def puback(self, packet_id: int) -> P | None:
        """Return the place of a message that was acknowledged, with success or not; None if it is not known.

        Raises: Fault, if the message has QoS 2.
        """
        return self._finish(packet_id, _PUBLISHED_1)

    def pubrec(self, packet_id: int, reason: int) -> Answer:
        """Return what follows a PUBREC. A message that the client refused is no longer in flight.

        Raises: Fault, if the message has QoS 1.
        """
        sent = self._in_flight.get(packet_id)
        if sent is None:
            if reason >= Reason.UNSPECIFIED_ERROR:
                self._late(packet_id)
            return Answer.UNKNOWN
        if sent.state == State.PUBLISHED_1:
            raise against_protocol(f"a PUBREC for packet identifier {packet_id}, whose message has QoS 1")
        self._again.pop(packet_id, None)  # it had come, and only its PUBREC was lost
        if sent.state == State.RELEASED:
            return Answer.RELEASE
        if reason >= Reason.UNSPECIFIED_ERROR:
            self._finish(packet_id, State.PUBLISHED_2)
            return Answer.DONE
        self._in_flight[packet_id] = sent._replace(state=State.RELEASED)
        return Answer.RELEASE

    def pubcomp(self, packet_id: int) -> P | None:
        """Return the place of a message that is complete; None if it is not known.

        Raises: Fault, if no PUBREL was sent.
        """
        return self._finish(packet_id, State.RELEASED)

    def _finish(self, packet_id: int, state: State) -> P | None:
        sent = self._in_flight.get(packet_id)
        if sent is None:
            self._late(packet_id)
            return None
        if sent.state != state:
            raise against_protocol(f"an acknowledgement of the wrong kind for packet identifier {packet_id}")
        del self._in_flight[packet_id]
        if self._again:
            self._again.pop(packet_id, None)
        if packet_id in self._uncounted:
            self._uncounted.remove(packet_id)
        else:
            self._quota += 1
        return sent.place
