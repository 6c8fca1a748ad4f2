"""A gateway that was stopped, or had no store, for a while: what others may have done meanwhile is not done again."""

import asyncio

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.ownership import lease_key
from tests.mqtt.gateway.in_process import connect, running
from tests.mqtt.gateway.test_mqtt_several_gateways import two

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}


@pytest.mark.interpreted(reason="what is told is not heard")
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_gateway_that_was_stopped_stores_qos_2_only_if_the_session_is_still_its_own(store, monkeypatch, is_taken):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.handing_over._PATIENCE_S", 0)

    async def main():
        async with two(store) as (one, other):
            one.handing_over._do = lambda said: None
            older = await connect(one.port, "d", False, properties=LASTING)
            reader = await connect(other.port, "reader")
            await reader.subscribe(p.Subscription("t", 1))
            if is_taken:
                newer = await connect(other.port, "d", False, properties=LASTING)
                assert newer.connack.session_present
                await newer.publish(b"t", b"x", 2)
            one.stalls._beat_s -= 2
            older.send(p.Publish(b"t", b"x", 2, False, False, 1, {}))
            if is_taken:
                assert (await older.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER
            else:
                await older.expect(p.Pubrec)
            assert (await reader.receive()).payload == b"x"
            await reader.publish(b"t", b"last")
            assert (await reader.receive()).payload == b"last"

    asyncio.run(main())


@pytest.mark.interpreted(reason="requests are held back")
def test_a_message_of_qos_2_that_waited_while_the_gateway_was_stopped_is_not_stored(store):
    async def main():
        async with running(store) as one:
            device = await connect(one.port, "d", False, properties=LASTING)
            publishing, flush = one.publishing, one.publishing._flush
            publishing._plan = lambda: None
            device.send(p.Publish(b"t", b"x", 2, False, False, 1, {}))
            while not publishing.backlog:
                await asyncio.sleep(0)
            del publishing._plan
            one.stalls._beat_s -= 2
            flush()
            assert (await device.expect(p.Disconnect)).reason == Reason.SERVER_BUSY
            assert not publishing.backlog
            device = await connect(one.port, "d", False, properties=LASTING)
            assert device.connack.session_present
            await device.publish(b"t", b"x", 2)

    asyncio.run(main())


def test_a_lease_that_ran_out_while_the_store_was_away_counts_only_when_there_was_time_to_extend_it(store):
    async def main():
        async with two(store) as (one, other), redis.asyncio.Redis.from_url(store) as client:
            one.ownership.store_is_back()
            await client.delete(lease_key(other.run))
            assert await one.ownership.is_alive(other.run)
            one.ownership.store_back_s -= 5
            await client.delete(lease_key(other.run))
            assert not await one.ownership.is_alive(other.run)

    asyncio.run(main())
