"""Publishes wills: each once, also after a kill."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from streamd.clients.mqtt.codec.packets import Will
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.store.link import StoreFault
from streamd.clients.mqtt.store.publishing import Publication
from streamd.clients.mqtt.store.records import WILLS, data_key, parse_record
from streamd.clients.mqtt.store.stored import packed_fields, version_of

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.gateway.session import Session

_AT_ONCE: Final = 100
_PRODUCER: Final = b"\0will"


class Wills:
    """The wills of clients that are gone. held: the sessions of connected clients that have one."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.held: set[Session] = set()

    def publish(self, client_id: str, uid: str, will: Will, name: str) -> None:
        """Publish a will, without waiting for the store; then its session has it no more."""
        self._gateway.spawn(self._publish_beside(client_id, uid, will, name))

    async def _publish_beside(self, client_id: str, uid: str, will: Will, name: str) -> None:
        try:
            await self._publish_and_forget(client_id, uid, will, name)
        except (StoreFault, ValueError) as fault:
            self._gateway.warn(f"the will of client {client_id[:100]!r} was not forgotten: {fault}")

    async def _publish_and_forget(self, client_id: str, uid: str, will: Will, name: str) -> bool:
        """Publish a will; return whether its session has it no more."""
        if not await self.publish_now(client_id, uid, will, name):
            return False
        gateway = self._gateway
        async with gateway.lock(client_id):
            # Unless the client is back with another.
            record = parse_record(client_id, await gateway.finding.find(client_id))
            if record is None or (record.uid, record.will_name) != (uid, name):
                return False
            # (If another gateway takes the session meanwhile, it publishes the will, too, under the same name.)
            gone = ("HDEL", data_key(client_id, record.pointer.epoch), "will", "will_name", "will_ms")
            for reply in await gateway.link.ask(gone, ("ZREM", WILLS, client_id)):
                if isinstance(reply, Exception):
                    gateway.warn(f"the store refused to forget the will of client {client_id[:100]!r}: {reply}")
                    return False
            return True

    async def publish_now(self, client_id: str, uid: str, will: Will, name: str) -> bool:
        """Publish a will, and return whether it is stored."""
        gateway = self._gateway
        values = {number: one for number, one in will.properties.items() if number != Property.WILL_DELAY_INTERVAL}
        log = gateway.logs.of_topic(will.topic)
        version = version_of(values, will.retain)
        if version > log.version:
            try:
                await log.raise_version(version)
            except Exception as fault:
                gateway.warn(f"the will of client {client_id!r} was not published: {fault}")
                return False
        stored: asyncio.Future[str | None] = gateway.loop.create_future()

        def done(entry_id: object, error: str | None) -> None:
            if not stored.done():
                stored.set_result(error)

        client = client_id.encode()
        fields = packed_fields(will.topic, will.payload, client, will.qos, will.retain, values)
        # The same name after a kill: so it is stored once.
        iid = f"{uid}:{name}".encode()
        gateway.publishing.publish(Publication(log, client, fields, _PRODUCER, iid, None, done, will.retain))
        error = await stored
        if error is not None:
            gateway.warn(f"the will of client {client_id!r} was not published: {error}")
            return False
        gateway.counters.wills_published += 1
        return True

    async def publish_due(self) -> None:
        """Publish all wills whose delay is over."""
        gateway = self._gateway
        left = 0  # those that are due, and stay: they come first each time
        while True:
            words = ("ZRANGEBYSCORE", WILLS, "-inf", gateway.now_ms(), "LIMIT", left, _AT_ONCE)
            (due,) = await gateway.link.demand(words)
            are_gone = await asyncio.gather(*(self._publish_one(client_id.decode()) for client_id in due))
            left += are_gone.count(False)
            if len(due) < _AT_ONCE:
                return

    async def _publish_one(self, client_id: str) -> bool:
        """Publish a will that is due; return whether it is so no more."""
        gateway = self._gateway
        try:
            async with gateway.lock(client_id):
                record = parse_record(client_id, await gateway.finding.find(client_id))
                if record is None or record.will is None or record.will_ms is None:
                    await gateway.link.demand(("ZREM", WILLS, client_id))
                    return True
            return await self._publish_and_forget(client_id, record.uid, record.will, record.will_name)
        except (StoreFault, ValueError) as fault:
            gateway.warn(f"the will of client {client_id[:100]!r} was not published: {fault}")
            return False
