"""mosquitto as a bridge to the gateway: its state, messages in both directions, and those from while it was away."""

import asyncio
from contextlib import asynccontextmanager, contextmanager
from itertools import count

import pytest

from streamd.base.clock import Clock
from streamd.clients.mqtt.codec import packets as p
from streamd.testing import EmbeddedServer
from tests.mqtt.access.judge import mosquitto, needs_mosquitto
from tests.mqtt.gateway.in_process import WAIT_S, connect, running

pytestmark = needs_mosquitto
STATE = "$SYS/broker/connection/+/state"
# A bridge of 3.1.1 begins with a level of its own, if it is not told otherwise.
VERSIONS = pytest.mark.parametrize("version", ["mqttv311", "mqttv50"])


@pytest.fixture
def streamd_store():
    """The URL of an empty streamd."""
    with EmbeddedServer(Clock()) as server:
        yield server.url
        assert server.internal_errors == 0


class Side:
    """A client that publishes, and one that reads, at the same broker."""

    @classmethod
    async def of(cls, port, name):
        self = cls()
        self.publisher, self.reader = await connect(port, f"{name}-out"), await connect(port, f"{name}-in")
        self.publish, self.subscribe = self.publisher.publish, self.reader.subscribe
        return self

    async def receive(self, topic):
        """Return the next message of a topic; others are passed over."""
        while (found := await self.reader.receive()).topic != topic:
            pass
        return found


@contextmanager
def bridge(directory, port, version, *topics):
    """mosquitto with a bridge to the gateway at a port; without a version it has its defaults."""
    settings = ["allow_anonymous true", "connection hub", f"address 127.0.0.1:{port}", "restart_timeout 1"]
    settings += [f"topic {topic}" for topic in topics]
    if version is not None:
        settings += [f"bridge_protocol_version {version}", "try_private false", "cleansession false"]
    with mosquitto(directory, {}, *settings) as found:
        yield found.port


@asynccontextmanager
async def both(store, directory, version, *topics, **settings):
    """Yield a gateway and a bridge that is connected, with a watcher, and clients at each side."""
    async with running(store, **settings) as gateway:
        watcher = await connect(gateway.port, "watcher")
        await watcher.subscribe(p.Subscription(STATE, 1))
        with bridge(directory, gateway.port, version, *topics) as port:
            assert await state(watcher) == b"1"
            yield gateway, watcher, await Side.of(gateway.port, "here"), await Side.of(port, "there")


async def state(watcher):
    """Return the next state that the bridge tells."""
    found = await watcher.receive()
    assert found.topic.startswith(b"$SYS/broker/connection/")
    assert found.topic.endswith(b".hub/state")
    return found.payload


async def until_it_reads(here, there, topic, renamed):
    """Wait until the bridge has subscribed to a topic at the gateway: messages from before it do not come."""
    await there.subscribe(p.Subscription(renamed, 0))
    async with asyncio.timeout(WAIT_S):
        for number in count():
            await here.publish(topic, b"%d" % number, 1)
            found = await there.reader.quiet()
            if any(type(one) is p.Publish and one.payload == b"%d" % number for one in found):
                return  # and none is under way


@VERSIONS
def test_messages_of_each_qos_cross_the_bridge_in_both_directions(streamd_store, tmp_path, version):
    async def main():
        topics = ("# out 2 up/ site/up/", "# in 2 down/ site/down/", "# both 2 all/ site/all/")
        async with both(streamd_store, tmp_path, version, *topics) as (_, _, here, there):
            await here.subscribe(p.Subscription("site/up/#", 2), p.Subscription("site/all/there", 2))
            await there.subscribe(p.Subscription("down/#", 2), p.Subscription("all/here", 2))
            await until_it_reads(here, there, b"site/all/ready", "all/ready")
            for qos in (0, 1, 2):
                for source, sink, sent, wanted in (
                    (there, here, b"up/%d" % qos, b"site/up/%d" % qos),
                    (here, there, b"site/down/%d" % qos, b"down/%d" % qos),
                    (there, here, b"all/there", b"site/all/there"),
                    (here, there, b"site/all/here", b"all/here"),
                ):
                    await source.publish(sent, b"%d" % qos, qos)
                    found = await sink.receive(wanted)
                    assert (found.payload, found.qos) == (b"%d" % qos, qos)

    asyncio.run(main())


