"""Finds the sessions of clients that connect: when many come, several are asked for together."""

import asyncio
from functools import partial
from typing import Any, Final

from streamd.clients.mqtt.store.gathering import Gathering
from streamd.clients.mqtt.store.link import Link, StoreFault, Words, encode
from streamd.clients.mqtt.store.records import VERSION, Found, Pointer, data_key, pointer_key

# A session may be moved between the two looks at it; so often it is looked for again.
_LOOKS_MAX: Final = 10


class Finding:
    """The look-ups of sessions. now_ms: the store's time, for the epoch of a session of version 1."""

    def __init__(self, link: Link, now_ms: Any) -> None:
        self._link, self._now_ms = link, now_ms
        self._loop = asyncio.get_running_loop()
        self._gathering = Gathering()
        self._waiting: list[tuple[bytes, asyncio.Future[Any]]] = []
        self._following: list[tuple[bytes, asyncio.Future[Any]]] = []

    async def find(self, client_id: str) -> Found:
        """Return what the store has of a client's session. Raises: StoreFault."""
        key = pointer_key(client_id)
        for _ in range(_LOOKS_MAX):
            text = await self._first(("GET", key))
            if isinstance(text, Exception):
                if not str(text).startswith("WRONGTYPE"):
                    raise StoreFault(str(text))
                await self._convert(client_id)
                continue
            if text is None:
                return Found(None, [])
            try:
                pointer = Pointer.from_text(text)
            except ValueError:
                raise StoreFault(f"{key} is not a session's: {text[:60]!r}")
            fields = await self._next(("HGETALL", data_key(client_id, pointer.epoch)))
            if isinstance(fields, Exception):
                raise StoreFault(str(fields))
            if fields:
                return Found(pointer, fields)
            # It was moved, or removed; or a gateway has ended amid removing it.
            (again,) = await self._link.demand(("GET", key))
            if again == text:
                await self._link.demand(("DELEX", key, "IFEQ", text))
        raise StoreFault(f"the session of client {client_id!r} does not rest")

    async def _convert(self, client_id: str) -> None:
        """Take up a session of version 1, which was a hash in the place of the pointer."""
        key, epoch = pointer_key(client_id), self._now_ms()
        ((version, owner),) = await self._link.demand(("HMGET", key, "version", "owner"))
        if version != b"1":
            raise StoreFault(f"{key} is not a session of version 1")
        data = data_key(client_id, epoch)
        pointer = Pointer(epoch, None if owner is None else owner.decode())
        await self._link.ask(
            ("MULTI",),
            ("RENAME", key, data),
            ("HSET", data, "version", VERSION),
            ("HDEL", data, "owner"),
            ("SET", key, pointer.to_text(), "NX"),
            ("EXEC",),
        )

    def _first(self, words: Words) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((encode(words), future))
        if len(self._waiting) == 1:
            wait_s = self._gathering.wait_s()
            if wait_s:
                self._loop.call_later(wait_s, self._flush)
            else:
                self._flush()
        return future

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._gathering.left(len(waiting))
        self._send(waiting)

    def _next(self, words: Words) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._following:
            self._loop.call_soon(self._flush_next)
        self._following.append((encode(words), future))
        return future

    def _flush_next(self) -> None:
        following, self._following = self._following, []
        self._send(following)

    def _send(self, waiting: list[tuple[bytes, asyncio.Future[Any]]]) -> None:
        requests = b"".join([request for request, _ in waiting])
        self._link.send(requests, len(waiting), partial(_found, [future for _, future in waiting]))


def _found(futures: list[asyncio.Future[Any]], replies: list[Any]) -> None:
    for future, reply in zip(futures, replies, strict=True):
        if not future.done():
            future.set_result(reply)
