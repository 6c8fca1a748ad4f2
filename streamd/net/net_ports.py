"""The parts of the server that its connections, the admin port and the metrics use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from streamd.engine.engine import Engine
    from streamd.net.admin import AdminConnection
    from streamd.net.connection import Connection
    from streamd.net.measures import Measures


class ConnectionHost(Protocol):
    """The part of the server that a connection uses."""

    engine: Engine
    connections: set[Connection]

    def end_turn(self) -> None:
        """End the turn: let replies leave."""

    def resume_soon(self, connection: Connection) -> None:
        """Call the connection's `resume` in a later turn."""


class AdminHost(Protocol):
    """The part of the server that the admin port uses."""

    admin_connections: dict[AdminConnection, None]

    def scrape(self, write: Callable[[str], object]) -> Iterator[int] | None:
        """Hand the metrics to `write`, a slice each time it is asked; None where their library is missing."""

    @property
    def why_not_ready(self) -> str | None:
        """The reason why clients are not served, or not as they should be; None if they are."""


class MetricsHost(Protocol):
    """The part of the server that the metrics describe."""

    engine: Engine
    measures: Measures | None
