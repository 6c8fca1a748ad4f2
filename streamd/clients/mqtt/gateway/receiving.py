"""Takes the messages that clients publish: checks them, names them, stores them, and answers."""

from __future__ import annotations

import hashlib
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from streamd.clients.mqtt.codec.names import is_of_server, share_of
from streamd.clients.mqtt.codec.packets import NO_PROPERTIES, Properties, Puback, Publish, Pubrec
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import PacketType, Reason
from streamd.clients.mqtt.gateway.session import LookedUp
from streamd.clients.mqtt.session.incoming import Aliases, Arrival
from streamd.clients.mqtt.store.publishing import TAKEN, Publication
from streamd.clients.mqtt.store.stored import packed_fields, version_of
from streamd.clients.topics.entry_ids import parse_id
from streamd.clients.topics.filters import TopicFilter
from streamd.clients.topics.layout import VERSION, Generation

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.connection import Connection
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.gateway.session import Session
    from streamd.clients.mqtt.store.logs import OpenLog

# (Members of enumerations, which cost as much to look up as a call.)
_STORE: Final = Arrival.STORE
_PUBACK: Final = PacketType.PUBACK
_PUBREC: Final = PacketType.PUBREC
IID: Final = "iid"  # the user property that names a message
_FORGOTTEN: Final = (
    "stored; but so many iids came from this client that the oldest may be forgotten: "
    "a message that is sent again after that is stored twice"
)


