"""The port for monitoring: metrics and health over HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, cast

from streamd.clients.mqtt.listening import places
from streamd.distribution import install_line

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway

PORT_MAX: Final = 65_535
_HEAD_BYTES_MAX: Final = 16 * 1024
_PATIENCE_S: Final = 10.0  # for a request, and for the reading of its response
_CONNECTIONS_MAX: Final = 64  # for one more the oldest is cut
_REQUEST: Final = re.compile(rb"([A-Z]+) (/[^ ?]*)(?:\?[^ ]*)? HTTP/1\.[01]\r?\n")
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class MetricsPort:
    """A listener for scrapes. place: where it is."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.connections: dict[_Scrape, None] = {}
        self.place = ""
        self.expose: Callable[[Gateway], Awaitable[bytes]]
        self._server: asyncio.Server | None = None
        self._running: asyncio.Task[bytes] | None = None

    async def open(self, address: str, port: int) -> None:
        """Begin to listen. Raises: ListenFault; ValueError, without the library that writes metrics."""
        if not 0 <= port <= PORT_MAX:
            raise ValueError(f"--metrics-port {port}: give one from 0 to {PORT_MAX}")
        try:
            from streamd.clients.mqtt.gateway.metrics import expose
        except ImportError:
            raise ValueError(f"--metrics-port needs prometheus-client: {install_line('metrics')}")
        self.expose = expose
        listening = places.tcp("--metrics-port", address, port, _CONNECTIONS_MAX)
        self.place = places.text_of(listening)
        self._server = await self.gateway.loop.create_server(lambda: _Scrape(self), sock=listening)

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
        for one in list(self.connections):
            one.cut()

    async def metrics(self) -> bytes:
        """Return the metrics; scrapes at one time get the same."""
        if self._running is None or self._running.done():
            self._running = self.gateway.loop.create_task(self._expose())
        return await asyncio.shield(self._running)

    async def _expose(self) -> bytes:
        return await self.expose(self.gateway)


class _Scrape(asyncio.Protocol):
    """One request of HTTP/1.1, its response, and the end."""

    def __init__(self, port: MetricsPort) -> None:
        self._port = port
        self._head = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._patience = self._port.gateway.loop.call_later(_PATIENCE_S, self._transport.abort)
        others = self._port.connections
        if len(others) >= _CONNECTIONS_MAX:
            next(iter(others)).cut()
        others[self] = None

    def cut(self) -> None:
        """Close at once."""
        self._port.connections.pop(self, None)
        self._transport.abort()

    def eof_received(self) -> bool:
        return self._task is not None

    def connection_lost(self, error: Exception | None) -> None:
        self._port.connections.pop(self, None)
        self._patience.cancel()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._task is not None or self._transport.is_closing():
            return
        self._head += data
        if re.search(rb"\r?\n\r?\n", self._head) is not None:
            self._task = self._port.gateway.loop.create_task(self._serve())
        elif len(self._head) > _HEAD_BYTES_MAX:
            self._answer(400, b"the request is too long\n")

    async def _serve(self) -> None:
        gateway = self._port.gateway
        match = _REQUEST.match(self._head)
        if match is None:
            self._answer(400, b"no request of HTTP/1.1\n")
        elif match[1] not in (b"GET", b"HEAD"):
            self._answer(405, b"only GET and HEAD\n")
        elif match[2] == b"/healthz":
            self._answer(200, b"ok\n")
        elif match[2] == b"/readyz":
            unready = gateway.unready
            self._answer(200 if unready is None else 503, f"{unready or 'ok'}\n".encode())
        elif match[2] == b"/metrics":
            try:
                self._answer(200, await self._port.metrics(), _METRICS)
            except Exception as error:
                gateway.warn(f"internal error: {type(error).__name__}: {error}")
                self._answer(500, b"internal error\n")
        else:
            self._answer(404, b"there are /metrics, /healthz and /readyz\n")

    def _answer(self, status: int, body: bytes, kind: str = _TEXT) -> None:
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (b"" if self._head.startswith(b"HEAD") else body))
        self._transport.close()
