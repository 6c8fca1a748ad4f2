"""The TLS listeners, and their certificates."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial

from streamd.base.log import log
from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import Config
from streamd.net import tls
from streamd.net.gate import Gate

Serve = Callable[[], asyncio.Protocol]


class EncryptedListeners:
    """Listens with TLS; `reload` applies the present options to later connections.

    A listener keeps its context, so a reload gives each socket a new listener. One reload runs at a time; requests for
    another follow it.
    """

    def __init__(self, config: Config, listeners: list[asyncio.Server]) -> None:
        """listeners: all those of the server, which closes them."""
        self._config = config
        self._all = listeners
        self._open: list[tuple[Serve, asyncio.Server]] = []
        self._wanted: ssl.SSLContext | None = None
        self._reloading: asyncio.Task[None] | None = None

    async def open(self, serve: Serve, host: str, port: int, context: ssl.SSLContext) -> asyncio.Server:
        """Listen at one place. Raises: OSError."""
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        made = await self._listen(serve, socket.create_server((host, port), family=infos[0][0]), context)
        self._open.append((serve, made))
        return made

    async def _listen(self, serve: Serve, sock: socket.socket, context: ssl.SSLContext) -> asyncio.Server:
        sock.setblocking(False)
        needs_certificate = self._config.text("tls-auth-clients") == "yes"
        return await asyncio.get_running_loop().create_server(
            partial(Gate, serve, needs_certificate),
            sock=sock,
            backlog=self._config.integer("tcp-backlog"),
            ssl=context,
            ssl_handshake_timeout=tls.HANDSHAKE_S,
            ssl_shutdown_timeout=tls.SHUTDOWN_S,
        )

    def follow_options(self) -> None:
        """Reload when an option of TLS is changed."""
        for option in tls.TLS_OPTIONS:
            self._config.on_change(option, self._changed)

    def _changed(self) -> None:
        """Raises: ConfigError with Redis's text."""
        try:
            self.reload()
        except ConfigError as error:
            log.warning("tls-unchanged", "TLS goes on as before: %s", error)
            raise ConfigError("Unable to update TLS configuration. Check server logs.")

    def reload(self) -> None:
        """Read certificates and keys again, for connections that come from now on. Raises: ConfigError."""
        if self._open:
            self._wanted = tls.make_context(self._config)
            if self._reloading is None:
                self._reloading = asyncio.get_running_loop().create_task(self._reload())

    async def _reload(self) -> None:
        while self._wanted is not None:
            context, self._wanted = self._wanted, None
            try:
                for number, (serve, old) in enumerate(self._open):
                    self._open[number] = serve, await self._listen_anew(serve, old, context)
            except OSError as error:
                log.warning("tls-unchanged", "TLS goes on as before: %s", error.strerror)
            else:
                log.info("tls-reloaded", "TLS: certificates read again")
        self._reloading = None

    async def _listen_anew(self, serve: Serve, old: asyncio.Server, context: ssl.SSLContext) -> asyncio.Server:
        """Let a socket accept connections with another context, without losing any. Raises: OSError."""
        loop, sock = asyncio.get_running_loop(), old.sockets[0]
        made = await self._listen(serve, socket.socket(fileno=os.dup(sock.fileno())), context)
        self._all.append(made)
        if isinstance(loop, asyncio.SelectorEventLoop):  # what it accepts becomes its own an iteration later
            loop.remove_reader(sock.fileno())
            await asyncio.sleep(0.001)
        if old in self._all:  # which a server that stops has closed
            self._all.remove(old)
        old.close()
        return made
