"""Several gateways on one store, and what happens amid something else."""

import asyncio
from contextlib import AsyncExitStack

import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.store.records import Pointer, pointer_key
from tests.mqtt.gateway.in_process import WAIT_S, connect, data_key_of, running
from tests.mqtt.gateway.test_mqtt_several_gateways import lasting, two


def test_two_gateways_start_at_once_on_an_empty_store(store):
    async def main():
        async with AsyncExitStack() as stack:
            one, other = await asyncio.gather(*(stack.enter_async_context(running(store)) for _ in range(2)))
            reader = await connect(one.port, "reader")
            await reader.subscribe(p.Subscription("t", 1))
            await (await connect(other.port, "publisher")).publish(b"t", b"x")
            assert (await reader.receive()).payload == b"x"

    asyncio.run(main())


def test_a_session_whose_gateway_lets_go_amid_its_being_taken_stays(store):
    """A gateway may find that it owns the session itself, as what its client has begun is still being stored."""

    async def main():
        async with two(store) as (one, other), redis.asyncio.Redis.from_url(store) as client:
            device = await lasting(one)
            await device.subscribe(p.Subscription("t", 1))

            async def let_go(client_id, pointer):
                key = await data_key_of(client, client_id)
                await client.set(pointer_key(client_id), Pointer(pointer.epoch, None).to_text())
                assert await client.exists(key)
                return True

            other.handing_over.ask_for = let_go
            again = await lasting(other)
            assert again.connack.session_present
            again.send(p.Publish(b"t", b"x", 0))
            assert (await again.receive()).payload == b"x"

    asyncio.run(main())


def test_a_group_whose_only_member_leaves_while_it_is_to_read_reads_on_for_the_next_one(store):
    async def main():
        async with running(store) as gateway:
            faults = []
            asyncio.get_running_loop().set_exception_handler(lambda _, said: faults.append(said))
            member = await lasting(gateway, "member")
            await member.subscribe(p.Subscription("$share/g/t", 1))
            publisher = await connect(gateway.port, "publisher")
            (group,) = gateway.shares.groups.values()
            (part,) = group.parts.values()
            async with part.lock:
                await publisher.publish(b"t", b"x")
                async with asyncio.timeout(WAIT_S):
                    while not part._coming:
                        await asyncio.sleep(0)
                await member.disconnect()
            async with asyncio.timeout(WAIT_S):
                while part.is_at_work:
                    await asyncio.sleep(0)
            assert faults == []
            member = await lasting(gateway, "member")
            assert (await member.receive()).payload == b"x"

    asyncio.run(main())
