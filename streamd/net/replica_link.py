"""The connection of a replica to its primary: an asyncio.Protocol around the link's state machine."""

import asyncio
from typing import cast

from streamd.base.clock import Clock
from streamd.base.errors import reason_of
from streamd.base.limits import LINK_PIECE_BYTES, LINK_TURN_US
from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import Config
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
    """One connection; what comes when it was closed reaches nobody.

    The link gets what has come in parts, between which clients have their turns. The connection is not read while
    something of it waits.
    """

    def __init__(self, link: Link, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._link: Link | None = link
        self._loop, self._clock = loop, clock
        self.transport: asyncio.Transport | None = None
        self._waiting = bytearray()
        self._is_called = False
        self._is_paused = False  # by the link
        self._is_reading = True
        self._lost: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self.transport = cast(asyncio.Transport, transport)
        if self._link is None:
            self.transport.abort()
        else:
            self._link.connected()

    def data_received(self, data: bytes) -> None:
        """Hand bytes to the link."""
        self._waiting += data
        if not self._is_called:
            self._hand_over()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the link, behind what has come before."""
        self._lost = "the connection was lost" if error is None else f"the connection was lost: {reason_of(error)}"
        if not self._is_called:
            self._hand_over()

    def pause_reading(self, is_paused: bool) -> None:
        """Hand nothing to the link, or go on."""
        self._is_paused = is_paused
        if not is_paused:
            self._go_on()

    def _hand_over(self) -> None:
        """Hand over what a turn has time for; the rest in a later one."""
        self._is_called = False
        until_us = self._clock.monotonic_us() + LINK_TURN_US
        at = 0
        while self._link is not None and not self._is_paused and at < len(self._waiting):
            piece = bytes(memoryview(self._waiting)[at : at + LINK_PIECE_BYTES])
            at += len(piece)
            self._link.received(piece)
            if self._clock.monotonic_us() >= until_us:
                break
        del self._waiting[:at]
        self._go_on()

    def _go_on(self) -> None:
        if self._link is None:
            return
        if self._lost is not None and (self._is_paused or not self._waiting):
            link, self._link = self._link, None
            link.lost(self._lost)
            return
        if self._waiting and not self._is_paused and not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._hand_over)
        reads = not self._waiting and not self._is_paused
        if self.transport is not None and reads != self._is_reading and self._lost is None:
            self._is_reading = reads
            if reads:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def close(self) -> None:
        """Close, and tell the link nothing more."""
        self._link = None
        if self.transport is not None:
            self.transport.abort()


class Connector:
    """Makes the connections of a link, one at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, config: Config, clock: Clock) -> None:
        self._loop, self._config, self._clock = loop, config, clock
        self.connection: LinkConnection | None = None
        self._task: asyncio.Task[None] | None = None

    def connect(self, link: Link, host: str, port: int) -> None:
        """Begin to connect."""
        self.close()
        self.connection = connection = LinkConnection(link, self._loop, self._clock)
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
        if self.connection is not None:
            self.connection.pause_reading(is_paused)

    def close(self) -> None:
        """End the present connection, or the attempt to make one."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self.connection is not None:
            self.connection.close()
            self.connection = None
