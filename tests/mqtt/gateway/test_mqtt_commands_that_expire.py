"""Messages with an expiry to devices that are away: who comes in time gets them, and the others are counted."""

import asyncio

import pytest
import redis

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.topics import Message, TopicLog
from tests.mqtt.gateway.in_process import WAIT_S, connect, running

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 3_600}
EARLIEST = {Property.USER_PROPERTY: (("start", "earliest"),)}
COMMAND = Message("d/7/command", b"open", qos=2, expiry_s=60)
LATER = Message("d/7/command", b"later", qos=2)


async def publish(gateway, store, *messages):
    """Write messages into the log as another program does, and wait until the gateway has read them."""

    def write():
        with redis.Redis.from_url(store) as client:
            log = TopicLog.open(client, "mqtt")
            log.publish_many(messages)
            return sum(sum(one["entries"]) for one in log.info()["generations"])

    count = await asyncio.to_thread(write)
    ring = gateway.tail.logs[0].ring
    async with asyncio.timeout(WAIT_S):
        while ring.next < count:
            await asyncio.sleep(0)


def counted(gateway):
    return gateway.counters.messages_without_receiver, gateway.counters.messages_expired


@pytest.mark.parametrize("waited_ms", [59_000, 61_000])
def test_a_device_without_a_session_gets_a_command_only_while_it_lasts(store, waited_ms):
    async def main():
        async with running(store) as gateway:
            await publish(gateway, store, COMMAND)
            assert counted(gateway) == (1, 0)
            gateway.clock_ahead_ms += waited_ms
            device = await connect(gateway.port, "d7", properties=LASTING)
            await device.subscribe(p.Subscription("d/7/command", 2), properties=EARLIEST)
            await publish(gateway, store, LATER)
            is_late = waited_ms > 60_000
            wanted = [b"later"] if is_late else [b"open", b"later"]
            assert [(await device.receive()).payload for _ in wanted] == wanted
            assert counted(gateway) == (1, int(is_late))

    asyncio.run(main())


@pytest.mark.parametrize("waited_ms", [59_000, 61_000])
def test_a_device_whose_session_waits_gets_a_command_only_while_it_lasts(store, waited_ms):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "d7", properties=LASTING)
            await device.subscribe(p.Subscription("d/7/command", 2))
            await device.disconnect()
            await publish(gateway, store, COMMAND, LATER)
            assert counted(gateway) == (1, 0)
            gateway.clock_ahead_ms += waited_ms
            device = await connect(gateway.port, "d7", clean=False, properties=LASTING)
            is_late = waited_ms > 60_000
            wanted = [b"later"] if is_late else [b"open", b"later"]
            assert [(await device.receive()).payload for _ in wanted] == wanted
            assert counted(gateway) == (1, int(is_late))

    asyncio.run(main())


def test_a_retained_command_that_has_expired_reaches_no_later_subscriber(store):
    async def main():
        async with running(store) as gateway:
            await publish(gateway, store, COMMAND._replace(retain=True))
            gateway.clock_ahead_ms += 61_000
            device = await connect(gateway.port, "d7")
            await device.subscribe(p.Subscription("d/7/command", 2))
            assert await device.quiet() == []
            assert counted(gateway)[0] == 1

    asyncio.run(main())


@pytest.mark.parametrize("filter", ["d/+/command", "$share/backends/d/#"])
def test_a_message_that_a_session_or_a_group_subscribes_to_has_a_receiver(store, filter):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "d7")
            await device.subscribe(p.Subscription(filter, 2))
            await publish(gateway, store, COMMAND, LATER, Message("e", b"", qos=1))
            assert {(await device.receive()).payload for _ in range(2)} == {b"open", b"later"}
            assert counted(gateway) == (0, 0)
            await publish(gateway, store, Message("e", b"", expiry_s=1))
            assert counted(gateway) == (1, 0)

    asyncio.run(main())


def test_what_expires_before_a_group_without_a_connected_member_gets_it_is_counted_as_expired(store):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "d7", properties=LASTING)
            await device.subscribe(p.Subscription("$share/backends/d/#", 2))
            await device.disconnect()
            await publish(gateway, store, COMMAND, LATER)
            gateway.clock_ahead_ms += 61_000
            device = await connect(gateway.port, "d7", clean=False, properties=LASTING)
            assert (await device.receive()).payload == b"later"
            assert counted(gateway)[1] == 1

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_in_flight_is_sent_again_after_its_time_and_what_was_not_is_dropped(store, qos, version):
    async def main():
        async with running(store, limits=Limits(in_flight_max=1)) as gateway:
            device = await connect(gateway.port, "d7", False, version, LASTING if version == 5 else {})
            await device.subscribe(p.Subscription("d/7/command", qos))
            await publish(gateway, store, COMMAND, COMMAND._replace(payload=b"close"), LATER)
            first = await device.receive(acknowledges=False)
            device.close()
            gateway.clock_ahead_ms += 61_000
            device = await connect(gateway.port, "d7", False, version, LASTING if version == 5 else {})
            again = await device.receive()
            assert (again.payload, again.packet_id, again.dup) == (b"open", first.packet_id, True)
            if version == 5:
                assert again.properties[Property.MESSAGE_EXPIRY_INTERVAL] == 0
            following = await device.receive()
            assert following.payload == b"later"
            assert Property.MESSAGE_EXPIRY_INTERVAL not in following.properties

    asyncio.run(main())
