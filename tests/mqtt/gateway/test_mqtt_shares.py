"""Shared subscriptions: one copy per group, to one of its members."""

import asyncio
from collections import Counter

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.store.logs import LogSettings
from streamd.clients.topics.async_log import AsyncTopicLog
from streamd.testing import EmbeddedServer
from tests.mqtt.gateway.in_process import connect, running

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}
SHORT = Limits(share_lease_ms=300)
LONG = Limits(share_lease_ms=3_600_000)  # nothing comes late, at a tick


def share(text="$share/g/t/#", qos=1, **words):
    return p.Subscription(text, qos, **words)


def mode(name):
    return {"properties": {Property.USER_PROPERTY: (("share", name),)}}


async def member(gateway, client_id, *subscriptions, properties=None, subscribe=None, **words):
    device = await connect(gateway.port, client_id, properties=properties, **words)
    reply = await device.subscribe(*(subscriptions or (share(),)), **(subscribe or {}))
    assert all(one < 0x80 for one in reply.reasons), reply
    return device


async def publish_many(publisher, count, topic=b"t/a", qos=1, first=0):
    for number in range(first, first + count):
        await publisher.publish(topic, b"%d" % number, qos)


async def collect(devices, count):
    """Return the payloads that the devices get, by device, when so many have come, with any that come behind them."""
    got = [[] for _ in devices]

    async def read(device, mine):
        while True:
            mine.append((await device.receive()).payload)

    tasks = [asyncio.ensure_future(read(one, mine)) for one, mine in zip(devices, got, strict=True)]
    async with asyncio.timeout(60):
        while sum(map(len, got)) < count:
            for one in tasks:
                assert not one.done(), one.exception()
            await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for device, mine in zip(devices, got, strict=True):
        mine += [one.payload for one in await device.quiet() if type(one) is p.Publish]
    return got


async def pass_time(gateway, server, leases):
    """Let the store's time pass, with the gateway's ticks in it."""
    for _ in range(10 * leases):
        server.advance(seconds=gateway.limits.share_lease_ms / 10_000)
        for part in parts(gateway):
            await part.tick()
        await settle(gateway)


def parts(gateway):
    return [part for group in gateway.shares.groups.values() for part in group.parts.values()]


async def settle(gateway):
    """Wait until all that is stored has been read, by the tail and by the groups."""
    read = asyncio.Event()
    gateway.tail.when_read(read.set)
    await read.wait()
    while any(part.is_at_work for part in parts(gateway)):
        await asyncio.sleep(0)


@pytest.fixture
def slow_store():
    """A streamd whose time the test moves."""
    with EmbeddedServer() as server:
        yield server
        assert server.internal_errors == 0


def numbers(count, first=0):
    return Counter(b"%d" % number for number in range(first, first + count))


@pytest.mark.parametrize("how", ["any", "ordered"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_message_goes_to_one_member_of_a_group(store, how, qos):
    async def main():
        async with running(store) as gateway:
            members = [await member(gateway, f"m{n}", share(qos=qos), subscribe=mode(how)) for n in range(3)]
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 60, qos=qos)
            got = await collect(members, 60)
            assert sum(map(Counter, got), Counter()) == numbers(60)
            if how == "any":
                assert all(len(one) >= 5 for one in got)
            else:
                assert [one for one in got if one] == [[b"%d" % number for number in range(60)]]

    asyncio.run(main())


@pytest.mark.parametrize("how", ["any", "ordered"])
def test_groups_and_plain_subscriptions_each_get_a_copy(store, how):
    async def main():
        async with running(store) as gateway:
            first = await member(gateway, "first", share("$share/g/t/#"), subscribe=mode(how))
            second = await member(gateway, "second", share("$share/h/t/#"), subscribe=mode(how))
            third = await member(gateway, "third", share("$share/g/+/a"), subscribe=mode(how))
            plain = await member(gateway, "plain", share("t/#"))
            both = await member(gateway, "both", share("t/a"), share("$share/i/t/a"), subscribe=mode(how))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 10)
            got = await collect([first, second, third, plain, both], 60)
            assert [Counter(one) for one in got] == [numbers(10)] * 4 + [numbers(10) + numbers(10)]

    asyncio.run(main())


