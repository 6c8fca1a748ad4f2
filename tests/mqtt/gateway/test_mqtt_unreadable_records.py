"""Records that cannot be read: their client is told so, and what is due for the others is done."""

import asyncio

import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.ownership import OWNER
from streamd.clients.mqtt.store.records import INDEX, key_of
from tests.mqtt.gateway.in_process import Device, connect, running

UNREADABLE = ({"version": "2"}, {"version": "1"}, {"version": "1", "uid": "x", "expiry_s": "9", "s t": "{"})


def test_a_client_whose_record_cannot_be_read_is_refused(streamd_store):
    async def main():
        async with running(streamd_store) as gateway, redis.asyncio.Redis.from_url(streamd_store) as client:
            for at, fields in enumerate(UNREADABLE):
                await client.hset(key_of(f"d{at}"), mapping=fields)
                device = await Device().open(gateway.port)
                device.send(p.Connect(5, f"d{at}", False))
                assert (await device.expect(p.Connack)).reason == Reason.SERVER_UNAVAILABLE
                assert await device.packet() is None

    asyncio.run(main())


def test_a_record_that_cannot_be_read_keeps_no_other_session_from_its_end(streamd_store):
    async def main():
        async with running(streamd_store) as gateway, redis.asyncio.Redis.from_url(streamd_store) as client:
            for at, fields in enumerate(UNREADABLE):
                await client.hset(key_of(f"a{at}"), mapping=fields)
                await client.zadd(INDEX, {f"a{at}": 1})
            device = await connect(gateway.port, "d", properties={Property.SESSION_EXPIRY_INTERVAL: 100})
            await device.disconnect()
            await client.hset(key_of("d"), "ends_ms", 2)
            await client.zadd(INDEX, {"d": 2})
            await client.delete(OWNER)
            async with asyncio.timeout(20):
                while await client.exists(key_of("d")) or not await client.exists(OWNER):
                    await asyncio.sleep(0)

    asyncio.run(main())
