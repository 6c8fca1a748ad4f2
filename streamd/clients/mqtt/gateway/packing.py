"""The packs of the applications that are connected: what is noted of them, and what is done when they are due."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.session.packs import Due, Pack
from streamd.clients.mqtt.store.link import StoreFault
from streamd.clients.mqtt.store.records import Shared

if TYPE_CHECKING:
    from streamd.clients.mqtt.codec.packets import Connect
    from streamd.clients.mqtt.gateway.applications import Applications
    from streamd.clients.mqtt.gateway.connection import Connection
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.gateway.session import Session

# Of output that an application does not read: above, all its readers pause, and below they go on.
HIGH_BYTES: Final = 1_280 * 1_024
LOW_BYTES: Final = 640 * 1_024


class Packing:
    """The packs of applications. A device has none: `session.pack` is None."""

    def __init__(self, gateway: Gateway, applications: Applications) -> None:
        self._gateway, self._applications = gateway, applications
        self._loop = gateway.loop
        # A heap of the packs, by when they are due at the earliest; with what had not left at the last look.
        self._due: list[tuple[int, int, Session, Pack, list[bytes] | None]] = []
        self._number = 0

    def now_ms(self) -> int:
        """Return the time of the packs' clock."""
        return int(self._loop.time() * 1_000)

    # Clients that come.

    def takes(self, packet: Connect, session: Session) -> bool:
        """Return whether a client is an application."""
        return self._applications.take(session.client_id, session.user, session.expiry_s, packet.properties)

    def begin(self, connection: Connection, packet: Connect, session: Session) -> None:
        """Give an application's session its packs, in which lies what it has in flight; a device has none."""
        if not self.takes(packet, session):
            return
        assert session.outgoing is not None
        assert connection.transport is not None
        connection.transport.set_write_buffer_limits(high=HIGH_BYTES, low=LOW_BYTES)
        connection.flush_every = self._applications.flush
        ids: dict[str | None, list[int]] = {None: []}
        for sent in session.outgoing.in_flight:
            share = sent.place.share if isinstance(sent.place, Shared) else None
            ids.setdefault(share, []).append(sent.packet_id)
        session.pack = self._new(session, None, ids.pop(None))
        session.share_packs = {share: self._new(session, share, of_share) for share, of_share in ids.items() if share}

    def _new(self, session: Session, share: str | None, ids: list[int]) -> Pack:
        retries = (session.noted_retries or {}).get(share or "", 0)
        pack = Pack(self._applications.policy(share), ids, retries, self.now_ms())
        self._watch(session, pack)
        return pack

    def of_share(self, session: Session, share: str) -> Pack | None:
        """Return the pack of a shared subscription; None for a device."""
        if session.pack is None:
            return None
        packs = session.share_packs
        if packs is None:
            packs = session.share_packs = {}
        if share not in packs:
            for other in list(packs):  # subscriptions that are over, and have nothing under way
                if packs[other].due_ms is None and other not in (session.shares or {}):
                    del packs[other]
            packs[share] = self._new(session, share, [])
        return packs[share]

    # Messages.

    def pack_of(self, session: Session, share: str | None) -> Pack:
        """Return the pack of one of an application's readers."""
        pack = session.pack if share is None else self.of_share(session, share)
        assert pack is not None
        return pack

    def sent(self, session: Session, pack: Pack, packet_id: int) -> None:
        """Note a message that is sent for the first time; packet_id: 0 for QoS 0."""
        pack.sent(packet_id, self.now_ms())
        if packet_id:
            self._watch(session, pack)

    def resent(self, session: Session, place: object) -> None:
        """Note that a message is sent again."""
        self._pack_at(session, place).resent(self.now_ms())

    def finished(self, session: Session, packet_id: int, place: object) -> None:
        """Note that a message is acknowledged, or is not sent any more."""
        self._pack_at(session, place).finished(packet_id)

    def ended(self, session: Session, packet_id: int, place: object | None) -> None:
        """Note the last acknowledgement of a message; place: None for one that is not known, or was dropped."""
        if place is not None:
            self.finished(session, packet_id, place)
            return
        # There may be room again.
        self._gateway.delivery.pump_soon(session)
        self._gateway.shares.go_on(session)

    def _pack_at(self, session: Session, place: object) -> Pack:
        return self.pack_of(session, place.share if isinstance(place, Shared) else None)

    def missed(self, session: Session, log: str) -> None:
        """Write a line: an application has come too late for messages that the retention has removed."""
        if session.gap is None and session.connection is not None:
            text = f"it comes too late: messages of log {log} were removed before it got them; it goes on behind them"
            self._gateway.log_fault(session.connection, text)

    # What is due.

    def _watch(self, session: Session, pack: Pack, held: list[bytes] | None = None) -> None:
        due_ms = pack.due_ms
        if due_ms is not None and not pack.is_watched:
            pack.is_watched = True
            self._number += 1
            heapq.heappush(self._due, (due_ms, self._number, session, pack, held))

    def check(self) -> None:
        """Do what is due."""
        now_ms = self.now_ms()
        looked: list[tuple[Session, Pack, list[bytes] | None]] = []
        while self._due and self._due[0][0] <= now_ms:
            _, _, session, pack, held = heapq.heappop(self._due)
            pack.is_watched = False
            connection = session.connection
            if connection is None or self._is_over(session, pack):
                continue
            if session.held is not None and (held is None or session.held is held):
                # The store has not written the record since the last look: part of the pack may not have left.
                looked.append((session, pack, session.held))
            elif not self._look(session, connection, pack, now_ms):
                looked.append((session, pack, None))
        for session, pack, held in looked:
            self._watch(session, pack, held)

    def _is_over(self, session: Session, pack: Pack) -> bool:
        """Return whether a pack belongs to an earlier connection, or to a subscription that has ended."""
        return pack is not session.pack and pack not in (session.share_packs or {}).values()

    def _look(self, session: Session, connection: Connection, pack: Pack, now_ms: int) -> bool:
        """Do what a pack is due for; return whether something was begun, after which it is watched again."""
        if connection.is_full or not self._gateway.link.is_up:
            pack.resent(now_ms)  # it does not wait for the client: its time begins when that reads again
            return False
        due = pack.due(now_ms)
        if due == Due.DROP:
            self._drop(session, connection, pack.ids)
            self._say_dropped(connection, pack)
            pack.drop()
            self._go_on(session)
        elif due == Due.AGAIN:
            self._gateway.counters.pack_retries += 1
            self._note(session)
            if connection.version < 5 or self._applications.resend_v5:
                self._gateway.spawn(self._send_again(session, connection, pack))
                return True
            text = f"a pack was not acknowledged within {self._applications.wait_s} seconds: come again for the rest"
            self._gateway.log_fault(connection, f"{text}; packets not acknowledged: {len(pack.ids)}")
            connection.close(Reason.UNSPECIFIED_ERROR, text)
        return False

    def _say_dropped(self, connection: Connection, pack: Pack) -> None:
        times = f"after {pack.retries} retries" if pack.retries else "and are not sent again"
        text = f"{len(pack.ids)} messages dropped: not acknowledged within {self._applications.wait_s} seconds, {times}"
        self._gateway.log_fault(connection, text)

    async def _send_again(self, session: Session, connection: Connection, pack: Pack) -> None:
        """Send what is not acknowledged again within the connection, with DUP and the same packet identifiers."""
        gateway, outgoing = self._gateway, session.outgoing
        assert outgoing is not None
        asked = set(pack.ids)
        in_flight = [one for one in outgoing.in_flight if one.packet_id in asked]
        try:
            entries = await gateway.connecting.entries_of(in_flight)
        except StoreFault as fault:
            gateway.log_fault(connection, f"a pack cannot be sent again: {fault}")
            pack.put_off(self.now_ms())
            self._watch(session, pack)
            return
        if session.connection is not connection:
            return
        pack.resent(self.now_ms())
        there = set(pack.ids) & asked  # some may have been acknowledged meanwhile
        lost = [one.packet_id for one in in_flight if one.packet_id in there and one.needs_entry]
        # (The same connection gets no PUBLISH of QoS 1 again whose time is over; another one does, as MQTT demands.)
        now_ms = gateway.now_ms()
        late = {one.packet_id for one in in_flight if one.is_qos_1 and one.packet_id in entries}
        late = {packet_id for packet_id in late if entries[packet_id].is_expired(now_ms)}
        lost = [packet_id for packet_id in lost if packet_id not in entries or packet_id in late]
        self._drop(session, connection, lost)  # the log has them no more, or they have expired
        for packet_id in lost:
            pack.finished(packet_id)
        session.resending = {**(session.resending or {}), **entries}
        outgoing.again(there.difference(lost))
        self._watch(session, pack)
        self._go_on(session)

    def _drop(self, session: Session, connection: Connection, ids: list[int]) -> None:
        """Take messages out of flight."""
        outgoing = session.outgoing
        assert outgoing is not None
        places = {packet_id: outgoing.place_of(packet_id) for packet_id in ids}
        outgoing.abandon(ids, keeps_quota=connection.version == 5)
        for place in places.values():
            if isinstance(place, Shared):  # nobody else gets it
                self._gateway.shares.acknowledged(session, place)
        self._gateway.counters.pack_drops += len(ids)
        self._note(session)

    def _note(self, session: Session) -> None:
        if session.is_recorded and not session.is_dirty:
            self._gateway.noting.note(session)

    def _go_on(self, session: Session) -> None:
        self._gateway.delivery.pump(session)
        self._gateway.shares.go_on(session)


def retries_of(session: Session) -> dict[str, int]:
    """Return how often the packs in flight were sent again, by shared subscription; under an empty name its own."""
    packs = {"": session.pack, **(session.share_packs or {})}
    return {name: pack.retries for name, pack in packs.items() if pack is not None and pack.retries}
