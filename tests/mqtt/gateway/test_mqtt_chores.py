"""What is due now and then: what is slow keeps nothing else from being done."""

import asyncio

import pytest
import redis.asyncio

from streamd.clients.mqtt.gateway.ownership import GATEWAYS, lease_key
from streamd.clients.mqtt.gateway.retained import Retained
from tests.mqtt.gateway.in_process import WAIT_S, running


async def until_renewed(store):
    """Let the lease have no end, and wait until the gateway gives it one."""
    async with redis.asyncio.Redis.from_url(store) as client, asyncio.timeout(WAIT_S):
        (run,) = await client.hkeys(GATEWAYS)
        await client.persist(lease_key(run.decode()))
        while await client.pttl(lease_key(run.decode())) < 0:
            pass


@pytest.mark.interpreted(reason="a method is replaced")
def test_the_lease_is_renewed_while_a_log_is_trimmed(streamd_store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.chores._RETAIN_S", 0)

    async def main():
        async with running(streamd_store) as gateway:
            trims = asyncio.Event()

            async def trim_for_ever():
                trims.set()
                await asyncio.Event().wait()

            gateway.logs.all[0].retain = trim_for_ever
            await trims.wait()
            await until_renewed(streamd_store)
            await until_renewed(streamd_store)

    asyncio.run(main())


@pytest.mark.interpreted(reason="a method is replaced")
def test_the_lease_is_renewed_while_retained_messages_are_loaded(streamd_store, monkeypatch):
    load = Retained.load

    async def load_slowly(self, tailed):
        await until_renewed(streamd_store)
        return await load(self, tailed)

    monkeypatch.setattr(Retained, "load", load_slowly)

    async def main():
        async with running(streamd_store) as gateway:
            assert gateway.ownership.is_valid

    asyncio.run(main())
