"""The store of sessions for brokers that run on asyncio."""

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import redis.asyncio
from redis.exceptions import NoScriptError, ResponseError

from streamd.clients.sessions.messages import Message, Messages
from streamd.clients.sessions.outbox import FLUSH_COMMANDS, FLUSH_MS, without_lua
from streamd.clients.sessions.requests import TTL_S, Request, Requests, Session, loads, single_server

T = TypeVar("T")


class AsyncDeviceStore:
    """`DeviceStore` for `redis.asyncio`: concurrent calls of several tasks are sent together.

    They are sent when `flush_commands` wait, or `flush_ms` after the first of them; the order of all calls is kept. A
    broker with a single task sets `flush_ms=0`.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        limit: int | None = None,
        ttl_s: int = TTL_S,
        *,
        prefix: str = "",
        flush_commands: int = FLUSH_COMMANDS,
        flush_ms: float = FLUSH_MS,
    ) -> None:
        """As of DeviceStore."""
        self._requests = Requests(limit, ttl_s, prefix)
        self._client: redis.asyncio.Redis = single_server(client)
        self._commands_max = flush_commands
        self._wait_s = flush_ms / 1000
        self._waiting: list[tuple[Request[Any], asyncio.Future[Any]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending = asyncio.Lock()
        self._flushes: set[asyncio.Task[None]] = set()

    async def add(self, client_id: str, messages: Message | Iterable[Message]) -> list[int]:
        """Add messages to a session, in their order; return their packet IDs."""
        request = self._requests.add(client_id, messages)
        return [] if request is None else await self._run(request)

    async def get(self, client_id: str) -> Messages:
        """Return a session's messages in the order in which they were added.

        A stored value that is no message is left out: `damaged` of the result names it, and a warning is logged.
        """
        return await self._run(self._requests.get(client_id))

    async def remove(self, client_id: str, packet_id: int) -> None:
        """Remove a message; a missing one counts as removed."""
        await self._run(self._requests.remove(client_id, packet_id))

    async def remove_all(self, client_id: str) -> None:
        """Remove a session: its messages, and its last packet ID."""
        await self._run(self._requests.remove_all(client_id))

    async def mark_pubrel(self, client_id: str, packet_id: int) -> None:
        """Note that a message of QoS 2 has come to its PUBREL; from then on it does not expire."""
        await self._run(self._requests.mark_pubrel(client_id, packet_id))

    async def session(self, client_id: str) -> Session | None:
        """Return a session's last packet ID and when it was given; or None."""
        return await self._run(self._requests.session(client_id))

    async def set_last_packet_id(self, client_id: str, packet_id: int) -> None:
        """Let the next message get the packet ID behind this one."""
        await self._run(self._requests.set_last_packet_id(client_id, packet_id))

    async def _run(self, request: Request[T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append((request, future))
        if len(self._waiting) == self._commands_max:  # what comes while that waits for its turn goes with it
            self._begin()
        elif len(self._waiting) == 1:
            self._timer = loop.call_later(self._wait_s, self._begin)
        return await future

    def _begin(self) -> None:
        task = asyncio.ensure_future(self.flush())
        self._flushes.add(task)
        task.add_done_callback(self._flushes.discard)

    async def flush(self) -> None:
        """Send waiting requests, and return when they are answered."""
        async with self._sending:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            waiting, self._waiting = self._waiting, []
            if not waiting:
                return
            try:
                replies = await exchange(self._client, [request for request, _ in waiting])
            except asyncio.CancelledError:
                for _, future in waiting:
                    future.cancel()  # nobody sends these again
                raise
            except Exception as error:
                replies = [error] * len(waiting)
            _settle(waiting, replies)

    async def aclose(self) -> None:
        """Send waiting requests, and return when all are answered. The client stays open."""
        await self.flush()

    async def __aenter__(self) -> "AsyncDeviceStore":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _settle(waiting: Sequence[tuple[Request[Any], "asyncio.Future[Any]"]], replies: Sequence[Any]) -> None:
    for (request, future), reply in zip(waiting, replies, strict=True):
        if future.done():  # its task was cancelled
            continue
        if isinstance(reply, Exception):
            future.set_exception(reply)
            continue
        try:
            result = request.read(reply)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)


async def exchange(client: redis.asyncio.Redis, requests: Sequence[Request[Any]]) -> list[Any]:
    """Send requests at once and return their replies, errors of the server among them as values.

    As that of `outbox`, for asyncio. Raises: redis.ConnectionError, redis.TimeoutError.
    """
    makes_known = loads(requests) if len(requests) > 1 else []
    replies = await _exchange(client, [*makes_known, *(request.words for request in requests)])
    if len(requests) == 1 and isinstance(replies[0], NoScriptError):
        makes_known = loads(requests)
        replies = await _exchange(client, [*makes_known, requests[0].words])
    return without_lua(replies[: len(makes_known)], replies[len(makes_known) :])


async def _exchange(client: redis.asyncio.Redis, commands: list[Any]) -> list[Any]:
    pool: Any = client.connection_pool
    connection = await pool.get_connection()
    try:
        await connection.send_packed_command(connection.pack_commands(commands))
        return [await _reply(connection) for _ in commands]
    except BaseException:
        await connection.disconnect()
        raise
    finally:
        await pool.release(connection)


async def _reply(connection: Any) -> Any:
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error
