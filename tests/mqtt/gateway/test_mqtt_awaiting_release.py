"""Packet identifiers of QoS 2 that are noted in the store until their PUBREL: no note outlives its session."""

import asyncio

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.store.records import INDEX, pointer_key
from tests.mqtt.gateway.in_process import WAIT_S, connect, running
from tests.mqtt.gateway.test_mqtt_refused_reads import as_user

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}
AT_ONCE = {Property.SESSION_EXPIRY_INTERVAL: 0}


async def notes(store):
    async with redis.asyncio.Redis.from_url(store) as client:
        return [key async for key in client.scan_iter("*:in:*")]


async def has_ended(gateway):
    async with asyncio.timeout(WAIT_S):
        while await gateway.link.demand(("EXISTS", pointer_key("d")), ("ZCARD", INDEX)) != [0, 0]:
            await asyncio.sleep(0)


@pytest.mark.parametrize("is_back", [True, False])
def test_a_session_that_ends_while_its_message_is_stored_leaves_no_note(store, is_back):
    async def main():
        async with running(store) as gateway:
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t", 0))
            device = await connect(gateway.port, properties=LASTING)
            device.send(p.Publish(b"t", b"x", 2, packet_id=1), p.Disconnect(properties=AT_ONCE))
            assert await device.packet() is None
            assert (await reader.receive()).payload == b"x"
            if is_back:
                device = await connect(gateway.port, clean=False, properties=LASTING)
                assert not device.connack.session_present
                await device.publish(b"t", b"y", 2)
                assert (await reader.receive()).payload == b"y"
            else:
                await has_ended(gateway)
            assert await notes(store) == []

    asyncio.run(main())


def test_a_session_whose_time_is_over_ends_after_its_message_is_stored(store):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, properties=LASTING)
            await device.publish(b"t", b"x", 1)
            of_log = gateway.publishing._logs["mqtt"]
            of_log.is_refreshing = True  # a message of the log has to wait
            device.send(p.Publish(b"t", b"y", 2, packet_id=2), p.Disconnect(properties=AT_ONCE))
            assert await device.packet() is None
            await gateway.chores.end_sessions()
            assert await gateway.link.demand(("EXISTS", pointer_key("d"))) == [1]
            of_log.is_refreshing = False
            gateway.publishing._plan()
            await has_ended(gateway)
            assert await notes(store) == []

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
def test_a_pubrel_that_comes_before_pubrec_leaves_the_note_to_the_one_behind_it(store, version):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "d", False, version, LASTING if version == 5 else {})
            device.send(p.Publish(b"t", b"x", 2, packet_id=1), p.Pubrel(1))
            early = await device.expect(p.Pubcomp)
            assert early.reason == (Reason.PACKET_IDENTIFIER_NOT_FOUND if version == 5 else 0)
            assert await device.expect(p.Pubrec) == p.Pubrec(1)
            assert len(await notes(store)) == 1
            device.send(p.Pubrel(1))
            assert await device.expect(p.Pubcomp) == p.Pubcomp(1)
            assert await notes(store) == []

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
def test_after_a_pubrel_that_the_store_refused_the_identifier_may_be_used_again(store, version):
    async def come(gateway):
        return await connect(gateway.port, "d", False, version, LASTING if version == 5 else {})

    async def main():
        async with as_user(store) as (gateway, allow):
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t", 0))
            device = await come(gateway)
            device.send(p.Publish(b"t", b"x", 2, packet_id=1))
            assert await device.expect(p.Pubrec) == p.Pubrec(1)
            await allow("-hdel")
            device.send(p.Pubrel(1))
            if version == 5:
                assert (await device.expect(p.Disconnect)).reason == Reason.IMPLEMENTATION_SPECIFIC_ERROR
            assert await device.packet() is None
            await allow("+@all")
            device = await come(gateway)
            assert device.connack.session_present
            device.send(p.Pubrel(1))
            assert await device.expect(p.Pubcomp) == p.Pubcomp(1)
            assert await notes(store) == []
            device.send(p.Publish(b"t", b"y", 2, packet_id=1))
            assert await device.expect(p.Pubrec) == p.Pubrec(1)
            assert [(await reader.receive()).payload for _ in range(2)] == [b"x", b"y"]

    asyncio.run(main())
