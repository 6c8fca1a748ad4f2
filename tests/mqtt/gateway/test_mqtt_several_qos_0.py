"""A message of QoS 0 comes at most once, also to a session whose gateway was killed while another one lives."""

import asyncio

import pytest
import redis.asyncio

from tests.mqtt.gateway.in_process import connect
from tests.mqtt.gateway.test_mqtt_several_gateways import lasting, leave_behind, published, two

FIELDS = {"version": 2, "uid": "u", "expiry_s": 1_000, "s t": '{"qos":1}'}


async def leave_with_sent_messages(gateway, client, qos):
    """Leave a session behind whose gateway was killed, after it had sent three messages that its record has not."""
    before = gateway.delivery.replays["mqtt"].tailed.position.to_text()
    publisher = await connect(gateway.port, "publisher")
    for payload in (b"0", b"1", b"2"):
        await publisher.publish(b"t", payload)
    await leave_behind(client, "d", {**FIELDS, "at mqtt": before, "s t": f'{{"qos":{qos}}}'})
    return publisher


@pytest.mark.interpreted(reason="what is due is replaced")
@pytest.mark.parametrize("is_taken_up", [False, True])
@pytest.mark.parametrize("qos", [0, 1])
def test_what_the_killed_gateway_may_have_sent_does_not_come_again(store, qos, is_taken_up, monkeypatch):
    """Of QoS 0; a message of QoS 1 that is not acknowledged comes again."""

    async def nothing(gateway):
        pass

    if not is_taken_up:
        monkeypatch.setattr("streamd.clients.mqtt.gateway.chores.take_up", nothing)

    async def main():
        async with two(store) as (_, other), redis.asyncio.Redis.from_url(store) as client:
            publisher = await leave_with_sent_messages(other, client, qos)
            while is_taken_up and await client.hexists("mqtt:gateways", "dead"):
                await asyncio.sleep(0)
            device = await lasting(other)
            assert device.connack.session_present
            first = published(await device.quiet())
            await publisher.publish(b"t", b"3")
            wanted = [] if qos == 0 else [b"0", b"1", b"2"]
            while len(first) < len(wanted):
                first.append((await device.receive()).payload)
            assert [*first, (await device.receive()).payload] == [*wanted, b"3"]

    asyncio.run(main())


@pytest.mark.interpreted(reason="what is due is replaced")
def test_it_does_not_come_again_either_when_the_client_left_before_it_was_passed_over(store, monkeypatch):
    async def nothing(gateway):
        pass

    monkeypatch.setattr("streamd.clients.mqtt.gateway.chores.take_up", nothing)

    async def main():
        async with two(store) as (one, other), redis.asyncio.Redis.from_url(store) as client:
            publisher = await leave_with_sent_messages(other, client, 0)
            monkeypatch.setattr(type(other.delivery), "pump", lambda self, session: None)  # nothing is looked at yet
            await (await lasting(other)).disconnect()
            monkeypatch.undo()
            device = await lasting(one)
            await publisher.publish(b"t", b"3")
            assert (await device.receive()).payload == b"3"
            assert published(await device.quiet()) == []

    asyncio.run(main())
