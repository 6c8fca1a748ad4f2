"""Sessions that are behind, by a ring or by many, or away, or in the past; nothing is lost, doubled or misordered."""

import asyncio

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.gateway.limits import Limits
from tests.mqtt.gateway.in_process import connect, running

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}


async def publish_many(device, numbers, topic=b"t/%d"):
    """Publish messages of QoS 1, with up to 200 under way."""
    waiting = 0
    for number in numbers:
        device.send(p.Publish(topic % (number % 3), b"%d" % number, 1, packet_id=number % 60_000 + 1))
        waiting += 1
        if waiting == 200:
            await device.expect(p.Puback)
            waiting -= 1
    for _ in range(waiting):
        await device.expect(p.Puback)


def of_topics(payloads):
    by_topic = {}
    for topic, payload in payloads:
        by_topic.setdefault(topic, []).append(int(payload))
    return by_topic


def expected(numbers):
    return of_topics((b"t/%d" % (number % 3), b"%d" % number) for number in numbers)


@pytest.mark.parametrize("filters", [("t/+",), ("t/0", "t/1", "t/2"), ("#",)])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_slow_session_gets_all_in_order(store, filters, qos):
    async def main():
        async with running(store, limits=Limits(ring_entries_max=100)) as gateway:
            slow = await connect(gateway.port, "slow", properties={**LASTING, Property.RECEIVE_MAXIMUM: 7})
            await slow.subscribe(*[p.Subscription(one, qos) for one in filters])
            quick = await connect(gateway.port, "quick")
            await quick.subscribe(p.Subscription("#", 0))
            publisher = await connect(gateway.port, "publisher")
            publishing = asyncio.create_task(publish_many(publisher, range(1_500)))
            got = [await quick.receive() for _ in range(1_500)]
            assert of_topics((one.topic, one.payload) for one in got) == expected(range(1_500))
            await publishing
            found = [await slow.receive() for _ in range(1_500)]
            assert of_topics((one.topic, one.payload) for one in found) == expected(range(1_500))
            await publish_many(publisher, range(1_500, 1_510))
            found = [await slow.receive() for _ in range(10)]
            assert of_topics((one.topic, one.payload) for one in found) == expected(range(1_500, 1_510))
            assert [one for one in await slow.quiet() if type(one) is p.Publish] == []

    asyncio.run(main())


def test_sessions_that_were_away_get_all_while_others_publish(store):
    async def main():
        async with running(store, limits=Limits(ring_entries_max=100)) as gateway:
            clients = [f"c{number}" for number in range(10)]
            for name in clients:
                device = await connect(gateway.port, name, properties=LASTING)
                await device.subscribe(p.Subscription("t/+" if name != "c0" else "t/1", 1))
                await device.disconnect()
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(500))
            publishing = asyncio.create_task(publish_many(publisher, range(500, 3_000)))
            devices = []
            for name in clients:
                device = await connect(gateway.port, name, clean=False, properties=LASTING)
                assert device.connack.session_present
                devices.append(device)

            async def take(device, count):
                return [await device.receive() for _ in range(count)]

            counts = [1_000, *[3_000] * 9]
            found = await asyncio.gather(*[take(one, count) for one, count in zip(devices, counts, strict=True)])
            await publishing
            assert of_topics((one.topic, one.payload) for one in found[0]) == {b"t/1": list(range(1, 3_000, 3))}
            for one in found[1:]:
                assert of_topics((packet.topic, packet.payload) for packet in one) == expected(range(3_000))
            for device in devices:
                assert [one for one in await device.quiet() if type(one) is p.Publish] == []

    asyncio.run(main())


@pytest.mark.parametrize("window", [5, 1_000])
def test_a_crowd_that_returns_gets_all_in_order(store, window):
    async def take(device, count):
        return [int((await device.receive()).payload) for _ in range(count)]

    async def main():
        properties = {**LASTING, Property.RECEIVE_MAXIMUM: window}
        async with running(store, limits=Limits(ring_entries_max=50)) as gateway:
            clients = [f"c{number}" for number in range(20)]
            for number, name in enumerate(clients):
                device = await connect(gateway.port, name, properties=properties)
                await device.subscribe(p.Subscription(f"t/{number % 3}", 1))
                await device.disconnect()
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(900))
            devices = await asyncio.gather(
                *[connect(gateway.port, name, clean=False, properties=properties) for name in clients]
            )
            found = await asyncio.gather(*[take(device, 300) for device in devices])
            for number, payloads in enumerate(found):
                assert payloads == list(range(number % 3, 900, 3))
            for device in devices:
                assert [one for one in await device.quiet() if type(one) is p.Publish] == []

    asyncio.run(main())


def test_a_subscription_that_begins_in_the_past(store):
    async def main():
        async with running(store, limits=Limits(ring_entries_max=50)) as gateway:
            publisher = await connect(gateway.port, "publisher")
            device = await connect(gateway.port, "device")
            await device.subscribe(p.Subscription("t/0", 1))
            await publish_many(publisher, range(300))
            first = [await device.receive() for _ in range(100)]
            assert [int(one.payload) for one in first] == list(range(0, 300, 3))
            publishing = asyncio.create_task(publish_many(publisher, range(300, 600)))
            start = {Property.USER_PROPERTY: (("start", "earliest"),)}
            device.packet_id += 1
            device.send(p.Subscribe(device.packet_id, (p.Subscription("t/1", 1),), start))
            found = []
            for _ in range(301):
                packet = await device.packet()
                if type(packet) is p.Publish:
                    device.acknowledge(packet)
                    found.append((packet.topic, packet.payload))
                else:
                    assert type(packet) is p.Suback
            await publishing
            assert of_topics(found) == {b"t/0": list(range(300, 600, 3)), b"t/1": list(range(1, 600, 3))}
            assert [one for one in await device.quiet() if type(one) is p.Publish] == []

    asyncio.run(main())
