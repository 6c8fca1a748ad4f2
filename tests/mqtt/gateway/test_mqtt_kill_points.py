"""The gateway is killed at each point of an exchange of QoS 2: every message is stored once, and delivered once.

A proxy before the store holds the request, or the reply, at which the gateway is to die.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from tests.mqtt.gateway.in_process import WAIT_S, connect

pytestmark = pytest.mark.long
LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}
ROOT = Path(__file__).resolve().parents[3]


class Proxy:
    """Passes bytes on to the store. After `hold` the next request with some bytes, or its reply, goes no further."""

    def __init__(self, port):
        self.port = port
        self.pattern, self.holds_reply = None, False
        self.reached = asyncio.Event()

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    def hold(self, pattern, holds_reply):
        self.pattern, self.holds_reply = pattern, holds_reply
        self.reached.clear()

    def pass_on(self):
        self.pattern = None

    async def serve(self, reader, writer):
        store_reader, store_writer = await asyncio.open_connection("127.0.0.1", self.port)
        is_held = False

        async def requests():
            nonlocal is_held
            while data := await reader.read(65_536):
                if self.pattern is not None and self.pattern in data:
                    if not self.holds_reply:
                        self.reached.set()
                        return await asyncio.Event().wait()
                    is_held = True
                store_writer.write(data)
            return None

        async def replies():
            while data := await store_reader.read(65_536):
                if is_held:
                    self.reached.set()
                    return await asyncio.Event().wait()
                writer.write(data)
            return None

        tasks = [asyncio.create_task(requests()), asyncio.create_task(replies())]
        closed = asyncio.create_task(writer.wait_closed())
        await asyncio.wait([*tasks, closed], return_when=asyncio.FIRST_COMPLETED)
        for one in [*tasks, closed]:
            one.cancel()
        store_writer.close()
        writer.close()


class Killable:
    """A gateway as a process on a store."""

    def __init__(self, url, *options):
        self.url, self.options = url, options
        self.port = 0

    async def start(self):
        words = (
            "-m",
            "streamd",
            "mqtt",
            "--url",
            self.url,
            "--port",
            str(self.port),
            "--retention",
            "86400",
            *self.options,
        )
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdout=asyncio.subprocess.PIPE, cwd=ROOT, start_new_session=True
        )
        async with asyncio.timeout(WAIT_S):
            while (line := await self.process.stdout.readline()).strip() != b"ready":
                assert line, "the gateway has ended"
                if line.split()[0] == b"mqtt":
                    self.port = int(line.rpartition(b":")[2])

    async def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()


class Place:
    """A store, a proxy before it, a gateway behind that."""

    def __init__(self, store):
        self.store = store

    async def __aenter__(self):
        self.proxy = Proxy(int(self.store.rpartition(":")[2]))
        self.gateway = Killable(f"redis://127.0.0.1:{await self.proxy.start()}")
        await self.gateway.start()
        self.client = redis.asyncio.Redis.from_url(self.store)
        return self

    async def __aexit__(self, *error):
        await self.gateway.kill()
        self.proxy.server.close()
        await self.client.aclose()

    async def kill_at(self, pattern, holds_reply, *, after):
        """Kill the gateway when a request comes to the store, or its reply from there."""
        self.proxy.hold(pattern, holds_reply)
        after()
        async with asyncio.timeout(WAIT_S):
            await self.proxy.reached.wait()
        await self.restart()

    async def restart(self):
        await self.gateway.kill()
        self.proxy.pass_on()
        await self.gateway.start()

    async def stored(self):
        keys = [key async for key in self.client.scan_iter("{mqtt/*}:g*")]
        return sorted([fields[b"p"] for key in keys for _, fields in await self.client.xrange(key)])


@pytest.mark.parametrize("holds_reply", [False, True], ids=["before", "behind"])
def test_the_transaction_of_a_publish(store, holds_reply):
    async def main():
        async with Place(store) as place:
            device = await connect(place.gateway.port, "device", properties=LASTING)
            publish = p.Publish(b"t", b"x", 2, packet_id=5)
            await place.kill_at(b"MULTI", holds_reply, after=lambda: device.send(publish))
            assert await device.packet() is None, "no PUBREC left"
            assert await place.stored() == ([b"x"] if holds_reply else [])
            device = await connect(place.gateway.port, "device", clean=False, properties=LASTING)
            assert device.connack.session_present
            device.send(publish._replace(dup=True))
            assert await device.expect(p.Pubrec) == p.Pubrec(5)
            device.send(p.Pubrel(5))
            assert await device.expect(p.Pubcomp) == p.Pubcomp(5)
            await device.publish(b"t", b"y", 2)
            assert await place.stored() == [b"x", b"y"]

    asyncio.run(main())


def test_before_pubrel(store):
    async def main():
        async with Place(store) as place:
            device = await connect(place.gateway.port, "device", properties=LASTING)
            device.send(p.Publish(b"t", b"x", 2, packet_id=5))
            await device.expect(p.Pubrec)
            await place.restart()
            device = await connect(place.gateway.port, "device", clean=False, properties=LASTING)
            device.send(p.Publish(b"t", b"x", 2, packet_id=5, dup=True))  # its PUBREC may have been lost
            assert await device.expect(p.Pubrec) == p.Pubrec(5)
            device.send(p.Pubrel(5))
            assert await device.expect(p.Pubcomp) == p.Pubcomp(5)
            assert await place.stored() == [b"x"]

    asyncio.run(main())


@pytest.mark.parametrize("holds_reply", [False, True], ids=["before", "behind"])
def test_before_pubcomp_to_a_publisher(store, holds_reply):
    async def main():
        async with Place(store) as place:
            device = await connect(place.gateway.port, "device", properties=LASTING)
            device.send(p.Publish(b"t", b"x", 2, packet_id=5))
            await device.expect(p.Pubrec)
            await place.kill_at(b"HDEL", holds_reply, after=lambda: device.send(p.Pubrel(5)))
            assert await device.packet() is None, "no PUBCOMP left"
            device = await connect(place.gateway.port, "device", clean=False, properties=LASTING)
            device.send(p.Pubrel(5))
            assert (await device.expect(p.Pubcomp)).packet_id == 5
            device.send(p.Publish(b"t", b"y", 2, packet_id=5))
            await device.expect(p.Pubrec)
            assert await place.stored() == [b"x", b"y"]

    asyncio.run(main())


class Receiver:
    """A subscriber of QoS 2 that keeps its part of the session: each message is taken once."""

    def __init__(self):
        self.open = set()
        self.taken = []

    def take(self, packet):
        if packet.packet_id not in self.open:
            self.open.add(packet.packet_id)
            self.taken.append(packet.payload)
        return p.Pubrec(packet.packet_id)

    async def finish(self, device):
        """Answer all that comes, until nothing is left."""
        while True:
            for packet in (found := await device.quiet()):
                if type(packet) is p.Publish:
                    device.send(self.take(packet))
                else:
                    self.open.discard(packet.packet_id)
                    device.send(p.Pubcomp(packet.packet_id))
            if not found and not self.open:
                return


@pytest.mark.parametrize("holds_reply", [False, True], ids=["before", "behind"])
def test_the_record_of_a_delivery(store, holds_reply):
    async def main():
        async with Place(store) as place:
            receiver = Receiver()
            device = await connect(place.gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t", 2))
            publisher = await connect(place.gateway.port, "publisher")
            publish = p.Publish(b"t", b"x", 2, packet_id=1)
            await place.kill_at(b"\r\ni 1\r\n", holds_reply, after=lambda: publisher.send(publish))
            assert await device.packet() is None, "no PUBLISH left"
            await finish_all(place, receiver, [b"x", b"y"])

    asyncio.run(main())


async def finish_all(place, receiver, wanted):
    device = await connect(place.gateway.port, "device", clean=False, properties=LASTING)
    assert device.connack.session_present
    await receiver.finish(device)
    publisher = await connect(place.gateway.port, "publisher")
    await publisher.publish(b"t", b"y", 2)
    async with asyncio.timeout(WAIT_S):
        while len(receiver.taken) < len(wanted):
            await receiver.finish(device)
    assert receiver.taken == wanted


@pytest.mark.parametrize("is_received", [True, False])
def test_before_pubrec_of_a_receiver(store, is_received):
    async def main():
        async with Place(store) as place:
            receiver = Receiver()
            device = await connect(place.gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t", 2))
            publisher = await connect(place.gateway.port, "publisher")
            await publisher.publish(b"t", b"x", 2)
            packet = await device.expect(p.Publish)
            if is_received:
                receiver.take(packet)
            await place.restart()
            await finish_all(place, receiver, [b"x", b"y"])

    asyncio.run(main())


@pytest.mark.parametrize("holds_reply", [False, True], ids=["before", "behind"])
def test_before_pubrel_to_a_receiver(store, holds_reply):
    async def main():
        async with Place(store) as place:
            receiver = Receiver()
            device = await connect(place.gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t", 2))
            publisher = await connect(place.gateway.port, "publisher")
            await publisher.publish(b"t", b"x", 2)
            answer = receiver.take(await device.expect(p.Publish))
            await place.kill_at(b"\r\ni 1\r\n", holds_reply, after=lambda: device.send(answer))
            assert await device.packet() is None, "no PUBREL left"
            await finish_all(place, receiver, [b"x", b"y"])

    asyncio.run(main())


@pytest.mark.parametrize("is_finished", [True, False])
def test_before_pubcomp_of_a_receiver(store, is_finished):
    async def main():
        async with Place(store) as place:
            receiver = Receiver()
            device = await connect(place.gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t", 2))
            publisher = await connect(place.gateway.port, "publisher")
            await publisher.publish(b"t", b"x", 2)
            device.send(receiver.take(await device.expect(p.Publish)))
            packet = await device.expect(p.Pubrel)
            if is_finished:
                receiver.open.discard(packet.packet_id)
            await place.restart()
            await finish_all(place, receiver, [b"x", b"y"])

    asyncio.run(main())


@pytest.mark.parametrize("qos", [1, 2])
def test_amid_the_retained_messages_of_a_subscription(store, qos):
    few_at_once = {**LASTING, Property.RECEIVE_MAXIMUM: 20}
    names = [b"r/%03d" % number for number in range(600)]

    async def main():
        async with Place(store) as place:
            publisher = await connect(place.gateway.port, "publisher")
            for name in names:
                await publisher.publish(name, b"x", qos, retain=True)
            device = await connect(place.gateway.port, "device", False, properties=few_at_once)
            await device.subscribe(p.Subscription("r/+", qos))
            got = {(await device.receive()).topic for _ in range(100)}
            await place.restart()
            device = await connect(place.gateway.port, "device", False, properties=few_at_once)
            assert device.connack.session_present
            while len(got) < len(names):
                got.add((await device.receive()).topic)

    asyncio.run(main())