@pytest.mark.parametrize("how", ["any", "ordered"])
def test_a_group_keeps_its_position_until_the_session_of_its_last_member_ends(store, how):
    async def main():
        async with running(store) as gateway:
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 5)
            device = await member(gateway, "device", properties=LASTING, subscribe=mode(how))
            await publish_many(publisher, 5, first=5)
            assert await collect([device], 5) == [[b"5", b"6", b"7", b"8", b"9"]]
            await device.disconnect()
            await publish_many(publisher, 5, first=10)
        async with running(store) as gateway:
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 5, first=15)
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            (got,) = await collect([device], 10)
            assert Counter(got) == numbers(10, 10)
            await device.disconnect(properties={Property.SESSION_EXPIRY_INTERVAL: 0})
            await publish_many(publisher, 5, first=20)
            async with asyncio.timeout(60):
                while await gateway.link.demand(("EXISTS", "mqtt:shares")) != [0]:
                    await asyncio.sleep(0)
            device = await member(gateway, "device", subscribe=mode(how))
            await publish_many(publisher, 1, first=30)
            assert await collect([device], 1) == [[b"30"]]

    asyncio.run(main())


@pytest.mark.parametrize("how", ["any", "ordered"])
def test_nothing_is_lost_from_the_answer_to_subscribe_on(store, how):
    async def main():
        async with running(store) as gateway:
            publisher = await connect(gateway.port, "publisher")
            for turn in range(10):
                device = await member(gateway, f"m{turn}", share(f"$share/g{turn}/t/#"), subscribe=mode(how))
                await publisher.publish(b"t/a", b"%d" % turn)
                assert (await device.receive()).payload == b"%d" % turn
                await device.disconnect()

    asyncio.run(main())


def test_no_retained_message_comes_because_of_a_shared_subscription(store):
    async def main():
        async with running(store) as gateway:
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t/a", b"old", 1, retain=True)
            device = await member(gateway, "device", share(retain_as_published=True), share("$share/h/t/#"))
            assert await device.quiet() == []
            await publisher.publish(b"t/a", b"new", 1, retain=True)
            got = [await device.receive() for _ in range(2)]
            assert sorted(one.retain for one in got) == [False, True]

    asyncio.run(main())


@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("published", [0, 1, 2])
def test_5_4_8_2_3_the_qos_of_a_delivery_is_at_most_what_the_member_was_granted(streamd_store, granted, published):
    async def main():
        async with running(streamd_store) as gateway:
            device = await member(gateway, "device", share(qos=granted))
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t/a", b"x", published)
            assert (await device.receive()).qos == min(granted, published)

    asyncio.run(main())


def test_the_identifiers_of_a_message_are_those_of_the_member_that_gets_it(store):
    async def main():
        async with running(store) as gateway:
            one = await member(gateway, "one", share(), subscribe={"properties": {Property.SUBSCRIPTION_IDENTIFIER: 7}})
            other = await member(
                gateway, "other", share(), subscribe={"properties": {Property.SUBSCRIPTION_IDENTIFIER: 9}}
            )
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 2)
            assert (await one.receive()).properties[Property.SUBSCRIPTION_IDENTIFIER] == (7,)
            assert (await other.receive()).properties[Property.SUBSCRIPTION_IDENTIFIER] == (9,)

    asyncio.run(main())


@pytest.mark.parametrize("text", ["$share/g", "$share/", "$share//a", "$share/+/a", "$share/g#/a", "$share/g/"])
def test_5_4_8_2_1_a_shared_subscription_has_a_name_and_a_filter(streamd_store, text):
    async def main():
        async with running(streamd_store) as gateway:
            device = await connect(gateway.port, "device")
            device.send(p.Subscribe(1, (p.Subscription(text, 1),)))
            assert (await device.expect(p.Disconnect)).reason in (Reason.PROTOCOL_ERROR, Reason.MALFORMED_PACKET)

    asyncio.run(main())


def test_no_local_on_a_shared_subscription_is_a_protocol_error(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            device = await connect(gateway.port, "device")
            device.send(p.Subscribe(1, (p.Subscription("$share/g/t", 1, no_local=True),)))
            assert (await device.expect(p.Disconnect)).reason == Reason.PROTOCOL_ERROR

    asyncio.run(main())


def test_names_with_any_characters_are_groups_of_their_own(store):
    async def main():
        texts = [
            "$share/ä b/t/#",
            "$share/ä  b/t/#",
            "$share/a:b/t/#",
            "$share/" + "x" * 300 + "/t/#",
            "$share/a.b/t/#",
        ]
        async with running(store) as gateway:
            devices = [await member(gateway, f"d {n}/ü", share(text)) for n, text in enumerate(texts)]
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 2)
            assert await collect(devices, 2 * len(texts)) == [[b"0", b"1"]] * len(texts)

    asyncio.run(main())


