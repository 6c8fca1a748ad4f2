"""A session with its client, while that is connected."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from streamd.clients.mqtt.codec.packets import Will
from streamd.clients.mqtt.session.incoming import Incoming
from streamd.clients.mqtt.session.outgoing import Outgoing, State
from streamd.clients.mqtt.session.packs import Pack
from streamd.clients.mqtt.store.positions import Position, furthest
from streamd.clients.mqtt.store.records import Flying, Pointer, Record, Subscribed, Waiting, data_key, pointer_key
from streamd.clients.mqtt.store.stored import Stored
from streamd.clients.mqtt.store.tailing import TailedLog

if TYPE_CHECKING:
    from streamd.clients.mqtt.access import ClientRights
    from streamd.clients.mqtt.gateway.connection import Connection
    from streamd.clients.mqtt.gateway.delivering import Delivery
    from streamd.clients.mqtt.gateway.share_members import Membership
    from streamd.clients.mqtt.store.publishing import Publication


_NO_RETRIES: Final[dict[str, int]] = {}  # one for all: sessions are many


class Cursor:
    """How far a session that is behind has come in one log.

    number: of its next entry in the ring; None while it reads from the store. skip: what it had seen before it came to
    the ring. lost_ms: when the session was taken from a gateway that was killed with the client connected; 0 if not.
    """

    __slots__ = ("delivery", "lost_ms", "number", "position", "session", "skip", "tailed")

    def __init__(self, delivery: Delivery, session: Session, tailed: TailedLog, position: Position) -> None:
        self.delivery, self.session, self.tailed, self.position = delivery, session, tailed, position
        self.number: int | None = None
        self.skip: Position | None = None
        self.lost_ms = 0

    @property
    def filters(self) -> Sequence[str]:
        """The filters of the session's own subscriptions."""
        return [one for one in self.session.subscriptions if not one.startswith("$share/")]

    def offer_all(self, entries: Sequence[Stored]) -> int:
        """Send entries that are the session's, until there is no room; return how many were taken or passed over."""
        if not self.lost_ms:
            return self.delivery.offer_all(self.session, entries)
        for number, entry in enumerate(entries):
            has_gone = self.delivery.has_gone(self.session, entry, self.lost_ms)
            if not has_gone and not self.delivery.offer(self.session, entry):
                return number
        return len(entries)

    def missed(self, shard: int) -> None:
        """Note that the next entries were removed before they were read."""
        self.delivery.missed(self.session, self.tailed)

    def fell_out(self, position: Position) -> None:
        """Go on from the store: the ring has dropped the next entry."""
        self.position = position if self.skip is None else furthest(self.skip, position)
        self.number = self.skip = None

    @property
    def reached(self) -> Position:
        """The position of all that the session has seen."""
        if self.number is None:
            return self.position
        position = self.tailed.ring.position_at(self.number)
        return position if self.skip is None else furthest(self.skip, position)


class LookedUp:
    """A message of a client that waits, with those behind it: closed generations are asked for its name.

    Or its log's version is raised. is_known: that is done. entry_id: the entry that has that name. refusal: the version
    was not raised, or the session was taken.
    """

    __slots__ = ("entry_id", "is_known", "publication", "refusal")

    def __init__(self, publication: Publication) -> None:
        self.publication, self.is_known = publication, False
        self.entry_id: bytes | None = None
        self.refusal: str | None = None


class Session:
    """A session whose client is connected, or has just left.

    is_recorded: its changes are written to its record in the store, as it outlives its connection; has_record: there
    is a record, if only for the will. pointer: where that is, while this gateway owns it. is_fenced: another gateway
    has taken it. cursors: the logs in which it is behind the tail. noted: the messages in
    flight that the record has. held: packets that leave when the record is written; flushing: how many of them wait for
    each request that is under way. storing: messages of the client that are on their way to the store.
    pack, share_packs: what an application was sent by its own subscriptions, and by each shared one; None for a device.
    """

    __slots__ = (
        "awaiting_keys",
        "client_bytes",
        "client_id",
        "connection",
        "cursors",
        "expiry_s",
        "flight_number",
        "flushing",
        "gap",
        "has_record",
        "held",
        "incoming",
        "is_application",
        "is_dirty",
        "is_ended",
        "is_fenced",
        "is_recorded",
        "looked_up",
        "noted",
        "noted_positions",
        "noted_retries",
        "noted_waiting",
        "numbers",
        "outgoing",
        "pack",
        "pointer",
        "resending",
        "retained",
        "rights",
        "share_packs",
        "shares",
        "storing",
        "subscriptions",
        "uid",
        "user",
        "when_stored",
        "will",
        "will_name",
    )

    def __init__(self, record: Record, rights: ClientRights) -> None:
        self.client_id = record.client_id
        self.client_bytes = record.client_id.encode()
        self.uid = record.uid
        self.user = record.user
        self.rights = rights
        self.expiry_s = record.expiry_s
        self.subscriptions: dict[str, Subscribed] = record.subscriptions
        self.connection: Connection | None = None
        self.cursors: dict[str, Cursor] | None = None
        self.outgoing: Outgoing[Flying] | None = None
        self.incoming: Incoming | None = None
        self.awaiting_keys: dict[int, str] | None = None
        self.numbers: dict[int, int] | None = None  # the order of what is in flight
        self.flight_number = 0
        self.noted: dict[int, tuple[int, State]] | None = None
        self.noted_positions: dict[str, Position] | None = None
        self.noted_retries: dict[str, int] | None = record.retries or _NO_RETRIES
        # By filter, the retained messages that wait in the record, and their place there; None if nobody knows it.
        self.noted_waiting: dict[str, tuple[Waiting, bytes | None] | None] | None = None
        self.is_recorded = self.has_record = False
        self.is_application = record.is_application
        self.is_dirty = False
        self.is_ended = self.is_fenced = False
        self.pointer: Pointer | None = None
        self.held: list[bytes] | None = None
        self.flushing: deque[int] | None = None
        self.storing = 0
        self.looked_up: deque[LookedUp] | None = None
        self.when_stored: list[asyncio.Future[None]] | None = None
        self.resending: dict[int, Stored] | None = None
        self.retained: deque[Waiting] | None = None
        self.will: Will | None = record.will
        self.will_name = record.will_name
        self.shares: dict[str, Membership] | None = None  # by the name of the shared subscription
        self.pack: Pack | None = None
        self.share_packs: dict[str, Pack] | None = None
        self.gap: str | None = None  # the log in which messages were removed before the session got them

    @property
    def key(self) -> str:
        """The key of its hash."""
        assert self.pointer is not None
        return data_key(self.client_id, self.pointer.epoch)

    @property
    def look(self) -> tuple[str, str]:
        """The command that asks whose it is: what is written is its own if this comes behind, and answers `mine`."""
        return ("GET", pointer_key(self.client_id))

    @property
    def mine(self) -> bytes:
        """The answer to `look` while this gateway owns it."""
        assert self.pointer is not None
        return self.pointer.to_text().encode()
