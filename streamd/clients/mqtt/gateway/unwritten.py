"""Writes how sessions have ended their connections, again and again while the store refuses it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamd.clients.mqtt.store.link import Words, encode
from streamd.clients.mqtt.store.records import Pointer, data_key, pointer_key, resting

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway

_AT_ONCE: Final = 100
_REMOVING: Final = ("UNLINK", "SREM", "ZREM", "DELEX")


class Unwritten:
    """What a full store has refused, by client: without it a session would never end, or go on too far ahead."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._refused: dict[str, tuple[Pointer, list[Words]]] = {}

    def write(self, client_id: str, pointer: Pointer, commands: list[Words]) -> None:
        """Send commands that may be executed twice, of the session's owner; nobody waits for them."""
        if commands:
            packed = b"".join(encode(one) for one in commands)
            self._gateway.link.send(packed, len(commands), partial(self._written, client_id, pointer, commands))

    def _written(self, client_id: str, pointer: Pointer, commands: list[Words], replies: list[Any]) -> None:
        faults = [one for one in replies if isinstance(one, Exception)]
        if faults:
            self._gateway.warn(f"the store refused to write the session of client {client_id[:100]!r}: {faults[0]}")
        if faults or client_id in self._refused:  # those that came before come first again, too
            self.keep(client_id, pointer, commands)
        elif replies[-1] is None and commands[-1] == resting(client_id, pointer):
            self._gateway.spawn(self._clear(client_id, pointer))

    async def _clear(self, client_id: str, pointer: Pointer) -> None:
        """Remove what was written twice, and the second time beside a session that others had taken meanwhile."""
        (found,) = await self._gateway.link.ask(("GET", pointer_key(client_id)))
        if found is None or (isinstance(found, bytes) and Pointer.from_text(found).epoch != pointer.epoch):
            self._gateway.tell_store([("UNLINK", data_key(client_id, pointer.epoch))])

    def keep(self, client_id: str, pointer: Pointer, commands: list[Words]) -> None:
        """Take commands that the store has refused, behind those that are here."""
        before = self._refused.get(client_id)
        self._refused[client_id] = pointer, ([] if before is None else before[1]) + commands

    def __contains__(self, client_id: str) -> bool:
        """Return whether the store has refused something for a client."""
        return client_id in self._refused

    async def write_again(self, client_id: str) -> list[Any]:
        """Write what was refused for a client; return the replies, errors among them as values."""
        pointer, commands = self._refused[client_id]
        key, mine, rest = pointer_key(client_id), pointer.to_text(), Pointer(pointer.epoch, None).to_text()
        # It may have come to rest although not all was written: then it is owned again.
        _, found = await self._gateway.link.demand(("SET", key, mine, "IFEQ", rest), ("GET", key))
        if found is None:  # there is no session: what is left of it is removed
            commands = [one for one in commands if isinstance(one, (list, tuple)) and one[0] in _REMOVING]
        elif found != mine.encode():  # another gateway has taken it
            if Pointer.from_text(found).epoch != pointer.epoch:
                self._gateway.tell_store([("UNLINK", data_key(client_id, pointer.epoch))])
            commands = []
        replies = await self._gateway.link.ask(*commands) if commands else []
        if not any(isinstance(one, Exception) for one in replies):
            del self._refused[client_id]
        return replies

    async def write_all(self) -> None:
        """Write what was refused, as far as the store takes it now."""
        for client_id in list(self._refused)[:_AT_ONCE]:
            async with self._gateway.lock(client_id):
                if client_id in self._refused:
                    await self.write_again(client_id)
            if client_id in self._refused:
                return