def test_a_member_that_says_otherwise_than_its_group_is_refused(store):
    async def main():
        async with running(store) as gateway:
            first = await member(gateway, "first", subscribe=mode("ordered"))
            other = await connect(gateway.port, "other")
            reply = await other.subscribe(share(), share("$share/h/t/#"), **mode("any"))
            assert reply.reasons == (Reason.IMPLEMENTATION_SPECIFIC_ERROR, 1)
            assert "share=ordered" in reply.properties[Property.REASON_STRING]
            reply = await other.subscribe(share(), **mode("sorted"))
            assert reply.reasons == (Reason.IMPLEMENTATION_SPECIFIC_ERROR,)
            assert (await other.subscribe(share())).reasons == (1,)  # one that says nothing follows
            old = await connect(gateway.port, "old", version=4)
            assert (await old.subscribe(share())).reasons == (1,)
            assert (await other.subscribe(share("$share/g/$SYS/#"))).reasons == (Reason.TOPIC_FILTER_INVALID,)
            await first.disconnect()

    asyncio.run(main())


def test_what_a_member_refuses_nobody_else_gets(slow_store):
    """5:4.8.2-6."""

    async def main():
        async with running(slow_store.url) as gateway:
            first = await member(gateway, "first", share(qos=2))
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t/a", b"one", 1)
            await publisher.publish(b"t/a", b"two", 2)
            refused = [await first.receive(acknowledges=False) for _ in range(2)]
            for one in refused:
                kind = p.Puback if one.qos == 1 else p.Pubrec
                first.send(kind(one.packet_id, Reason.UNSPECIFIED_ERROR))
            assert await first.quiet() == []
            second = await member(gateway, "second", share(qos=2))
            await first.disconnect()
            await pass_time(gateway, slow_store, leases=2)
            assert await second.quiet() == []

    asyncio.run(main())


@pytest.mark.parametrize("how", ["any", "ordered"])
def test_qos_1_of_a_member_whose_session_ends_goes_to_another_and_qos_2_does_not(store, how):
    """5:4.8.2-5."""

    async def main():
        async with running(store) as gateway:
            first = await member(gateway, "first", share(qos=2), subscribe=mode(how))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 4)
            await publisher.publish(b"t/a", b"two", 2)
            got = [await first.receive(acknowledges=False) for _ in range(5)]
            assert {one.payload: one.qos for one in got} == {b"0": 1, b"1": 1, b"2": 1, b"3": 1, b"two": 2}
            second = await member(gateway, "second", share(qos=2), subscribe=mode(how))
            first.close()
            (after,) = await collect([second], 4)
            assert Counter(after) == numbers(4)

    asyncio.run(main())


@pytest.mark.parametrize("how", ["any", "ordered"])
def test_what_a_slow_member_has_in_flight_is_not_taken_from_it(slow_store, how):
    async def main():
        async with running(slow_store.url) as gateway:
            slow = await member(gateway, "slow", properties={Property.RECEIVE_MAXIMUM: 2}, subscribe=mode(how))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 5)
            held = [await slow.receive(acknowledges=False) for _ in range(2)]
            assert await slow.quiet() == []
            quick = await member(gateway, "quick", subscribe=mode(how))
            await pass_time(gateway, slow_store, leases=3)
            if how == "any":
                (got,) = await collect([quick], 3)
                assert Counter(got) == numbers(3, 2)
            else:
                assert await quick.quiet() == []  # the shard is the slow member's
            for one in held:
                slow.acknowledge(one)
            got = await collect([slow, quick], 0 if how == "any" else 3)
            assert sum(map(len, got)) == (0 if how == "any" else 3)

    asyncio.run(main())


