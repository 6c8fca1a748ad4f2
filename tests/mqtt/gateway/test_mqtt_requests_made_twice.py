"""What a gateway writes to sessions may be executed twice, as a store may be killed before it has answered."""

import asyncio

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.store.records import (
    Pointer,
    Record,
    creation,
    data_key,
    is_taken,
    left_behind,
    pointer_key,
    resting,
    taking,
)
from tests.mqtt.gateway.in_process import WAIT_S, connect, data_key_of, running

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}


async def execute(client, *commands):
    """Return the replies to commands, on one connection."""
    async with client.client() as one:
        return [await one.execute_command(*words) for words in commands]


@pytest.mark.parametrize("owner", [None, "older.1"])
def test_a_session_that_is_taken_twice_is_not_replaced_by_what_is_written_to_its_old_place(store, owner):
    async def main():
        async with redis.asyncio.Redis.from_url(store) as client:
            record = Record("d", expiry_s=9, pointer=Pointer(5, owner))
            await execute(client, *creation(record))
            late = ("HSET", record.key, "ends_ms", 1)  # the older owner sends it again, too
            new, commands = taking("d", record.pointer, "newer.1")
            assert is_taken((await execute(client, *commands))[-1], new)
            fields = await client.hgetall(data_key("d", new.epoch))
            assert fields[b"uid"] == record.uid.encode()
            await execute(client, late)
            assert is_taken((await execute(client, *commands))[-1], new)
            assert await client.hgetall(data_key("d", new.epoch)) == fields

    asyncio.run(main())


def test_a_gateway_that_comes_too_late_to_take_a_session_takes_nothing_from_it(store):
    async def main():
        async with redis.asyncio.Redis.from_url(store) as client:
            record = Record("d", expiry_s=9, pointer=Pointer(5, "older.1"))
            await execute(client, *creation(record))
            new, commands = taking("d", record.pointer, "newer.1")
            await execute(client, resting("d", record.pointer))
            replies = await execute(client, *commands)
            assert not is_taken(replies[-1], new)
            await execute(client, left_behind("d", record.pointer, new, replies[-1]))
            assert await client.get(pointer_key("d")) == b"5 -"
            assert await client.hget(record.key, "uid") == record.uid.encode()
            assert len(await client.keys("mqtt:session:*")) == 2

    asyncio.run(main())


def test_a_session_that_is_begun_twice_is_there(store):
    async def main():
        async with redis.asyncio.Redis.from_url(store) as client:
            record = Record("d", expiry_s=9, pointer=Pointer(5, "run.1"))
            for _ in range(2):
                assert is_taken((await execute(client, *creation(record)))[-1], record.pointer)
            other = Record("d", expiry_s=9, pointer=Pointer(6, "run.2"))
            assert not is_taken((await execute(client, *creation(other)))[-1], other.pointer)

    asyncio.run(main())


def test_what_the_owner_before_writes_again_does_not_reach_a_session(store):
    async def main():
        async with running(store) as gateway, redis.asyncio.Redis.from_url(store) as client:
            device = await connect(gateway.port, "d", False, properties=LASTING)
            await device.subscribe(p.Subscription("t", 1))
            old_key = await data_key_of(client, "d")
            old = Pointer.from_text(await client.get(pointer_key("d")))
            await device.disconnect()
            device = await connect(gateway.port, "d", False, properties=LASTING)
            assert device.connack.session_present
            key = await data_key_of(client, "d")
            assert key != old_key
            again = [("HSET", old_key, "ends_ms", 1), resting("d", old)]
            gateway.gateway.unwritten.write("d", old, again)
            async with asyncio.timeout(WAIT_S):
                while await client.exists(old_key):
                    await asyncio.sleep(0)
            assert await data_key_of(client, "d") == key
            assert b"ends_ms" not in await client.hgetall(key)

    asyncio.run(main())
