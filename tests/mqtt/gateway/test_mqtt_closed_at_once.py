"""Clients that close right behind what they send, while it waits for the store: all of it is worked on, in order."""

import asyncio
import socket
import ssl

import pytest
import redis.asyncio
import uvloop

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway import connecting, handing_over
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.listening import Listeners, start
from streamd.clients.mqtt.store.logs import OpenLog
from streamd.clients.mqtt.store.records import Pointer, pointer_key
from tests.mqtt.gateway.in_process import WAIT_S, Device, connect, running
from tests.mqtt.listening.front import Certificates

SUBSCRIBE = p.Subscribe(1, (p.Subscription("b", 1),))


async def heard_until(device, payload):
    """Return the payloads that come before one."""
    found = []
    while (one := await device.receive()).payload != payload:
        found.append(one.payload)
    return found


@pytest.mark.parametrize("first", [(), (SUBSCRIBE,), (p.Unsubscribe(2, ("b",)),), (SUBSCRIBE, SUBSCRIBE)])
@pytest.mark.parametrize("version", [4, 5])
def test_what_stands_behind_a_connect_is_worked_on_though_the_client_has_closed(streamd_store, first, version):
    async def main():
        async with running(streamd_store) as gateway:
            other = await connect(gateway.port, "other")
            await other.subscribe(p.Subscription("a", 1))
            will = p.Will(b"a", b"gone")
            for number, behind in enumerate([(p.Disconnect(),), ()] * 3):
                device = await Device(version).open(gateway.port)
                message = p.Publish(b"a", b"1")
                device.send(p.Connect(version, f"d{number}", True, will=will), *first, message, *behind)
                device.close()
                again = await connect(gateway.port, f"d{number}")
                await again.publish(b"a", b"end")
                assert await heard_until(other, b"end") == ([b"1"] if behind else [b"1", b"gone"])

    asyncio.run(main())


def test_a_client_that_takes_over_and_closes_at_once_has_sent_its_messages(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            other = await connect(gateway.port, "other")
            await other.subscribe(p.Subscription("a", 1))
            await connect(gateway.port, "d")
            for number in range(3):
                device = await Device().open(gateway.port)
                device.send(p.Connect(5, "d", True), SUBSCRIBE, p.Publish(b"a", b"%d" % number), p.Disconnect())
                device.close()
            again = await connect(gateway.port, "d")
            await again.publish(b"a", b"end")
            assert await heard_until(other, b"end") == [b"0", b"1", b"2"]

    asyncio.run(main())


async def until(holds):
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0)


class Held:
    """Lets SUBSCRIBEs wait until `release`."""

    def __init__(self, gateway):
        self._subscribing = gateway.subscribing
        self._waiting = []
        gateway.subscribing._begin = lambda *words: self._waiting.append(words)

    def release(self):
        del self._subscribing._begin
        for words in self._waiting:
            self._subscribing._begin(*words)


def closes(device):
    device.close()


def resets(device):
    device.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    device.close()


def closes_one_half(device):
    device.writer.write_eof()


async def sent_behind_a_subscribe(gateway, *behind, will=None):
    """Return a client whose SUBSCRIBE waits, with packets behind it that the gateway has read."""
    device = await connect(gateway.port, "d", False, properties={Property.SESSION_EXPIRY_INTERVAL: 600}, will=will)
    read = gateway.counters.messages_received + 1 + len(behind)
    device.send(SUBSCRIBE, *behind)
    await until(lambda: gateway.counters.messages_received == read)
    return device


@pytest.mark.parametrize("closing", [closes, resets, closes_one_half])
@pytest.mark.parametrize("ends", [True, False])
def test_what_was_read_before_the_connection_ended_is_worked_on(streamd_store, closing, ends):
    async def main():
        async with running(streamd_store) as gateway:
            other = await connect(gateway.port, "other")
            await other.subscribe(p.Subscription("a", 1))
            held = Held(gateway)
            behind = p.Publish(b"a", b"1"), *([p.Disconnect()] if ends else [])
            device = await sent_behind_a_subscribe(gateway, *behind, will=p.Will(b"a", b"gone"))
            (connection,) = [one for one in gateway.connections if one.is_busy]
            closing(device)
            await until(lambda: connection.is_ended)
            held.release()
            await until(lambda: connection not in gateway.connections)
            device = await connect(gateway.port, "d", False, properties={Property.SESSION_EXPIRY_INTERVAL: 600})
            assert device.connack.session_present
            await device.publish(b"a", b"end")
            assert await heard_until(other, b"end") == ([b"1"] if ends else [b"1", b"gone"])
            await other.publish(b"b", b"subscribed")
            assert (await device.receive()).payload == b"subscribed"

    asyncio.run(main())