class ContentRule:
    """Messages of equal topic and payload, within a span of time, are one. source: the option's text."""

    def __init__(self, source: str) -> None:
        """Parse FILTER=SECONDS. Raises: ValueError."""
        text, equals, seconds = source.rpartition("=")
        if not equals or not seconds.isdecimal() or not 1 <= int(seconds) <= 3_600:
            raise ValueError(
                f"--idempotent-content {source}: give FILTER=SECONDS, with 1 to 3600 seconds: a log knows names so long"
            )
        if share_of(text)[0] is not None:
            raise ValueError(
                f"--idempotent-content {source}: messages have no share; give {share_of(text)[1]}={seconds}"
            )
        try:
            self.filter = TopicFilter(text)
        except ValueError as error:
            raise ValueError(f"--idempotent-content {source}: {error}")
        self.seconds = int(seconds)

    def iid(self, topic: bytes, payload: bytes, now_ms: int) -> bytes:
        """Return the name of a message by its content. No client can give it: it begins with a zero byte."""
        digest = hashlib.blake2b(topic + b"\0" + payload, digest_size=16).digest()
        return b"\0%d:%b" % (now_ms // (self.seconds * 1_000), digest)


class Receiving:
    """The messages of all clients, on their way in."""

    def __init__(self, gateway: Gateway, rules: list[ContentRule]) -> None:
        self._gateway, self._rules = gateway, rules
        self._counters = gateway.counters

    def publish(self, connection: Connection, packet: Publish) -> None:
        """Take a PUBLISH. Raises: Fault."""
        session = connection.session
        assert session is not None
        counters = self._counters
        counters.publishes_received += 1
        counters.publish_bytes_received += len(packet.payload)
        topic, values = packet.topic, packet.properties
        if values:
            topic, values = self._unaliased(connection, packet)
        qos = packet.qos
        if qos:
            assert session.incoming is not None
            arrival = session.incoming.publish(qos, packet.packet_id)
            if arrival is not _STORE:
                if arrival is Arrival.REPEATED:
                    connection.acknowledge(PacketType.PUBREC, packet.packet_id)
                return
        if topic[:1] == b"$" and (is_of_server(topic) or not packet.retain):
            self._refuse(connection, packet, Reason.TOPIC_NAME_INVALID, "topics with $ are the server's")
        elif not session.rights.may_write(topic):
            self._refuse(connection, packet, Reason.NOT_AUTHORIZED, "no right to publish to this topic")
        elif packet.retain and not self._gateway.retained.has_room(topic, not packet.payload):
            self._refuse(connection, packet, Reason.QUOTA_EXCEEDED, "too many retained messages")
        else:
            self._store(connection, session, packet, topic, values)

    def _unaliased(self, connection: Connection, packet: Publish) -> tuple[bytes, Properties]:
        if Property.TOPIC_ALIAS not in packet.properties:
            return packet.topic, packet.properties
        if connection.aliases_in is None:
            connection.aliases_in = Aliases(self._gateway.limits.topic_alias_max)
        topic = connection.aliases_in.topic_of(packet)
        return topic, {number: one for number, one in packet.properties.items() if number != Property.TOPIC_ALIAS}

    def _store(
        self, connection: Connection, session: Session, packet: Publish, topic: bytes, values: Properties
    ) -> None:
        gateway = self._gateway
        log = gateway.logs.of_topic(topic)
        name: bytes | None = None
        if values or self._rules:
            name = self._name_of(packet, topic, values)
            if name is not None and not 1 <= len(name) <= gateway.limits.iid_bytes_max:
                text = f"an iid has 1 to {gateway.limits.iid_bytes_max} bytes"
                self._refuse(connection, packet, Reason.IMPLEMENTATION_SPECIFIC_ERROR, text)
                return
        publishing = gateway.publishing
        client, qos = session.client_bytes, packet.qos
        awaiting = None
        if qos == 2 and session.is_recorded:
            key = log.awaiting_key(log.shard_of(client), session.uid)
            if session.awaiting_keys is None:
                session.awaiting_keys = {}
            session.awaiting_keys[packet.packet_id] = key
            awaiting = f"{key} {packet.packet_id}"
        fields = packed_fields(topic, packet.payload, client, qos, packet.retain, values)
        producer = publishing.own_producer if name is None else client
        iid = publishing.own_name() if name is None else name
        session.storing += 1
        done = partial(self._stored, connection, session, packet.packet_id, qos, None if name is None else log)
        publication = Publication(log, client, fields, producer, iid, awaiting, done, packet.retain)
        closed = log.handle.closed_generations() if name is not None else []
        version = version_of(values, packet.retain) if log.version < VERSION and (values or packet.retain) else 1
        if version > log.version:
            connection.is_busy = True
            one = self._in_line(session, publication)
            gateway.spawn(self._after_version(connection, session, one, closed, version))
        elif closed:
            gateway.spawn(self._find(session, self._in_line(session, publication), closed))
        elif session.looked_up:
            self._in_line(session, publication).is_known = True
        else:
            publishing.publish(publication)
        if gateway.is_congested:
            connection.stop_reading()

    def _in_line(self, session: Session, publication: Publication) -> LookedUp:
        """Let a message, and those of its client behind it, wait until it may be stored."""
        if session.looked_up is None:
            session.looked_up = deque()
        one = LookedUp(publication)
        session.looked_up.append(one)
        return one

    async def _find(self, session: Session, one: LookedUp, closed: list[Generation]) -> None:
        """Ask generations that were closed a short time ago whether they know the name of a message."""
        one.entry_id = await self._gateway.publishing.find_in(one.publication, closed)
        one.is_known = True
        waiting = session.looked_up
        assert waiting is not None
        while waiting and waiting[0].is_known:
            first = waiting.popleft()
            if first.entry_id is None and first.refusal is None:
                self._gateway.publishing.publish(first.publication)
            else:
                first.publication.done(first.entry_id, first.refusal)
        if not waiting:
            session.looked_up = None

    def drop(self, session: Session) -> None:
        """Forget what waits of a session that another gateway has taken: its client sends it again there."""
        for one in session.looked_up or ():
            one.refusal = TAKEN
        self._gateway.publishing.drop(session.client_bytes)

    async def _after_version(
        self, connection: Connection, session: Session, one: LookedUp, closed: list[Generation], version: int
    ) -> None:
        """Store the first message of a log that needs entries of a later version."""
        try:
            await one.publication.log.raise_version(version)
        except Exception as error:
            one.refusal, closed = str(error), []
        await self._find(session, one, closed)
        connection.go_on()

    def _name_of(self, packet: Publish, topic: bytes, values: Properties) -> bytes | None:
        pairs = values.get(Property.USER_PROPERTY)
        if pairs is not None:
            assert isinstance(pairs, tuple)
            for pair in pairs:
                assert isinstance(pair, tuple)
                if pair[0] == IID:
                    return pair[1].encode()
        for rule in self._rules:
            if rule.filter.matches(topic):
                return rule.iid(topic, packet.payload, self._gateway.now_ms())
        return None

    def _stored(
        self,
        connection: Connection,
        session: Session,
        packet_id: int,
        qos: int,
        named_in: OpenLog | None,
        entry_id: bytes | None,
        error: str | None,
    ) -> None:
        self._is_done(session)
        if error is not None:
            self._failed(connection, session, packet_id, qos, error)
            return
        assert entry_id is not None
        text = ""
        if named_in is not None and self._has_forgotten(named_in, session.client_bytes, entry_id):
            text = _FORGOTTEN
        if not qos:
            return
        assert session.incoming is not None
        answers = session.incoming.stored(qos, packet_id)
        if connection.is_closing:
            return
        for _ in range(answers):
            if text and connection.version == 5:
                answer = Puback if qos == 1 else Pubrec
                connection.answer(answer(packet_id, 0, {Property.REASON_STRING: text}))
            else:
                connection.acknowledge(_PUBACK if qos == 1 else _PUBREC, packet_id)

    def _has_forgotten(self, log: OpenLog, client: bytes, said: bytes) -> bool:
        """Return whether a publisher's window may have forgotten some of its names before their time."""
        recorded = log.handle.recorded
        place = log.generation.number, log.shard_of(client)
        entry_id = parse_id(said)
        known = recorded.newest(place)
        return entry_id > known and client in recorded.note(place, [client], entry_id)

    def _is_done(self, session: Session) -> None:
        session.storing -= 1
        if session.storing:
            return
        if self._gateway.leaving.get(session.client_id) is session:
            del self._gateway.leaving[session.client_id]
        if session.when_stored is not None:
            waiting, session.when_stored = session.when_stored, None
            for one in waiting:
                if not one.done():
                    one.set_result(None)

    def _failed(self, connection: Connection, session: Session, packet_id: int, qos: int, error: str) -> None:
        """Answer a message that the store has refused."""
        gateway = self._gateway
        gateway.counters.publishes_refused += 1
        gateway.log_fault(connection, f"the store refused a message: {error}")
        answers = 0
        if qos:
            assert session.incoming is not None
            answers = session.incoming.refused(qos, packet_id)
            if session.awaiting_keys is not None:
                session.awaiting_keys.pop(packet_id, None)
        if connection.is_closing:
            return
        if connection.version < 5:
            connection.close()
            return
        answer = Puback if qos == 1 else Pubrec
        for _ in range(answers):
            connection.answer(answer(packet_id, reason_of(error), {Property.REASON_STRING: error[:200]}))

    def _refuse(self, connection: Connection, packet: Publish, reason: Reason, text: str) -> None:
        """Answer a message that is not stored; as the standard says, clients of 3.1.1 as if it were."""
        session = connection.session
        assert session is not None
        self._gateway.counters.publishes_refused += 1
        self._gateway.log_refusal(connection, packet.topic, text)
        if not packet.qos:
            return
        assert session.incoming is not None
        is_3 = connection.version < 5
        if is_3 and packet.qos == 2:
            session.incoming.stored(2, packet.packet_id)  # until its PUBREL
        else:
            session.incoming.refused(packet.qos, packet.packet_id)
        properties: Properties = NO_PROPERTIES if is_3 else {Property.REASON_STRING: text}
        answer = Puback if packet.qos == 1 else Pubrec
        connection.answer(answer(packet.packet_id, 0 if is_3 else reason, properties))

    def release(self, connection: Connection, packet_id: int) -> None:
        """Take a PUBREL, and answer it when the store has forgotten the packet identifier."""
        session = connection.session
        assert session is not None
        assert session.incoming is not None
        if not session.incoming.pubrel(packet_id):
            # It may be one whose message is being stored: its note is forgotten after its PUBREC.
            connection.acknowledge(PacketType.PUBCOMP, packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND)
            return
        key = None if session.awaiting_keys is None else session.awaiting_keys.pop(packet_id, None)
        if key is None:
            connection.acknowledge(PacketType.PUBCOMP, packet_id)
            return
        self._gateway.releases.add(key, packet_id, partial(self._released, connection, packet_id))

    def _released(self, connection: Connection, packet_id: int, refusal: Exception | None) -> None:
        if connection.is_closing:
            return
        if refusal is not None:  # its next connection begins with what the store has, and sends PUBREL again
            connection.abandon(f"the store did not forget a packet identifier: {refusal}")
            return
        connection.acknowledge(PacketType.PUBCOMP, packet_id)


def reason_of(error: str) -> Reason:
    """Return the reason code for an error of the store."""
    if error.startswith("OOM"):
        return Reason.QUOTA_EXCEEDED
    if error.startswith(("NOPERM", "READONLY", "MISCONF", "NOAUTH", "WRONGPASS")):
        return Reason.NOT_AUTHORIZED
    return Reason.UNSPECIFIED_ERROR
