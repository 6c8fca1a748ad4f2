"""zmqtt with its defaults, in both versions: QoS, retained messages, a will, a session that lasts."""

import asyncio

import pytest
from zmqtt import QoS, Will, create_client

from tests.mqtt.clients.process import WAIT_S

VERSIONS = pytest.mark.parametrize("version", ["3.1.1", "5.0"])


async def receive(subscription, count):
    async with asyncio.timeout(WAIT_S):
        return [await subscription.get_message() for _ in range(count)]


@VERSIONS
def test_zmqtt(port, version):
    top = f"zmqtt/{version}"

    async def main():
        will = Will(topic=f"{top}/will", payload=b"gone", qos=QoS.AT_LEAST_ONCE, retain=False)
        publisher = create_client("127.0.0.1", port, version=version, will=will)
        async with create_client("127.0.0.1", port, version=version) as reader:
            await publisher.connect()
            await publisher.publish(f"{top}/kept", b"kept", qos=QoS.AT_LEAST_ONCE, retain=True)
            async with reader.subscribe(f"{top}/#", qos=QoS.EXACTLY_ONCE) as subscription:
                (kept,) = await receive(subscription, 1)
                assert (kept.topic, kept.payload, kept.retain) == (f"{top}/kept", b"kept", True)
                for number in range(30):
                    await publisher.publish(f"{top}/{number % 3}", b"%d" % number, qos=QoS(number % 3))
                found = await receive(subscription, 30)
                wanted = [(f"{top}/{qos}", b"%d" % number, qos) for qos in range(3) for number in range(qos, 30, 3)]
                # (In order for each QoS: a client hands QoS 2 on when it is released.)
                assert (
                    sorted([(one.topic, one.payload, int(one.qos)) for one in found], key=lambda one: one[2]) == wanted
                )
                publisher._protocol._transport._writer.transport.abort()
                (gone,) = await receive(subscription, 1)
                assert (gone.topic, gone.payload) == (f"{top}/will", b"gone")
            await publisher.disconnect()

    asyncio.run(main())


@VERSIONS
def test_zmqtt_comes_back(port, version):
    top = f"zback/{version}"
    options = {"client_id": f"zmqtt-{version}", "clean_session": False, "version": version}
    if version == "5.0":
        options["session_expiry_interval"] = 1_000

    async def main():
        async with create_client("127.0.0.1", port, version=version) as publisher:
            device = create_client("127.0.0.1", port, **options)
            await device.connect()
            subscription = device.subscribe(f"{top}/#", qos=QoS.EXACTLY_ONCE)
            await subscription.start()
            await device.disconnect()  # without UNSUBSCRIBE
            for number in range(30):
                await publisher.publish(f"{top}/a", b"%d" % number, qos=QoS.EXACTLY_ONCE)
            device = create_client("127.0.0.1", port, **options)
            subscription = device.subscribe(f"{top}/#", qos=QoS.EXACTLY_ONCE)
            await device.connect()
            await subscription.start()
            assert [int(one.payload) for one in await receive(subscription, 30)] == list(range(30))
            await device.disconnect()

    asyncio.run(main())
