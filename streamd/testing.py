"""A server inside the test process, with a clock that the test moves."""

import asyncio
import threading
from math import isfinite
from types import TracebackType
from typing import TYPE_CHECKING, Any

from streamd.base.clock import Clock, ManualClock
from streamd.configuration.option import Value
from streamd.configuration.server_options import Config
from streamd.net.server import Server

if TYPE_CHECKING:
    import redis

__all__ = ["Clock", "EmbeddedServer", "ManualClock"]

START_S = 10.0


class EmbeddedServer:
    """A streamd server on a thread of this process, in memory, on a free port of 127.0.0.1.

        with EmbeddedServer() as server:
            client = server.client()
            client.xadd("orders", {"n": "1"}, idmp=("svc-7", "order-1"))
            server.advance(seconds=100)          # the window has passed, and nobody waited

    clock: the ManualClock that the server lives by; pass a `Clock()` for real time.
    Options are Redis's names with underscores: `EmbeddedServer(stream_idmp_duration=5, requirepass="x")`.
    """

    def __init__(self, clock: Clock | None = None, **options: Value) -> None:
        options = {"port": 0, "bind": "127.0.0.1", "appendonly": False, **options}
        self.clock: Clock = clock or ManualClock(Clock().now_ms())
        self._server = Server(Config(**options), self.clock)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="streamd", daemon=True)
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._clients: list[Any] = []

    def start(self) -> "EmbeddedServer":
        """Serve; returns when connections are accepted. Raises: AddressError; RuntimeError for a second start."""
        if self._thread.ident is not None:
            raise RuntimeError("this server was started already; make another EmbeddedServer")
        self._thread.start()
        self._started.wait(START_S)
        if self._failure is not None:
            raise self._failure
        return self

    def stop(self) -> None:
        """Stop the server and close the clients that it made."""
        for client in self._clients:
            client.close()
        self._clients.clear()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._server.request_stop)
            self._thread.join(START_S)

    @property
    def port(self) -> int:
        """The TCP port."""
        return self._server.addresses[0][1]

    @property
    def url(self) -> str:
        """`redis://127.0.0.1:PORT/0`."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def internal_errors(self) -> int:
        """The number of requests that met a bug of the server; a careful test asserts 0."""
        return self._server.engine.state.stats.internal_errors

    def client(self, **arguments: Any) -> "redis.Redis":
        """Return a redis-py client; arguments go to `redis.Redis`. Needs redis-py."""
        import redis

        client = redis.Redis(host="127.0.0.1", port=self.port, **arguments)
        self._clients.append(client)
        return client

    def advance(self, *, seconds: float = 0, milliseconds: float = 0) -> None:
        """Let time pass, to the millisecond; returns once everything due by then has happened.

        A negative number is a leap back. Raises: ValueError for an invalid time, TypeError on real time, RuntimeError
        without a running server.
        """
        clock, moved_ms = self._movable(seconds, milliseconds)
        clock.advance(moved_ms)
        self._settle()

    def leap(self, *, seconds: float = 0, milliseconds: float = 0) -> None:
        """Move the wall time alone, forward or back, as when the machine's clock is set: expiries, windows and entry
        IDs follow it, time-outs and timers do not. Returns and raises as `advance`.
        """
        clock, moved_ms = self._movable(seconds, milliseconds)
        clock.leap(moved_ms)
        self._settle()

    def _movable(self, seconds: float, milliseconds: float) -> tuple[ManualClock, int]:
        """Return the clock, and by how many milliseconds it is to be moved."""
        if not self._thread.is_alive():
            raise RuntimeError("this server does not run: it moves its clock between start and stop")
        if not isinstance(self.clock, ManualClock):
            raise TypeError("this server runs on real time; give it a ManualClock to move it")
        if not (isfinite(seconds) and isfinite(milliseconds)):
            raise ValueError(f"the clock cannot be moved by {seconds} s and {milliseconds} ms: give finite numbers")
        return self.clock, round(seconds * 1000) + round(milliseconds)

    def _settle(self) -> None:
        """Wait until the server has run the calls that were scheduled before."""
        done = threading.Event()
        self._loop.call_soon_threadsafe(done.set)
        done.wait(START_S)

    def __enter__(self) -> "EmbeddedServer":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._server.start())
        except BaseException as error:
            self._failure = error
            self._started.set()
            return
        self._started.set()
        self._loop.run_until_complete(self._server.stopped.wait())
        self._loop.close()
