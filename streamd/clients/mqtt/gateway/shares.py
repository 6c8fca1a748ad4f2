"""Shared subscriptions: the topics' shared replay, with each client as a member."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.gateway.session import Session
    from streamd.clients.mqtt.store.records import Record, Subscribed
    from streamd.clients.mqtt.store.stored import Stored


class Shares:
    """The groups that clients of this gateway are members of."""

    is_available = False

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def join(self, session: Session, subscribed: Subscribed) -> None:
        """Make a session a member."""

    def part(self, session: Session, filter: str) -> None:
        """End a membership."""

    def resume(self, session: Session) -> None:
        """Go on with the memberships of a session that is connected again."""

    def leave(self, session: Session, is_over: bool) -> None:
        """Pause the memberships of a session; end them if it is over."""

    async def end(self, record: Record) -> None:
        """End the memberships of a session that the store has."""

    def wake(self, group: object, entry: Stored) -> None:
        """Note that there is a message for a group."""
