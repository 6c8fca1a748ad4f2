"""Applications do not slow each other down, and read no more than they have room for."""

import asyncio
import socket

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.gateway.packing import HIGH_BYTES, LOW_BYTES
from tests.mqtt.gateway.door import Door
from tests.mqtt.gateway.in_process import connect
from tests.mqtt.gateway.moved_packs import (
    LASTING,
    App,
    application,
    come,
    ids,
    numbers,
    packing,
    publish_many,
    quiet,
    until,
)

MODES = ("any", "ordered")


def test_a1_one_stalled_backend_of_50_costs_the_others_nothing(store):
    """Each of the others gets every message, while the stalled one has its pack and no more.

    (Their rate is a row of `python -m bench.mqtt scale`.)
    """

    async def main():
        async with packing(store, pack=5) as (gateway, _):
            apps = [
                await application(gateway, p.Subscription("t/+", 1), client_id=f"app{number}") for number in range(50)
            ]
            publisher = await connect(gateway.port, "publisher")

            async def take(app):
                return [int((await app.receive()).payload) for _ in range(100)]

            others = [asyncio.ensure_future(take(one)) for one in apps[1:]]
            await publish_many(publisher, range(100))
            for found in await asyncio.gather(*others):
                assert found == list(range(100))
            found = await come(apps[0], 5)
            assert len(gateway.clients["app0"].outgoing) == 5
            while found:  # it goes on where it was
                for one in found:
                    apps[0].acknowledge(one)
                found = [one for one in await apps[0].quiet() if type(one) is p.Publish]
            await publish_many(publisher, [100])
            assert numbers(await come(apps[0], 1)) == [100]

    asyncio.run(main())


class Stuck(App):
    """An application that reads nothing from its socket until it is told to."""

    async def open(self, port):
        silent = socket.socket()
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        silent.connect(("127.0.0.1", port))
        self.reader, self.writer = await asyncio.open_connection(sock=silent, limit=1)
        return self

    def stop(self):
        self.writer.transport.pause_reading()

    def go_on(self):
        self.writer.transport.resume_reading()


@pytest.mark.interpreted(reason="it looks into the connection")
@pytest.mark.parametrize("qos", [0, 1])
def test_a8_unsent_output_pauses_all_readers_of_a_client_and_they_go_on_below_the_low_mark(streamd_store, qos):
    payload = bytes(40_000)

    async def main():
        async with packing(streamd_store, pack=60, share_pack=60) as (gateway, _):
            app = await Stuck().open(gateway.port)
            app.gateway = gateway
            app.send(p.Connect(5, "app", True, properties=LASTING))
            await app.expect(p.Connack)
            await app.subscribe(p.Subscription("t/+", qos), p.Subscription("$share/g/s/+", qos))
            session = gateway.clients["app"]
            connection = session.connection
            sock = connection.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
            assert connection.transport.get_write_buffer_limits() == (LOW_BYTES, HIGH_BYTES)
            app.stop()
            publisher = await connect(gateway.port, "publisher")
            sizes = []

            async def publish(count, first):
                for number in range(first, first + count):
                    await publisher.publish(b"t/a", b"%d " % number + payload)
                    await publisher.publish(b"s/a", b"%d " % number + payload)
                    sizes.append(connection.transport.get_write_buffer_size())
                await quiet(publisher, gateway)

            await publish(40, 0)
            assert connection.is_full
            sent = gateway.counters.publishes_sent
            await publish(10, 40)
            assert gateway.counters.publishes_sent == sent, "both readers pause"
            assert max(sizes) <= HIGH_BYTES + 60 * 40_100
            assert max(sizes) > HIGH_BYTES

            resumed = []
            gateway.delivery.pump, pump = lambda one: (watch(), pump(one)), gateway.delivery.pump

            def watch():
                if not connection.is_full:
                    resumed.append(connection.transport.get_write_buffer_size())

            app.go_on()
            found = {b"t/a": [], b"s/a": []}
            while sum(map(len, found.values())) < 100:
                one = await app.receive()
                found[one.topic].append(int(one.payload.split()[0]))
            assert found[b"t/a"] == list(range(50))
            assert sorted(found[b"s/a"]) == list(range(50))
            assert resumed
            assert resumed[0] <= LOW_BYTES
            assert not connection.is_full

    asyncio.run(main())


