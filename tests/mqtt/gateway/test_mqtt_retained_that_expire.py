"""Retained messages whose time is over: they take no room, here and in the store."""

import asyncio
import random
from types import SimpleNamespace

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.gateway.retained import Retained
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.stored import Stored
from tests.mqtt.gateway.in_process import WAIT_S, connect, running

EXPIRY = Property.MESSAGE_EXPIRY_INTERVAL


def test_expired_messages_do_not_stand_in_the_way_of_new_ones(store):
    async def main():
        async with running(store, limits=Limits(retained_max=3)) as gateway:
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t/ever", b"x", retain=True)
            await publisher.publish(b"t/a", b"x", retain=True, properties={EXPIRY: 10})
            await publisher.publish(b"t/b", b"x", retain=True, properties={EXPIRY: 10})
            async with asyncio.timeout(WAIT_S):
                while len(gateway.retained) < 3:
                    await asyncio.sleep(0)
            assert (await publisher.publish(b"t/c", b"x", retain=True)).reason == Reason.QUOTA_EXCEEDED
            gateway.clock_ahead_ms += 60_000
            for topic in (b"t/c", b"t/d"):
                assert not (await publisher.publish(topic, b"x", retain=True)).reason
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t/#", 1))
            assert {(await reader.receive()).topic for _ in range(3)} == {b"t/ever", b"t/c", b"t/d"}
            async with asyncio.timeout(WAIT_S):
                while set((await gateway.link.demand(("HKEYS", "{mqtt}:retained")))[0]) != {
                    b"",
                    b"t/ever",
                    b"t/c",
                    b"t/d",
                }:
                    pass

    asyncio.run(main())


@pytest.mark.interpreted(reason="the gateway is a test's own")
@pytest.mark.parametrize("seed", range(50))
def test_only_messages_that_have_not_expired_are_counted(seed):
    chance = random.Random(seed)
    now_ms = 0
    tailed = SimpleNamespace(log=SimpleNamespace(name="log"))
    loop = SimpleNamespace(call_soon=lambda *words: None)
    gateway = SimpleNamespace(now_ms=lambda: now_ms, limits=Limits(), loop=loop, tail=SimpleNamespace(logs=[tailed]))
    retained, model = Retained(gateway), {}
    for number in range(300):
        topic = b"t/%d" % chance.randrange(6)
        if chance.random() < 0.5:
            entry = Stored("log", 1, 0, (number, 0), topic, chance.choice([b"", b"x"]), [])
            entry.is_retained = True
            entry.expires_ms = chance.choice([None, now_ms + chance.randint(1, 30)])
            retained.fold(tailed, entry)
            model[topic] = entry
        else:
            now_ms += chance.randint(0, 12)
            retained.drop_expired()
            left = {one.topic for one in model.values() if one.payload and not one.is_expired(now_ms)}
            assert len(retained) == len(left)
            assert {one.topic for one in retained._tree.matching("#")} == left


@pytest.mark.interpreted(reason="the gateway is a test's own")
def test_topics_that_are_gone_leave_nothing():
    tailed = SimpleNamespace(log=SimpleNamespace(name="log"))
    loop = SimpleNamespace(call_soon=lambda *words: None)
    gateway = SimpleNamespace(now_ms=lambda: 0, limits=Limits(), loop=loop, tail=SimpleNamespace(logs=[tailed]))
    retained = Retained(gateway)
    for number in range(5_000):
        for payload in (b"x", b""):
            entry = Stored("log", 1, 0, (number, 0), b"t/%d" % number, payload, [])
            entry.expires_ms = 10**9
            retained.fold(tailed, entry)
    retained.drop_expired()
    assert not retained._fold.expiries._times


@pytest.mark.interpreted(reason="the gateway is a test's own")
def test_messages_and_removals_go_however_many_there_are():
    now_ms, soon = 1_000_000, []
    tailed = SimpleNamespace(log=SimpleNamespace(name="log"), position=Position.begin(1, 1))
    gateway = SimpleNamespace(
        now_ms=lambda: now_ms,
        limits=Limits(),
        loop=SimpleNamespace(call_soon=lambda work, *words: soon.append((work, words))),
        tail=SimpleNamespace(logs=[tailed], when_read_anew=lambda done: done()),
    )
    retained = Retained(gateway)
    for number in range(5_000):
        entry = Stored("log", 1, 0, (now_ms, number), b"t/%d" % number, b"x", [])
        entry.expires_ms = now_ms + 1
        retained.fold(tailed, entry)

    def do_chores():
        retained.drop_expired()
        retained.forget_old()
        while soon:
            work, words = soon.pop(0)
            work(*words)

    now_ms += 1
    do_chores()
    assert (len(retained), len(retained._fold.removals)) == (0, 5_000)
    now_ms += 360_000
    do_chores()
    assert not retained._fold.removals


@pytest.mark.interpreted(reason="the limit is lowered")
def test_clients_cannot_make_a_gateway_keep_removals_without_end(streamd_store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.retained.REMOVALS_SPARE", 3)

    async def main():
        async with running(streamd_store, limits=Limits(retained_max=2)) as gateway:
            publisher = await connect(gateway.port, "publisher")

            async def publish(topic, payload):
                found = (await publisher.publish(topic, payload, retain=True)).reason
                await publisher.quiet()
                async with asyncio.timeout(WAIT_S):
                    while gateway.tail.lag:
                        await asyncio.sleep(0)
                return found

            assert not await publish(b"there", b"x")
            for number in range(5):
                assert not await publish(b"t/%d" % number, b"")
            for payload in (b"", b"x"):
                assert await publish(b"further", payload) == Reason.QUOTA_EXCEEDED
            for topic in (b"there", b"t/0"):
                for payload in (b"", b"x"):
                    assert not await publish(topic, payload)
            gateway.clock_ahead_ms += 361_000
            gateway.retained.forget_old()
            async with asyncio.timeout(WAIT_S):
                while gateway.retained._fold.removals:
                    await asyncio.sleep(0)
            assert not await publish(b"further", b"")

    asyncio.run(main())
