"""Does what operators ask for in the store's stream of requests, and answers there."""

from __future__ import annotations

import asyncio
import heapq
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.gateway import peer_of
from streamd.clients.mqtt.gateway.survey import lag_ms_of
from streamd.clients.mqtt.gateway.unread import left_s_of
from streamd.clients.mqtt.store.control import CONTROL, REQUEST_MS_MAX, REQUESTS_MAX, Request, answer, parse_request
from streamd.clients.mqtt.store.described import describe, moment, of_packs
from streamd.clients.mqtt.store.link import StoreFault
from streamd.clients.mqtt.store.records import Record
from streamd.clients.topics.entry_ids import BEGIN, Id, format_id, parse_id

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.connection import Connection
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.gateway.session import Session
    from streamd.clients.mqtt.session.packs import Pack

_LOOK_S: Final = 0.5
_AT_ONCE: Final = REQUESTS_MAX  # requests of one look: all that there can be
_PAGE_MAX: Final = 500  # clients of one answer
_SLICE: Final = 5_000  # names between two turns of others
_VERSIONS: Final = {3: "3.1", 4: "3.1.1", 5: "5"}


class Control:
    """The requests to a gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._at: Id | None = None  # the last request that was read
        self._said = ""

    async def look(self) -> None:
        """Do what was asked for since the last look; the first one finds where requests begin."""
        if not self._gateway.link.is_up:
            return
        try:
            await self._look()
        except StoreFault as fault:
            if str(fault) != self._said:  # once
                self._said = str(fault)
                self._gateway.warn(f"requests of `streamd mqtt` cannot be read: {fault}")

    async def run(self) -> None:
        """Look for requests, again and again."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    async def _look(self) -> None:
        link = self._gateway.link
        if self._at is None:
            (newest,) = await link.demand(("XREVRANGE", CONTROL, "+", "-", "COUNT", 1))
            self._at = parse_id(newest[0][0]) if newest else BEGIN
            return
        (reply,) = await link.demand(("XREAD", "COUNT", _AT_ONCE, "STREAMS", CONTROL, format_id(self._at)))
        for text, fields in reply[0][1] if reply else ():
            self._at = parse_id(text)
            if self._at[0] < self._gateway.now_ms() - REQUEST_MS_MAX:
                continue
            try:
                request = parse_request(fields or [])
                said = await self._do(request)
            except ValueError as error:
                self._gateway.warn(f"a request of {CONTROL} was passed over: {error}")
                continue
            self._gateway.tell_store(answer(request, {"gateway": self._gateway.run, **said}))

    async def _do(self, request: Request) -> dict[str, Any]:
        if request.do == "clients":
            return await self._clients(request.said)
        if request.do == "gateways":
            gateway = self._gateway
            return {"clients": len(gateway.clients), "is_keeper": gateway.ownership.is_keeper}
        if request.do == "drain":
            is_meant = request.said.get("gateway") == self._gateway.run
            if is_meant:
                self._gateway.warn("an operator drains this gateway: its clients go to others, and it ends")
                self._gateway.told_to_end.set()
            return {"is_draining": is_meant}
        client_id = request.said.get("client")
        if not isinstance(client_id, str):
            raise ValueError("no client is named")
        session = self._gateway.clients.get(client_id)
        connection = None if session is None else session.connection
        if session is None or connection is None:
            return {"is_connected": False}
        if request.do == "session":
            return {"is_connected": True, "session": self._session(session, connection)}
        if request.do == "disconnect":
            self._gateway.log_fault(connection, "an operator closes its connection")
            connection.close(Reason.ADMINISTRATIVE_ACTION, "an operator has closed the connection")
            return {"is_connected": True}
        raise ValueError(f"{request.do!r} is not known")

    async def _clients(self, said: dict[str, Any]) -> dict[str, Any]:
        """Return a page of the clients, in the order of their identifiers."""
        after, match = str(said.get("after") or ""), str(said.get("match") or "")
        count = said.get("count")
        count = min(max(count, 1), _PAGE_MAX) if isinstance(count, int) else _PAGE_MAX
        clients = self._gateway.clients
        names = list(clients)
        if said.get("applications") is True:
            names = [name for name, session in clients.items() if session.pack is not None]
        first: list[str] = []
        matching = 0
        for at in range(0, len(names), _SLICE):
            some = names[at : at + _SLICE]
            if match:
                some = [one for one in some if fnmatchcase(one, match)]
            matching += len(some)
            first = heapq.nsmallest(count + 1, [*first, *(one for one in some if one > after)])
            await asyncio.sleep(0)
        found = []
        for name in first[:count]:
            session = self._gateway.clients.get(name)
            if session is not None and session.connection is not None:
                found.append(self._client(session, session.connection))
        more = first[count - 1] if len(first) > count else None
        return {"clients": found, "number": matching, "more_after": more}

    def _client(self, session: Session, connection: Connection) -> dict[str, Any]:
        said = {
            "client": session.client_id,
            "user": session.user,
            **_connection(connection),
            "subscriptions": len(session.subscriptions),
            "in_flight": 0 if session.outgoing is None else len(session.outgoing),
            "lag": self._lag(session),
        }
        if session.pack is not None:
            application = {**_packs(session, session.pack), "retention_left_s": left_s_of(self._gateway, session)}
            del application["packs"]
            said["application"] = application
        return said

    def _lag(self, session: Session) -> dict[str, Any]:
        """Return the logs in which a session is behind the tail: for how long, and by how many messages, if known."""
        return {
            name: {
                "messages": None if cursor.number is None else cursor.tailed.ring.next - cursor.number,
                "seconds": round(lag_ms_of(self._gateway, cursor) / 1_000, 1),
            }
            for name, cursor in (session.cursors or {}).items()
        }

    def _session(self, session: Session, connection: Connection) -> dict[str, Any]:
        gateway = self._gateway
        record = Record(
            session.client_id,
            session.uid,
            session.user,
            session.expiry_s,
            will=session.will,
            subscriptions=dict(session.subscriptions),
            positions={
                name: gateway.delivery.position(session, replay.tailed)
                for name, replay in gateway.delivery.replays.items()
            },
            in_flight=[] if session.outgoing is None else session.outgoing.in_flight,
        )
        return {
            **describe(record),
            **_connection(connection),
            "keep_alive_s": round(connection.keep_alive_s / 1.5),
            "is_application": session.pack is not None,
            "application": None if session.pack is None else _packs(session, session.pack),
            "lag": self._lag(session),
        }


def _packs(session: Session, pack: Pack) -> dict[str, Any]:
    packs = {"": pack, **(session.share_packs or {})}
    said = [(name, one.unacknowledged, one.taken, one.retries) for name, one in packs.items()]
    return of_packs(said, session.subscriptions)


def _connection(connection: Connection) -> dict[str, Any]:
    return {
        "address": peer_of(connection),
        "listener": connection.kind,
        "version": _VERSIONS.get(connection.version, ""),
        "since": moment(connection.since_s * 1_000),
    }
