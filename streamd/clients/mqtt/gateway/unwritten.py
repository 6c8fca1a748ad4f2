"""Writes how sessions have ended their connections, again and again while the store refuses it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streamd.clients.mqtt.store.link import Words, encode
from streamd.clients.mqtt.store.records import Pointer, data_key, misplaced, pointer_key, resting, taking

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway

_AT_ONCE: Final = 100
_REMOVING: Final = ("UNLINK", "SREM", "ZREM", "DELEX")
_CHANGING: Final = ("HSET", "HDEL")


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
        faults = _faults(replies)
        if faults:
            self._gateway.warn(f"the store refused to write the session of client {client_id[:100]!r}: {faults[0]}")
        if faults or client_id in self._refused:  # those that came before come first again, too
            self.keep(client_id, pointer, commands)
        elif places := misplaced(client_id, pointer, replies):
            self._gateway.tell_store([("UNLINK", *places)])

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
        (found,) = await self._gateway.link.demand(("GET", pointer_key(client_id)))
        if found is None:  # there is no session: what is left of it is removed
            commands = [one for one in commands if isinstance(one, (list, tuple)) and one[0] in _REMOVING]
        elif found == Pointer(pointer.epoch + 1, None).to_text().encode():
            commands = await self._own_again(client_id, pointer, commands)
        elif found != pointer.to_text().encode():  # another gateway has taken it
            self._gateway.tell_store([("UNLINK", data_key(client_id, pointer.epoch))])
            commands = []
        replies = await self._gateway.link.ask(*commands) if commands else []
        if not _faults(replies):
            del self._refused[client_id]
        return replies

    async def _own_again(self, client_id: str, pointer: Pointer, commands: list[Words]) -> list[Words]:
        """Take a session that has come to rest although not all was written; return what is to be written then."""
        rest = Pointer(pointer.epoch + 1, None)
        mine, command = taking(client_id, rest, self._gateway.owner_name())
        if (await self._gateway.link.demand(command))[0] is None:
            return []
        old_place, place = data_key(client_id, pointer.epoch), data_key(client_id, rest.epoch)
        changes: list[Words] = [
            [place if word == old_place else word for word in one] for one in commands if next(iter(one)) in _CHANGING
        ]
        commands = resting(client_id, mine, changes)
        self._refused[client_id] = mine, commands
        return commands

    async def write_all(self) -> None:
        """Write what was refused, as far as the store takes it now."""
        for client_id in list(self._refused)[:_AT_ONCE]:
            async with self._gateway.lock(client_id):
                if client_id in self._refused:
                    await self.write_again(client_id)
            if client_id in self._refused:
                return


def _faults(replies: list[Any]) -> list[Exception]:
    """Return the errors among replies, those of a transaction's commands too; a hash that was taken away is none."""
    flat = [one for reply in replies for one in (reply if type(reply) is list else [reply])]
    return [one for one in flat if isinstance(one, Exception) and "no such key" not in str(one)]