@pytest.mark.interpreted(reason="a compiled gateway takes no method of a test")
def test_a8_what_is_sent_again_to_a_client_that_does_not_read_waits_too(streamd_store):
    async def main():
        async with packing(streamd_store, pack=100) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", 1))
            publisher = await connect(gateway.port, "publisher")
            for number in range(100):
                await publisher.publish(b"t/a", b"%d " % number + bytes(40_000))
            first = [await app.receive(acknowledges=False) for _ in range(100)]
            app.writer.close()
            begin = gateway.packing.begin

            def beginning(connection, packet, session):
                begin(connection, packet, session)
                connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)

            gateway.packing.begin = beginning
            app = await Stuck().open(gateway.port)
            app.send(p.Connect(5, "app", False, properties=LASTING))
            await app.expect(p.Connack)
            app.stop()
            connection = gateway.clients["app"].connection
            await until(lambda: connection.is_full)
            assert connection.transport.get_write_buffer_size() <= HIGH_BYTES + 10 * 40_100
            app.go_on()
            assert [await app.receive() for _ in range(100)] == [one._replace(dup=True) for one in first]

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
def test_a8_a_pack_is_not_sent_again_to_a_client_that_does_not_read(streamd_store, version):
    async def main():
        async with packing(streamd_store, pack=100, retries=1, resend_v5=True) as (gateway, clock):
            app = await Stuck(version).open(gateway.port)
            app.gateway = gateway
            app.send(p.Connect(version, "app", False, properties=LASTING if version == 5 else {}))
            await app.expect(p.Connack)
            await app.subscribe(p.Subscription("t/+", 1))
            app.stop()
            publisher = await connect(gateway.port, "publisher")
            number = 0
            while not gateway.clients["app"].connection.is_full:
                await publisher.publish(b"t/a", b"%d " % number + bytes(400_000))
                await quiet(publisher, gateway)
                number += 1
            for _ in range(5):
                clock.advance(20)
            assert (gateway.counters.pack_retries, gateway.counters.pack_drops) == (0, 0)
            app.go_on()
            found = [await app.receive() for _ in range(number)]
            assert [int(one.payload.split()[0]) for one in found] == list(range(number))
            assert not any(one.dup for one in found)

    asyncio.run(main())


@pytest.mark.interpreted(reason="a compiled part takes no method of a test")
def test_a4_a_pack_that_has_not_left_is_not_sent_again(streamd_store):
    async def main():
        door = Door(streamd_store)
        await door.open()
        async with packing(door.url, retries=1, wait_s=1) as (gateway, clock):
            app = await application(gateway, p.Subscription("t/+", 1), version=4)
            publisher = await connect(gateway.port, "publisher")
            hold = gateway.delivery.hold

            def hold_up(session, packet):
                door.hold_up()
                hold(session, packet)

            gateway.delivery.hold = hold_up
            publisher.send(p.Publish(b"t/a", b"0", 1, packet_id=1))
            await until(lambda: gateway.clients["app"].held is not None)
            for _ in range(5):
                clock.advance(1)
            assert (gateway.counters.pack_retries, gateway.counters.pack_drops) == (0, 0)
            gateway.delivery.hold = hold
            await door.open()
            assert ids(await come(app, 1)) == [(1, False)]
            clock.advance(1)
            assert ids(await come(app, 1)) == [(1, True)]

    asyncio.run(main())


def test_a_pack_that_the_store_does_not_read_for_a_retry_is_not_lost(streamd_store, capsys):
    async def main():
        async with packing(streamd_store, retries=1) as (gateway, clock):
            app = await application(gateway, p.Subscription("t/+", 1), version=4)
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, [0])
            await come(app, 1)
            async with redis.asyncio.Redis.from_url(streamd_store) as client:
                await client.acl_setuser("default", enabled=True, nopass=True, keys="*", commands=["+@all", "-xrange"])
                clock.advance(20)
                assert await app.quiet() == []
                clock.advance(20)
                assert await app.quiet() == []
                await client.acl_setuser("default", enabled=True, nopass=True, keys="*", commands=["+@all"])
            clock.advance(20)
            assert ids(await come(app, 1)) == [(1, True)]
            assert gateway.counters.pack_drops == 0
            clock.advance(20)
            assert await app.quiet() == []
            assert gateway.counters.pack_drops == 1

    asyncio.run(main())
    assert "a pack cannot be sent again: NOPERM" in capsys.readouterr().err


def test_retained_messages_come_in_packs(store):
    async def main():
        async with packing(store, pack=2) as (gateway, _):
            publisher = await connect(gateway.port, "publisher")
            for number in range(5):
                await publisher.publish(b"t/%d" % number, b"%d" % number, 1, retain=True)
            app = await application(gateway, p.Subscription("t/+", 1))
            got = []
            for count in (2, 2, 1):
                found = await come(app, count)
                got += numbers(found)
                for one in found:
                    app.acknowledge(one)
            assert sorted(got) == list(range(5))

    asyncio.run(main())


class Counted:
    """A socket's transport whose writes are counted, in packets."""

    def __init__(self, transport):
        self.transport, self.writes = transport, []

    def write(self, data):
        self.writes.append(data.count(b"t/a"))
        self.transport.write(data)

    def __getattr__(self, name):
        return getattr(self.transport, name)


