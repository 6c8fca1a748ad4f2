"""Lets a client in: its rights, its session, what it is told, and what happens when it leaves."""

from __future__ import annotations

import secrets
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from streamd.clients.mqtt.access import NotAdmitted, TooManyWaiting
from streamd.clients.mqtt.codec.names import is_of_server
from streamd.clients.mqtt.codec.packets import Connack, Connect
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.leaving import Refused, raise_faults, take
from streamd.clients.mqtt.gateway.lines import Lines
from streamd.clients.mqtt.gateway.session import Session
from streamd.clients.mqtt.session.incoming import Incoming
from streamd.clients.mqtt.session.outgoing import Outgoing, Sent
from streamd.clients.mqtt.store.link import StoreFault, Words
from streamd.clients.mqtt.store.records import (
    APPLICATION,
    APPLICATIONS,
    INDEX,
    WILLS,
    Flying,
    Found,
    NewerRecord,
    Pointer,
    Record,
    Shared,
    creation,
    indexing,
    parse_record,
    removal,
    user_key,
    waiting_fields,
    will_to_text,
)
from streamd.clients.mqtt.store.stored import Stored, parse_stored
from streamd.clients.topics.entry_ids import format_id

if TYPE_CHECKING:
    from streamd.clients.mqtt.access import ClientRights
    from streamd.clients.mqtt.gateway.connection import Connection
    from streamd.clients.mqtt.gateway.gateway import Gateway

# The return codes of 3.1.1; for other reasons the connection is closed without one.
_CODES_3: Final = {
    Reason.UNSUPPORTED_PROTOCOL_VERSION: 1,
    Reason.CLIENT_IDENTIFIER_NOT_VALID: 2,
    Reason.SERVER_UNAVAILABLE: 3,
    Reason.SERVER_BUSY: 3,
    Reason.USE_ANOTHER_SERVER: 3,
    Reason.QUOTA_EXCEEDED: 3,
    Reason.BAD_USER_NAME_OR_PASSWORD: 4,
    Reason.NOT_AUTHORIZED: 5,
}
_EPOCHS_PER_MS: Final = 10**9
_MOVES_MAX: Final = 10  # so often other gateways may come first
_OLDER_S: Final = 30.0  # in which what a client sent on its connection before is worked on


class _Moved(Exception):
    """Another gateway has begun or taken the session meanwhile."""


