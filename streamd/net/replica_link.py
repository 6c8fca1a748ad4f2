"""The connection of a replica to its primary: an asyncio.Protocol around the link's state machine."""

import asyncio
from typing import cast

from streamd.base.errors import reason_of
from streamd.configuration.server_options import Config, ConfigError
from streamd.net.tls import make_link_context
from streamd.replication.following import Link


def primary_of(config: Config) -> tuple[str, int] | None:
    """Return host and port of the primary that the configuration names; None without one. Raises: ConfigError."""
    words = config.text("replicaof").split()
    if not words or [word.lower() for word in words] == ["no", "one"]:
        return None
    if len(words) != 2 or not words[1].isdecimal() or not 0 < int(words[1]) <= 65_535:
        raise ConfigError(f"replicaof '{' '.join(words)}': give host and port of the primary, as in 10.0.0.5 6379")
    return words[0], int(words[1])


def check_replication(config: Config) -> None:
    """Check that the options of replication can be followed. Raises: ConfigError."""
    make_link_context(config)
    wanted = {"replicaof": primary_of(config), "min-replicas-to-write": config["min-replicas-to-write"]}
    for name, value in wanted.items():
        if value and not config["appendonly"]:
            raise ConfigError(f"{name} needs a journal, of which replicas are made; start with --appendonly yes")


class LinkConnection(asyncio.Protocol):
    """One connection; what comes when it was closed reaches nobody."""

    def __init__(self, link: Link) -> None:
        self._link: Link | None = link
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self.transport = cast(asyncio.Transport, transport)
        if self._link is None:
            self.transport.abort()
        else:
            self._link.connected()

    def data_received(self, data: bytes) -> None:
        """Hand bytes to the link."""
        if self._link is not None:
            self._link.received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the link."""
        if self._link is not None:
            link, self._link = self._link, None
            link.lost("the connection was lost" if error is None else f"the connection was lost: {reason_of(error)}")

    def close(self) -> None:
        """Close, and tell the link nothing more."""
        self._link = None
        if self.transport is not None:
            self.transport.abort()


class Connector:
    """Makes the connections of a link, one at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, config: Config) -> None:
        self._loop, self._config = loop, config
        self.connection: LinkConnection | None = None
        self._task: asyncio.Task[None] | None = None

    def connect(self, link: Link, host: str, port: int) -> None:
        """Begin to connect."""
        self.close()
        self.connection = connection = LinkConnection(link)
        self._task = self._loop.create_task(self._connect(connection, link, host, port))

    async def _connect(self, connection: LinkConnection, link: Link, host: str, port: int) -> None:
        try:
            context = make_link_context(self._config)
            await self._loop.create_connection(lambda: connection, host, port, ssl=context)
        except (OSError, UnicodeError, ConfigError) as error:
            if self.connection is connection:
                link.lost(f"cannot connect: {reason_of(error)}")

    def send(self, data: bytes) -> None:
        """Send bytes over the present connection."""
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.write(data)

    def pause_reading(self, is_paused: bool) -> None:
        """Take no bytes from the present connection, or take them again."""
        if self.connection is None or self.connection.transport is None:
            return
        if is_paused:
            self.connection.transport.pause_reading()
        else:
            self.connection.transport.resume_reading()

    def close(self) -> None:
        """End the present connection, or the attempt to make one."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self.connection is not None:
            self.connection.close()
            self.connection = None