@pytest.mark.parametrize("how", ["any", "ordered"])
def test_after_the_lease_others_get_what_an_absent_member_had_in_flight(store, how):
    async def main():
        async with running(store, limits=SHORT) as gateway:
            absent = await member(gateway, "absent", properties=LASTING, subscribe=mode(how))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 3)
            for _ in range(3):
                await absent.receive(acknowledges=False)
            absent.close()
            present = await member(gateway, "present", subscribe=mode(how))
            (got,) = await collect([present], 3)
            assert Counter(got) == numbers(3)
            absent = await connect(gateway.port, "absent", clean=False, properties=LASTING)
            assert absent.connack.session_present
            assert await absent.quiet() == []

    asyncio.run(main())


@pytest.mark.parametrize("how", ["any", "ordered"])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_member_that_is_back_in_time_gets_the_same_again(store, how, qos):
    """5:4.8.2-4 and 4.4.0-1."""

    async def main():
        async with running(store) as gateway:
            device = await member(gateway, "device", share(qos=qos), properties=LASTING, subscribe=mode(how))
            other = await member(gateway, "other", share("$share/g/t/#", qos), properties=LASTING)
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 6, qos=qos)
            first, others = [], []
            while len(first) + len(others) < 6:
                first += await device.quiet()
                others += await other.quiet()
            device.close()
            other.close()
            for client_id, before in (("device", first), ("other", others)):
                again = await connect(gateway.port, client_id, clean=False, properties=LASTING)
                got = await again.quiet()
                assert [(one.payload, one.packet_id, one.dup) for one in got] == [
                    (one.payload, one.packet_id, True) for one in before
                ]
                await settle(gateway)
                assert await again.quiet() == []
                for one in got:
                    again.acknowledge(one)

    asyncio.run(main())


@pytest.mark.parametrize("how", ["any", "ordered"])
def test_qos_2_that_a_session_has_begun_waits_for_it_though_the_group_has_it_still(slow_store, how, monkeypatch):
    """5:4.8.2-4: a gateway was killed between the session's record and the group."""

    async def main():
        async with running(slow_store.url) as gateway:
            device = await member(gateway, "device", share(qos=2), properties=LASTING, subscribe=mode(how))
            publisher = await connect(gateway.port, "publisher")
            with monkeypatch.context() as patched:
                patched.setattr(gateway.delivery, "_on_begun", lambda session, place, packet: None)
                await publisher.publish(b"t/a", b"x", 2)
                await settle(gateway)
            await device.disconnect()
        async with running(slow_store.url) as gateway:
            other = await member(gateway, "other", share(qos=2), subscribe=mode(how))
            await pass_time(gateway, slow_store, leases=2)
            assert await other.quiet() == []
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            found = await device.receive()
            assert (found.payload, found.qos, found.dup) == (b"x", 2, True)

    asyncio.run(main())


def test_a_group_spans_the_logs_that_its_filter_matches(store):
    async def main():
        logs = [LogSettings("first", "one", 1, 86_400), LogSettings("second", "two", 3, 86_400)]
        async with running(store, logs=logs) as gateway:
            everything = await member(gateway, "all", share("$share/g/#"))
            some = await member(gateway, "some", share("$share/g/one/+"))
            publisher = await connect(gateway.port, "publisher")
            for topic in (b"one/a", b"two/a", b"three/a"):
                await publisher.publish(topic, topic)
            got = await collect([everything, some], 4)
            assert [sorted(one) for one in got] == [[b"one/a", b"three/a", b"two/a"], [b"one/a"]]
            names = [await gateway.link.demand(("HLEN", f"{{{one}}}:shares")) for one in ("first", "second", "mqtt")]
            assert names == [[2], [1], [1]]

    asyncio.run(main())


def test_a_member_that_may_not_read_a_message_leaves_it_to_another(store, tmp_path):
    rules = tmp_path / "acl"
    rules.write_text(
        "user one\ntopic read t/#\ntopic deny t/secret\nuser two\ntopic read t/#\nuser p\ntopic write t/#\n"
    )

    async def main():
        async with running(store, acl_file=rules) as gateway:
            one = await member(gateway, "one", username="one")
            publisher = await connect(gateway.port, "p", username="p")
            await publisher.publish(b"t/secret", b"for nobody")
            await publisher.publish(b"t/a", b"first")
            assert await collect([one], 1) == [[b"first"]]
            two = await member(gateway, "two", username="two")
            for number in range(6):
                await publisher.publish(b"t/secret", b"%d" % number)
            assert await collect([one, two], 6) == [[], [b"%d" % number for number in range(6)]]

    asyncio.run(main())