class Connecting:
    """The clients that come and go."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._lines = Lines()

    def connect(self, connection: Connection, packet: Connect) -> None:
        """Take a CONNECT."""
        if connection.connect_timer is not None:
            connection.connect_timer.cancel()
            connection.connect_timer = None
        self._gateway.spawn(self._connect(connection, packet))

    async def _connect(self, connection: Connection, packet: Connect) -> None:
        gateway = self._gateway
        client_id = packet.client_id
        connection.tells_problems = packet.properties.get(Property.REQUEST_PROBLEM_INFORMATION, 1) != 0
        size = packet.properties.get(Property.MAXIMUM_PACKET_SIZE)
        if isinstance(size, int):
            connection.packet_bytes_max = size
        try:
            if Property.AUTHENTICATION_METHOD in packet.properties:
                raise Refused(Reason.BAD_AUTHENTICATION_METHOD, "no enhanced authentication is known")
            if not client_id:
                if packet.version < 5 and not packet.clean_start:
                    raise Refused(Reason.CLIENT_IDENTIFIER_NOT_VALID, "no client identifier, and no clean session")
                client_id = f"auto-{secrets.token_hex(10)}"
            elif len(client_id.encode()) > gateway.limits.client_id_bytes_max:
                text = f"a client identifier of more than {gateway.limits.client_id_bytes_max} bytes"
                raise Refused(Reason.CLIENT_IDENTIFIER_NOT_VALID, text)
            rights = await self._admit(connection, packet, client_id)
            if packet.will is not None and not rights.may_write(packet.will.topic):
                raise Refused(Reason.NOT_AUTHORIZED, "no right to publish to the will's topic")
            if packet.will is not None and is_of_server(packet.will.topic):
                raise Refused(Reason.TOPIC_NAME_INVALID, "a will to a topic with $")
            if packet.will is not None and len(gateway.wills.held) >= gateway.limits.wills_max:
                raise Refused(
                    Reason.QUOTA_EXCEEDED, f"the limit of clients with a will is reached: {gateway.limits.wills_max:,}"
                )
            self._check_store()
            until_s = gateway.loop.time() + _OLDER_S
            self._lines.enter(connection, client_id, rights.username)
            async with gateway.lock(client_id):
                await self._begin(connection, packet, client_id, rights, until_s)
        except Refused as refused:
            self._refuse(connection, client_id, refused)
        except (StoreFault, NewerRecord) as fault:
            self._refuse(connection, client_id, Refused(Reason.SERVER_UNAVAILABLE, str(fault)))
        except Exception as error:  # without an answer the client would wait for ever
            text = f"internal error: {type(error).__name__}: {error}"
            self._refuse(connection, client_id, Refused(Reason.SERVER_UNAVAILABLE, text))
        finally:
            self._lines.leave(connection, client_id)

    def _check_store(self) -> None:
        link = self._gateway.link
        if not link.is_up:
            raise Refused(Reason.SERVER_UNAVAILABLE, f"the store is away: {link.fault}")
        if self._gateway.is_draining:
            raise Refused(Reason.USE_ANOTHER_SERVER, "the gateway is being ended")

    def store_is_away(self) -> None:
        """Refuse the clients that wait to be let in. What was begun for them ends when the store is back."""
        for connection in list(self._gateway.connections):
            if connection.is_busy and connection.session is None:
                self._refuse(connection, "", Refused(Reason.SERVER_UNAVAILABLE, "the store is away"))

    async def _admit(self, connection: Connection, packet: Connect, client_id: str) -> ClientRights:
        gateway = self._gateway
        try:
            return await gateway.access.admit(
                packet.username,
                packet.password,
                client_id,
                may_be_anonymous=gateway.may_be_anonymous(connection),
                certificate=gateway.certificate_of(connection),
            )
        except NotAdmitted as error:
            is_named = bool(packet.username)
            reason = Reason.BAD_USER_NAME_OR_PASSWORD if is_named else Reason.NOT_AUTHORIZED
            raise Refused(reason, str(error))
        except TooManyWaiting as error:
            raise Refused(Reason.SERVER_BUSY, str(error))

    async def _begin(
        self, connection: Connection, packet: Connect, client_id: str, rights: ClientRights, until_s: float
    ) -> None:
        """Make or go on with the session, and answer. until_s: what the client sent before is worked on so long."""
        gateway = self._gateway
        if connection.is_closing:
            return
        await gateway.takeovers.wait(client_id)
        if connection.is_closing:
            return
        self._check_store()
        older = gateway.clients.get(client_id)
        if older is not None:
            if older.user != rights.username:
                raise Refused(Reason.NOT_AUTHORIZED, f"the client identifier belongs to user {older.user!r}")
            before = older.connection
            assert before is not None
            if not before.is_lost:
                gateway.counters.takeovers += 1
                gateway.takeovers.note(client_id)
            before.finish(max(until_s - gateway.loop.time(), 0), Reason.SESSION_TAKEN_OVER)
            await before.until_closed()
        leaving = gateway.leaving.get(client_id)
        if leaving is not None and leaving.storing:
            # What it had begun to publish is stored or refused before the session goes on.
            await gateway.until_stored(leaving)
        if client_id in gateway.unwritten:
            raise_faults(await gateway.unwritten.write_again(client_id))
        self._lines.leave(connection, client_id)
        if connection.is_closing:
            return
        session, is_present = await self._session(connection, packet, client_id, rights)
        if connection.is_closing:  # the client did not wait
            gateway.clients[client_id] = session
            session.connection = connection
            gateway.leaving_clients.left(connection, session)
            return
        self._settle(connection, packet, session)
        self._answer(connection, packet, session, is_present)
        if session.pointer is None and gateway.handing_over.is_overtaken(connection, client_id):
            connection.close(Reason.SESSION_TAKEN_OVER)
            return
        gateway.shares.resume(session)
        if session.resending is not None or session.cursors is not None or session.retained:
            gateway.delivery.pump(session)
            gateway.shares.go_on(session)
        connection.go_on()

    async def _session(
        self, connection: Connection, packet: Connect, client_id: str, rights: ClientRights
    ) -> tuple[Session, bool]:
        """Return a session that this gateway owns, and whether it was there before. Raises: Refused; StoreFault."""
        for _ in range(_MOVES_MAX):
            try:
                record = await self._own(connection, packet, client_id, rights)
                if record is not None:
                    return await self._resume(packet, record, rights), True
                return await self._new(packet, client_id, rights), False
            except _Moved:
                continue
        raise StoreFault(f"the session of client {client_id!r} does not rest")

    async def _own(
        self, connection: Connection, packet: Connect, client_id: str, rights: ClientRights
    ) -> Record | None:
        """Take the session that a client has, from the gateway that it was connected to if need be; None without one.

        Raises: Refused; StoreFault; _Moved.
        """
        gateway = self._gateway
        record = parse_record(client_id, await gateway.finding.find(client_id))
        if record is None:
            if gateway.ownership.peers:
                await gateway.handing_over.tell_all(connection, client_id, rights.username)
            return None
        if record.user != rights.username and not record.has_ended(gateway.now_ms()):
            raise Refused(Reason.NOT_AUTHORIZED, f"the client identifier belongs to user {record.user!r}")
        is_owned = record.pointer.owner is not None
        if is_owned and not await gateway.handing_over.ask_for(client_id, record.pointer):
            raise _Moved
        if packet.clean_start or record.has_ended(gateway.now_ms()) or not record.expiry_s:
            if not await gateway.leaving_clients.end(record):
                raise _Moved
            return None
        return await self._take(record)

    async def _take(self, record: Record) -> Record:
        """Become the owner of a session; return it as it is then. Raises: StoreFault; _Moved."""
        gateway, client_id = self._gateway, record.client_id
        was_owned = record.pointer.owner is not None
        pointer = await take(gateway, client_id, record.pointer)
        if pointer is None:
            raise _Moved
        record.pointer = pointer
        if was_owned:  # until it was taken its owner may have changed it
            replies = await gateway.link.ask(("HGETALL", record.key))
            raise_faults(replies)
            found = parse_record(client_id, Found(pointer, replies[0]))
            if found is None:
                raise _Moved
            found.lost_ms = gateway.now_ms()
            return found
        return record

    async def _new(self, packet: Connect, client_id: str, rights: ClientRights) -> Session:
        gateway = self._gateway
        # No other session of this client has had the epoch: what a late gateway still writes of that goes elsewhere.
        epoch = gateway.now_ms() * _EPOCHS_PER_MS + secrets.randbelow(_EPOCHS_PER_MS)
        pointer = Pointer(epoch, gateway.owner_name())
        record = Record(client_id, user=rights.username, expiry_s=self._expiry_of(packet), pointer=pointer)
        session = Session(record, rights)
        self._take_will(session, record, packet)
        record.is_application = session.is_application = gateway.packing.takes(packet, session)
        if record.expiry_s or record.will is not None:
            await self._check_number(record)
            record.positions = {name: replay.tailed.position for name, replay in gateway.delivery.replays.items()}
            commands = creation(record)
            replies = await gateway.link.ask(*commands)
            refused = [isinstance(reply, Exception) for reply in replies]
            if any(refused) and not all(refused):  # what is there belongs to no session
                gone = removal(record.client_id, pointer, record.user, [])
                gateway.unwritten.write(record.client_id, pointer, gone)
            raise_faults(replies)
            if replies[-1] != pointer.to_text().encode():  # another gateway has begun one at the same time
                gateway.tell_store([("UNLINK", record.key)])
                raise _Moved
            session.has_record = True
            session.pointer = pointer
            session.is_recorded = record.expiry_s > 0
            session.noted_positions = record.positions
        return session

    async def _check_number(self, record: Record) -> None:
        gateway = self._gateway
        limits = gateway.limits
        number, of_user = await gateway.link.demand(("ZCARD", INDEX), ("SCARD", user_key(record.user or "")))
        if number >= limits.sessions_max:
            raise Refused(Reason.QUOTA_EXCEEDED, f"the limit of sessions is reached: {limits.sessions_max:,}")
        if record.user is not None and of_user >= limits.sessions_per_user_max:
            raise Refused(
                Reason.QUOTA_EXCEEDED, f"the limit of sessions of a user is reached: {limits.sessions_per_user_max:,}"
            )

    async def _resume(self, packet: Connect, record: Record, rights: ClientRights) -> Session:
        gateway = self._gateway
        old_will, old_name = record.will, record.will_name
        is_lost = record.lost_ms is not None
        is_in_time = record.will_ms is not None and record.will_ms > gateway.now_ms()
        has_delay = old_will is not None and old_will.properties.get(Property.WILL_DELAY_INTERVAL)
        if old_will is not None and not (has_delay and (is_lost or is_in_time)):
            gateway.wills.publish(record.client_id, record.uid, old_will, old_name)
        record.expiry_s = self._expiry_of(packet)
        record.will = None
        record.will_name = ""
        session = Session(record, rights)
        session.has_record = True
        session.pointer = record.pointer
        session.is_recorded = record.expiry_s > 0
        self._take_will(session, record, packet)
        words: list[bytes | str | int] = ["HSET", record.key, "expiry_s", record.expiry_s]
        gone = ["ends_ms", "will_ms", "lost_ms", "unsure_ms"]
        if record.will is not None:
            words += ["will", will_to_text(record.will), "will_name", record.will_name]
        else:
            gone += ["will", "will_name"]
        if record.has_old_waiting:
            gone.append("waiting")
            for one in record.waiting.values():
                words += waiting_fields(one)
        session.is_application = gateway.packing.takes(packet, session)
        if session.is_application:
            words += ["kind", APPLICATION]
        index = indexing(record.client_id, "+inf", is_application=session.is_application)
        awaiting = gateway.leaving_clients.awaiting_keys(session)
        lost: list[int] = []
        elsewhere = await gateway.shares.take_up(record)
        entries = await self.entries_of(record.in_flight)
        commands: list[Words] = [
            words,
            *index,
            *[("HKEYS", key) for key in awaiting],
        ]
        replies = await gateway.link.ask(*commands)
        raise_faults(replies)
        # Not with them: a full store refuses only what adds something.
        less: list[Words] = [("HDEL", record.key, *gone), ("ZREM", WILLS, record.client_id)]
        if record.is_application and not session.is_application:
            less += [("HDEL", record.key, "kind"), ("ZREM", APPLICATIONS, record.client_id)]
        gateway.tell_store(less)
        for key, found in zip(awaiting, replies[1 + len(index) :], strict=True):
            for packet_id in found:
                if session.awaiting_keys is None:
                    session.awaiting_keys = {}
                session.awaiting_keys[int(packet_id)] = key
        maximum = self._in_flight_max(packet, session)
        outgoing: Outgoing[Flying] = Outgoing(maximum, record.last_packet_id, record.in_flight)
        session.outgoing = outgoing
        session.noted = {}
        session.numbers = dict(record.numbers)
        session.flight_number = max(record.numbers.values(), default=0)
        for sent in record.in_flight:
            session.noted[sent.packet_id] = record.numbers[sent.packet_id], sent.state
            if sent.packet_id in elsewhere or (sent.packet_id not in entries and sent.needs_entry):
                lost.append(sent.packet_id)
        for packet_id in lost:
            outgoing.drop(packet_id)
        session.resending = entries
        session.noted_positions = dict(record.positions)
        if record.waiting:
            session.retained = deque(record.waiting.values())
            session.noted_waiting = {filter: (one, one.place) for filter, one in record.waiting.items()}
        for name, replay in gateway.delivery.replays.items():
            position = record.positions.get(name)
            # (It may be ahead: the tail of another gateway had come further.)
            if position is not None and position != replay.tailed.position:
                gateway.delivery.set_back(session, replay.tailed, position, record.lost_ms or record.unsure_ms)
        return session

    def _in_flight_max(self, packet: Connect, session: Session) -> int:
        """Return how many messages may be in flight to a client; an application has packs instead of a maximum."""
        asked = packet.properties.get(Property.RECEIVE_MAXIMUM, 65_535)
        assert isinstance(asked, int)
        gateway = self._gateway
        return asked if gateway.packing.takes(packet, session) else min(asked, gateway.limits.in_flight_max)

    async def entries_of(self, in_flight: list[Sent[Flying]]) -> dict[int, Stored]:
        """Return the messages that have to be sent again, by packet identifier, as far as the logs still have them.

        Raises: StoreFault.
        """
        wanted = [one for one in in_flight if one.needs_entry]
        commands: list[Words] = []
        for sent in wanted:
            place = sent.place.place if isinstance(sent.place, Shared) else sent.place
            entry_id = format_id(place.entry_id)
            key = f"{{{place.log}/{place.shard}}}:g{place.generation}"
            commands.append(("XRANGE", key, entry_id, entry_id))
        found: dict[int, Stored] = {}
        if not commands:
            return found
        replies = await self._gateway.history.ask(*commands)
        for sent, reply in zip(wanted, replies, strict=True):
            place = sent.place.place if isinstance(sent.place, Shared) else sent.place
            if isinstance(reply, Exception):  # to take the message for removed would lose it
                raise StoreFault(str(reply))
            if not reply:
                continue
            one = parse_stored(place.log, place.generation, place.shard, place.entry_id, reply[0][1])
            if one is not None:  # also if its time is over: its delivery had begun
                found[sent.packet_id] = one
        return found

    def _take_will(self, session: Session, record: Record, packet: Connect) -> None:
        record.will = session.will = packet.will
        if packet.will is not None:
            record.will_name = session.will_name = secrets.token_hex(8)

    def _expiry_of(self, packet: Connect) -> int:
        most = self._gateway.limits.session_expiry_max_s
        if packet.version < 5:
            return 0 if packet.clean_start else most
        asked = packet.properties.get(Property.SESSION_EXPIRY_INTERVAL, 0)
        assert isinstance(asked, int)
        return min(asked, most)

    def _settle(self, connection: Connection, packet: Connect, session: Session) -> None:
        """Bring session and connection together."""
        gateway = self._gateway
        limits = gateway.limits
        session.connection = connection
        connection.session = session
        gateway.clients[session.client_id] = session
        if session.will is not None:
            gateway.wills.held.add(session)
        gateway.counters.connects += 1
        connection.since_s = time.time()
        if session.outgoing is None:
            session.outgoing = Outgoing(self._in_flight_max(packet, session))
        gateway.packing.begin(connection, packet, session)
        session.incoming = Incoming(
            limits.receive_maximum if packet.version == 5 else 65_535, session.awaiting_keys or ()
        )
        maximum = packet.properties.get(Property.TOPIC_ALIAS_MAXIMUM, 0)
        assert isinstance(maximum, int)
        if maximum:
            connection.alias_maximum = min(maximum, limits.topic_alias_max)
            connection.aliases = {}
        keep_alive_s = packet.keep_alive_s
        if limits.keep_alive_max_s and not 0 < keep_alive_s <= limits.keep_alive_max_s and packet.version == 5:
            keep_alive_s = limits.keep_alive_max_s
        connection.keep_alive_s = keep_alive_s * 1.5
        gateway.keep_alive.watch(connection)
        for text, one in session.subscriptions.items():
            if not text.startswith("$share/"):
                gateway.delivery.tree.add(text, session, one)

    def _answer(self, connection: Connection, packet: Connect, session: Session, is_present: bool) -> None:
        properties: dict[int, Any] = {}
        if packet.version == 5:
            limits = self._gateway.limits
            asked = packet.properties.get(Property.SESSION_EXPIRY_INTERVAL, 0)
            if asked != session.expiry_s:
                properties[Property.SESSION_EXPIRY_INTERVAL] = session.expiry_s
            if limits.receive_maximum < 65_535:
                properties[Property.RECEIVE_MAXIMUM] = limits.receive_maximum
            properties[Property.MAXIMUM_PACKET_SIZE] = limits.packet_bytes_max
            if limits.topic_alias_max:
                properties[Property.TOPIC_ALIAS_MAXIMUM] = limits.topic_alias_max
            if not packet.client_id:
                properties[Property.ASSIGNED_CLIENT_IDENTIFIER] = session.client_id
            if limits.keep_alive_max_s and not 0 < packet.keep_alive_s <= limits.keep_alive_max_s:
                properties[Property.SERVER_KEEP_ALIVE] = limits.keep_alive_max_s
            if packet.properties.get(Property.REQUEST_RESPONSE_INFORMATION) == 1:
                name = session.client_id.replace("+", "_").replace("#", "_")
                properties[Property.RESPONSE_INFORMATION] = f"response/{name}"
        connection.is_let_in = True
        connection.answer(Connack(is_present, 0, properties))

    def _refuse(self, connection: Connection, client_id: str, refused: Refused) -> None:
        if connection.is_refused:
            return
        if connection.is_let_in:  # a second CONNACK would break the protocol
            connection.abandon(str(refused))
            return
        connection.is_refused = connection.is_clean_end = True  # a client that is not let in has no will
        gateway = self._gateway
        gateway.counters.connects_refused += 1
        gateway.log_fault(connection, f"CONNECT of client {client_id[:100]!r} refused: {refused}")
        if not connection.is_closing:
            if connection.version == 5:
                properties: dict[int, Any] = {}
                if refused.reason == Reason.USE_ANOTHER_SERVER and (reference := gateway.ownership.reference()):
                    properties[Property.SERVER_REFERENCE] = reference
                connection.answer(Connack(False, refused.reason, properties))
            elif refused.reason in _CODES_3:
                connection.answer(Connack(False, _CODES_3[refused.reason]))
        connection.close()
