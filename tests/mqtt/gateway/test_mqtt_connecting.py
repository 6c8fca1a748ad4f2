"""CONNECTs of one client that come while earlier ones wait, and errors while a client is let in."""

import asyncio

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.lines import Lines
from tests.mqtt.gateway.door import Door
from tests.mqtt.gateway.in_process import WAIT_S, Device, connect, running

MANY = [1, 20, 200, pytest.param(2_000, marks=pytest.mark.long)]


@pytest.mark.parametrize("number", MANY)
@pytest.mark.parametrize("version", [4, 5])
def test_of_many_connects_of_one_client_only_the_first_and_the_last_ask_the_store(streamd_store, number, version):
    """The first has begun with its session; those between are closed without a packet, and have no will."""

    async def main():
        door = Door(streamd_store)
        await door.open()
        async with running(door.url) as gateway:
            other = await connect(gateway.port, "other")
            await other.subscribe(p.Subscription("will", 1))
            asked = []
            own = gateway.connecting._own
            gateway.connecting._own = lambda *words: asked.append(words[2]) or own(*words)
            door.hold_up()
            devices = []
            for _ in range(number + 1):
                device = await Device(version).open(gateway.port)
                will = p.Will(b"will", b"of %d" % len(devices))
                read = gateway.counters.messages_received + 1
                device.send(p.Connect(version, "d", True, will=will))
                devices.append(device)
                async with asyncio.timeout(WAIT_S):
                    while gateway.counters.messages_received < read:
                        await asyncio.sleep(0)
            first, *between, last = devices
            await door.open()
            assert (await last.expect(p.Connack)).reason == 0
            assert asked == ["d", "d"]
            assert [await one.packet() for one in between] == [None] * len(between)
            assert (await first.expect(p.Connack)).reason == 0
            if version == 5:
                assert (await first.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER
            assert await first.packet() is None
            for one in devices:
                one.close()
            wills = [(await other.receive()).payload for _ in range(2)]
            assert wills == [b"of 0", b"of %d" % number]
            assert await other.quiet() == []

    asyncio.run(main())


def test_a_connect_of_another_user_closes_no_connect_that_waits():
    lines = Lines()
    first, second, third = (Waiting() for _ in range(3))
    lines.enter(first, "d", "ann")
    lines.enter(second, "d", "bob")
    assert not first.is_closed
    lines.enter(third, "d", "ann")
    assert (first.is_closed, second.is_closed, third.is_closed) == (True, False, False)
    for one in (second, third):
        lines.leave(one, "d")
    assert lines._lines == {}


class Waiting:
    """A connection whose CONNECT waits."""

    has_more = is_closed = False

    def close(self):
        self.is_closed = True


@pytest.mark.parametrize("version", [4, 5])
def test_an_error_behind_connack_sends_no_second_one(streamd_store, monkeypatch, version):
    async def main():
        async with running(streamd_store) as gateway:
            other = await connect(gateway.port, "other")
            await other.subscribe(p.Subscription("will", 1))

            def fail(session):
                raise RuntimeError("no more")

            monkeypatch.setattr(gateway.shares, "resume", fail)
            device = await connect(gateway.port, "d", version=version, will=p.Will(b"will", b"gone"))
            if version == 5:
                assert (await device.expect(p.Disconnect)).reason == Reason.IMPLEMENTATION_SPECIFIC_ERROR
            assert await device.packet() is None
            assert (await other.receive()).payload == b"gone"

    asyncio.run(main())
