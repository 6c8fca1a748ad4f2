"""What is kept of an application's packs: when the gateway is killed or stopped, and when messages were removed."""

import asyncio
import json

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.gateway.limits import Limits
from tests.mqtt.gateway.in_process import WAIT_S, connect, data_key_of
from tests.mqtt.gateway.moved_packs import LASTING, application, come, ids, numbers, packing, publish_many
from tests.mqtt.gateway.test_mqtt_kill_points import Killable
from tests.mqtt.gateway.test_mqtt_logs_changed import trim


async def in_record(client, packet_ids, client_id="app"):
    """Wait until the record has just these packet identifiers in flight."""
    wanted = {b"i %d" % one for one in packet_ids}
    async with asyncio.timeout(WAIT_S):
        while {
            one for one in await client.hkeys(await data_key_of(client, client_id)) if one.startswith(b"i ")
        } != wanted:
            await asyncio.sleep(0)


async def noted_retries(client, count):
    async with asyncio.timeout(WAIT_S):
        while await client.hget(await data_key_of(client, "app"), "retries") != b'{"":%d}' % count:
            await asyncio.sleep(0)


@pytest.mark.parametrize("version", [4, 5])
def test_a9_after_a_kill_in_mid_pack_just_the_unacknowledged_come_again(store, version):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        gateway = Killable(store, "--application", "app*", "--application-pack", "6")
        await gateway.start()
        try:
            lasting = LASTING if version == 5 else {}
            app = await connect(gateway.port, "app", False, version, lasting)
            await app.subscribe(p.Subscription("t/+", 2))
            publisher = await connect(gateway.port, "publisher", True)
            for number in range(8):
                await publisher.publish(b"t/a", b"%d" % number, 2 if number % 2 else 1)
            first = [await app.receive(False) for _ in range(6)]
            await in_record(client, [1, 2, 3, 4, 5, 6])
            app.acknowledge(first[2])
            app.acknowledge(first[1])
            await app.expect(p.Pubrel)
            app.send(p.Pubcomp(2))
            app.acknowledge(first[3])
            await app.expect(p.Pubrel)  # and no PUBCOMP
            await in_record(client, [1, 4, 5, 6])
            for _ in range(2):
                await gateway.kill()
                await gateway.start()
                app = await connect(gateway.port, "app", False, version, lasting)
                assert app.connack.session_present
                found = [await app.packet() for _ in range(4)]
                again = {at: first[at - 1]._replace(dup=True) for at in (1, 5, 6)}
                assert found == [again[1], p.Pubrel(4), again[5], again[6]]
                assert await app.quiet() == []
            for one in (1, 5):
                app.send(p.Puback(one))
            app.send(p.Pubcomp(4), p.Pubrec(6))
            await app.expect(p.Pubrel)
            app.send(p.Pubcomp(6))
            following = [await app.receive() for _ in range(2)]
            assert [(one.payload, one.packet_id, one.dup) for one in following] == [(b"6", 7, False), (b"7", 8, False)]
        finally:
            await gateway.kill()
            await client.aclose()

    asyncio.run(main())


def test_a9_a_pack_is_in_the_record_before_it_leaves(store):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        async with packing(store, pack=3) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", 1))
            publisher = await connect(gateway.port, "publisher")
            for number in range(9):
                await publish_many(publisher, [number])
                found = await app.receive(acknowledges=False)
                noted = await client.hkeys(await data_key_of(client, "app"))
                assert b"i %d" % found.packet_id in noted
                app.acknowledge(found)
        await client.aclose()

    asyncio.run(main())


