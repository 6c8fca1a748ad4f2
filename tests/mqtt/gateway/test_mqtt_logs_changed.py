"""Logs that get other shards while messages come, and a retention that is quicker than a session."""

import asyncio
from contextlib import AsyncExitStack

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.store.logs import LogSettings
from streamd.clients.mqtt.store.tailing import Tail
from streamd.clients.topics import AsyncTopicLog
from tests.mqtt.gateway.door import Door
from tests.mqtt.gateway.in_process import WAIT_S, connect, running
from tests.mqtt.gateway.test_mqtt_catching_up import of_topics
from tests.mqtt.gateway.test_mqtt_store_faults import until

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}
PUBLISHERS, COUNT = 6, 400


def named(number):
    return {Property.USER_PROPERTY: (("iid", f"n{number}"),)}


async def publish_in_turn(device, topic, numbers, qos, iids=()):
    """Publish with up to 50 under way; the QoS 2 ones are released, too."""
    under_way, answer = 0, p.Puback if qos == 1 else p.Pubcomp

    async def take():
        while True:
            packet = await device.packet()
            assert packet is not None
            assert packet.reason == 0
            if type(packet) is p.Pubrec:
                device.send(p.Pubrel(packet.packet_id))
            else:
                assert type(packet) is answer
                return

    for number in numbers:
        properties = named(number) if number in iids else {}
        device.send(p.Publish(topic, b"%d" % number, qos, packet_id=number % 60_000 + 1, properties=properties))
        under_way += 1
        if under_way == 50:
            await take()
            under_way -= 1
    for _ in range(under_way):
        await take()


async def receive_all(device, count, others=()):
    found = list(others)
    while len(found) < count:
        one = await device.receive()
        found.append((one.topic, one.payload))
    return found


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("shards", [(5, 1, 3), (2, 4)])
def test_other_shards_under_load(store, qos, shards):
    """Nothing is lost, doubled or out of order: live, for a slow session, and for one that comes later."""

    async def main():
        async with running(store, limits=Limits(ring_entries_max=100)) as gateway:
            total = PUBLISHERS * COUNT
            client = redis.asyncio.Redis.from_url(store)
            away = await connect(gateway.port, "away", properties=LASTING)
            await away.subscribe(p.Subscription("t/#", 1))
            await away.disconnect()
            live = await connect(gateway.port, "live")
            await live.subscribe(p.Subscription("t/#", qos))
            slow = await connect(gateway.port, "slow", properties={**LASTING, Property.RECEIVE_MAXIMUM: 3})
            await slow.subscribe(p.Subscription("t/#", qos))
            devices = [await connect(gateway.port, f"p{n}", properties=LASTING) for n in range(PUBLISHERS)]
            # Every third message has a name: it goes its own way while an older generation may know it.
            iids = range(0, COUNT, 3)
            publishing = [
                asyncio.create_task(publish_in_turn(one, b"t/%d" % number, range(COUNT), qos, iids))
                for number, one in enumerate(devices)
            ]
            received = []
            log = await AsyncTopicLog.open(client, "mqtt")
            for turn, number in enumerate(shards):
                while len(received) < total * (turn + 1) // (len(shards) + 2):
                    one = await live.receive()
                    received.append((one.topic, one.payload))
                await log.reconfigure(shards=number)
            wanted = {b"t/%d" % number: list(range(COUNT)) for number in range(PUBLISHERS)}
            assert of_topics(await receive_all(live, total, received)) == wanted
            await asyncio.gather(*publishing)
            away = await connect(gateway.port, "away", clean=False, properties=LASTING)
            for device in (slow, away):
                assert of_topics(await receive_all(device, total)) == wanted
            past = await connect(gateway.port, "past")
            past.send(p.Subscribe(1, (p.Subscription("t/#", qos),), {Property.USER_PROPERTY: (("start", "earliest"),)}))
            await past.expect(p.Suback)
            assert of_topics(await receive_all(past, total)) == wanted
            for device in (live, slow, away, past):
                assert [one for one in await device.quiet() if type(one) is p.Publish] == []
            await client.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("qos", [1, 2])
