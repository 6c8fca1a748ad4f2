"""What is seen of applications that are connected and of those that are away: in metrics, and in the index."""

import asyncio

import pytest
import redis.asyncio
from prometheus_client.parser import text_string_to_metric_families

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.gateway.metrics import expose
from streamd.clients.mqtt.store.logs import LogSettings
from streamd.clients.mqtt.store.records import APPLICATIONS, INDEX
from tests.mqtt.gateway.in_process import WAIT_S, connect, data_key_of, running
from tests.mqtt.gateway.moved_packs import LASTING, application, packing, publish_many
from tests.mqtt.gateway.test_mqtt_kill_points import Killable

DAY_S = 86_400
LEFT = "applications_retention_left_seconds_min"


async def samples(gateway):
    """Return each sample by its name with labels."""
    found = {}
    for family in text_string_to_metric_families((await expose(gateway.gateway)).decode()):
        for one in family.samples:
            labels = "".join(f"/{value}" for _, value in sorted(one.labels.items()))
            found[one.name.removeprefix("streamd_mqtt_") + labels] = one.value
    return found


async def left(client, client_id):
    """Wait until the store knows that a client has left."""
    async with asyncio.timeout(WAIT_S):
        while await client.hget(await data_key_of(client, client_id), "ends_ms") is None:
            await asyncio.sleep(0)


def test_the_metrics_tell_what_connected_applications_have_to_get(store):
    async def main():
        async with packing(store, pack=2) as (gateway, clock):
            before = await samples(gateway)
            assert before["applications"] == 0
            assert before["retention_seconds/mqtt"] == DAY_S
            assert not any(name.startswith(LEFT) for name in before)
            app = await application(gateway, p.Subscription("t/+", 1), version=4)
            assert (await samples(gateway))[f"{LEFT}/mqtt/connected"] == DAY_S
            device = await connect(gateway.port, "device")
            await publish_many(device, range(3))
            for _ in range(2):
                await app.receive(acknowledges=False)
            clock.advance(20)
            again = [await app.receive(acknowledges=False) for _ in range(2)]
            gateway.clock_ahead_ms = 50_000_000  # (Where it asks the store, it may be a moment behind.)
            found = await samples(gateway)
            assert found["applications"] == found["applications_retries_max"] == 1
            assert found["applications_unacknowledged"] == 2
            assert 50_000 <= found["applications_lag_seconds_max"] < 50_000 + WAIT_S
            assert DAY_S - 50_000 - WAIT_S < found[f"{LEFT}/mqtt/connected"] <= DAY_S - 50_000
            for one in again:
                app.acknowledge(one)
            await app.receive()
            await app.quiet()
            found = await samples(gateway)
            assert found["applications_unacknowledged"] == found["applications_lag_seconds_max"] == 0
            assert found[f"{LEFT}/mqtt/connected"] == DAY_S

    asyncio.run(main())


def test_the_keeper_looks_at_applications_that_are_away(store):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        async with packing(store) as (gateway, _):
            names = ["app-1", "app-2", "device"]
            lasting = [await application(gateway, p.Subscription("t/+", 1), client_id=one) for one in names]
            assert await client.zrange(APPLICATIONS, 0, -1) == [b"app-1", b"app-2"]
            await lasting[0].disconnect()
            await lasting[2].disconnect()
            await left(client, "app-1")
            assert "applications_away" not in await samples(gateway)
            await gateway.away.look()
            found = await samples(gateway)
            assert (found["applications_away"], found[f"{LEFT}/mqtt/away"]) == (1, DAY_S)
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t/a", b"x")
            await lasting[1].receive()
            gateway.clock_ahead_ms += 50_000
            await gateway.away.look()
            found = await samples(gateway)
            # (The store says when a client left; its clock may be a moment ahead.)
            assert DAY_S - 50 - WAIT_S < found[f"{LEFT}/mqtt/away"] < DAY_S - 49
            again = await application(gateway, client_id="app-1")
            await gateway.away.look()
            found = await samples(gateway)
            assert found["applications_away"] == 0
            assert f"{LEFT}/mqtt/away" not in found
            again.close()
        await client.aclose()

    asyncio.run(main())