@pytest.mark.interpreted(reason="a compiled connection has a transport of its own kind")
@pytest.mark.parametrize(
    ("client_id", "flush", "writes"),
    [("app", 1, [1] * 25), ("app", 10, [10, 10, 5]), ("app", 100, [25]), ("device", 1, [25])],
)
def test_a11_so_many_packets_are_written_at_once(streamd_store, client_id, flush, writes):
    async def main():
        async with packing(streamd_store, flush=flush, pack=25) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", 1), client_id=client_id)
            await app.disconnect()
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(25))
            found = []
            begin = gateway.packing.begin

            def counting(connection, packet, session):
                begin(connection, packet, session)
                connection.transport = Counted(connection.transport)
                found.append(connection.transport)

            gateway.packing.begin = counting
            app = await application(gateway, client_id=client_id)
            assert numbers([await app.receive(False) for _ in range(25)]) == list(range(25))
            assert [one for one in found[0].writes if one] == writes

    asyncio.run(main())


def share(mode):
    return {"properties": {Property.USER_PROPERTY: (("share", mode),)}}


@pytest.mark.parametrize("mode", MODES)
def test_a12_a_stalled_shared_subscription_leaves_the_main_one_alone_and_the_other_way_round(store, mode):
    async def main():
        async with packing(store, pack=4, share_pack=3, resend_v5=True) as (gateway, clock):
            app = await application(gateway, p.Subscription("m/+", 1))
            for name in ("one", "two"):
                await app.subscribe(p.Subscription(f"$share/{name}/{name}/+", 1), **share(mode))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(8), b"one/a")
            stalled = [await app.receive(False) for _ in range(3)]
            await publish_many(publisher, range(8), b"m/a")
            assert numbers([await app.receive() for _ in range(8)]) == list(range(8))
            await publish_many(publisher, range(8), b"two/a")
            assert sorted(numbers([await app.receive() for _ in range(8)])) == list(range(8))
            assert await quiet(app, gateway) == []
            clock.advance(20)
            again = [await app.receive(False) for _ in range(3)]
            assert again == [one._replace(dup=True) for one in stalled]
            await publish_many(publisher, range(8, 16), b"m/a")
            main_pack = [await app.receive(False) for _ in range(4)]
            assert {one.topic for one in main_pack} == {b"m/a"}
            for one in again:
                app.acknowledge(one)
            found = [await app.receive() for _ in range(5)]
            assert {one.topic for one in found} == {b"one/a"}
            assert sorted(numbers(stalled + found)) == list(range(8))
            assert await quiet(app, gateway) == []
            for one in main_pack:
                app.acknowledge(one)
            assert numbers([await app.receive() for _ in range(4)]) == [12, 13, 14, 15]

    asyncio.run(main())


def test_a12_what_a_stalled_member_has_no_room_for_goes_to_the_others(store):
    async def main():
        async with packing(store, share_pack=3) as (gateway, _):
            members = [
                await application(gateway, p.Subscription("$share/g/t/+", 1), client_id=name)
                for name in ("app", "other")
            ]
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(3))
            taken = [await one.quiet() for one in members]
            for one in taken[1]:
                members[1].acknowledge(one)
            stalled = len(taken[0])
            await publish_many(publisher, range(3, 30))
            got = len(taken[1])
            while got < 27:
                await members[1].receive()
                got += 1
                if stalled < 3:
                    stalled += len(await members[0].quiet())
            assert stalled == 3
            assert await quiet(members[1], gateway) == []

    asyncio.run(main())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("qos", [1, 2])
def test_a12_what_a_shared_a_shared_subscription_drops_no_other_member_gets(store, mode, qos):
    async def main():
        async with packing(store, share_pack=3, retries=1) as (gateway, clock):
            app = await application(gateway, version=4, clean=False)
            await app.subscribe(p.Subscription("$share/g/t/+", qos))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(3), qos=qos)
            first = [await app.receive(False) for _ in range(3)]
            clock.advance(20)
            assert [await app.receive(False) for _ in range(3)] == [one._replace(dup=True) for one in first]
            clock.advance(20)
            assert await app.quiet() == []
            assert gateway.counters.pack_drops == 3
            other = await application(gateway, p.Subscription("$share/g/t/+", qos), client_id="app2")
            await app.disconnect()
            ended = await connect(gateway.port, "app", True, 4)  # its session is over: others get what it had
            assert not ended.connack.session_present
            assert await quiet(other, gateway) == []
            await publish_many(publisher, [3], qos=qos)
            assert numbers([await other.receive()]) == [3]

    asyncio.run(main())


def test_a12_a_subscription_that_ends_is_finished_with_its_pack(store):
    async def main():
        async with packing(store, share_pack=3) as (gateway, clock):
            app = await application(gateway, version=4, clean=False)
            await app.subscribe(p.Subscription("$share/g/t/+", 2))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(4), qos=2)
            first = [await app.receive(False) for _ in range(3)]
            app.send(p.Unsubscribe(9, ("$share/g/t/+",)))
            await app.expect(p.Unsuback)
            app.acknowledge(first[0])
            await app.expect(p.Pubrel)
            app.send(p.Pubcomp(1))
            clock.advance(20)
            assert ids([await app.receive(False) for _ in range(2)]) == [(2, True), (3, True)]
            assert await app.quiet() == []

    asyncio.run(main())