def test_an_iid_is_known_after_a_reshard(store, qos):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        async with running(store) as gateway:
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t", 2))
            device = await connect(gateway.port, "device", properties=LASTING)
            await publish_in_turn(device, b"t", range(5), qos, range(5))
            await (await AsyncTopicLog.open(client, "mqtt")).reconfigure(shards=5)
            await publish_in_turn(device, b"t", range(8), qos, range(8))
            await (await AsyncTopicLog.open(client, "mqtt")).reconfigure(shards=1)
            await publish_in_turn(device, b"t", range(10), qos, range(10))
            found = [(await reader.receive()).payload for _ in range(10)]
            assert found == [b"%d" % number for number in range(10)]
            assert [one for one in await reader.quiet() if type(one) is p.Publish] == []
        async with running(store) as gateway:  # one that has not seen the log change
            device = await connect(gateway.port, "device", properties=LASTING)
            await publish_in_turn(device, b"t", range(11), qos, range(11))
            reader = await connect(gateway.port, "reader")
            start = {Property.USER_PROPERTY: (("start", "earliest"),)}
            await reader.subscribe(p.Subscription("t", 0), properties=start)
            found = [(await reader.receive()).payload for _ in range(11)]
            assert found == [b"%d" % number for number in range(11)]
            assert [one for one in await reader.quiet() if type(one) is p.Publish] == []
        await client.aclose()

    asyncio.run(main())


def test_messages_with_and_without_names_stay_in_order_after_a_reshard(store):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        async with running(store) as gateway:
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t", 1))
            await (await AsyncTopicLog.open(client, "mqtt")).reconfigure(shards=3)
            device = await connect(gateway.port, "device")
            await device.publish(b"t", b"0")  # the gateway hears of the change
            device.send(
                *[
                    p.Publish(b"t", b"%d" % n, 1, packet_id=n, properties=named(n) if n % 4 == 1 else {})
                    for n in range(1, 200)
                ]
            )
            found = [int((await reader.receive()).payload) for _ in range(200)]
            assert found == list(range(200))
        await client.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("filters", [("t/+",), ("#",)])
@pytest.mark.parametrize("version", [4, 5])
def test_a_gap_is_told_with_the_next_message(store, filters, version):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        async with running(store, limits=Limits(ring_entries_max=10), shards=1) as gateway:
            properties = LASTING if version == 5 else None
            device = await connect(gateway.port, "device", False, version, properties)
            await device.subscribe(*[p.Subscription(one, 1) for one in filters])
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t/a", b"0")
            await device.receive()
            await device.quiet()
            await device.disconnect()
            for number in range(1, 61):
                await publisher.publish(b"t/a", b"%d" % number)
            key = gateway.logs.all[0].keys[0]
            entries = await client.xrange(key, count=31)
            await trim(client, gateway, key, entries[-1][0])
            device = await connect(gateway.port, "device", False, version, properties)
            assert device.connack.session_present
            found = [await device.receive() for _ in range(30)]
            assert [int(one.payload) for one in found] == list(range(31, 61))
            told = [dict(one.properties.get(Property.USER_PROPERTY, ())).get("gap") for one in found]
            assert told == ([("mqtt" if version == 5 else None), *[None] * 29])
            assert gateway.counters.gaps == 1
        await client.aclose()

    asyncio.run(main())


async def trim(client, gateway, key, up_to):
    """Remove entries as the retention does, and note it."""
    log = gateway.logs.all[0]
    _, meta, field = log.trimmed_command(log.generation.number, 0)
    ms, seq = up_to.decode().split("-")
    pipe = client.pipeline(transaction=True)
    pipe.hset(meta, field, up_to)
    pipe.xtrim(key, minid=f"{ms}-{int(seq) + 1}", approximate=False)
    await pipe.execute()


