"""A store that refuses reads: the gateway says it once, shows it, and goes on when it may read."""

import asyncio
from contextlib import asynccontextmanager

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.gateway.metrics import expose
from streamd.clients.mqtt.store.refusals import Refusals
from tests.mqtt.gateway.in_process import connect, running
from tests.mqtt.gateway.test_mqtt_store_faults import until

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}


@asynccontextmanager
async def as_user(store, **settings):
    """A gateway with a user of its own, and a way to change that user's rights."""
    client = redis.asyncio.Redis.from_url(store)

    async def allow(*rules):
        await client.execute_command("ACL", "SETUSER", "mqtt", *rules)

    await allow("on", ">secret", "~*", "&*", "+@all")
    try:
        async with running(store.replace("//", "//mqtt:secret@"), **settings) as gateway:
            yield gateway, allow
    finally:
        await client.execute_command("ACL", "DELUSER", "mqtt")
        await client.aclose()


async def metric(gateway, of):
    text = (await expose(gateway.gateway)).decode()
    (line,) = [one for one in text.splitlines() if one.startswith(f'streamd_mqtt_reads_refused{{of="{of}"}}')]
    return float(line.rpartition(" ")[2])


def lines_of(capsys):
    return [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()]


def test_a_tail_that_is_refused(store, capsys):
    async def main():
        async with as_user(store) as (gateway, allow):
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t", 1))
            publisher = await connect(gateway.port, "publisher")
            assert (gateway.unready, await metric(gateway, "tail")) == (None, 0)
            await allow("-xread")
            for number in range(20):
                await publisher.publish(b"t", b"%d" % number)
            await until(lambda: gateway.tail.refusals.text)
            for number in range(20, 25):  # each asks the store again
                await publisher.publish(b"t", b"%d" % number)
            assert await metric(gateway, "tail") == 1
            assert gateway.unready == "the store refuses to be read"
            (line,) = lines_of(capsys)
            assert line.startswith("no messages are delivered: the store refuses to be read: ")
            assert "xread" in line.lower()
            assert "docs/security.md" in line
            await allow("+@all")
            assert [(await reader.receive()).payload for _ in range(25)] == [b"%d" % number for number in range(25)]
            assert (gateway.unready, await metric(gateway, "tail")) == (None, 0)
            assert lines_of(capsys) == ["the store lets the gateway read again"]

    asyncio.run(main())


@pytest.mark.parametrize("filter", ["t/+", "#"])
def test_a_reader_of_the_past_that_is_refused(store, capsys, filter):
    async def main():
        async with as_user(store, limits=Limits(ring_entries_max=10)) as (gateway, allow):
            reader = await connect(gateway.port, "reader", False, properties=LASTING)
            await reader.subscribe(p.Subscription(filter, 1))
            await reader.disconnect()
            publisher = await connect(gateway.port, "publisher")
            for number in range(60):
                await publisher.publish(b"t/1", b"%d" % number)
            await allow("-xfilter" if gateway.has_search and filter != "#" else "-xrange")
            reader = await connect(gateway.port, "reader", False, properties=LASTING)
            replay = gateway.delivery.replays["mqtt"]
            await until(lambda: replay.refusals.text)
            assert await metric(gateway, "past") == 1
            (line,) = lines_of(capsys)
            assert line.startswith("sessions that are behind in log mqtt wait: the store refuses to be read: ")
            await allow("+@all")
            assert [(await reader.receive()).payload for _ in range(60)] == [b"%d" % number for number in range(60)]
            await until(lambda: replay.refusals.text is None)
            assert await metric(gateway, "past") == 0
            assert lines_of(capsys) == ["the store lets the gateway read again"]

    asyncio.run(main())


def test_each_refusal_is_said_once_until_it_is_over():
    said = []
    refusals = Refusals("nothing is read", said.append)
    refusals.over()
    for text in ("NOPERM one", "NOPERM one", "WRONGTYPE other", "NOPERM one"):
        refusals.note(Exception(text))
    assert len(said) == 2
    assert "rights" in said[0]
    assert "rights" not in said[1]
    refusals.over()
    refusals.over()
    assert len(said) == 3
    refusals.note(Exception("NOPERM one"))
    assert len(said) == 4
