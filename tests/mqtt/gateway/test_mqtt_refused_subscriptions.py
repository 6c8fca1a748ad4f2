"""Subscriptions that the store does not write, or does not remove: the session goes on as its record says."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.store.share_records import share_key, share_name
from tests.mqtt.gateway.in_process import WAIT_S, connect, data_key_of, running

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}
EARLIEST = {Property.USER_PROPERTY: (("start", "earliest"),)}
SHARE = "$share/g/s"
LONG = Limits(share_lease_ms=3_600_000)
VERSIONS = pytest.mark.parametrize("version", [4, 5])


@asynccontextmanager
async def refusing(store, client_id="d"):
    """The store takes no change of a session's record."""
    aside = "aside"
    async with redis.asyncio.Redis.from_url(store) as client:
        key = await data_key_of(client, client_id)
        await client.rename(key, aside)
        await client.set(key, "of another kind")
        yield
        await client.delete(key)
        await client.rename(aside, await data_key_of(client, client_id))


async def come(gateway, version=5, clean=False):
    return await connect(gateway.port, "d", clean, version, LASTING if version == 5 else {})


async def again(gateway, device, version=5):
    device.close()
    return await come(gateway, version)


async def published(gateway, device, *topics, qos=2):
    """Return the topics of which the device gets a message, in their order, each with its QoS."""
    publisher = await connect(gateway.port, "publisher")
    for topic in topics:
        await publisher.publish(topic, b"x", qos)
    read = asyncio.Event()
    gateway.tail.when_read(read.set)
    await read.wait()
    found = []
    for one in await device.quiet():
        if type(one) is p.Publish:
            device.acknowledge(one)
            found.append((one.topic, one.qos))
    await device.quiet()
    return found


async def members(gateway):
    (found,) = await gateway.link.demand(("HKEYS", share_key(share_name(SHARE))))
    return [one for one in found if one.startswith(b"m ")]


@VERSIONS
def test_a_subscription_that_was_to_be_replaced_stays(store, version):
    async def main():
        async with running(store) as gateway:
            device = await come(gateway, version)
            await device.subscribe(p.Subscription("t", 1))
            async with refusing(store):
                answer = await device.subscribe(p.Subscription("t", 0), p.Subscription("t", 2), p.Subscription("u", 2))
                assert answer.reasons == (Reason.UNSPECIFIED_ERROR,) * 3
            assert await published(gateway, device, b"t", b"u") == [(b"t", 1)]
            device = await again(gateway, device, version)
            assert await published(gateway, device, b"t", b"u") == [(b"t", 1)]

    asyncio.run(main())


def test_a_shared_subscription_that_was_to_be_replaced_stays(store):
    async def main():
        async with running(store, limits=LONG) as gateway:
            device = await come(gateway)
            await device.subscribe(p.Subscription(SHARE, 1))
            async with refusing(store):
                assert (await device.subscribe(p.Subscription(SHARE, 0))).reasons == (Reason.UNSPECIFIED_ERROR,)
            await share_brings(gateway, device)
            device = await again(gateway, device)
            await share_brings(gateway, device)

    asyncio.run(main())


async def share_brings(gateway, device):
    publisher = await connect(gateway.port, "publisher")
    await publisher.publish(b"s", b"x", 2)
    assert (await device.receive()).qos == 1


@pytest.mark.parametrize("leaves", [True, False])
def test_a_new_shared_subscription_has_no_member(store, leaves):
    async def main():
        async with running(store, limits=LONG) as gateway:
            device = await come(gateway)
            async with refusing(store):
                device.send(p.Subscribe(1, (p.Subscription(SHARE, 1),)))
                if leaves:  # as soon as the request is on its way
                    async with asyncio.timeout(WAIT_S):
                        while SHARE not in gateway.clients["d"].subscriptions:
                            await asyncio.sleep(0)
                    next(iter(gateway.connections)).close()
                else:
                    await device.expect(p.Suback)
                async with asyncio.timeout(WAIT_S):
                    while await members(gateway):
                        await asyncio.sleep(0)

    asyncio.run(main())


def test_the_past_that_a_refused_subscription_wanted_does_not_come(store):
    async def main():
        async with running(store) as gateway:
            device = await come(gateway)
            await device.subscribe(p.Subscription("t", 1))
            assert await published(gateway, device, b"u", b"t") == [(b"t", 1)]
            device.close()
        async with running(store) as gateway:
            device = await come(gateway)
            await gateway.history.close()  # what is read from now on is live
            async with refusing(store):
                answer = await device.subscribe(p.Subscription("u", 1), properties=EARLIEST)
                assert answer.reasons == (Reason.UNSPECIFIED_ERROR,)
            assert await published(gateway, device, b"t") == [(b"t", 1)]
            device = await again(gateway, device)
            assert await published(gateway, device, b"t") == [(b"t", 1)]

    asyncio.run(main())


@VERSIONS
@pytest.mark.parametrize("text", ["t", SHARE])
def test_a_subscription_that_the_store_does_not_remove_stays(store, version, text):
    async def main():
        async with running(store, limits=LONG) as gateway:
            device = await come(gateway, version)
            await device.subscribe(p.Subscription(text, 1))
            async with refusing(store):
                device.send(p.Unsubscribe(7, (text, "none", text)))
                if version == 5:
                    no = Reason.NO_SUBSCRIPTION_EXISTED
                    assert (await device.expect(p.Unsuback)).reasons == (Reason.UNSPECIFIED_ERROR, no, no)
                else:  # it cannot be told
                    assert await device.packet() is None
            if version == 4:
                device = await again(gateway, device, version)
                assert device.connack.session_present
            for _ in range(2):
                publisher = await connect(gateway.port, "publisher")
                await publisher.publish(text[-1:].encode(), b"x", 2)
                assert (await device.receive()).qos == 1
                device = await again(gateway, device, version)

    asyncio.run(main())


def test_a_client_that_leaves_before_its_shared_subscription_is_removed_is_no_member_any_more(store):
    async def main():
        async with running(store, limits=LONG) as gateway:
            device = await come(gateway)
            await device.subscribe(p.Subscription(SHARE, 1))
            device.send(p.Unsubscribe(7, (SHARE,)), p.Disconnect())
            device.close()
            async with asyncio.timeout(WAIT_S):
                while await members(gateway):
                    await asyncio.sleep(0)

    asyncio.run(main())
