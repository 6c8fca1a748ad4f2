"""Retained messages that wait for room: newer ones, and rights that were taken away, come before them."""

import asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from tests.mqtt.gateway.in_process import connect, running


async def _with_one_in_flight(gateway):
    """Return a client that has one of two retained messages, and the topic of the other, which waits."""
    publisher = await connect(gateway.port, "publisher", username="u")
    for topic in (b"t/a", b"t/b"):
        await publisher.publish(topic, b"old", retain=True)
    reader = await connect(gateway.port, "d", properties={Property.RECEIVE_MAXIMUM: 1}, username="u")
    await reader.subscribe(p.Subscription("t/+", 1))
    first = await reader.receive(acknowledges=False)
    assert not await reader.quiet()
    (other,) = {b"t/a", b"t/b"} - {first.topic}
    return publisher, reader, first, other


def test_an_older_retained_message_does_not_follow_a_newer_message_of_its_topic(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            publisher, reader, first, other = await _with_one_in_flight(gateway)
            await publisher.publish(other, b"new", 0, retain=True)
            assert (await reader.receive()).payload == b"new"
            reader.acknowledge(first)
            await publisher.publish(b"t/end", b"end")
            assert (await reader.receive()).payload == b"end"

    asyncio.run(main())


def test_a_retained_message_that_waits_is_not_sent_once_it_may_not_be_read(streamd_store, tmp_path):
    rules = tmp_path / "rules"
    rules.write_text("topic readwrite t/#\nuser u\ntopic readwrite t/#\n")

    async def main():
        async with running(streamd_store, acl_file=rules) as gateway:
            publisher, reader, first, other = await _with_one_in_flight(gateway)
            rules.write_text(f"user u\ntopic readwrite t/+\ntopic deny {other.decode()}\n")
            gateway.rights_changed((await gateway.access.reload()).changed_users)
            reader.acknowledge(first)
            await publisher.publish(b"t/end", b"end")
            assert (await reader.receive()).payload == b"end"

    asyncio.run(main())


def test_a_subscription_that_is_made_again_replaces_what_waits_for_it(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            _, reader, first, other = await _with_one_in_flight(gateway)
            for _ in range(100):
                await reader.subscribe(p.Subscription("t/+", 1))
            assert len(gateway.clients["d"].retained) == 2
            reader.acknowledge(first)
            assert {(await reader.receive()).topic for _ in range(2)} == {first.topic, other}
            assert not await reader.quiet()

    asyncio.run(main())
