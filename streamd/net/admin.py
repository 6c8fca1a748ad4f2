"""The admin port: health and metrics over HTTP, for monitoring systems."""

import asyncio
import re
from typing import Final, cast

from streamd.base.log import log
from streamd.distribution import install_line
from streamd.net.net_ports import AdminHost

_HEAD_BYTES_MAX: Final = 16 * 1024
# A client that has not sent its request by then is cut.
_PATIENCE_S: Final = 10.0
# So many at one time. For one more the oldest is cut that has sent no request yet, or else has not read its answer: so
# idle ones keep nobody out.
CONNECTIONS_MAX: Final = 64
# So many scrapes at one time: who watches asks seldom, and each takes work.
SCRAPES_MAX: Final = 16
_REQUEST: Final = re.compile(rb"(GET|HEAD|[A-Z]+) (/[^ ?]*)(?:\?[^ ]*)? HTTP/1\.[01]\r?\n")
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}
NO_LIBRARY: Final = f"prometheus-client is missing: {install_line('metrics')}\n"


class AdminConnection(asyncio.Protocol):
    """One HTTP/1.1 request, its response, and the end: scrapes are too rare for keep-alive to pay."""

    def __init__(self, server: AdminHost) -> None:
        self._server = server
        self._head = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._patience = asyncio.get_running_loop().call_later(_PATIENCE_S, self._transport.abort)
        others = self._server.admin_connections
        if len(others) >= CONNECTIONS_MAX:
            left = [one for one in others if not one.is_served]
            if left:
                next((one for one in left if one._task is None), left[0]).cut()
        others[self] = None

    @property
    def is_served(self) -> bool:
        """Whether the request is complete and waits for its response."""
        return self._task is not None and not self._task.done()

    def cut(self) -> None:
        """Close at once."""
        self._server.admin_connections.pop(self, None)
        self._transport.abort()

    def eof_received(self) -> bool:
        """The client has closed its sending side; return whether the transport stays open for a response."""
        return self.is_served

    def connection_lost(self, error: Exception | None) -> None:
        self._server.admin_connections.pop(self, None)
        self._patience.cancel()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._task is not None or self._transport.is_closing():
            return
        self._head += data
        end = re.search(rb"\r?\n\r?\n", self._head)
        if end is not None:
            self._task = asyncio.get_running_loop().create_task(self._serve())
        elif len(self._head) > _HEAD_BYTES_MAX:
            self._answer(400, "the request is too long\n")

    async def _serve(self) -> None:
        try:
            match = _REQUEST.match(self._head)
            if match is None:
                self._answer(400, "no request of HTTP/1.1\n")
            elif match[1] not in (b"GET", b"HEAD"):
                self._answer(405, "only GET and HEAD\n")
            elif match[2] == b"/healthz":
                self._answer(200, "ok\n")
            elif match[2] == b"/readyz":
                why_not = self._server.why_not_ready
                self._answer(503 if why_not else 200, f"{why_not or 'ok'}\n")
            elif match[2] == b"/metrics":
                await self._serve_metrics()
            else:
                self._answer(404, "there are /metrics, /healthz and /readyz\n")
        except Exception:
            log.exception("bug", "a bug in the admin port")
            self._answer(500, "internal error\n")

    async def _serve_metrics(self) -> None:
        if sum(one.is_served for one in self._server.admin_connections) > SCRAPES_MAX:
            self._answer(503, "too many scrapes\n")
            return
        pieces: list[str] = []
        steps = self._server.scrape(pieces.append)
        if steps is None:
            self._answer(501, NO_LIBRARY)
            return
        self._patience.cancel()  # what takes long with very many streams is not the client
        for _ in steps:
            await asyncio.sleep(0)  # others have their turn between two slices
        self._patience = asyncio.get_running_loop().call_later(_PATIENCE_S, self._transport.abort)
        self._answer(200, "".join(pieces), _METRICS)

    def _answer(self, status: int, text: str, kind: str = _TEXT) -> None:
        body = text.encode("utf-8", "backslashreplace")
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (b"" if self._head.startswith(b"HEAD") else body))
        self._transport.close()