def test_what_is_in_flight_counts_and_logs_that_an_application_does_not_read_do_not(store):
    async def main():
        logs = [LogSettings("plant", "plant", 2, 1_000)]
        async with packing(store, others={"logs": logs}) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", 1))
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t/a", b"x")
            await app.receive(acknowledges=False)
            await app.disconnect()
            await publisher.publish(b"plant/a", b"x")
            gateway.clock_ahead_ms = 500_000
            async with redis.asyncio.Redis.from_url(store) as client:
                await left(client, "app")
            await gateway.away.look()
            found = gateway.away.left_s
            assert found.keys() == {"mqtt"}
            assert DAY_S - 500 - WAIT_S < found["mqtt"] <= DAY_S - 500

    asyncio.run(main())


@pytest.mark.interpreted(reason="a limit is replaced")
def test_many_applications_that_are_away_take_several_looks(store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.away._LOOKED_AT_MAX", 2)
    monkeypatch.setattr("streamd.clients.mqtt.gateway.away._SLICE", 1)

    async def main():
        client = redis.asyncio.Redis.from_url(store)
        async with packing(store) as (gateway, _):
            for number in range(5):
                app = await application(gateway, p.Subscription("t/+", 1), client_id=f"app-{number}")
                await app.disconnect()
                await left(client, f"app-{number}")
            await client.delete(await data_key_of(client, "app-1"))
            await client.hset(await data_key_of(client, "app-3"), "version", "9")
            for number in (None, None, 3):
                await gateway.away.look()
                assert gateway.away.number == number
        await client.aclose()

    asyncio.run(main())


def test_a_gateway_that_is_not_the_keeper_tells_nothing_of_those_away(store):
    async def main():
        async with running(store) as one, running(store) as other:
            assert one.ownership.is_keeper
            for gateway in (one, other):
                await gateway.away.look()
            assert (one.away.number, other.away.number) == (0, None)

    asyncio.run(main())


def test_an_application_of_a_gateway_that_was_killed_is_away(store):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        gateway = Killable(store, "--application", "app")
        try:
            await gateway.start()
            app = await connect(gateway.port, "app", properties=LASTING)
            await app.subscribe(p.Subscription("t/+", 1))
            await gateway.kill()
            assert await client.zscore(APPLICATIONS, "app") == float("inf")
            await gateway.start()
            ends_ms = await client.zscore(INDEX, "app")
            assert await client.zscore(APPLICATIONS, "app") == ends_ms < float("inf")
        finally:
            await gateway.kill()
            await client.aclose()

    asyncio.run(main())


def test_the_index_follows_what_a_client_is(store):
    async def main():
        client = redis.asyncio.Redis.from_url(store)
        async with packing(store) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", 1))
            assert await client.hget(await data_key_of(client, "app"), "kind") == b"application"
            assert await client.zrange(APPLICATIONS, 0, -1, withscores=True) == [(b"app", float("inf"))]
        ends = await client.zrange(INDEX, 0, -1, withscores=True)
        assert await client.zrange(APPLICATIONS, 0, -1, withscores=True) == ends
        assert ends[0][1] < float("inf")
        async with packing(store, ids=("other*",)) as (gateway, _):
            app = await application(gateway)
            assert app.connack.session_present
            await app.quiet()
            assert await client.hget(await data_key_of(client, "app"), "kind") is None
            assert await client.zcard(APPLICATIONS) == 0
        async with packing(store) as (gateway, _):
            app = await application(gateway)
            assert await client.zcard(APPLICATIONS) == 1
            again = await connect(gateway.port, "app", clean=True)  # its session ends, and the next one does not last
            await again.quiet()
            assert await client.zcard(APPLICATIONS) == 0
        await client.aclose()

    asyncio.run(main())
