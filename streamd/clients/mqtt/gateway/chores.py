"""What a gateway does now and then: each thing by itself, so that what is slow keeps nothing else from being done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import redis

from streamd.clients.mqtt.gateway.ownership import LEASE_S
from streamd.clients.mqtt.gateway.taking_up import take_up
from streamd.clients.mqtt.store.link import StoreFault
from streamd.clients.mqtt.store.records import INDEX, leaving_index, parse_record

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway

_TICK_S: Final = 0.1
_CHORES_S: Final = 1.0
_CHECKPOINT_S: Final = 10.0
_CLOCK_S: Final = 30.0
_RETAIN_S: Final = 30.0
_AWAY_S: Final = 30.0
_ENDED_AT_ONCE: Final = 100


class Chores:
    """The tasks of a gateway. on_chores: of other parts, once a second."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._chores: list[asyncio.Task[None]] = []
        self.on_chores: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        """Return whether they are being done."""
        return bool(self._chores)

    def begin_lease(self) -> None:
        """Begin to extend the lease: that must not wait for anything else."""
        self._begin(_CHORES_S, self._keep_ownership)

    def begin(self) -> None:
        """Begin all others."""
        for seconds, chore in (
            (_CHORES_S, self._do_chores),
            (_CHORES_S, self._be_keeper),
            (_CHORES_S, self._publish_wills),
            (_CHECKPOINT_S, self._checkpoint),
            (_CLOCK_S, self.set_clock),
            (_RETAIN_S, self._retain),
            (_AWAY_S, self._gateway.away.look),
        ):
            self._begin(seconds, chore)
        self._chores.append(self._gateway.loop.create_task(self._gateway.handing_over.run()))

    def _begin(self, seconds: float, chore: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._chores.append(self._gateway.loop.create_task(self._repeat(seconds, chore)))

    def end(self) -> None:
        """Do nothing more."""
        for chore in self._chores:
            chore.cancel()
        self._chores.clear()

    async def _repeat(self, seconds: float, chore: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Do something again and again while the store can be used."""
        while True:
            await asyncio.sleep(seconds)
            while not self._gateway.link.is_up:
                await asyncio.sleep(_TICK_S)
            await self.attempt(chore())

    async def _do_chores(self) -> None:
        for one in self.on_chores:
            one()
        self._gateway.retained.drop_expired()
        self._gateway.retained.forget_old()
        if not self._gateway.ownership.is_keeper:
            await self.attempt(self._gateway.unwritten.write_all())
            return
        # Before what a full store refuses: it makes room.
        await self.attempt(self.end_sessions())
        await self.attempt(self._gateway.unwritten.write_all())

    async def _checkpoint(self) -> None:
        self._gateway.tell_store(self._gateway.retained.checkpoint())

    async def _publish_wills(self) -> None:
        if self._gateway.ownership.is_keeper:
            await self._gateway.wills.publish_due()

    async def _retain(self) -> None:
        if not self._gateway.ownership.is_keeper:
            return
        for log in self._gateway.logs.all:
            await self.attempt(log.retain())

    async def attempt(self, chore: Coroutine[Any, Any, Any]) -> None:
        """Do something that is due; what is wrong with it keeps nothing else from being done."""
        try:
            await chore
        except (redis.RedisError, StoreFault, ValueError, OSError) as error:
            self._gateway.warn(str(error))
        except Exception as error:
            self._gateway.warn(f"internal error: {type(error).__name__}: {error}")

    async def _keep_ownership(self) -> None:
        ownership = self._gateway.ownership
        if not await ownership.keep():
            self._gateway.warn(f"this gateway's lease was over: it gave no sign for {LEASE_S} seconds")
            await self._gateway.look_for_lost()
            ownership.is_sure = True

    async def _be_keeper(self) -> None:
        if self._gateway.ownership.is_keeper:
            await self.attempt(self._gateway.retained.keep())
            await take_up(self._gateway)
        else:
            self._gateway.retained.let_go()

    async def end_sessions(self) -> None:
        """End sessions whose time is over, not very many at once."""
        words = ("ZRANGEBYSCORE", INDEX, "-inf", self._gateway.now_ms(), "LIMIT", 0, _ENDED_AT_ONCE)
        (ended,) = await self._gateway.link.demand(words)
        for one in ended:
            client_id = one.decode()
            async with self._gateway.lock(client_id):
                await self.attempt(self._end_session(client_id))

    async def _end_session(self, client_id: str) -> None:
        gateway = self._gateway
        if client_id in gateway.clients or client_id in gateway.leaving:
            return
        record = parse_record(client_id, await gateway.finding.find(client_id))
        if record is None:
            gateway.tell_store(leaving_index(client_id))
            return
        is_due = record.has_ended(gateway.now_ms()) and record.pointer.owner is None
        if is_due and await gateway.leaving_clients.end(record):
            gateway.counters.sessions_expired += 1

    async def set_clock(self) -> None:
        """Ask the store what time it is."""
        (reply,) = await self._gateway.link.demand(("TIME",))
        self._gateway.clock_ahead_ms = int(reply[0]) * 1_000 + int(reply[1]) // 1_000 - int(time.time() * 1_000)
