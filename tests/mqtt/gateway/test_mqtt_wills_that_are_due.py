"""Wills whose delay is over: all go out, whatever keeps some of them."""

import asyncio

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.store.records import WILLS
from tests.mqtt.gateway.in_process import WAIT_S, connect, running

DELAYED = {Property.WILL_DELAY_INTERVAL: 30}


async def lose(gateway, names):
    """Let clients go whose wills have a delay, and let that be over."""
    will = p.Will(b"w", b"gone", 1, False, DELAYED)
    for name in names:
        device = await connect(gateway.port, name, properties={Property.SESSION_EXPIRY_INTERVAL: 100}, will=will)
        device.close()
    async with asyncio.timeout(WAIT_S):
        while (await gateway.link.demand(("ZCARD", WILLS)))[0] < len(names):
            pass
    gateway.clock_ahead_ms += 60_000


def test_all_wills_that_are_due_go_out_at_once(store):
    async def main():
        async with running(store) as gateway:
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("w", 1))
            await lose(gateway, [f"d{number}" for number in range(250)])
            await gateway.wills.publish_due()
            assert await gateway.link.demand(("ZCARD", WILLS)) == [0]
            assert [(await reader.receive()).payload for _ in range(250)] == [b"gone"] * 250
            assert not await reader.quiet()

    asyncio.run(main())


@pytest.mark.interpreted(reason="a method is replaced")
def test_wills_that_cannot_be_published_do_not_hold_up_others(streamd_store, monkeypatch):
    async def main():
        async with running(streamd_store) as gateway:
            publish_now = gateway.wills.publish_now

            async def refuse_some(client_id, *words):
                return not client_id.startswith("a") and await publish_now(client_id, *words)

            monkeypatch.setattr(gateway.wills, "publish_now", refuse_some)
            await gateway.link.demand(("ZADD", WILLS, 1, "unknown"))
            await lose(gateway, [f"a{number}" for number in range(120)] + [f"b{number}" for number in range(120)])
            await gateway.wills.publish_due()
            (left,) = await gateway.link.demand(("ZRANGE", WILLS, 0, -1))
            assert {one[:1] for one in left} == {b"a"}
            assert len(left) == 120

    asyncio.run(main())