def test_messages_on_their_way_to_a_closed_generation_are_not_overtaken(store):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        door = Door(store)
        await door.open()
        async with running(door.url) as gateway:
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t", 1))
            device = await connect(gateway.port, "device")
            await device.publish(b"t", b"0")
            await reader.receive()
            door.hold_up()
            await (await AsyncTopicLog.open(client, "mqtt")).reconfigure(shards=3)
            device.send(p.Publish(b"t", b"1", 1, packet_id=11))
            await until(lambda: gateway.publishing.backlog == 1)
            (log,) = gateway.logs.all
            log._client, gateways_own = client, log._client
            assert await log.refresh()  # as the tail does it
            log._client = gateways_own
            device.send(p.Publish(b"t", b"2", 1, packet_id=12), p.Pingreq())
            await device.expect(p.Pingresp)
            await door.open()
            assert [(await reader.receive()).payload for _ in range(2)] == [b"1", b"2"]
        await client.aclose()

    asyncio.run(main())


@pytest.fixture
def held(monkeypatch):
    """What lets gateways go on in a generation that has begun; set it to let them."""
    monkeypatch.setattr("streamd.clients.mqtt.gateway.ownership._GRACE_S", 0)
    original = Tail._next_generation
    may_go_on = asyncio.Event()

    async def waiting(self, tailed):
        await may_go_on.wait()
        await original(self, tailed)

    monkeypatch.setattr(Tail, "_next_generation", waiting)
    return may_go_on


@pytest.mark.interpreted(reason="a gateway is held between two generations")
@pytest.mark.parametrize("gateways", [1, 2])
@pytest.mark.parametrize("logs", [(), (LogSettings("other", "o", 1, 86_400),)])
def test_a_new_subscriber_gets_what_is_retained_in_a_generation_that_has_just_begun(
    store, held, capsys, gateways, logs
):
    async def main():
        async with AsyncExitStack() as stack:
            gateway = [await stack.enter_async_context(running(store, logs=logs)) for _ in range(gateways)][-1]
            client = await stack.enter_async_context(redis.asyncio.from_url(store))
            publisher, reader = await connect(gateway.port, "publisher"), await connect(gateway.port, "reader")
            await publisher.publish(b"set", b"1", retain=True)
            await publisher.publish(b"cleared", b"1", retain=True)
            await (await AsyncTopicLog.open(client, "mqtt")).reconfigure(shards=3)
            await publisher.publish(b"set", b"2", retain=True)
            await publisher.publish(b"cleared", b"", retain=True)
            reader.send(p.Subscribe(1, (p.Subscription("#", 1),)))
            for _ in range(3):  # the logs are read meanwhile
                await publisher.publish(b"other", b"x")
            held.set()
            await reader.expect(p.Suback)
            found = {one.topic: one.payload for one in await reader.quiet() if one.retain}
            assert found == {b"set": b"2"}

    asyncio.run(main())
    assert "no messages are delivered" not in capsys.readouterr().err


@pytest.mark.interpreted(reason="a gateway is held between two generations")
def test_a_log_that_is_dropped_between_two_generations_holds_up_no_subscriber_of_others(store, held):
    async def main():
        logs = [LogSettings("dropped", "d", 1, 86_400)]
        async with (
            running(store, logs=logs) as gateway,
            running(store, logs=logs),
            redis.asyncio.from_url(store) as client,
        ):
            log = await AsyncTopicLog.open(client, "dropped")
            await log.reconfigure(shards=3)
            async with asyncio.timeout(WAIT_S):
                while not all(one.position.is_closed for one in gateway.tail.logs if one.log.name == "dropped"):
                    await asyncio.sleep(0)
            await log.drop()
            held.set()
            reader = await connect(gateway.port, "reader")
            await (await connect(gateway.port, "publisher")).publish(b"t", b"x", retain=True)
            await reader.subscribe(p.Subscription("#", 1))
            assert [one.payload for one in await reader.quiet()] == [b"x"]

    asyncio.run(main())
