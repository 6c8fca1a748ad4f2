"""The connection to the store, through a proxy that breaks it: each message is stored once, in order."""

import asyncio

import pytest
import redis

from streamd.base.clock import Clock
from streamd.clients.mqtt.store.link import Link, Target
from streamd.clients.mqtt.store.logs import LogSettings, open_log
from streamd.clients.mqtt.store.publishing import Publication, Publishing
from streamd.clients.mqtt.store.stored import packed_fields
from streamd.testing import EmbeddedServer


class Proxy:
    """Passes bytes on, and cuts the connection after a number of bytes in one direction."""

    def __init__(self, port):
        self.port = port
        self.cuts = []  # (direction, bytes)
        self.connections = 0

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        self.connections += 1
        cut = self.cuts.pop(0) if self.cuts else None
        store_reader, store_writer = await asyncio.open_connection("127.0.0.1", self.port)
        left = {"in": 10**9, "out": 10**9}
        if cut is not None:
            left[cut[0]] = cut[1]

        async def pump(direction, source, sink):
            while data := await source.read(65_536):
                sink.write(data[: left[direction]])
                left[direction] -= len(data)
                if left[direction] <= 0:
                    await sink.drain()
                    break

        pumps = [
            asyncio.create_task(pump("in", reader, store_writer)),
            asyncio.create_task(pump("out", store_reader, writer)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for one in pumps:
            one.cancel()
        store_writer.close()
        writer.close()


async def publish_through(port, cuts, count, with_note):
    proxy = Proxy(port)
    proxy.cuts = list(cuts)
    link = Link(Target.of(f"redis://127.0.0.1:{await proxy.start()}"), "test")
    link.start()
    client = redis.asyncio.Redis(port=port)
    log = await open_log(client, LogSettings("mqtt", None, 2, 1_000))
    publishing = Publishing(link, "run")
    done = asyncio.get_running_loop().create_future()
    ids = []

    def stored(entry_id, error):
        assert error is None
        ids.append(entry_id)
        if len(ids) == count:
            done.set_result(None)

    for number in range(count):
        publisher = b"c%d" % (number % 3)
        awaiting = f"{log.awaiting_key(log.shard_of(publisher), 'uid')} {number}" if with_note else None
        fields = packed_fields(b"t", b"%d" % number, publisher, 0, False, {})
        publishing.publish(
            Publication(log, publisher, fields, publishing.own_producer, publishing.own_name(), awaiting, stored)
        )
    async with asyncio.timeout(60):
        await done
    entries = [one for key in log.keys for one in await client.xrange(key)]
    by_publisher = {}
    for _, fields in entries:
        by_publisher.setdefault(fields[b"c"], []).append(int(fields[b"p"]))
    assert by_publisher == {b"c%d" % one: list(range(one, count, 3)) for one in range(3)}
    await link.close()
    await client.aclose()
    proxy.server.close()
    return proxy.connections


@pytest.mark.parametrize("with_note", [False, True])
def test_each_message_is_stored_once_wherever_the_connection_breaks(with_note):
    with EmbeddedServer(Clock()) as server:
        with redis.Redis(port=server.port) as client:
            for direction, most, step in (("in", 2_400, 97), ("out", 420, 13)):
                for at in range(60, most, step):
                    client.flushall()
                    assert asyncio.run(publish_through(server.port, [(direction, at)], 12, with_note)) >= 1
        assert server.internal_errors == 0


def test_several_breaks_one_after_the_other():
    with EmbeddedServer(Clock()) as server:
        cuts = [("in", 300), ("out", 150), ("in", 900), ("out", 200)]
        assert asyncio.run(publish_through(server.port, cuts, 300, False)) == 5
