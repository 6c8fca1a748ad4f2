"""What a gateway writes to sessions may be executed twice, as a store may be killed before it has answered."""

import asyncio

import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.store.records import Pointer, Record, creation, misplaced, pointer_key, resting
from tests.mqtt.gateway.in_process import WAIT_S, connect, data_key_of, running

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}


async def execute(client, commands):
    """Return the replies to commands, in one write."""
    pipeline = client.pipeline(transaction=False)
    for words in commands:
        pipeline.execute_command(*words)
    return await pipeline.execute(raise_on_error=False)


def test_a_session_that_is_begun_twice_is_there(store):
    async def main():
        async with redis.asyncio.Redis.from_url(store) as client:
            record = Record("d", expiry_s=9, pointer=Pointer(5, "run.1"))
            for _ in range(2):
                assert (await execute(client, creation(record)))[-1] == b"5 run.1"
            other = Record("d", expiry_s=9, pointer=Pointer(6, "run.2"))
            assert (await execute(client, creation(other)))[-1] == b"5 run.1"

    asyncio.run(main())


def test_a_session_that_is_let_go_twice_rests_once(store):
    async def main():
        async with redis.asyncio.Redis.from_url(store) as client:
            record = Record("d", expiry_s=9, pointer=Pointer(5, "run.1"))
            await execute(client, creation(record))
            commands = [("HSET", record.key, "last", 1), *resting("d", record.pointer, [("HSET", record.key, "x", 1)])]
            assert misplaced("d", record.pointer, await execute(client, commands)) == []
            at_rest = await client.hgetall("mqtt:session:{d}:6")
            assert (at_rest[b"uid"], at_rest[b"last"], at_rest[b"x"]) == (record.uid.encode(), b"1", b"1")
            assert misplaced("d", record.pointer, await execute(client, commands)) == ["mqtt:session:{d}:5"]
            assert await client.hgetall("mqtt:session:{d}:6") == at_rest
            # The session has moved on, and the commands come once more.
            await client.rename("mqtt:session:{d}:6", "mqtt:session:{d}:7")
            await client.set(pointer_key("d"), "7 -")
            assert misplaced("d", record.pointer, await execute(client, commands)) == [
                "mqtt:session:{d}:5",
                "mqtt:session:{d}:6",
            ]

    asyncio.run(main())


def test_what_the_owner_before_writes_again_does_not_reach_a_session(store):
    async def main():
        async with running(store) as gateway, redis.asyncio.Redis.from_url(store) as client:
            device = await connect(gateway.port, "d", False, properties=LASTING)
            await device.subscribe(p.Subscription("t", 1))
            old_key = await data_key_of(client, "d")
            old = Pointer.from_text(await client.get(pointer_key("d")))
            for _ in range(2):
                await device.disconnect()
                device = await connect(gateway.port, "d", False, properties=LASTING)
                assert device.connack.session_present
            key = await data_key_of(client, "d")
            assert key != old_key
            again = [("HSET", old_key, "ends_ms", 1), *resting("d", old, [("HSET", old_key, "ends_ms", 1)])]
            gateway.gateway.unwritten.write("d", old, again)
            async with asyncio.timeout(WAIT_S):
                while len(await client.keys("mqtt:session:*")) != 2:
                    await asyncio.sleep(0)
            assert await data_key_of(client, "d") == key
            assert b"ends_ms" not in await client.hgetall(key)

    asyncio.run(main())
