"""A connected session as a member of a shared subscription."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.delivering import Target
    from streamd.clients.mqtt.gateway.session import Session
    from streamd.clients.mqtt.gateway.share_groups import Group
    from streamd.clients.mqtt.gateway.share_parts import Part
    from streamd.clients.mqtt.session.packs import Pack
    from streamd.clients.mqtt.store.positions import Place
    from streamd.clients.mqtt.store.stored import Stored
    from streamd.clients.topics.shares import Member

PACK: Final = 100  # entries that one member gets at once, before others have their turn


class Membership:
    """A member.

    flying: the entries that were sent to it and that the group waits for, with where they are from. waiting: entries
    that were read for it, and that it has no room for. views: its leases, by log, if the group has an order. is_parted:
    its subscription is over, and what it has begun is not. pack: of an application; None for a device.
    """

    __slots__ = ("consumer", "flying", "group", "is_parted", "pack", "session", "target", "views", "waiting")

    def __init__(self, group: Group, session: Session, consumer: str, target: Target) -> None:
        self.group, self.session, self.consumer, self.target = group, session, consumer, target
        self.flying: dict[Place, Part] = {}
        self.waiting: deque[tuple[Part, Stored]] = deque()
        self.views: dict[str, Member] = {}
        self.is_parted = False
        self.pack: Pack | None = group.shares.gateway.packing.of_share(session, group.name)

    @property
    def is_here(self) -> bool:
        """Whether it may be given entries."""
        return not self.is_parted and self.session.connection is not None and self._is_known()

    def _is_known(self) -> bool:
        return self.group.members.get(self.session) is self

    @property
    def room(self) -> int:
        """How many entries it can take at once; 0 for a client that does not read, or has enough in flight."""
        connection, outgoing = self.session.connection, self.session.outgoing
        if connection is None or outgoing is None or connection.is_closing or connection.is_full:
            return 0
        if self.waiting or self.is_parted or self.session.resending is not None:
            return 0
        room = min(outgoing.room, PACK) if self.target.qos else PACK
        if self.pack is not None:
            room = min(room, self.pack.room(self.group.shares.gateway.packing.now_ms()))
        return room
