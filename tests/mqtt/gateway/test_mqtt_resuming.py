"""Sessions that go on after their connection, an orderly stop, or a gateway that was killed."""

import asyncio

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from tests.mqtt.gateway.in_process import connect, running

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}


def payloads(packets):
    return [(one.payload, one.dup, one.packet_id) for one in packets]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("stops", [True, False])
def test_what_was_in_flight_comes_again_with_the_same_identifiers(store, qos, stops):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t/#", qos))
            publisher = await connect(gateway.port, "publisher")
            for number in range(5):
                await publisher.publish(b"t/a", b"%d" % number, 1 if qos == 1 else 2)
            first = [await device.receive(acknowledges=False) for _ in range(5)]
            assert payloads(first) == [(b"%d" % number, False, number + 1) for number in range(5)]
            device.acknowledge(first[0])
            if qos == 2:
                await device.expect(p.Pubrel)
                device.send(p.Pubcomp(1))
            await device.quiet()
            if not stops:
                device.close()
                again = await resume(gateway, qos, publisher)
                await finish(again)
                return
        async with running(store) as gateway:
            publisher = await connect(gateway.port, "publisher")
            await finish(await resume(gateway, qos, publisher))

    async def resume(gateway, qos, publisher):
        await publisher.publish(b"t/a", b"5", qos)
        device = await connect(gateway.port, "device", clean=False, properties=LASTING)
        assert device.connack.session_present
        found = [await device.receive() for _ in range(5)]
        assert payloads(found) == [*[(b"%d" % number, True, number + 1) for number in range(1, 5)], (b"5", False, 6)]
        return device

    async def finish(device):
        assert [one for one in await device.quiet() if type(one) is p.Publish] == []

    asyncio.run(main())


def test_a_message_that_was_received_is_only_released_again(store):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t", 2))
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t", b"x", 2)
            await device.receive()
            await device.expect(p.Pubrel)
            device.close()
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            assert await device.expect(p.Pubrel) == p.Pubrel(1)
            device.send(p.Pubcomp(1))
            assert await device.quiet() == []
            await device.disconnect()
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            assert await device.quiet() == []

    asyncio.run(main())


def test_an_identifier_that_awaits_its_release_is_known_after_a_restart(store):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "device", properties=LASTING)
            device.send(p.Publish(b"t", b"x", 2, packet_id=7))
            await device.expect(p.Pubrec)
            device.close()
        async with running(store) as gateway:
            reader = await connect(gateway.port, "reader")
            start = {Property.USER_PROPERTY: (("start", "earliest"),)}
            await reader.subscribe(p.Subscription("t", 2), properties=start)
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            device.send(p.Publish(b"t", b"x", 2, packet_id=7, dup=True))
            assert await device.expect(p.Pubrec) == p.Pubrec(7)
            device.send(p.Pubrel(7))
            assert await device.expect(p.Pubcomp) == p.Pubcomp(7)
            device.send(p.Pubrel(7))
            assert await device.expect(p.Pubcomp) == p.Pubcomp(7, Reason.PACKET_IDENTIFIER_NOT_FOUND)
            device.send(p.Publish(b"t", b"y", 2, packet_id=7))
            await device.expect(p.Pubrec)
            assert [(await reader.receive()).payload for _ in range(2)] == [b"x", b"y"]

    asyncio.run(main())


def test_another_user_does_not_get_the_session(store, tmp_path):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "device", properties=LASTING, username="ann")
            other = await connect(gateway.port, "device", clean=False, properties=LASTING, username="bob")
            assert other.connack.reason == Reason.NOT_AUTHORIZED
            await device.disconnect()
            other = await connect(gateway.port, "device", clean=False, properties=LASTING, username="bob")
            assert other.connack.reason == Reason.NOT_AUTHORIZED
            again = await connect(gateway.port, "device", clean=False, properties=LASTING, username="ann")
            assert again.connack.session_present

    asyncio.run(main())


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("expiry_s", [0, 100])
def test_a_will_is_published_once(store, clean, expiry_s):
    async def main():
        async with running(store) as gateway:
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("will/#", 1))
            properties = {Property.SESSION_EXPIRY_INTERVAL: expiry_s}
            will = p.Will(b"will/a", b"gone", 1)
            device = await connect(gateway.port, "device", properties=properties, will=will)
            device.close()
            assert (await reader.receive()).payload == b"gone"
            device = await connect(gateway.port, "device", clean=clean, properties=properties, will=will)
            assert device.connack.session_present == (not clean and expiry_s > 0)
            await device.disconnect()
            device = await connect(gateway.port, "device", clean=clean, properties=properties)
            assert await reader.quiet() == []

    asyncio.run(main())


def test_a_will_with_a_delay_is_cancelled_by_a_return(store):
    async def main():
        async with running(store) as gateway:
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("will/#", 1))
            will = p.Will(b"will/a", b"gone", 1, properties={Property.WILL_DELAY_INTERVAL: 30})
            device = await connect(gateway.port, "device", properties=LASTING, will=will)
            device.close()
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            assert device.connack.session_present
            assert await reader.quiet() == []
            device.close()
            will = p.Will(b"will/a", b"gone", 1, properties={Property.WILL_DELAY_INTERVAL: 30})
            device = await connect(gateway.port, "device", clean=False, properties=LASTING, will=will)
            device.close()
            await connect(gateway.port, "device", clean=True)  # the session ends, and with it the delay
            assert (await reader.receive()).payload == b"gone"

    asyncio.run(main())
