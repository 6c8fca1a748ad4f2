"""Several gateways on one store: clients go from one to another, and nothing is lost, doubled, or written by two."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.ownership import GATEWAYS, lease_key
from streamd.clients.mqtt.store.records import INDEX, WILLS, Pointer, pointer_key
from tests.mqtt.gateway.in_process import WAIT_S, connect, data_key_of, running

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}


@pytest.fixture(autouse=True)
def no_grace(monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.ownership._GRACE_S", 0)


@asynccontextmanager
async def two(store, **words):
    """Two gateways that know each other."""
    async with running(store, **words) as one, running(store, **words) as other:
        async with asyncio.timeout(WAIT_S):
            while not one.ownership.peers or not other.ownership.peers:
                await asyncio.sleep(0)
        yield one, other


async def read_all(gateway):
    read = asyncio.Event()
    gateway.tail.when_read_anew(read.set)
    await read.wait()


async def lasting(gateway, client_id="d", clean=False, version=5, **words):
    return await connect(gateway.port, client_id, clean, version, LASTING if version == 5 else {}, **words)


def published(packets):
    return [one.payload for one in packets if type(one) is p.Publish]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_goes_to_another_gateway_with_what_it_has_not_acknowledged(store, qos, version):
    """A15."""

    async def main():
        async with two(store) as (one, other):
            device = await lasting(one, version=version)
            await device.subscribe(p.Subscription("t/+", qos))
            publisher = await connect(other.port, "publisher")
            for payload in (b"a", b"b"):
                await publisher.publish(b"t/x", payload, qos)
            first = await device.receive()
            if qos == 2:  # the second message comes before the PUBREL of the first, or behind it
                found = [await device.packet(), await device.packet()]
                (second,) = [one for one in found if type(one) is p.Publish]
                assert p.Pubrel(first.packet_id) in found
                device.send(p.Pubcomp(first.packet_id))
            else:
                second = await device.receive(acknowledges=False)
            assert (first.payload, second.payload) == (b"a", b"b")
            again = await lasting(other, version=version)
            if version == 5:
                assert (await device.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER
            assert await device.packet() is None
            assert again.connack.session_present
            found = await again.receive()
            assert (found.payload, found.dup, found.packet_id) == (b"b", True, second.packet_id)
            await publisher.publish(b"t/x", b"c", qos)
            while (found := await again.receive()).payload != b"c":
                pytest.fail(f"{found.payload} came twice")
            assert (one.counters.takeovers, len(one.clients)) == (1, 0)

    asyncio.run(main())


def test_a_client_hops_and_gets_each_message_once_in_order(store):
    async def main():
        async with two(store) as gateways:
            for gateway in gateways:
                gateway.takeovers.wait = no_wait
            device = await lasting(gateways[0])
            await device.subscribe(p.Subscription("t", 2))
            publisher = await connect(gateways[0].port, "publisher")
            got = []
            for number in range(20):
                device = await lasting(gateways[number % 2])
                assert device.connack.session_present
                await publisher.publish(b"t", b"%d" % number, 2)
                got.append((await device.receive()).payload)
                await device.expect(p.Pubrel)
                if number % 3:
                    continue  # the next gateway gets the PUBCOMP's message again, as PUBREL only
                device.send(p.Pubcomp(1))
            assert got == [b"%d" % number for number in range(20)]

    async def no_wait(client_id):
        pass

    asyncio.run(main())


def test_messages_cross_gateways_retained_ones_wills_and_shares_too(store):
    async def main():
        async with two(store) as (one, other):
            reader = await connect(other.port, "reader")
            await reader.subscribe(p.Subscription("#", 1))
            will = p.Will(b"w", b"gone", 1, False, {})
            device = await connect(one.port, "device", will=will)
            await device.publish(b"t", b"kept", 1, retain=True)
            assert (await reader.receive()).payload == b"kept"
            device.close()
            assert (await reader.receive()).payload == b"gone"
            late = await connect(other.port, "late")
            await late.subscribe(p.Subscription("t", 1))
            found = await late.receive()
            assert (found.payload, found.retain) == (b"kept", True)
            members = [await connect(gateway.port, f"m{at}") for at, gateway in enumerate((one, other))]
            for member in members:
                await member.subscribe(p.Subscription("$share/g/s", 1))
            publishers = [await connect(gateway.port, f"p{at}") for at, gateway in enumerate((one, other))]
            for number in range(40):
                await publishers[number % 2].publish(b"s", b"%d" % number)
            got = [[], []]
            async with asyncio.timeout(WAIT_S):
                while sum(map(len, got)) < 40:
                    for at, member in enumerate(members):
                        for packet in await member.quiet():
                            member.acknowledge(packet)
                            got[at].append(int(packet.payload))
            assert sorted(got[0] + got[1]) == list(range(40))
            assert all(got), "one member got all"

    asyncio.run(main())


def test_a_subscription_begins_behind_what_another_gateway_has_acknowledged(store):
    async def main():
        async with two(store) as (one, other):
            publisher, reader = await connect(one.port, "publisher"), await connect(other.port, "reader")
            for number in range(20):
                topic = b"t/%d" % number
                await publisher.publish(topic, b"x", 1, retain=True)
                await reader.subscribe(p.Subscription(topic.decode(), 1))
                assert (await reader.receive()).retain
            assert published(await reader.quiet()) == []

    asyncio.run(main())


def test_of_two_connections_of_one_client_without_a_session_the_older_one_is_closed(store):
    async def main():
        async with two(store) as (one, other):
            older = await connect(one.port, "d")
            await connect(other.port, "d")
            assert (await older.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER

    asyncio.run(main())


@pytest.mark.parametrize("expiry_s", [0, 1_000])
def test_a_clean_start_elsewhere_ends_the_session(store, expiry_s):
    async def main():
        async with two(store) as (one, other):
            will = p.Will(b"w", b"gone", 1, False, {})
            properties = {Property.SESSION_EXPIRY_INTERVAL: expiry_s}
            older = await connect(one.port, "d", properties=properties, will=will)
            await older.subscribe(p.Subscription("t", 1))
            reader = await connect(one.port, "reader")
            await reader.subscribe(p.Subscription("w", 1))
            newer = await connect(other.port, "d", True, properties=LASTING)
            assert not newer.connack.session_present
            assert (await older.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER
            assert (await reader.receive()).payload == b"gone"
            await reader.publish(b"t", b"x", 1)
            await read_all(other)
            assert published(await newer.quiet()) == []
            await newer.disconnect()
            assert (await lasting(one)).connack.session_present

    asyncio.run(main())


@pytest.mark.interpreted(reason="what is told is not heard")
def test_a_gateway_that_does_not_let_go_loses_the_session_and_what_it_writes_does_not_count(store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.handing_over._PATIENCE_S", 0)

    async def main():
        async with two(store) as (one, other), redis.asyncio.Redis.from_url(store) as client:
            one.handing_over._do = lambda said: None
            older = await lasting(one)
            await older.subscribe(p.Subscription("t", 2))
            old_key = await data_key_of(client, "d")
            newer = await lasting(other)
            assert newer.connack.session_present
            key = await data_key_of(client, "d")
            assert key != old_key
            await (await connect(other.port, "publisher")).publish(b"t", b"x", 2)
            found = await newer.receive()
            assert found.payload == b"x"
            await newer.expect(p.Pubrel)
            # The older one has nothing of QoS 2 from the gateway that has lost the session.
            assert (await older.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER
            assert await older.packet() is None
            newer.send(p.Pubcomp(found.packet_id))
            assert published(await newer.quiet()) == []
            async with asyncio.timeout(WAIT_S):
                while await client.exists(old_key):
                    await asyncio.sleep(0)
            assert await data_key_of(client, "d") == key
            assert b"ends_ms" not in await client.hgetall(key)

    asyncio.run(main())


def test_two_gateways_that_let_a_client_in_at_once_make_one_session(store):
    async def main():
        async with two(store) as gateways:
            for number in range(10):
                name = f"d{number}"
                devices = await asyncio.gather(*(lasting(gateway, name) for gateway in gateways))
                assert sorted(one.connack.session_present for one in devices) == [False, True]
                async with asyncio.timeout(WAIT_S):
                    while sum(name in gateway.clients for gateway in gateways) != 1:
                        await asyncio.sleep(0)

    asyncio.run(main())


async def leave_behind(client, client_id, fields, run="dead"):
    """Store a session whose gateway has ended without a word."""
    said = {"run": run, "name": "there:1883", "host": "elsewhere", "process": 1, "started": "1"}
    await client.hset(GATEWAYS, run, json.dumps(said))
    await client.set(pointer_key(client_id), Pointer(5, f"{run}.1").to_text())
    await client.hset(f"mqtt:session:{{{client_id}}}:5", mapping=fields)
    await client.zadd(INDEX, {client_id: "inf"})


def test_sessions_and_wills_of_a_gateway_that_is_dead_are_taken_up(store):
    async def main():
        async with two(store) as (one, other), redis.asyncio.Redis.from_url(store) as client:
            reader = await connect(other.port, "reader")
            await reader.subscribe(p.Subscription("w", 1))
            will = json.dumps(["w", "Z29uZQ==", 1, False, []])
            fields = {"version": 2, "uid": "u", "expiry_s": 1_000, "will": will, "will_name": "n"}
            await leave_behind(client, "d", fields)
            assert (await reader.receive()).payload == b"gone"
            async with asyncio.timeout(WAIT_S):
                while await client.hexists(GATEWAYS, "dead") or await client.zcard(WILLS):
                    await asyncio.sleep(0)
            pointer = Pointer.from_text(await client.get(pointer_key("d")))
            assert pointer.epoch > 5
            assert pointer.owner is None
            assert await client.zscore(INDEX, "d") != float("inf")
            device = await lasting(one)
            assert device.connack.session_present
            assert await client.zscore(INDEX, "d") == float("inf")

    asyncio.run(main())


@pytest.mark.interpreted(reason="what is due is replaced")
def test_a_client_of_a_gateway_that_is_dead_goes_on_at_once_elsewhere(store, monkeypatch):
    async def nothing(gateway):
        pass

    monkeypatch.setattr("streamd.clients.mqtt.gateway.chores.take_up", nothing)

    async def main():
        async with two(store) as (_, other), redis.asyncio.Redis.from_url(store) as client:
            await leave_behind(client, "d", {"version": 2, "uid": "u", "expiry_s": 1_000, "s t": '{"qos":1}'})
            device = await lasting(other)
            assert device.connack.session_present
            pointer = Pointer.from_text(await client.get(pointer_key("d")))
            assert pointer.epoch > 5
            assert pointer.run == other.run
            device.send(p.Publish(b"t", b"x", 0))
            assert (await device.receive()).payload == b"x"

    asyncio.run(main())


def test_a_session_of_the_first_version_is_taken_up(store):
    async def main():
        async with running(store) as gateway, redis.asyncio.Redis.from_url(store) as client:
            fields = {"version": 1, "uid": "u", "expiry_s": 1_000, "ends_ms": 2**52, "s t": '{"qos":1}'}
            await client.hset(pointer_key("d"), mapping=fields)
            device = await lasting(gateway)
            assert device.connack.session_present
            device.send(p.Publish(b"t", b"x", 0))
            assert (await device.receive()).payload == b"x"

    asyncio.run(main())


@pytest.mark.interpreted(reason="the tail's links are replaced")
def test_a_session_that_is_ahead_of_a_gateways_tail_gets_nothing_twice(streamd_store):
    async def main():
        async with two(streamd_store) as (one, other):
            device = await lasting(one)
            await device.subscribe(p.Subscription("t", 1))
            publisher = await connect(one.port, "publisher")
            link, waiting = other.tail._link, other.tail._waiting_link
            other.tail._link = other.tail._waiting_link = kept = KeptLink()
            async with asyncio.timeout(WAIT_S):
                while not kept.sent:  # the request that waits comes back with the message, and this is the next one
                    await publisher.publish(b"u", b"y")
                    await asyncio.sleep(0)
            await publisher.publish(b"t", b"x")
            assert (await device.receive()).payload == b"x"
            device = await lasting(other)
            other.tail._link, other.tail._waiting_link = link, waiting
            for packed, count, done in kept.sent:
                link.send(packed, count, done)
            await publisher.publish(b"t", b"z")
            assert (await device.receive()).payload == b"z"

    asyncio.run(main())


class KeptLink:
    """A link that sends nothing."""

    client_id = 0

    def __init__(self):
        self.sent = []

    def send(self, *words):
        self.sent.append(words)


def test_a_gateway_that_ends_names_another_one(store):
    async def main():
        async with running(store) as one:
            async with running(store) as other:
                await one.ownership.announce("here:1883")
                await other.ownership.look()
                device = await lasting(other)
                older = await connect(other.port, "older", version=4)
                await other.gateway.stop()
                said = await device.expect(p.Disconnect)
                assert said.reason == Reason.USE_ANOTHER_SERVER
                assert said.properties[Property.SERVER_REFERENCE] == "here:1883"
                assert await older.packet() is None
            assert (await lasting(one)).connack.session_present
            await one.ownership.look()
            assert not one.ownership.peers
            assert one.ownership.is_keeper

    asyncio.run(main())


def test_the_gateway_that_keeps_the_retained_messages_changes_and_none_is_lost(store):
    async def main():
        async with running(store) as one, running(store) as other:
            assert one.ownership.is_keeper
            assert not other.ownership.is_keeper
            publisher = await connect(other.port, "publisher")
            await publisher.publish(b"a", b"1", retain=True)
            await publisher.publish(b"b", b"1", retain=True)
            await read_all(one)
            # What the keeper has not written when it is killed:
            one.retained.let_go()
            await publisher.publish(b"a", b"", retain=True)
            await publisher.publish(b"c", b"1", retain=True)
            await read_all(other)
            async with redis.asyncio.Redis.from_url(store) as client:
                await client.set("mqtt:keeper", other.run)
                one.ownership._keeper_until_s = 0
                async with asyncio.timeout(WAIT_S):
                    while sorted(await client.hkeys("{mqtt}:retained")) != [b"", b"b", b"c"]:
                        await asyncio.sleep(0)

    asyncio.run(main())


async def stopped(gateway, client):
    """Let a gateway be as one that was stopped until its lease was over: it does nothing, and goes on when asked."""
    gateway.ownership._until_s = 0.1
    await client.delete(lease_key(gateway.run))


@pytest.mark.interpreted(reason="what keeps a lease is replaced")
@pytest.mark.parametrize("has_left", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_a_gateway_that_was_stopped_stores_nothing_of_a_client_that_has_gone_elsewhere(store, qos, has_left):
    async def main():
        async with two(store) as (one, other), redis.asyncio.Redis.from_url(store) as client:
            going_on, keep = asyncio.Event(), one.ownership.keep

            async def keep_later():
                await going_on.wait()
                return await keep()

            one.ownership.keep = keep_later
            reader = await connect(other.port, "reader")
            await reader.subscribe(p.Subscription("t", qos))
            device, stays = await lasting(one), await lasting(one, "stays")
            await stopped(one, client)
            one.handing_over._do = lambda said: None
            for at, publisher in enumerate((device, stays)):
                publisher.send(p.Publish(b"t", b"%d" % at, qos, packet_id=1))
            async with asyncio.timeout(WAIT_S):
                while one.publishing.backlog < 2:
                    await asyncio.sleep(0)
            again = await lasting(other)
            assert again.connack.session_present
            assert (await again.publish(b"t", b"0", qos)).reason == 0
            assert (await reader.receive()).payload == b"0"
            if has_left:
                device.close()
                async with asyncio.timeout(WAIT_S):
                    while "d" in one.clients:
                        await asyncio.sleep(0)
            going_on.set()
            if not has_left:
                assert (await device.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER
            assert (await stays.packet()).packet_id == 1
            assert (await reader.receive()).payload == b"1"
            await read_all(other)
            assert published(await reader.quiet()) == []

    asyncio.run(main())


@pytest.mark.interpreted(reason="what is told is not heard")
def test_a_gateway_that_was_stopped_has_its_time_to_let_a_client_go_from_when_it_is_at_work(store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.handing_over._PATIENCE_S", 0.2)

    async def main():
        async with two(store) as (one, other):
            one.handing_over._do = lambda said: None
            older = await lasting(one)
            asked_s = []

            async def is_at_work(run):
                asked_s.append(other.loop.time())
                return asked_s[-1] - asked_s[0] > 0.3

            other.ownership.is_at_work = is_at_work
            assert (await lasting(other)).connack.session_present
            assert asked_s[-1] - asked_s[0] > 0.3 + 0.2
            older.close()

    asyncio.run(main())


def test_after_the_store_was_away_no_gateway_is_taken_for_dead(store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.ownership._GRACE_S", 3_600)

    async def main():
        async with two(store) as (one, other), redis.asyncio.Redis.from_url(store) as client:
            device = await lasting(one)
            other.ownership.store_is_back()
            await client.delete(lease_key(one.run))
            await other.ownership.look()
            assert not other.ownership.dead
            assert list(other.ownership.peers) == [one.run]
            await device.publish(b"t", b"x")

    asyncio.run(main())


def test_a_session_that_a_gateway_has_taken_for_a_client_that_is_not_there_is_let_go_at_once(store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.handing_over._PATIENCE_S", 3_600)

    async def main():
        async with two(store) as (one, other), redis.asyncio.Redis.from_url(store) as client:
            await leave_behind(client, "d", {"version": 2, "uid": "u", "expiry_s": 1_000}, one.run)
            device = await lasting(other)
            assert device.connack.session_present
            assert (await client.get(pointer_key("d"))).startswith(b"6 " + other.run.encode())

    asyncio.run(main())