def test_what_has_expired_no_member_gets(slow_store):
    async def main():
        async with running(slow_store.url) as gateway:
            device = await member(gateway, "device", properties=LASTING)
            await device.disconnect()
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t/a", b"short", properties={Property.MESSAGE_EXPIRY_INTERVAL: 1})
            await publisher.publish(b"t/a", b"long", properties={Property.MESSAGE_EXPIRY_INTERVAL: 100})
        slow_store.advance(seconds=10)
        async with running(slow_store.url) as gateway:
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            assert await collect([device], 1) == [[b"long"]]

    asyncio.run(main())


def test_an_unsubscribed_member_finishes_what_it_has_begun_and_gets_no_more(slow_store):
    async def main():
        async with running(slow_store.url) as gateway:
            device = await member(gateway, "device")
            other = await member(gateway, "other")
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 2)
            begun = await device.receive(acknowledges=False)
            await other.receive()
            device.send(p.Unsubscribe(9, ("$share/g/t/#",)))
            assert (await device.expect(p.Unsuback)).reasons == (0,)
            await publish_many(publisher, 4, first=2)
            await pass_time(gateway, slow_store, leases=2)
            assert await collect([other], 4) == [[b"2", b"3", b"4", b"5"]]
            device.acknowledge(begun)
            assert await device.quiet() == []

    asyncio.run(main())


def test_the_members_of_a_killed_gateway_are_no_members_any_more(store):
    async def main():
        async with running(store) as gateway:
            device = await member(gateway, "device")
            names = await gateway.link.demand(("KEYS", "mqtt:share*"))
            assert len(names[0]) == 2
            # As a kill leaves it: nobody ends the memberships.
            gateway.shares.withdraw = lambda session, texts: None
            device.close()
        async with running(store) as gateway:
            assert await gateway.link.demand(("KEYS", "mqtt:share*"), ("HLEN", "{mqtt}:shares")) == [[], 0]

    asyncio.run(main())


@pytest.mark.parametrize("how", ["any", "ordered"])
def test_all_comes_though_the_server_ends_its_searches_early(streamd_store, how, monkeypatch):
    monkeypatch.setattr("streamd.commands.stream.filter_words.SEARCH_SLICE_US", 0)

    async def main():
        async with running(streamd_store, limits=LONG) as gateway:
            members = [await member(gateway, f"m{n}", subscribe=mode(how)) for n in range(3)]
            publisher = await connect(gateway.port, "publisher")
            for start in range(0, 600, 200):
                publisher.send(*(p.Publish(b"t/a", b"%d" % n, 1, packet_id=n + 1) for n in range(start, start + 200)))
                got = await collect(members, 200)
                assert sum(map(Counter, got), Counter()) == numbers(200, start)

    asyncio.run(main())


def test_a_group_goes_on_in_the_next_generation_of_its_log(store):
    async def main():
        async with running(store, limits=LONG) as gateway:
            devices = [
                await member(gateway, "any"),
                await member(gateway, "ord", share("$share/o/t/#"), subscribe=mode("ordered")),
            ]
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, 3)
            log = await AsyncTopicLog.open(gateway.client, "mqtt")
            await log.reconfigure(shards=3)
            await publish_many(publisher, 20, first=3)
            got = await collect(devices, 46)
            assert [Counter(one) for one in got] == [numbers(23)] * 2

    asyncio.run(main())


def test_topics_with_a_dollar_in_between_hold_up_no_message_of_a_group_of_all_topics(streamd_store):
    async def main():
        async with running(streamd_store, shards=1, limits=Limits(share_lease_ms=3_600_000)) as gateway:
            device = await connect(gateway.port, "d", properties={Property.RECEIVE_MAXIMUM: 2})
            await device.subscribe(p.Subscription("$share/g/#", 1))
            publisher = await connect(gateway.port, "publisher")
            states = [p.Publish(b"$SYS/broker/connection/hub/state", b"1", retain=True)] * 3
            publisher.send(*[one for number in range(9) for one in (*states, p.Publish(b"t", b"%d" % number, 0))])
            assert [(await device.receive()).payload for _ in range(9)] == [b"%d" % number for number in range(9)]

    asyncio.run(main())
