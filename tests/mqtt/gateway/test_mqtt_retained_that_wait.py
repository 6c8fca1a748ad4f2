"""Retained messages that wait for room: newer ones, and rights that were taken away, come before them."""

import asyncio

import pytest

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
            assert len(gateway.clients["d"].retained) == 1
            reader.acknowledge(first)
            assert {(await reader.receive()).topic for _ in range(2)} == {first.topic, other}
            assert not await reader.quiet()

    asyncio.run(main())


def test_what_waits_for_a_session_takes_the_same_room_for_many_messages(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            publisher = await connect(gateway.port, "publisher")
            names = [b"t/%03d" % number for number in range(200)]
            for name in names:
                await publisher.publish(name, b"old", retain=True)
            reader = await connect(gateway.port, "d", properties={Property.RECEIVE_MAXIMUM: 1})
            await reader.subscribe(p.Subscription("t/+", 1))
            first = await reader.receive(acknowledges=False)
            assert len(gateway.clients["d"].retained) == 1
            changed, removed = [name for name in names if name != first.topic][:2]
            await publisher.publish(changed, b"new", 0, retain=True)
            await publisher.publish(removed, b"", 0, retain=True)
            await publisher.publish(b"t/added", b"new", 0, retain=True)
            live = [await reader.receive() for _ in range(3)]
            assert [one.payload for one in live] == [b"new", b"", b"new"]
            reader.acknowledge(first)
            found = [await reader.receive() for _ in range(197)]
            assert sorted(one.topic for one in found) == sorted({*names} - {first.topic, changed, removed})
            assert {(one.payload, one.retain) for one in found} == {(b"old", True)}
            assert not await reader.quiet()

    asyncio.run(main())


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_what_waited_when_a_session_left_comes_when_it_is_back(store, is_restarted, qos):
    lasting = {Property.SESSION_EXPIRY_INTERVAL: 1_000, Property.RECEIVE_MAXIMUM: 5}
    names = [b"t/%03d" % number for number in range(100)]
    got = []

    async def begin(gateway):
        publisher = await connect(gateway.port, "publisher")
        for name in names:
            await publisher.publish(name, b"old", 2, retain=True)
        await publisher.publish(b"t/at-most-once", b"old", 0, retain=True)
        reader = await connect(gateway.port, "d", properties=lasting)
        await reader.subscribe(p.Subscription("t/+", qos), properties={Property.SUBSCRIPTION_IDENTIFIER: 7})
        for _ in range(20):
            got.append((await reader.receive()).topic)
        reader.send(p.Disconnect())
        while await reader.packet() is not None:
            pass
        waiting = [name for name in names if name not in got]
        await publisher.publish(waiting[-1], b"new", 2, retain=True)
        await publisher.publish(waiting[-2], b"", 2, retain=True)
        await publisher.disconnect()
        return waiting

    async def end(gateway, waiting):
        reader = await connect(gateway.port, "d", False, properties=lasting)
        assert reader.connack.session_present
        found = {}
        while len(found) < len(waiting):
            one = await reader.receive()
            if one.dup:
                got.append(one.topic)
                waiting = [name for name in waiting if name != one.topic]
                continue
            assert one.topic not in found
            found[one.topic] = one
        assert set(found) == {*waiting}
        assert (found[waiting[-1]].payload, found[waiting[-2]].payload) == (b"new", b"")
        old = [one for one in found.values() if one.payload == b"old"]
        assert len(old) == len(waiting) - 2
        assert all(one.retain and one.properties == {Property.SUBSCRIPTION_IDENTIFIER: (7,)} for one in old)
        assert [one for one in await reader.quiet() if type(one) is p.Publish] == []

    async def main():
        async with running(store) as gateway:
            waiting = await begin(gateway)
            if not is_restarted:
                await end(gateway, waiting)
                return
        async with running(store) as gateway:
            await end(gateway, waiting)

    asyncio.run(main())


def test_an_ended_subscription_gets_no_more_of_what_is_retained(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            _, reader, first, _ = await _with_one_in_flight(gateway)
            reader.send(p.Unsubscribe(9, ("t/+",)))
            await reader.expect(p.Unsuback)
            reader.acknowledge(first)
            assert not await reader.quiet()
            await reader.subscribe(p.Subscription("t/+", 1))
            assert len([await reader.receive() for _ in range(2)]) == 2

    asyncio.run(main())


def test_more_retained_messages_than_a_turn_looks_at_all_come(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            publisher = await connect(gateway.port, "publisher")
            for number in range(4_500):
                publisher.send(p.Publish(b"t/%d" % number, b"x", 0, retain=True))
            await publisher.quiet()
            reader = await connect(gateway.port, "d")
            await reader.subscribe(p.Subscription("#", 0))
            assert len({(await reader.receive()).topic for _ in range(4_500)}) == 4_500
            assert not await reader.quiet()

    asyncio.run(main())
