"""The gateway is killed while members of a shared subscription have messages: none is lost, QoS 2 comes once."""

import asyncio
import random
from collections import Counter

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from tests.mqtt.gateway.in_process import WAIT_S, connect
from tests.mqtt.gateway.test_mqtt_kill_points import Place

pytestmark = pytest.mark.long
LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}
MODES = ("any", "ordered")
KILLS = 4
PER_KILL = 60


def mode(name):
    return {Property.USER_PROPERTY: (("share", name),)}


async def member(place, client_id, how, qos, properties=LASTING):
    device = await connect(place.gateway.port, client_id, properties=properties)
    await device.subscribe(p.Subscription("$share/g/t", qos), properties=mode(how))
    return device


@pytest.mark.parametrize("how", MODES)
@pytest.mark.parametrize(
    ("pattern", "holds_reply"),
    [(b"XREADGROUP", True), (b"\r\ni 1\r\n", False), (b"\r\ni 1\r\n", True), (b"XACK", False), (b"XACK", True)],
    ids=["read", "before the record", "behind the record", "before the group forgets", "behind it"],
)
def test_a_message_of_qos_2_comes_to_one_member_once(store, how, pattern, holds_reply):
    async def main():
        async with Place(store) as place:
            members = [await member(place, name, how, 2) for name in ("one", "two")]
            publisher = await connect(place.gateway.port, "publisher")
            publish = p.Publish(b"t", b"x", 2, packet_id=1)
            await place.kill_at(pattern, holds_reply, after=lambda: publisher.send(publish))
            for one in members:
                assert [one async for one in rest(one)] == [], "nothing left before the group had forgotten it"
            members = [
                await connect(place.gateway.port, one, clean=False, properties=LASTING) for one in ("two", "one")
            ]
            got = []
            async with asyncio.timeout(WAIT_S):
                while not got:
                    for one in members:
                        got += [(one, packet) for packet in await one.quiet()]
            ((device, packet),) = got
            device.acknowledge(packet)
            assert await device.expect(p.Pubrel) == p.Pubrel(packet.packet_id)
            device.send(p.Pubcomp(packet.packet_id))
            await place.restart()
            for name in ("one", "two"):
                device = await connect(place.gateway.port, name, clean=False, properties=LASTING)
                assert [one for one in await device.quiet() if type(one) is p.Publish] == []

    asyncio.run(main())


async def rest(device):
    try:
        while (packet := await device.packet()) is not None:
            yield packet
    except ConnectionError:
        return


@pytest.mark.parametrize("how", MODES)
def test_what_a_session_that_ends_with_the_gateway_had_goes_to_another(store, how):
    async def main():
        async with Place(store) as place:
            lasting = await member(place, "lasting", how, 1)
            lasting.close()
            gone = await member(place, "gone", how, 1, {})
            publisher = await connect(place.gateway.port, "publisher")
            await publisher.publish(b"t", b"x")
            assert (await gone.receive(acknowledges=False)).payload == b"x"
            await place.restart()
            lasting = await connect(place.gateway.port, "lasting", clean=False, properties=LASTING)
            assert (await lasting.receive()).payload == b"x"

    asyncio.run(main())


class Consumer:
    """A member that comes back whenever its connection ends. finished: the messages of QoS 2; seen: those of QoS 1."""

    def __init__(self, place, name, how):
        self.place, self.name, self.how = place, name, how
        self.finished, self.seen = Counter(), Counter()
        self.received = set()  # packet identifiers of QoS 2 before PUBREL
        self.is_new = True

    async def run(self):
        while True:
            try:
                await self.connected()
            except (OSError, AssertionError, EOFError):
                await asyncio.sleep(0)

    async def connected(self):
        device = await connect(self.place.gateway.port, self.name, clean=False, properties=LASTING)
        if not device.connack.session_present:
            self.received.clear()
        if self.is_new:
            await device.subscribe(p.Subscription("$share/g/t", 2), properties=mode(self.how))
            self.is_new = False
        while (packet := await device.packet()) is not None:
            if type(packet) is p.Pubrel:
                self.received.discard(packet.packet_id)
                device.send(p.Pubcomp(packet.packet_id))
            elif type(packet) is p.Publish:
                if packet.qos == 1:
                    self.seen[packet.payload] += 1
                elif packet.packet_id not in self.received:
                    self.received.add(packet.packet_id)
                    self.finished[packet.payload] += 1
                if random.random() < 0.02:
                    device.close()
                    return
                device.acknowledge(packet)


async def publish(place, numbers):
    """Publish each number as QoS 1 or 2, by its name once, whatever happens to the gateway."""
    for number in numbers:
        while True:
            try:
                device = await connect(place.gateway.port, "publisher")
                properties = {Property.USER_PROPERTY: (("iid", str(number)),)}
                async with asyncio.timeout(WAIT_S):
                    await device.publish(b"t", b"%d" % number, 1 + number % 2, properties=properties)
                device.close()
                break
            except (OSError, AssertionError):
                await asyncio.sleep(0)


@pytest.mark.parametrize("how", MODES)
def test_nothing_is_lost_and_nothing_of_qos_2_doubled_while_the_gateway_is_killed(store, how):
    async def main():
        async with Place(store) as place:
            consumers = [Consumer(place, f"c{number}", how) for number in range(3)]
            tasks = [asyncio.ensure_future(one.run()) for one in consumers]
            async with asyncio.timeout(WAIT_S):
                while any(one.is_new for one in consumers):
                    await asyncio.sleep(0)
            for turn in range(KILLS):
                publishing = asyncio.ensure_future(publish(place, range(turn * PER_KILL, (turn + 1) * PER_KILL)))
                reached = asyncio.Event()
                number = random.randrange(turn * PER_KILL, (turn + 1) * PER_KILL - 10)

                async def watch(number=number, reached=reached):
                    while not any(one.finished[b"%d" % number] or one.seen[b"%d" % number] for one in consumers):
                        await asyncio.sleep(0)
                    reached.set()

                watching = asyncio.ensure_future(watch())
                await asyncio.wait([publishing, asyncio.ensure_future(reached.wait())], return_when="FIRST_COMPLETED")
                await place.restart()
                await publishing
                await watching
            count = KILLS * PER_KILL
            seen, finished = Counter(), Counter()
            async with asyncio.timeout(60):
                while len(seen) + len(finished) < count:
                    await asyncio.sleep(0)
                    seen = sum((one.seen for one in consumers), Counter())
                    finished = sum((one.finished for one in consumers), Counter())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            finished = sum((one.finished for one in consumers), Counter())
            assert {one: times for one, times in finished.items() if times > 1} == {}

    asyncio.run(main())
