"""Applications of a test, in a gateway whose clock of the packs a test moves."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.gateway.applications import Applications
from tests.mqtt.gateway.in_process import WAIT_S, Device, running

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}


class PacksClock:
    """The clock of a gateway's packs: it stands still until a test moves it."""

    def __init__(self, gateway):
        self.now_s = 1_000.0
        self.packing = gateway.packing
        self.packing._loop = SimpleNamespace(time=lambda: self.now_s)

    def advance(self, seconds):
        self.now_s += seconds
        self.packing.check()


@asynccontextmanager
async def packing(store, *, ids=("app*",), limits=None, others=None, **words):
    """A gateway whose clients `app...` are applications, and the clock of their packs."""
    settings = {"applications": Applications(ids=ids, **words), **(others or {})}  # others: of `running`
    async with running(store, limits=limits, **settings) as gateway:
        yield gateway, PacksClock(gateway)


class App(Device):
    """An application of a test."""

    async def quiet(self):
        """Return what has come when nothing is under way to the store any more: packs wait for their records."""
        found = []
        for _ in range(2):
            found += await super().quiet()
            for link in (self.gateway.link, self.gateway.history, self.gateway.shares.link):
                await link.ask(("PING",))
        return found + await super().quiet()


async def application(gateway, *subscriptions, client_id="app", version=5, properties=None, clean=None):
    """A connected application; without subscriptions one that comes again."""
    is_new = bool(subscriptions) if clean is None else clean
    app = await App(version).open(gateway.port)
    app.gateway = gateway
    lasting = {**LASTING, **(properties or {})} if version == 5 else {}
    app.send(p.Connect(version, client_id, is_new and version == 5, properties=lasting))
    app.connack = await app.expect(p.Connack)
    if subscriptions:
        reply = await app.subscribe(*subscriptions)
        assert all(one < 0x80 for one in reply.reasons), reply
    return app


async def publish_many(publisher, numbers, topic=b"t/a", qos=1, **words):
    for number in numbers:
        await publisher.publish(topic, b"%d" % number, qos, **words)


async def come(device: Device, count):
    """Return the PUBLISHes that come: so many, and not one more."""
    found = [await device.receive(acknowledges=False) for _ in range(count)]
    rest = await device.quiet()
    assert rest == [], rest
    return found


async def quiet(device: Device, gateway):
    """Return what comes to a device when all that is stored has been read."""
    read = asyncio.Event()
    gateway.tail.when_read(read.set)
    await read.wait()
    return await device.quiet()


async def until(is_so):
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0)


def numbers(packets):
    return [int(one.payload) for one in packets]


def ids(packets):
    return [(one.packet_id, one.dup) for one in packets if type(one) is p.Publish]
