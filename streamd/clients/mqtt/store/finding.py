"""Finds the records of clients that connect: when many come, several are asked for together."""

import asyncio
from functools import partial
from typing import Any

from streamd.clients.mqtt.store.gathering import Gathering
from streamd.clients.mqtt.store.link import Link, StoreFault, encode
from streamd.clients.mqtt.store.records import key_of


class Finding:
    """The look-ups of session records."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._gathering = Gathering()
        self._waiting: list[tuple[bytes, asyncio.Future[list[Any]]]] = []

    async def find(self, client_id: str) -> list[Any]:
        """Return the fields of a client's record, names and values in turn. Raises: StoreFault."""
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        self._waiting.append((encode(("HGETALL", key_of(client_id))), future))
        if len(self._waiting) == 1:
            wait_s = self._gathering.wait_s()
            if wait_s:
                self._loop.call_later(wait_s, self._flush)
            else:
                self._flush()
        return await future

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._gathering.left(len(waiting))
        requests = b"".join([request for request, _ in waiting])
        self._link.send(requests, len(waiting), partial(_found, [future for _, future in waiting]))


def _found(futures: list[asyncio.Future[list[Any]]], replies: list[Any]) -> None:
    for future, reply in zip(futures, replies, strict=True):
        if future.done():
            continue
        if isinstance(reply, Exception):
            future.set_exception(StoreFault(str(reply)))
        else:
            future.set_result(reply)
