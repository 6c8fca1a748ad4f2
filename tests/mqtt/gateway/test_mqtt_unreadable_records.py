"""Records that cannot be read: their client is told so, and what is due for the others is done."""

import asyncio

import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.store.records import INDEX, pointer_key
from tests.mqtt.gateway.in_process import Device, connect, data_key_of, put_record, running

UNREADABLE = ({"version": "3"}, {"version": "2"}, {"version": "2", "uid": "x", "expiry_s": "9", "s t": "{"})


def test_a_client_whose_record_cannot_be_read_is_refused(streamd_store):
    async def main():
        async with running(streamd_store) as gateway, redis.asyncio.Redis.from_url(streamd_store) as client:
            for at, fields in enumerate(UNREADABLE):
                await put_record(client, f"d{at}", fields)
                device = await Device().open(gateway.port)
                device.send(p.Connect(5, f"d{at}", False))
                assert (await device.expect(p.Connack)).reason == Reason.SERVER_UNAVAILABLE
                assert await device.packet() is None

    asyncio.run(main())


def test_a_record_that_cannot_be_read_keeps_no_other_session_from_its_end(streamd_store):
    async def main():
        async with running(streamd_store) as gateway, redis.asyncio.Redis.from_url(streamd_store) as client:
            for at, fields in enumerate(UNREADABLE):
                await put_record(client, f"a{at}", fields)
                await client.zadd(INDEX, {f"a{at}": 1})
            device = await connect(gateway.port, "d", properties={Property.SESSION_EXPIRY_INTERVAL: 100})
            await device.disconnect()
            await client.hset(await data_key_of(client, "d"), "ends_ms", 2)
            await client.zadd(INDEX, {"d": 2})
            async with asyncio.timeout(60):
                while await client.exists(pointer_key("d")):
                    await asyncio.sleep(0)

    asyncio.run(main())
