"""The CONNECTs of one client that wait for each other: a newer one closes those that its client has given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.connection import Connection


class Lines:
    """The connections whose CONNECT waits, by client, each with its user; the newest last."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[Connection, str | None]] = {}

    def enter(self, connection: Connection, client_id: str, user: str | None) -> None:
        """Let a connection wait, and close those before it behind whose CONNECT nothing has come: they are given up."""
        line = self._lines.setdefault(client_id, {})
        for earlier, name in list(line.items()):
            if name == user and not earlier.has_more:
                del line[earlier]
                earlier.close()
        line[connection] = user

    def leave(self, connection: Connection, client_id: str) -> None:
        """Forget a connection that waits no longer, if it is there."""
        line = self._lines.get(client_id)
        if line is not None:
            line.pop(connection, None)
            if not line:
                del self._lines[client_id]
