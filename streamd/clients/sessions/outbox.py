"""The way of requests to the server: collected, sent together, answered in order."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import redis
from redis.exceptions import NoScriptError, ResponseError

from streamd.clients.sessions.requests import Request, loads

T = TypeVar("T")

FLUSH_COMMANDS: Final = 150
FLUSH_MS: Final = 3.0


def exchange(client: redis.Redis, requests: Sequence[Request[Any]]) -> list[Any]:
    """Send requests at once and return their replies, errors of the server among them as values.

    It uses a connection of the client's pool and not its pipeline, which sends all again when the connection breaks:
    the server would execute requests twice.
    Raises: redis.ConnectionError, redis.TimeoutError: then it is unknown which requests were executed.
    """
    makes_known = loads(requests) if len(requests) > 1 else []
    replies = _exchange(client, [*makes_known, *(request.words for request in requests)])
    if len(requests) == 1 and isinstance(replies[0], NoScriptError):
        makes_known = loads(requests)
        replies = _exchange(client, [*makes_known, requests[0].words])
    return without_lua(replies[: len(makes_known)], replies[len(makes_known) :])


def _exchange(client: redis.Redis, commands: list[Any]) -> list[Any]:
    pool: Any = client.connection_pool
    connection = pool.get_connection()
    try:
        connection.send_packed_command(connection.pack_commands(commands))
        return [_reply(connection) for _ in commands]
    except BaseException:
        connection.disconnect()  # what is still to come belongs to nobody
        raise
    finally:
        pool.release(connection)


def _reply(connection: Any) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


def without_lua(loaded: Sequence[Any], replies: Sequence[Any]) -> list[Any]:
    """Return replies in which a script that is not there gives way to the reason why it could not be loaded.

    A server without Lua knows no script, and its reply to loading one says what to install.
    """
    refused = next((reply for reply in loaded if isinstance(reply, ResponseError)), None)
    return [refused if refused and isinstance(reply, NoScriptError) else reply for reply in replies]


def settle(waiting: Sequence[tuple[Request[Any], "Future[Any]"]], replies: Sequence[Any]) -> None:
    """Give each request's result to the caller that waits for it."""
    for (request, future), reply in zip(waiting, replies, strict=True):
        if isinstance(reply, Exception):
            future.set_exception(reply)
            continue
        try:
            result = request.read(reply)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)


class Outbox:
    """Requests that are sent together: when enough of them wait, or some time after the first.

    They are sent in the order of `put`, by any thread: one exchange at a time.
    """

    def __init__(self, client: redis.Redis, flush_commands: int = FLUSH_COMMANDS, flush_ms: float = FLUSH_MS) -> None:
        self._exchange: Callable[[Sequence[Request[Any]]], list[Any]] = lambda requests: exchange(client, requests)
        self._commands_max = flush_commands
        self._wait_s = flush_ms / 1000
        self._guard = threading.Lock()  # of _waiting
        self._sending = threading.Lock()
        self._waiting: list[tuple[Request[Any], Future[Any]]] = []
        self._has_first = threading.Event()
        self._clock: threading.Thread | None = None
        self._is_closed = threading.Event()

    def put(self, request: Request[T]) -> "Future[T]":
        """Add a request; return its future result. The caller that fills the outbox sends it."""
        future: Future[T] = Future()
        with self._guard:
            if self._is_closed.is_set():
                raise RuntimeError("the store is closed")
            self._waiting.append((request, future))
            count = len(self._waiting)
            if count == 1:
                if self._clock is None:
                    self._clock = threading.Thread(target=self._tick, name="streamd-sessions", daemon=True)
                    self._clock.start()
                self._has_first.set()
        if count >= self._commands_max:
            self.flush()
        return future

    def run(self, request: Request[T]) -> T:
        """Send a request at once, behind the waiting ones, and return its result."""
        future: Future[T] = Future()
        with self._sending:
            self._send((request, future))
        return future.result()

    def flush(self) -> None:
        """Send waiting requests, and return when they are answered."""
        with self._sending:
            self._send()

    def _send(self, *more: tuple[Request[Any], "Future[Any]"]) -> None:
        with self._guard:
            waiting, self._waiting = [*self._waiting, *more], []
            self._has_first.clear()
        if not waiting:
            return
        try:
            replies = self._exchange([request for request, _ in waiting])
        except BaseException as error:  # Ctrl-C too: nobody sends these again
            for _, future in waiting:
                future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            settle(waiting, replies)

    def _tick(self) -> None:
        while not self._is_closed.is_set():
            self._has_first.wait()
            if not self._is_closed.wait(self._wait_s):
                self.flush()

    def close(self) -> None:
        """Send waiting requests, and take no more."""
        with self._guard:
            self._is_closed.set()
        self.flush()
        self._has_first.set()
        if self._clock is not None:
            self._clock.join()
