"""Packets that have to wait for the store: each gets its turn, in its order."""

import asyncio
from types import SimpleNamespace

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.counters import Counters
from streamd.clients.mqtt.gateway.keep_alive import KeepAlive
from streamd.clients.mqtt.store.link import StoreFault
from streamd.clients.topics import administration
from streamd.clients.topics.drivers import run_async
from tests.mqtt.gateway.in_process import connect, running


class _Silent(SimpleNamespace):
    __hash__ = object.__hash__


def test_a_subscribe_whose_start_the_store_does_not_tell_is_answered(streamd_store, monkeypatch):
    async def main():
        async with running(streamd_store) as gateway:
            device = await connect(gateway.port)

            async def refuse(start):
                raise StoreFault("NOPERM this user has no permissions")

            monkeypatch.setattr(gateway.subscribing, "_positions", refuse)
            start = {Property.USER_PROPERTY: (("start", "earliest"),)}
            answer = await device.subscribe(p.Subscription("t", 1), properties=start)
            assert answer.reasons == (Reason.UNSPECIFIED_ERROR,)
            await device.publish(b"t", b"x")

    asyncio.run(main())


@pytest.mark.interpreted(reason="a compiled gateway takes no connection of a test")
def test_a_client_whose_connect_took_longer_than_its_keep_alive_is_looked_after():
    async def main():
        now = 1_000.0
        loop = SimpleNamespace(time=lambda: now)
        keep_alive = KeepAlive(loop, Counters(), 1_000)
        closed = []
        connection = _Silent(
            heard_s=now,
            keep_alive_s=1.5,
            upload=(0, now),
            is_closing=False,
            is_reading=True,
            is_busy=False,
            close=closed.append,
        )
        now = 1_010.0
        keep_alive.check()
        keep_alive.watch(connection)
        now = 1_020.0
        keep_alive.check()
        assert closed == [Reason.KEEP_ALIVE_TIMEOUT]

    asyncio.run(main())


def test_messages_with_and_without_a_name_keep_their_order_after_a_log_got_new_shards(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            device = await connect(gateway.port)
            await device.publish(b"t", b"first")
            async with redis.asyncio.Redis.from_url(streamd_store) as client:
                handle = await run_async(client, administration.open_log("mqtt"))
                await run_async(client, administration.reconfigure(handle, 3, None, None, None))
            await device.publish(b"t", b"second")
            await device.subscribe(p.Subscription("t", 0))
            for number in range(20):
                words = {"properties": {Property.USER_PROPERTY: (("iid", f"{number}"),)}} if number % 2 == 0 else {}
                device.send(p.Publish(b"t", b"%d" % number, 0, **words))
            assert [int((await device.receive()).payload) for _ in range(20)] == list(range(20))

    asyncio.run(main())


def test_a_subscription_with_a_wildcard_lets_only_its_topics_be_looked_up_again(streamd_store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.delivering._RECEIVERS_MAX", 3)

    async def main():
        async with running(streamd_store) as gateway:
            device = await connect(gateway.port, "device")
            await device.subscribe(p.Subscription("#", 0))
            topics = (b"a/x", b"b/x", b"b/y")
            before = [gateway.delivery.receivers(topic) for topic in topics]
            await device.subscribe(p.Subscription("+/y", 0))
            found = [gateway.delivery.receivers(topic) for topic in topics]
            assert [one is other for one, other in zip(found, before, strict=True)] == [True, True, False]
            assert [gateway.delivery.receivers(topic) for topic in topics] == found

    asyncio.run(main())