def test_a_client_that_comes_again_waits_for_what_it_has_sent_before(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            held = Held(gateway)
            await sent_behind_a_subscribe(gateway, p.Subscribe(2, (p.Subscription("c", 1),)))
            coming = asyncio.create_task(
                connect(gateway.port, "d", False, properties={Property.SESSION_EXPIRY_INTERVAL: 600})
            )
            await until(lambda: any(one.is_ended for one in gateway.connections))
            assert not coming.done()
            held.release()
            device = await coming
            other = await connect(gateway.port, "other")
            await other.publish(b"b", b"1")
            await other.publish(b"c", b"2")
            assert [(await device.receive()).payload for _ in range(2)] == [b"1", b"2"]

    asyncio.run(main())


MESSAGES = (
    p.Publish(b"a", b"1", 1, packet_id=2),
    p.Subscribe(3, (p.Subscription("c", 1),)),
    p.Publish(b"a", b"2", 2, packet_id=4),
    p.Publish(b"a", b"3", properties={Property.USER_PROPERTY: (("raises", "the log's version"),)}),
    p.Unsubscribe(5, ("b",)),
    p.Publish(b"a", b"4"),
)


def test_a_client_that_comes_again_gets_its_session_in_time_and_only_its_messages_go_on(
    streamd_store, monkeypatch, capsys
):
    monkeypatch.setattr(connecting, "_OLDER_S", 0)

    async def main():
        async with running(streamd_store) as gateway:
            other = await connect(gateway.port, "other")
            await other.subscribe(p.Subscription("a", 1), p.Subscription("c", 1))
            held = Held(gateway)
            old = await sent_behind_a_subscribe(gateway, *MESSAGES)
            device = await connect(gateway.port, "d", False, properties={Property.SESSION_EXPIRY_INTERVAL: 600})
            assert device.connack.session_present
            assert (await old.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER
            assert await old.packet() is None
            device.send(p.Publish(b"a", b"2", 2, dup=True, packet_id=4))
            assert (await device.expect(p.Pubrec)).reason == 0
            await device.publish(b"a", b"end")
            assert await heard_until(other, b"end") == [b"1", b"2", b"3", b"4"]
            assert gateway.counters.packets_dropped == 2
            held.release()  # the SUBSCRIBE that was begun finds its connection closed
            assert gateway.counters.packets_dropped == 3
            await other.publish(b"c", b"not subscribed")
            assert await device.quiet() == []

    asyncio.run(main())
    assert capsys.readouterr().err.count("2 packets that it had sent are dropped") == 1


def test_a_client_that_comes_again_at_another_gateway_finds_its_messages_stored(streamd_store, monkeypatch):
    monkeypatch.setattr(handing_over, "_FINISHING_S", 0)

    async def main():
        async with running(streamd_store) as gateway, running(streamd_store) as second:
            other = await connect(gateway.port, "other")
            await other.subscribe(p.Subscription("a", 1))
            Held(gateway)
            await sent_behind_a_subscribe(gateway, *MESSAGES)
            device = await connect(second.port, "d", False, properties={Property.SESSION_EXPIRY_INTERVAL: 600})
            assert device.connack.session_present
            await device.publish(b"a", b"end")
            assert await heard_until(other, b"end") == [b"1", b"2", b"3", b"4"]
            assert gateway.counters.packets_dropped == 2

    asyncio.run(main())


@pytest.mark.parametrize("closing", [closes, lambda device: None])
def test_a_gateway_that_is_stopped_stores_the_messages_that_wait(streamd_store, closing):
    async def main():
        async with running(streamd_store) as gateway:
            Held(gateway)
            device = await sent_behind_a_subscribe(gateway, *MESSAGES, p.Disconnect(), will=p.Will(b"a", b"gone"))
            closing(device)
        async with running(streamd_store) as gateway:
            other = await connect(gateway.port, "other")
            start = {Property.USER_PROPERTY: (("start", "earliest"),)}
            await other.subscribe(p.Subscription("a", 1), properties=start)
            await (await connect(gateway.port, "d")).publish(b"a", b"end")
            assert await heard_until(other, b"end") == [b"1", b"2", b"3", b"4"]

    asyncio.run(main())


def test_what_comes_while_the_gateway_is_held_up_is_worked_on_though_the_client_has_closed(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            other = await connect(gateway.port, "other")
            await other.subscribe(p.Subscription("a", 1))
            device = await connect(gateway.port, "d", will=p.Will(b"a", b"gone"))
            gateway.held_up = []
            device.send(p.Publish(b"a", b"1"), SUBSCRIBE, p.Publish(b"a", b"2"), p.Disconnect())
            device.close()
            await until(lambda: any(one.is_ended for one in gateway.connections))
            await gateway._look_whose()
            await (await connect(gateway.port, "d")).publish(b"a", b"end")
            assert await heard_until(other, b"end") == [b"1", b"2"]

    asyncio.run(main())


def test_a_message_that_raises_its_logs_version_is_stored_before_the_will(streamd_store):
    async def main():
        async with running(streamd_store) as gateway:
            other = await connect(gateway.port, "other")
            await other.subscribe(p.Subscription("a", 1))
            device = await connect(gateway.port, "d", will=p.Will(b"a", b"gone"))
            raises = {Property.USER_PROPERTY: (("raises", "the log's version"),)}
            device.send(p.Publish(b"a", b"1", properties=raises), p.Publish(b"a", b"2"))
            device.close()
            assert await heard_until(other, b"gone") == [b"1", b"2"]

    asyncio.run(main())


def test_connections_that_are_gone_wait_for_the_store_only_as_far_as_there_is_room_for_connections(streamd_store):
    async def main():
        async with running(streamd_store, limits=Limits(connections_max=1)) as gateway:
            other = await connect(gateway.port, "other")
            await other.subscribe(p.Subscription("a", 1))
            Held(gateway)
            device = await sent_behind_a_subscribe(gateway, p.Publish(b"a", b"1"), will=p.Will(b"a", b"gone"))
            resets(device)
            assert (await other.receive()).payload == b"gone"
            assert gateway.counters.packets_dropped == 1

    asyncio.run(main())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_a_client_of_tls_has_sent_before_it_closed_is_worked_on(streamd_store, tmp_path, new_loop):
    certificates = Certificates(tmp_path)
    context = ssl.create_default_context(cafile=certificates.ca.cert)

    async def main():
        async with running(streamd_store) as gateway:
            options = Listeners(port=None, tls_port=0, **certificates.options())
            listening = await start(gateway.loop, options, lambda kind, _: gateway.make_connection(kind))
            port = int(listening.places[0][1].rpartition(":")[2])
            other = await connect(gateway.port, "other")
            await other.subscribe(p.Subscription("a", 1))
            for first in ((), (SUBSCRIBE,)):
                device = Device()
                device.reader, device.writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
                device.send(p.Connect(5, "d", True, will=p.Will(b"a", b"gone")))
                await device.expect(p.Connack)
                device.send(*first, p.Publish(b"a", b"1"), p.Disconnect())
                device.close()
                again = await connect(gateway.port, "d")
                await again.publish(b"a", b"end")
                assert await heard_until(other, b"end") == [b"1"]
                await again.disconnect()
            listening.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


@pytest.mark.interpreted(reason="the gateway is held while it raises the log's version")
def test_a_message_that_waits_for_its_logs_version_is_not_stored_when_another_gateway_has_the_session(
    streamd_store, monkeypatch
):
    """Its client sends it there again, and it would be there twice, also with QoS 2."""
    original, may_go_on = OpenLog.raise_version, asyncio.Event()

    async def waiting(self, version):
        await may_go_on.wait()
        await original(self, version)

    monkeypatch.setattr(OpenLog, "raise_version", waiting)

    async def main():
        async with running(streamd_store) as gateway, redis.asyncio.from_url(streamd_store) as client:
            device = await connect(gateway.port, "d", properties={Property.SESSION_EXPIRY_INTERVAL: 100})
            device.send(p.Publish(b"a", b"1", 2, True, packet_id=1))
            session = gateway.clients["d"]
            async with asyncio.timeout(WAIT_S):
                while not session.looked_up:
                    await asyncio.sleep(0)
            await client.set(pointer_key("d"), Pointer(session.pointer.epoch + 1, "other").to_text())
            await gateway.look_for_lost()
            may_go_on.set()
            async with asyncio.timeout(WAIT_S):
                while session.looked_up:
                    await asyncio.sleep(0)
            other = await connect(gateway.port, "other")
            await other.publish(b"a", b"end")
            found = [
                one async for key in client.scan_iter("{mqtt/*", _type="stream") for one in await client.xrange(key)
            ]
            assert [fields[b"p"] for _, fields in found] == [b"end"]

    asyncio.run(main())
