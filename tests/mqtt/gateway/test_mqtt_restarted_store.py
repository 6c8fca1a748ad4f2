"""A store that is restarted: whoever asks once it is back gets what they ask for."""

import asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from tests.mqtt.gateway.door import Door
from tests.mqtt.gateway.in_process import WAIT_S, connect, running

RESTARTS = 20
MEMBERS = 5
LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}


async def until(is_so):
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0)


async def restart(door, gateway):
    """Cut all connections to the store, and let the gateway come back to it."""
    door.shut()
    await until(lambda: not gateway.link.is_up)
    await door.open()
    await until(lambda: gateway.link.is_up)


async def share(device, filter, properties):
    """Subscribe; return the answer, before which messages may come."""
    device.packet_id += 1
    device.send(p.Subscribe(device.packet_id, (p.Subscription(filter, 1),), properties=properties))
    while type(found := await device.packet()) is p.Publish:
        device.acknowledge(found)
    assert type(found) is p.Suback, found
    return found.reasons[0]


async def come(gateway, number, turn):
    """Let a member come back, then have it in another group, with and without an order; return the answers."""
    is_5 = number % 2 == 1
    device = await connect(gateway.port, f"member{number}", False, 5 if is_5 else 4, LASTING if is_5 else {})
    await device.publish(b"t/%d" % number, b"x", qos=0)
    mode = (("share", "ordered" if turn % 2 else "any"),)
    answers = [
        device.connack.reason,
        await share(device, f"$share/g{turn}-{is_5}/t/#", {Property.USER_PROPERTY: mode} if is_5 else {}),
        await share(device, "$share/all/t/#", {}),
    ]
    device.close()
    return answers


async def ask(gateway, number, turn):
    """Connect, and send a SUBSCRIBE; return the device, and what its answer will be."""
    device = await connect(gateway.port, f"waiting{turn}-{number}")
    return device, asyncio.create_task(share(device, f"$share/w{turn}/t/#", {}))


def test_after_each_restart_of_the_store_no_member_of_a_shared_subscription_is_refused(store):
    async def main():
        door = Door(store)
        await door.open()
        async with running(door.url) as gateway:
            for turn in range(RESTARTS):
                answers = await asyncio.gather(*(come(gateway, number, turn) for number in range(MEMBERS)))
                assert answers == [[0, 1, 1]] * MEMBERS, f"after {turn} restarts"
                await restart(door, gateway)

    asyncio.run(main())


def test_a_subscription_amid_a_restart_of_the_store_waits_until_it_is_back(store):
    async def main():
        door = Door(store)
        await door.open()
        async with running(door.url) as gateway:
            for turn in range(RESTARTS):
                waiting = [await ask(gateway, number, turn) for number in range(MEMBERS)]
                await asyncio.sleep(0)
                await restart(door, gateway)
                assert [await one for _, one in waiting] == [1] * MEMBERS
                for device, _ in waiting:
                    device.close()

    asyncio.run(main())
