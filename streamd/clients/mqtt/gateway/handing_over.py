"""Lets a client go from one gateway to another: the one that has it is told, closes its connection, and lets go.

mqtt:told:<run>   list: messages of other gateways to one, in JSON; it expires
    client        whose connection is to be closed
    pointer       the pointer that its session has; no field for a client without a session in the store
    order         then, of the connection elsewhere: among several of one client the one of the highest number stays
    user          then, the user who has connected
    is_told       whether a line has told that the client connects again and again
    look          there is a gateway more, or less
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.ownership import told_key
from streamd.clients.mqtt.store.link import Link, StoreFault, Words
from streamd.clients.mqtt.store.records import Pointer, pointer_key, resting

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.connection import Connection
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.store.link import Target

_WAIT_S: Final = 5  # of one request for a message
_TOLD_S: Final = 60  # after which nobody waits for it
_LOOKS_S: Final = (0.005, 0.01, 0.02, 0.05, 0.1)
# A gateway that lives, and does not let go for so long, loses the session: what it still writes does not count.
_PATIENCE_S: Final = 2.0
# So long what a client has sent here before is worked on: shorter than the patience of the other gateway.
_FINISHING_S: Final = 1.0
_RETRY_S: Final = 0.2
_ORDER: Final = "mqtt:connections"  # counts connections while there are several gateways
_REMEMBERED: Final = 1_000


class HandingOver:
    """What gateways tell each other of their clients."""

    def __init__(self, gateway: Gateway, target: Target) -> None:
        self._gateway = gateway
        self.link = Link(target, "streamd-mqtt-told")
        self._told: dict[str, int] = {}  # the numbers of connections elsewhere, by client; the newest last

    async def run(self) -> None:
        """Do as other gateways tell, again and again."""
        key = told_key(self._gateway.run)
        while True:
            (told,) = await self.link.ask(("BLPOP", key, _WAIT_S))
            if isinstance(told, Exception):
                self._gateway.warn(f"other gateways cannot tell this one to let a client go: {told}")
                await asyncio.sleep(_RETRY_S * 10)
            elif told is not None:
                try:
                    said = json.loads(told[1])
                    if "look" in said:
                        await self._gateway.ownership.look()
                    else:
                        self._do(said)
                except StoreFault as fault:
                    self._gateway.warn(str(fault))
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    self._gateway.warn(f"what another gateway tells was passed over: {error}")

    def _do(self, said: dict[str, Any]) -> None:
        if "order" in said:
            self._told.pop(said["client"], None)
            self._told[said["client"]] = int(said["order"])
            if len(self._told) > _REMEMBERED:
                del self._told[next(iter(self._told))]
        session = self._gateway.clients.get(said["client"])
        if session is None or session.connection is None:
            if "pointer" in said:
                self._gateway.spawn(self._let_go(said["client"], said["pointer"]))
            return
        if "pointer" in said:
            if session.pointer is None or session.pointer.to_text() != said["pointer"]:
                return
        elif session.pointer is not None or session.connection.order > said["order"]:
            return
        elif session.user != said["user"]:
            return  # a client identifier belongs to the user who came first
        self._gateway.takeovers.note(session.client_id, is_told=bool(said.get("is_told")))
        self._gateway.counters.takeovers += 1
        session.connection.finish(_FINISHING_S, Reason.SESSION_TAKEN_OVER)

    async def _let_go(self, client_id: str, text: str) -> None:
        """Let go of a session whose client is not here: its CONNECT has failed after the session was taken for it."""
        gateway = self._gateway
        async with gateway.lock(client_id):
            if client_id in gateway.clients or client_id in gateway.leaving or client_id in gateway.unwritten:
                return
            pointer = Pointer.from_text(text.encode())
            if pointer.run == gateway.run:
                gateway.unwritten.write(client_id, pointer, resting(client_id, pointer, []))

    async def ask_for(self, client_id: str, pointer: Pointer) -> bool:
        """Ask the gateway that owns a session to let go.

        Returns whether the session may be taken from it, as it does not live, or does not let go; otherwise it has
        changed. Raises: StoreFault.
        """
        gateway = self._gateway
        run, key, text = pointer.run, pointer_key(client_id), pointer.to_text().encode()
        assert run is not None
        if run == gateway.run or not await gateway.ownership.is_alive(run):
            return True
        is_told = gateway.takeovers.note(client_id)
        words = {"client": client_id, "pointer": pointer.to_text(), "is_told": is_told}
        said = json.dumps(words, ensure_ascii=False)
        working_s: float | None = None  # since when it is at work, and does not let go
        looks = 0
        await gateway.link.demand(*_telling(run, said))
        while True:
            await asyncio.sleep(_LOOKS_S[min(looks, len(_LOOKS_S) - 1)])
            looks += 1
            (found,) = await gateway.link.demand(("GET", key))
            if found != text:
                return False
            if not await gateway.ownership.is_alive(run):
                return True
            # One that is stopped may go on at any time, until its lease is over, and has its time from then on.
            if not await gateway.ownership.is_at_work(run):
                working_s = None
            elif working_s is None:
                working_s = gateway.loop.time()
            elif gateway.loop.time() - working_s > _PATIENCE_S:
                return True

    async def tell_of_me(self) -> None:
        """Let the other gateways see that this one is there, or is there no more. Raises: StoreFault."""
        commands = [one for run in self._gateway.ownership.peers for one in _telling(run, '{"look":1}')]
        if commands:
            await self._gateway.link.demand(*commands)

    def is_overtaken(self, connection: Connection, client_id: str) -> bool:
        """Return whether a client without a session has connected elsewhere while it was let in here."""
        return 0 < connection.order < self._told.get(client_id, 0)

    async def tell_all(self, connection: Connection, client_id: str, user: str | None) -> None:
        """Let the other gateways close a connection of a client that connects here, and has no session there.

        Raises: StoreFault.
        """
        gateway = self._gateway
        (connection.order,) = await gateway.link.demand(("INCR", _ORDER))
        is_told = gateway.takeovers.has_told(client_id)
        words = {"client": client_id, "order": connection.order, "user": user, "is_told": is_told}
        said = json.dumps(words, ensure_ascii=False)
        gateway.tell_store([one for run in gateway.ownership.peers for one in _telling(run, said)])


def _telling(run: str, said: str) -> list[Words]:
    return [("RPUSH", told_key(run), said), ("EXPIRE", told_key(run), _TOLD_S)]
