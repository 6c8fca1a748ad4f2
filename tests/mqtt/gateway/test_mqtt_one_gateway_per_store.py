"""A store has one gateway: what one does that has lost its lease, and two that start at once."""

import asyncio
import socket

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.ownership import OWNER, Ownership
from streamd.clients.mqtt.store.link import Link, Target
from streamd.clients.mqtt.store.records import key_of
from tests.mqtt.gateway.in_process import Device, connect, running

_DEAD = 2**22 + 1  # no process has this number


def test_a_gateway_that_has_lost_its_store_writes_no_session_and_lets_nobody_in(streamd_store):
    async def main():
        async with redis.asyncio.Redis.from_url(streamd_store) as client:
            async with running(streamd_store) as gateway:
                lasting = {Property.SESSION_EXPIRY_INTERVAL: 100}
                will = p.Will(b"w", b"gone", 1, False, {})
                device = await connect(gateway.port, "d", False, properties=lasting, will=will)
                await device.subscribe(p.Subscription("t", 2))
                await client.set(OWNER, "another elsewhere 1")
                await client.hset(key_of("d"), "owner", "another")
                before = await client.hgetall(key_of("d"))
                assert (await device.expect(p.Disconnect)).reason == Reason.SERVER_SHUTTING_DOWN
                assert await device.packet() is None
                device = await Device().open(gateway.port)
                device.send(p.Connect(5, "d", False, properties=lasting))
                assert (await device.expect(p.Connack)).reason == Reason.SERVER_UNAVAILABLE
                assert await client.hgetall(key_of("d")) == before
                assert not gateway.publishing.stored
                await client.delete(OWNER)
                async with asyncio.timeout(20):  # the other has ended: this one goes on
                    while gateway.is_superseded:
                        await asyncio.sleep(0)
                device = await connect(gateway.port, "d", False, properties=lasting)
                assert device.connack.session_present
                await client.set(OWNER, "another elsewhere 1")
            assert await client.get(OWNER) == b"another elsewhere 1"

    asyncio.run(main())


@pytest.mark.interpreted(reason="a method is replaced")
def test_of_two_gateways_that_find_the_lease_of_a_dead_one_one_starts(streamd_store):
    async def main():
        async with redis.asyncio.Redis.from_url(streamd_store) as client:
            await client.set(OWNER, f"old {socket.gethostname()} {_DEAD}")
            links = [Link(Target.of(streamd_store), name) for name in ("a", "b")]
            for link in links:
                link.start()
            first, second = (Ownership(link, link._name, lambda: 0) for link in links)
            has_looked, is_taken = asyncio.Event(), asyncio.Event()
            demand = links[1].demand

            async def slow(*commands):
                if has_looked.is_set():
                    await is_taken.wait()
                found = await demand(*commands)
                has_looked.set()
                return found

            links[1].demand = slow
            late = asyncio.create_task(second.take())
            await has_looked.wait()
            await first.take()
            is_taken.set()
            await asyncio.wait([late], timeout=0.5)
            assert not late.done()
            assert await first.keep()
            late.cancel()
            for link in links:
                await link.close()

    asyncio.run(main())
