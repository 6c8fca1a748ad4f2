"""What connections, the admin port and its metrics ask of the server that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from streamd.engine.engine import Engine
    from streamd.net.admin import AdminConnection
    from streamd.net.connection import Connection
    from streamd.net.measures import Measures


class ConnectionHost(Protocol):
    """What a connection asks of the server that it belongs to."""

    engine: Engine
    connections: set[Connection]

    def end_turn(self) -> None:
        """End the turn: let replies leave."""

    def resume_soon(self, connection: Connection) -> None:
        """Call the connection's `resume` in a later turn."""


class AdminHost(Protocol):
    """What the admin port asks of the server that it belongs to."""

    admin_connections: dict[AdminConnection, None]

    def scrape(self, write: Callable[[str], object]) -> Iterator[int] | None:
        """Hand the metrics to `write`, a slice each time it is asked; None where their library is missing."""

    @property
    def why_not_ready(self) -> str | None:
        """Why clients are not served, or not as they should be; None: they are."""


class MetricsHost(Protocol):
    """What the metrics are of."""

    engine: Engine
    measures: Measures | None
