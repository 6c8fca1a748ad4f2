"""A store that is away, full, or refuses: clients are told, nothing is lost, and all goes on when it is back."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import redis
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.store.records import INDEX, pointer_key, user_key
from tests.mqtt.gateway.door import Door
from tests.mqtt.gateway.in_process import WAIT_S, Device, connect, data_key_of, running
from tests.mqtt.gateway.test_mqtt_rights import line

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}
VERSIONS = pytest.mark.parametrize("version", [4, 5])


@asynccontextmanager
async def behind_a_door(store, **settings):
    door = Door(store)
    await door.open()
    async with running(door.url, **settings) as gateway:
        try:
            yield door, gateway
        finally:
            await door.open()
            await until(lambda: gateway.link.is_up)


@asynccontextmanager
async def full(store):
    """The store takes no more."""
    client = redis.asyncio.Redis.from_url(store)
    await client.config_set("maxmemory", 1)
    try:
        yield client
    finally:
        await client.config_set("maxmemory", 0)
        await client.aclose()


async def until(is_so):
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0)


async def answer_to_connect(port, client_id, version, **properties):
    """Return the CONNACK that refuses a client, whose connection is closed then."""
    device = await Device(version).open(port)
    device.send(p.Connect(version, client_id, False, properties=properties if version == 5 else {}))
    answer = await device.expect(p.Connack)
    assert await device.packet() is None
    return answer


@VERSIONS
def test_no_client_is_let_in_while_the_store_is_away(streamd_store, version):
    async def main():
        async with behind_a_door(streamd_store) as (door, gateway):
            door.shut()
            await until(lambda: not gateway.link.is_up)
            answer = await answer_to_connect(gateway.port, "d", version)
            assert answer == p.Connack(False, Reason.SERVER_UNAVAILABLE if version == 5 else 3)
            await door.open()
            await until(lambda: gateway.link.is_up)
            await connect(gateway.port, "d", version=version)

    asyncio.run(main())


@VERSIONS
def test_a_client_that_waits_for_connack_is_told_when_the_store_goes(streamd_store, version):
    async def main():
        async with behind_a_door(streamd_store) as (door, gateway):
            door.hold_up()
            devices = [await Device(version).open(gateway.port) for _ in range(2)]
            for device in devices:  # the second waits for the first
                device.send(p.Connect(version, "d", False))
            await until(lambda: sum(one.is_busy for one in gateway.connections) == 2)
            door.shut()
            for device in devices:
                assert (await device.expect(p.Connack)).reason == (Reason.SERVER_UNAVAILABLE if version == 5 else 3)
                assert await device.packet() is None
            answer = await answer_to_connect(gateway.port, "d", version)
            assert answer.reason == (Reason.SERVER_UNAVAILABLE if version == 5 else 3)
            await door.open()
            await until(lambda: gateway.link.is_up)
            device = await connect(gateway.port, "d", False, version, LASTING if version == 5 else None)
            await device.publish(b"t", b"x")

    asyncio.run(main())


def test_a_store_that_keeps_its_connections_but_does_not_answer_is_away(streamd_store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.store.link.SILENT_S", 0.5)
    monkeypatch.setattr("streamd.clients.mqtt.store.link._CONNECT_S", 0.5)

    async def main():
        async with behind_a_door(streamd_store) as (door, gateway):
            publisher = await connect(gateway.port, "publisher")
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t", 1))
            door.hold_up()
            publisher.send(p.Publish(b"t", b"x", 1, packet_id=1))
            await until(lambda: not gateway.link.is_up)
            assert (await answer_to_connect(gateway.port, "d", 5)).reason == Reason.SERVER_UNAVAILABLE
            await door.open()
            await publisher.expect(p.Puback)
            assert (await reader.receive()).payload == b"x"
            await publisher.publish(b"t", b"y")
            assert (await reader.receive()).payload == b"y"

    asyncio.run(main())


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_publishers_are_not_read_from_and_nothing_is_lost(store, version, qos):
    async def main():
        async with behind_a_door(store) as (door, gateway):
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t", 2))
            publisher = await connect(gateway.port, "publisher", version=version)
            door.shut()
            await until(lambda: not gateway.link.is_up)
            # More than sockets hold.
            payloads = [b"%d " % number + bytes(20_000) for number in range(900)]
            for number, payload in enumerate(payloads):
                publisher.send(p.Publish(b"t", payload, qos, packet_id=number + 1 if qos else 0))
            await until(lambda: gateway.paused)
            (paused,) = gateway.paused
            assert paused.session.client_id == "publisher"
            assert gateway.publishing.backlog < len(payloads) / 2
            gateway.keep_alive.check()
            await door.open()

            async def take_answers():
                for number in range(len(payloads) if qos else 0):
                    answer = await publisher.expect(p.Puback if qos == 1 else p.Pubrec)
                    assert (answer.packet_id, answer.reason) == (number + 1, 0)

            found, _ = await asyncio.gather(receive(reader, len(payloads)), take_answers())
            assert found == payloads
            assert [one for one in await reader.quiet() if type(one) is p.Publish] == []

    asyncio.run(main())


async def receive(device, count):
    return [(await device.receive()).payload for _ in range(count)]


def test_keep_alive_does_not_punish_who_is_not_read(streamd_store):
    async def main():
        async with behind_a_door(streamd_store) as (door, gateway):
            publisher = await connect(gateway.port, "publisher", keep_alive_s=10)
            silent = await connect(gateway.port, "silent", keep_alive_s=10)
            door.shut()
            await until(lambda: not gateway.link.is_up)
            publisher.send(p.Publish(b"t", b"x", 1, packet_id=1))
            await until(lambda: gateway.paused)
            loop = gateway.loop
            for minutes in range(1, 4):
                ahead_s = minutes * 60
                gateway.keep_alive._loop = SimpleNamespace(time=lambda ahead_s=ahead_s: loop.time() + ahead_s)
                gateway.keep_alive.check()
            gateway.keep_alive._loop = loop
            assert (await silent.expect(p.Disconnect)).reason == Reason.KEEP_ALIVE_TIMEOUT
            await door.open()
            await publisher.expect(p.Puback)
            await publisher.publish(b"t", b"y")

    asyncio.run(main())


def test_the_first_message_with_properties_waits_for_the_store(store):
    async def main():
        async with behind_a_door(store) as (door, gateway):
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t", 2))
            publisher = await connect(gateway.port, "publisher")
            gateway.logs.all[0].version = 1  # as of a log that an older streamd made
            door.shut()
            await until(lambda: not gateway.link.is_up)
            properties = {Property.USER_PROPERTY: (("a", "b"), ("a", "c"))}
            for number in range(5):
                publisher.send(p.Publish(b"t", b"%d" % number, 1, packet_id=number + 1, properties=properties))
            await until(lambda: any(one.is_busy for one in gateway.connections))
            await door.open()
            for number in range(5):
                assert await publisher.expect(p.Puback) == p.Puback(number + 1)
            assert await receive(reader, 5) == [b"0", b"1", b"2", b"3", b"4"]

    asyncio.run(main())


def test_sessions_go_on_when_the_store_is_back(store):
    async def main():
        async with behind_a_door(store) as (door, gateway):
            device = await connect(gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t", 2))
            publisher = await connect(gateway.port, "publisher", version=4)
            for number in range(10):
                await publisher.publish(b"t", b"%d" % number, 2)
            door.shut()
            await until(lambda: not gateway.link.is_up)
            device.close()  # the store learns of it later
            await until(lambda: "device" not in gateway.clients)
            await door.open()
            await until(lambda: gateway.link.is_up)
            for number in range(10, 20):
                await publisher.publish(b"t", b"%d" % number, 2)
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            assert device.connack.session_present
            found = await receive(device, 20)
            assert sorted(found, key=int) == found
            assert [one for one in await device.quiet() if type(one) is p.Publish] == []

    asyncio.run(main())


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("properties", [None, LASTING])
def test_a_full_store(store, qos, properties):
    async def main():
        async with running(store) as gateway:
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t", 1))
            device = await connect(gateway.port, "device", properties=properties)
            older = await connect(gateway.port, "older", version=4)
            async with full(store):
                answer = await device.publish(b"t", b"x", qos)
                assert (type(answer), answer.reason) == ((p.Puback, p.Pubrec)[qos - 1], Reason.QUOTA_EXCEEDED)
                assert answer.properties[Property.REASON_STRING].startswith("OOM")
                older.send(p.Publish(b"t", b"x", qos, packet_id=1))
                assert await older.packet() is None
            await device.publish(b"t", b"y", qos)
            older = await connect(gateway.port, "older", version=4)
            await older.publish(b"t", b"z", qos)
            assert await receive(reader, 2) == [b"y", b"z"]

    asyncio.run(main())


@VERSIONS
def test_a_full_store_takes_no_sessions_and_no_subscriptions(store, version):
    properties = LASTING if version == 5 else {}

    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "device", False, version, properties)
            async with full(store):
                fresh = await Device(version).open(gateway.port)
                fresh.send(p.Connect(version, "fresh", False, properties=properties))
                answer = await fresh.expect(p.Connack)
                assert answer.reason == (Reason.QUOTA_EXCEEDED if version == 5 else 3)
                answer = await device.subscribe(p.Subscription("t", 1))
                assert answer.reasons == (Reason.QUOTA_EXCEEDED if version == 5 else 0x80,)
            assert (await device.subscribe(p.Subscription("t", 1))).reasons == (1,)
            await device.publish(b"t", b"x")
            assert (await device.receive()).payload == b"x"

    asyncio.run(main())


def test_sessions_that_end_while_the_store_is_full_are_ended_later(store):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t", 1))
            brief = await connect(gateway.port, "brief", properties={Property.SESSION_EXPIRY_INTERVAL: 1})
            async with full(store):
                await device.disconnect()
                await brief.disconnect()
                await gateway.link.ask(("PING",))
            async with asyncio.timeout(WAIT_S):
                while (await gateway.link.demand(("ZSCORE", INDEX, "brief")))[0] is not None:
                    await asyncio.sleep(0)
                while float((await gateway.link.demand(("ZSCORE", INDEX, "device")))[0]) == float("inf"):
                    await asyncio.sleep(0)
            async with redis.asyncio.Redis.from_url(store) as client:
                ends_ms = await client.hget(await data_key_of(client, "device"), "ends_ms")
                assert (await client.get(pointer_key("device"))).endswith(b" -")
            assert int(ends_ms) > gateway.now_ms()
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            assert device.connack.session_present

    asyncio.run(main())


def test_a_session_that_is_back_before_its_end_was_written_stays_connected(store):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "device", properties=LASTING)
            async with full(store):
                await device.disconnect()
                await gateway.link.ask(("PING",))
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            chores = []
            gateway.chores.on_chores.append(lambda: chores.append(None))
            await until(lambda: len(chores) == 2)
            await gateway.link.ask(("PING",))
            assert (await gateway.link.demand(("ZSCORE", INDEX, "device"))) == [b"inf"]
            (pointer,) = await gateway.link.demand(("GET", pointer_key("device")))
            assert pointer.split(b" ")[1].startswith(gateway.run.encode())

    asyncio.run(main())


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize("qos", [1, 2])
def test_what_a_full_store_did_not_note_is_noted_later(store, qos, is_left):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t", qos))
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t", b"a", 1)
            first = await device.receive(acknowledges=False)
            async with full(store) as client:
                noting = gateway.noting
                noting._timer.cancel()
                noting._write_later()
                await gateway.link.ask(("PING",))
                if is_left:
                    device.close()
                    await until(lambda: "device" not in gateway.clients)
                    await gateway.link.ask(("PING",))
                assert not await client.hexists(await data_key_of(client, "device"), "i 1")
            await publisher.publish(b"t", b"b", 1)
            if not is_left:
                second = await device.receive()
                assert (second.payload, second.packet_id) == (b"b", 2)
                device.close()
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            found = [await device.receive()] if not is_left else [await device.receive() for _ in range(2)]
            assert (found[0].payload, found[0].dup, found[0].packet_id) == (b"a", True, first.packet_id)
            assert [one for one in await device.quiet() if type(one) is p.Publish] == []

    asyncio.run(main())


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("fault", ["NOPERM", "READONLY"])
def test_a_store_that_does_not_allow_it(store, fault, qos, request):
    if fault == "READONLY" and "streamd" in request.node.name:
        pytest.skip("a streamd without a journal is no replica")

    async def main():
        client = redis.asyncio.Redis.from_url(store)
        await client.execute_command("ACL", "SETUSER", "mqtt", "on", ">secret", "~*", "&*", "+@all")
        try:
            async with running(store.replace("//", "//mqtt:secret@")) as gateway:
                device = await connect(gateway.port, "device", properties=LASTING)
                older = await connect(gateway.port, "older", version=4)
                if fault == "NOPERM":
                    await client.execute_command("ACL", "SETUSER", "mqtt", "-xadd")
                else:
                    await client.execute_command("REPLICAOF", "127.0.0.1", "1")
                answer = await device.publish(b"t", b"x", qos)
                assert answer.reason == Reason.NOT_AUTHORIZED
                assert fault in answer.properties[Property.REASON_STRING] or "permission" in str(answer)
                older.send(p.Publish(b"t", b"x", qos, packet_id=1))
                assert await older.packet() is None
                if fault == "NOPERM":
                    await client.execute_command("ACL", "SETUSER", "mqtt", "+@all")
                else:
                    await client.execute_command("REPLICAOF", "NO", "ONE")
                await device.publish(b"t", b"y", qos)
        finally:
            if fault == "READONLY":
                await client.execute_command("REPLICAOF", "NO", "ONE")
            await client.execute_command("ACL", "DELUSER", "mqtt")
            await client.aclose()

    asyncio.run(main())


def test_a_session_whose_record_is_refused_leaves_nothing(store, tmp_path):
    (tmp_path / "passwords").write_text(line("ann", "a"))

    async def main():
        client = redis.asyncio.Redis.from_url(store)
        await client.execute_command("ACL", "SETUSER", "mqtt", "on", ">secret", "~*", "&*", "+@all")
        try:
            async with running(store.replace("//", "//mqtt:secret@"), password_file=tmp_path / "passwords") as gateway:
                await client.execute_command("ACL", "SETUSER", "mqtt", "-hset")
                device = await Device().open(gateway.port)
                device.send(p.Connect(5, "d", True, username="ann", password=b"a", properties=LASTING))
                assert (await device.expect(p.Connack)).reason == Reason.SERVER_UNAVAILABLE
                await gateway.link.ask(("PING",))
                assert await client.zcard(INDEX) == await client.scard(user_key("ann")) == 0
                await client.execute_command("ACL", "SETUSER", "mqtt", "+@all")
                device = await connect(gateway.port, "d", username="ann", password=b"a", properties=LASTING)
                assert await client.zcard(INDEX) == await client.scard(user_key("ann")) == 1
        finally:
            await client.execute_command("ACL", "DELUSER", "mqtt")
            await client.aclose()

    asyncio.run(main())