@pytest.mark.interpreted(reason="a compiled gateway has its constants within")
def test_a9_acknowledgements_are_written_sooner_than_those_of_devices(store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.noting._LATER_S", 3_600.0)

    async def main():
        client = redis.asyncio.Redis.from_url(store)
        async with packing(store) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", 1))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(2))
            found = await come(app, 2)
            await in_record(client, [1, 2])
            app.acknowledge(found[0])
            await in_record(client, [2])
        await client.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
def test_a9_the_retries_of_a_pack_survive_the_gateway(store, version):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        for retries in range(3):
            async with packing(store, retries=3) as (gateway, clock):
                if retries == 0:
                    app = await application(gateway, p.Subscription("t/+", 1), version=version)
                    publisher = await connect(gateway.port, "publisher")
                    await publish_many(publisher, [0])
                else:
                    app = await application(gateway, version=version)
                await come(app, 1)
                clock.advance(20)
                if version == 4:
                    await come(app, 1)
                    await noted_retries(client, retries + 1)  # so that a kill would not lose it
            assert json.loads(await client.hget(await data_key_of(client, "app"), "retries")) == {"": retries + 1}
        async with packing(store, retries=3) as (gateway, clock):
            app = await application(gateway, version=version)
            assert ids(await come(app, 1)) == [(1, True)]
            clock.advance(20)
            assert await app.quiet() == []
            assert gateway.counters.pack_drops == 1
        assert json.loads(await client.hget(await data_key_of(client, "app"), "retries")) == {}
        await client.aclose()

    asyncio.run(main())


def test_a9_the_retries_of_shared_subscriptions_are_kept_by_their_names(store):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        async with packing(store, retries=2) as (gateway, clock):
            app = await application(gateway, p.Subscription("$share/g/t/+", 1))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, [0])
            await come(app, 1)
            clock.advance(20)
            assert type(await app.packet()) is p.Disconnect
            app = await application(gateway)
            assert ids(await come(app, 1)) == [(1, True)]
            clock.advance(20)
            assert type(await app.packet()) is p.Disconnect
            (retries,) = json.loads(await client.hget(await data_key_of(client, "app"), "retries")).values()
            assert retries == 2
            app = await application(gateway)
            assert ids(await come(app, 1)) == [(1, True)]
            clock.advance(20)
            assert await app.quiet() == []
            assert gateway.counters.pack_drops == 1
            await publish_many(publisher, [1])
            (found,) = await come(app, 1)
            app.acknowledge(found)
            await in_record(client, [])
        await client.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
def test_a14_a_reader_behind_the_retention_is_told_once_and_goes_on(store, version, capsys):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        limits = Limits(ring_entries_max=10)
        async with packing(store, limits=limits, others={"shards": 1}, pack=20) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", 1), version=version)
            await app.disconnect()
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(1, 61))
            key = gateway.logs.all[0].keys[0]
            entries = await client.xrange(key, count=30)
            await trim(client, gateway, key, entries[-1][0])
            app = await application(gateway, version=version)
            found = [await app.receive() for _ in range(30)]
            assert numbers(found) == list(range(31, 61))
            told = [dict(one.properties.get(Property.USER_PROPERTY, ())).get("gap") for one in found]
            assert told == ["mqtt" if version == 5 else None, *[None] * 29]
            assert gateway.counters.gaps == 1
        await client.aclose()

    asyncio.run(main())
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "too late" in one]
    assert "client 'app'" in line
    assert "log mqtt" in line


@pytest.mark.parametrize("version", [4, 5])
def test_a14_a_line_tells_a_gap_once_until_the_next_message(streamd_store, version, capsys):
    async def main():
        async with packing(streamd_store) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", 1), version=version)
            publisher = await connect(gateway.port, "publisher")
            delivery, session = gateway.delivery, gateway.clients["app"]
            for number in range(2):
                for _ in range(3):  # shards
                    delivery.missed(session, delivery.replays["mqtt"].tailed)
                await publish_many(publisher, [number])
                app.acknowledge(await app.receive())

    asyncio.run(main())
    assert sum("too late" in one for one in capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize("version", [4, 5])
def test_a14_what_was_removed_while_it_was_in_flight_is_dropped_and_counted(store, version):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        async with packing(store, pack=3, others={"shards": 1}, resend_v5=True) as (gateway, clock):
            app = await application(gateway, p.Subscription("t/+", 1), version=version)
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(5))
            await come(app, 3)
            key = gateway.logs.all[0].keys[0]
            entries = await client.xrange(key, count=2)
            await trim(client, gateway, key, entries[-1][0])
            clock.advance(20)
            (third,) = await come(app, 1)
            assert ids([third]) == [(3, True)]
            assert gateway.counters.pack_drops == 2
            app.acknowledge(third)
            assert ids(await come(app, 2)) == [(4, False), (5, False)]
        await client.aclose()

    asyncio.run(main())
