"""The messages of QoS 1 and 2 that a client has sent and that are not complete, and the aliases of its topics."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from streamd.clients.mqtt.codec.faults import Fault, against_protocol
from streamd.clients.mqtt.codec.packets import Publish
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason


class Arrival(IntEnum):
    """What has to be done with a PUBLISH."""

    STORE = 1  # it is a new message
    REPEATED = 2  # QoS 2: it was stored before; only the PUBREC is sent again
    BEING_STORED = 3  # QoS 2: one PUBREC more will follow


_STORE: Final = Arrival.STORE  # (to look up a member of an enumeration costs as much as a call)


class Incoming:
    """The messages that one client has sent, and that it has not had the last answer to.

    receive_maximum: what the server has told this connection. awaiting_release: the packet identifiers of QoS 2 that
    are stored and whose PUBREL has not come; they are the session's, and outlive its connections.
    """

    def __init__(self, receive_maximum: int, awaiting_release: Iterable[int] = ()) -> None:
        self._receive_maximum = receive_maximum
        self._awaiting_release = set(awaiting_release)
        self._storing_2: dict[int, int] = {}  # how often each was sent
        self._storing_1 = 0
        # Of the session before this connection: they do not count until they are sent again.
        self._uncounted = set(self._awaiting_release)

    @property
    def awaiting_release(self) -> frozenset[int]:
        """The packet identifiers of stored messages of QoS 2 that wait for PUBREL."""
        return frozenset(self._awaiting_release)

    def publish(self, qos: int, packet_id: int) -> Arrival:
        """Take a PUBLISH of QoS 1 or 2, and return what has to be done. Raises: Fault, if there are too many."""
        if qos == 2:
            if packet_id in self._storing_2:
                self._storing_2[packet_id] += 1
                return Arrival.BEING_STORED
            if packet_id in self._awaiting_release:
                if packet_id in self._uncounted:
                    self._uncounted.remove(packet_id)
                    self._check_number(0)
                return Arrival.REPEATED
        self._check_number(1)
        if qos == 1:  # a QoS 1 identifier may be used again at once: nothing is remembered of it
            self._storing_1 += 1
        else:
            self._storing_2[packet_id] = 1
        return _STORE

    def stored(self, qos: int, packet_id: int) -> int:
        """Note that a message is stored; return how many PUBACKs or PUBRECs are to leave then, one per PUBLISH."""
        if qos == 1:
            self._storing_1 -= 1
            return 1
        self._awaiting_release.add(packet_id)
        return self._storing_2.pop(packet_id)

    def refused(self, qos: int, packet_id: int) -> int:
        """Note that a message is answered with an error, which completes it; return how often it is to be answered."""
        if qos == 1:
            self._storing_1 -= 1
            return 1
        return self._storing_2.pop(packet_id)

    def pubrel(self, packet_id: int) -> bool:
        """Complete a message of QoS 2; return whether its identifier was known. An unknown one gets PUBCOMP 0x92."""
        if packet_id not in self._awaiting_release:
            return False
        self._awaiting_release.remove(packet_id)
        self._uncounted.discard(packet_id)
        return True

    def _check_number(self, more: int) -> None:
        counted = self._storing_1 + len(self._storing_2) + len(self._awaiting_release) - len(self._uncounted)
        if counted + more > self._receive_maximum:
            raise Fault(
                Reason.RECEIVE_MAXIMUM_EXCEEDED, f"more than {self._receive_maximum} messages that are not complete"
            )


class Aliases:
    """The topics that a client has given numbers on this connection. maximum: what the server has told it."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._topics: dict[int, bytes] = {}

    def topic_of(self, packet: Publish) -> bytes:
        """Return the topic of a PUBLISH, by its alias if it has no other; a topic with an alias is remembered.

        Raises: Fault, if the alias is too large, or not known.
        """
        alias = packet.properties.get(Property.TOPIC_ALIAS)
        if alias is None:
            return packet.topic
        assert isinstance(alias, int)
        if alias > self._maximum:
            raise Fault(Reason.TOPIC_ALIAS_INVALID, f"topic alias {alias}; at most {self._maximum} are taken")
        if packet.topic:
            self._topics[alias] = packet.topic
            return packet.topic
        topic = self._topics.get(alias)
        if topic is None:
            raise against_protocol(f"topic alias {alias} was not given a topic")
        return topic
