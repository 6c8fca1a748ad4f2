"""Shared subscriptions with a start in the past: the first member sets where the group begins."""

import asyncio

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.topics.async_log import AsyncTopicLog
from tests.mqtt.gateway.in_process import connect, running
from tests.mqtt.gateway.test_mqtt_shares import collect, publish_many

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}
SHARED = p.Subscription("$share/g/t/#", 1)


async def join(gateway, client_id, *properties, subscriptions=(SHARED,)):
    """Return a member, with its SUBACK in `suback`."""
    device = await connect(gateway.port, client_id, properties=LASTING)
    device.suback = await device.subscribe(*subscriptions, properties={Property.USER_PROPERTY: properties})
    return device


async def store_ms(gateway):
    seconds, microseconds = await gateway.shares.client.time()
    return seconds * 1_000 + microseconds // 1_000


def words(numbers):
    return [b"%d" % number for number in numbers]


@pytest.mark.parametrize("share", ["any", "ordered"])
def test_the_first_member_sets_where_a_group_begins_and_a_later_one_is_told_that_it_does_not(store, share):
    async def main():
        async with running(store) as gateway:
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 30)
            first = await join(gateway, "first", ("start", "earliest"), ("share", share))
            assert (first.suback.reasons, dict(first.suback.properties)) == ((1,), {})
            second = await join(gateway, "second", ("start", "earliest"))
            assert second.suback.reasons == (1,)
            assert "$share/g/t/# was there before" in second.suback.properties[Property.REASON_STRING]
            await publish_many(publisher, 10, first=30)
            one, other = await collect([first, second], 40)
            assert sorted(map(int, [*one, *other])) == [*range(40)]

    asyncio.run(main())


@pytest.mark.parametrize("share", ["any", "ordered"])
def test_a_group_begins_at_a_time_and_goes_through_closed_generations(store, share):
    async def main():
        async with running(store) as gateway:
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 5)
            start_ms = await store_ms(gateway) + 1
            while await store_ms(gateway) <= start_ms:
                pass
            await publish_many(publisher, 5, first=5)
            log = await AsyncTopicLog.open(gateway.shares.client, "mqtt")
            await log.reconfigure(shards=3)
            await publish_many(publisher, 5, first=10)
            late = gateway.now_ms() + 3_600_000
            member = await join(gateway, "d", ("start", str(start_ms)), ("share", share))
            (found,) = await collect([member], 10)
            assert sorted(map(int, found)) == [*range(5, 15)]
            other = await join(gateway, "e", ("start", str(late)), subscriptions=(p.Subscription("$share/h/t/#", 1),))
            await publish_many(publisher, 1, first=15)
            assert [await collect([one], 1) for one in (other, member)] == [[[b"15"]], [[b"15"]]]

    asyncio.run(main())


def test_a_start_counts_for_plain_and_shared_filters_of_one_subscribe(store):
    async def main():
        async with running(store) as gateway:
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 3)
            both = (SHARED, p.Subscription("t/a", 1))
            member = await join(gateway, "d", ("start", "earliest"), subscriptions=both)
            (found,) = await collect([member], 6)
            assert sorted(found) == sorted(words(range(3)) * 2)

    asyncio.run(main())


def test_a_group_that_has_ended_begins_where_its_next_first_member_says(store):
    async def main():
        async with running(store) as one, running(store) as other:
            publisher = await connect(one.port, "publisher")
            await publish_many(publisher, 3)
            first = await join(one, "first")
            second = await join(other, "second", ("start", "earliest"))
            assert Property.REASON_STRING in second.suback.properties
            for device in (first, second):
                device.send(p.Unsubscribe(9, (SHARED.filter,)))
                await device.expect(p.Unsuback)
            async with asyncio.timeout(60):
                while await one.shares.client.exists("mqtt:shares"):
                    await asyncio.sleep(0)
            third = await join(other, "third", ("start", "earliest"))
            assert Property.REASON_STRING not in third.suback.properties
            assert sorted((await collect([third], 3))[0]) == words(range(3))

    asyncio.run(main())


def test_a_start_that_is_none_refuses_a_shared_subscription(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            member = await join(gateway, "d", ("start", "yesterday"))
            assert member.suback.reasons == (0x83,)
            assert "give earliest" in member.suback.properties[Property.REASON_STRING]

    asyncio.run(main())