@VERSIONS
def test_a_message_that_nobody_gets_behind_the_bridge_leaves_it_connected(streamd_store, tmp_path, version):
    """A bridge of MQTT 5 answers it with PUBACK 0x10, which only servers may send."""

    async def main():
        async with both(streamd_store, tmp_path, version, "# in 1") as (gateway, watcher, here, there):
            await until_it_reads(here, there, b"ready", "ready")
            for number in range(3):
                await here.publish(b"nobody/%d" % number, b"x", 1)
            await there.subscribe(p.Subscription("some/body", 1))
            await here.publish(b"some/body", b"x", 1)
            await there.receive(b"some/body")
            assert await watcher.quiet() == []
            assert gateway.counters.faults == 0

    asyncio.run(main())


@VERSIONS
def test_what_is_published_while_the_bridge_is_away_comes_when_it_is_back(streamd_store, tmp_path, version):
    """With MQTT 5 a bridge of mosquitto 2.0 asks for a session that ends with its connection: nothing waits for it."""

    async def main():
        topics, has_session = ("up/# out 2", "down/# in 2"), version == "mqttv311"
        async with both(streamd_store, tmp_path, version, *topics) as (gateway, watcher, here, there):
            await here.subscribe(p.Subscription("up/#", 2))
            await there.subscribe(p.Subscription("down/#", 2))
            await until_it_reads(here, there, b"down/ready", "down/ready")
            (name,) = [one for one in gateway.clients if one.endswith(".hub")]
            for turn in range(2):
                gateway.clients[name].connection.close()
                assert await state(watcher) == b"0"  # its will
                for qos in (1, 2):
                    await there.publish(b"up/%d" % qos, b"up %d" % turn, qos)
                    if has_session:
                        await here.publish(b"down/%d" % qos, b"down %d" % turn, qos)
                for qos in (1, 2):
                    assert (await here.receive(b"up/%d" % qos)).payload == b"up %d" % turn
                    if has_session:
                        assert (await there.receive(b"down/%d" % qos)).payload == b"down %d" % turn
                assert await state(watcher) == b"1"

    asyncio.run(main())


@VERSIONS
def test_retained_messages_cross_the_bridge_and_its_state_is_one(streamd_store, tmp_path, version):
    async def main():
        async with running(streamd_store) as gateway:
            here = await Side.of(gateway.port, "here")
            await here.publish(b"kept/here", b"1", 1, retain=True)
            await here.subscribe(p.Subscription("kept/there", 1))
            with bridge(tmp_path, gateway.port, version, "kept/# both 1") as port:
                there = await Side.of(port, "there")
                await there.subscribe(p.Subscription("kept/here", 1))
                assert (await there.receive(b"kept/here")).payload == b"1"
                await there.publish(b"kept/there", b"2", 1, retain=True)
                assert (await here.receive(b"kept/there")).payload == b"2"
                late = await connect(gateway.port, "late")
                await late.subscribe(p.Subscription("kept/there", 1), p.Subscription(STATE, 1))
                kept = {found.topic: (found.payload, found.retain) for found in [await late.receive() for _ in "12"]}
                assert kept.pop(b"kept/there") == (b"2", True)
                assert list(kept.values()) == [(b"1", True)]

    asyncio.run(main())


def test_a_bridge_with_its_defaults_falls_back_to_mqtt_3_1_1_and_is_connected(streamd_store, tmp_path):
    async def main():
        async with both(streamd_store, tmp_path, None, "# out 1") as (gateway, _, here, there):
            await here.subscribe(p.Subscription("a", 1))
            await there.publish(b"a", b"x", 1)
            assert (await here.receive(b"a")).payload == b"x"
            assert gateway.counters.faults == 1  # the level that only mosquitto knows

    asyncio.run(main())
