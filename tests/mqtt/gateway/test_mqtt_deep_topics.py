"""Topics of as many levels as the standard allows: no walk along them has an end before they do."""

import asyncio

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from tests.mqtt.gateway.in_process import connect, running

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}
DEEPEST = b"/" * 65_535
DEEP = b"/".join([b"a"] * 1_200)
FILTERS = {
    DEEPEST: ["#", "+/#", "//#", "/" * 65_534 + "#", "/" * 65_535, "/+" * 32_766 + "/#"],
    DEEP: ["#", "a/#", "+/a/#", "/".join(["+"] * 1_200), "/".join(["a"] * 1_200), "/".join(["a"] * 1_199) + "/#"],
}


@pytest.mark.parametrize("topic", FILTERS, ids=["deepest", "deep"])
def test_a_retained_message_with_very_many_levels_is_delivered_by_every_filter_that_covers_it(streamd_store, topic):
    async def main():
        async with running(streamd_store) as gateway:
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(topic, b"kept", retain=True)
            await publisher.publish(b"other", b"kept", retain=True)
            for filter in FILTERS[topic]:
                reader = await connect(gateway.port, "d")
                assert (await reader.subscribe(p.Subscription(filter, 1))).reasons == (1,), filter[:20]
                found = {(await reader.receive()).topic for _ in range(1 + (filter == "#" or filter == "+/#"))}
                assert topic in found
                publisher.send(p.Publish(topic, b"live", 0))
                live = await reader.receive()
                assert (live.topic, live.payload) == (topic, b"live")
                await reader.disconnect()
            reader = await connect(gateway.port, "d")
            await reader.subscribe(p.Subscription("$share/s/#", 1), p.Subscription("/".join(["+"] * 1_201), 1))
            publisher.send(p.Publish(topic, b"live", 0))
            assert (await reader.receive()).topic == topic
            await publisher.publish(topic, b"", retain=True)
            assert (await reader.receive()).payload == b""
            assert len(gateway.retained) == 1

    asyncio.run(main())


def test_a_session_that_covers_a_topic_with_very_many_levels_goes_on_after_a_restart(store):
    async def begin():
        async with running(store) as gateway:
            reader = await connect(gateway.port, "d", False, properties=LASTING)
            await reader.subscribe(p.Subscription("#", 1))
            await reader.disconnect()
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(DEEPEST, b"kept", retain=True)
            await publisher.disconnect()

    async def end():
        async with running(store) as gateway:
            reader = await connect(gateway.port, "d", False, properties=LASTING)
            assert reader.connack.session_present
            assert (await reader.receive()).topic == DEEPEST
            await reader.subscribe(
                p.Subscription("+/#", 1), properties={Property.USER_PROPERTY: (("start", "earliest"),)}
            )
            assert [(await reader.receive()).retain for _ in range(2)] == [True, False]

    asyncio.run(begin())
    asyncio.run(end())
