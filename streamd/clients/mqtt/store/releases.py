"""Forgets packet identifiers whose PUBREL has come: many in one request, before each PUBCOMP."""

import asyncio
from collections.abc import Callable
from typing import Any

from streamd.clients.mqtt.store.link import Link, encode

Done = Callable[[Exception | None], None]


class Releases:
    """The packet identifiers that are to be forgotten at the end of this turn."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, list[tuple[int, Done]]] = {}

    def add(self, key: str, packet_id: int, done: Done) -> None:
        """Forget a packet identifier of a key; `done` gets the error of a store that refuses to."""
        if not self._waiting:
            self._loop.call_soon(self._send)
        self._waiting.setdefault(key, []).append((packet_id, done))

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, {}
        packed = b"".join(encode(("HDEL", key, *(one for one, _ in found))) for key, found in waiting.items())
        self._link.send(packed, len(waiting), lambda replies: _done(waiting, replies))


def _done(waiting: dict[str, list[tuple[int, Done]]], replies: list[Any]) -> None:
    for found, reply in zip(waiting.values(), replies, strict=True):
        for _, done in found:
            done(reply if isinstance(reply, Exception) else None)
