"""Expiry, aliases, sizes, names of messages, and each limit where it is reached."""

import asyncio

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.gateway.receiving import ContentRule
from streamd.clients.topics import recorded
from tests.mqtt.gateway.in_process import Device, connect, running

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}
EXPIRY = Property.MESSAGE_EXPIRY_INTERVAL


def iid(name):
    return {Property.USER_PROPERTY: (("iid", name),)}


@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_is_delivered_with_what_is_left_of_its_expiry_or_not_at_all(store, qos):
    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t/#", 2))
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t/sent", b"x", qos, properties={EXPIRY: 100})
            sent = await device.receive(acknowledges=False)
            assert sent.properties[EXPIRY] in (99, 100)
            await device.disconnect()
            await publisher.publish(b"t/long", b"x", qos, properties={EXPIRY: 100})
            await publisher.publish(b"t/short", b"x", qos, properties={EXPIRY: 10})
            await publisher.publish(b"t/kept", b"x", qos, properties={EXPIRY: 10}, retain=True)
            await publisher.publish(b"t/ever", b"x", qos)
            gateway.clock_ahead_ms = 60_000  # the store's clock, as the gateway knows it
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            found = [await device.receive() for _ in range(3)]
            assert [one.topic for one in found] == [b"t/sent", b"t/long", b"t/ever"]
            assert found[0].dup
            assert [one.properties.get(EXPIRY) in (39, 40) for one in found] == [True, True, False]
            fresh = await connect(gateway.port, "fresh")
            await fresh.subscribe(p.Subscription("t/#", 2))
            assert await fresh.quiet() == []

    asyncio.run(main())


@pytest.mark.parametrize("qos", [1, 2])
def test_an_expired_message_in_flight(store, qos):
    """The client may have it: it is sent again, with the seconds that are left, and finished."""

    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t", 2))
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t", b"x", qos, properties={EXPIRY: 10})
            await device.receive(acknowledges=False)
            device.close()
            gateway.clock_ahead_ms += 60_000
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            again = await device.receive()
            assert (again.dup, again.packet_id, again.properties[EXPIRY]) == (True, 1, 0)
            if qos == 2:
                await device.expect(p.Pubrel)
                device.send(p.Pubcomp(1))
            assert await device.quiet() == []

    asyncio.run(main())


def test_aliases_in_and_out(store):
    async def main():
        async with running(store, limits=Limits(topic_alias_max=2)) as gateway:
            reader = await connect(gateway.port, "reader", properties={Property.TOPIC_ALIAS_MAXIMUM: 65_535})
            assert reader.connack.properties[Property.TOPIC_ALIAS_MAXIMUM] == 2
            await reader.subscribe(p.Subscription("t/#", 2))
            publisher = await connect(gateway.port, "publisher")
            for topic, alias in ((b"t/a", 1), (b"t/b", 2), (b"", 1), (b"t/c", 1), (b"", 1), (b"", 2)):
                await publisher.publish(topic, b"x", properties={Property.TOPIC_ALIAS: alias})
            found = [await reader.receive() for _ in range(6)]
            told = [(one.topic, one.properties.get(Property.TOPIC_ALIAS)) for one in found]
            assert told == [(b"t/a", 1), (b"t/b", 2), (b"", 1), (b"t/c", None), (b"t/c", None), (b"", 2)]
            publisher.send(p.Publish(b"t/a", b"x", properties={Property.TOPIC_ALIAS: 3}))
            assert (await publisher.expect(p.Disconnect)).reason == Reason.TOPIC_ALIAS_INVALID

    asyncio.run(main())


@pytest.mark.parametrize("filters", [("$share/g/t/#",), ("t/#",), ("t/#", "$share/g/t/#")])
def test_aliases_are_told_before_they_are_used_also_for_messages_that_wait(store, filters):
    async def main():
        async with running(store) as gateway:
            properties = {**LASTING, Property.TOPIC_ALIAS_MAXIMUM: 10}
            reader = await connect(gateway.port, "reader", properties=properties)
            for one in filters:
                await reader.subscribe(p.Subscription(one, 2))
            publisher = await connect(gateway.port, "publisher")
            for number in range(20):
                publisher.send(p.Publish(b"t/%d" % (number % 4), b"%d" % number, 2, packet_id=number + 1))
                publisher.send(p.Publish(b"t/%d" % (number % 4), b"%d" % number))
            topics, count = {}, 0
            while count < 40 * len(filters):
                one = await reader.receive()
                alias = one.properties.get(Property.TOPIC_ALIAS)
                if one.topic:
                    topics[alias] = one.topic
                assert topics[alias] == b"t/%d" % (int(one.payload) % 4)
                count += 1

    asyncio.run(main())


def test_a_session_with_aliases_and_a_small_maximum(store):
    async def main():
        async with running(store) as gateway:
            properties = {**LASTING, Property.MAXIMUM_PACKET_SIZE: 100, Property.TOPIC_ALIAS_MAXIMUM: 5}
            device = await connect(gateway.port, "device", properties=properties)
            await device.subscribe(p.Subscription("t", 2))
            publisher = await connect(gateway.port, "publisher")
            for size in (10, 200, 95, 50):
                await publisher.publish(b"t", bytes(size), 2)
            assert [len((await device.receive()).payload) for _ in range(2)] == [10, 50]
            assert gateway.counters.publishes_dropped == 2

    asyncio.run(main())


@pytest.mark.parametrize("how", ["any", "ordered"])
def test_a_message_of_a_group_that_is_too_large_when_it_is_sent_again_counts_as_delivered(store, how):
    """5:3.1.2-25."""

    async def main():
        async with running(store, limits=Limits(share_lease_ms=3_600_000)) as gateway:
            device = await connect(gateway.port, "device", properties=LASTING)
            mode = {Property.USER_PROPERTY: (("share", how),)}
            await device.subscribe(p.Subscription("$share/g/t", 1), properties=mode)
            publisher = await connect(gateway.port, "publisher")
            for payload in (bytes(200), b"small"):
                await publisher.publish(b"t", payload)
                await device.receive(acknowledges=False)
            device.close()
            properties = {**LASTING, Property.MAXIMUM_PACKET_SIZE: 100}
            device = await connect(gateway.port, "device", clean=False, properties=properties)
            assert (await device.receive()).payload == b"small"
            assert await device.quiet() == []
            await gateway.shares.link.ask(("PING",))
            (part,) = gateway.shares.groups["$share/g/t"].parts.values()
            (member,) = part.group.members.values()
            assert await part.pending_of(member.consumer) == member.flying == {}
            await publisher.publish(b"t", b"next")
            assert (await device.receive()).payload == b"next"

    asyncio.run(main())


def test_a_publisher_of_too_many_iids_is_told(store, monkeypatch):
    monkeypatch.setattr(recorded, "_FEW", 5)
    monkeypatch.setattr(recorded, "_NOTED_MAX", 20)

    async def main():
        async with running(store) as gateway:
            device = await connect(gateway.port, "device")
            answers = [await device.publish(b"t", b"x", properties=iid(f"n{n}")) for n in range(40)]
            told = [one.properties.get(Property.REASON_STRING, "") for one in answers]
            assert all(one.reason == 0 for one in answers)
            assert len([one for one in told if "forgotten" in one]) == 1
            other = await connect(gateway.port, "other", properties={Property.REQUEST_PROBLEM_INFORMATION: 0})
            answers = [await other.publish(b"t", b"x", properties=iid(f"n{n}")) for n in range(40)]
            assert not any(Property.REASON_STRING in one.properties for one in answers)
            older = [await device.publish(b"u", b"x") for _ in range(40)]
            assert not any(one.properties for one in older)

    asyncio.run(main())


@pytest.mark.parametrize("qos", [1, 2])
def test_equal_content_is_stored_once_within_its_span(store, qos):
    async def main():
        async with running(store, content_rules=[ContentRule("m/+=60")]) as gateway:
            # At the beginning of a span.
            gateway.clock_ahead_ms += 60_000 - gateway.now_ms() % 60_000
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("#", 0))
            device = await connect(gateway.port, "device", version=4)
            other = await connect(gateway.port, "other")
            for topic, payload in [(b"m/a", b"1"), (b"m/a", b"1"), (b"m/b", b"1"), (b"m/a", b"2"), (b"n/a", b"1")]:
                await device.publish(topic, payload, qos)
            await device.publish(b"n/a", b"1", qos)
            await other.publish(b"m/a", b"1", qos)  # of another client
            await other.publish(b"m/a", b"1", qos, properties=iid("mine"))
            await device.quiet()
            gateway.clock_ahead_ms += 60_000
            await device.publish(b"m/a", b"1", qos)
            found = [await reader.receive() for _ in range(8)]
            assert [(one.topic, one.payload) for one in found] == [
                (b"m/a", b"1"), (b"m/b", b"1"), (b"m/a", b"2"), (b"n/a", b"1"), (b"n/a", b"1"),
                (b"m/a", b"1"), (b"m/a", b"1"), (b"m/a", b"1"),
            ]  # fmt: skip
            assert await reader.quiet() == []

    asyncio.run(main())


@pytest.mark.parametrize(("name", "reason"), [("x" * 20, 0), ("x" * 21, 0x83), ("", 0x83), ("é" * 11, 0x83)])
def test_the_length_of_an_iid(streamd_store, name, reason):
    async def main():
        async with running(streamd_store, limits=Limits(iid_bytes_max=20)) as gateway:
            device = await connect(gateway.port, "device")
            assert (await device.publish(b"t", b"x", properties=iid(name))).reason == reason
            assert (await device.publish(b"t", b"x")).reason == 0

    asyncio.run(main())


def test_the_number_of_sessions(streamd_store):
    async def main():
        limits = Limits(sessions_max=3, sessions_per_user_max=2)
        async with running(streamd_store, limits=limits) as gateway:
            for name, user, reason in [
                ("a", "ann", 0),
                ("b", "ann", 0),
                ("c", "ann", 0x97),
                ("c", "bob", 0),
                ("d", "eve", 0x97),
            ]:
                device = await connect(gateway.port, name, properties=LASTING, username=user)
                assert device.connack.reason == reason, name
            device = await connect(gateway.port, "d")  # without a session that lasts
            assert device.connack.reason == 0
            await device.disconnect()
            device = await connect(gateway.port, "a", clean=False, properties=LASTING, username="ann")
            assert device.connack.session_present
            await device.disconnect(properties={Property.SESSION_EXPIRY_INTERVAL: 0})
            assert (await connect(gateway.port, "d", properties=LASTING, username="eve")).connack.reason == 0

    asyncio.run(main())


def test_the_number_of_retained_messages(streamd_store):
    async def main():
        async with running(streamd_store, limits=Limits(retained_max=2)) as gateway:
            device = await connect(gateway.port, "device")
            for topic, payload, reason in [
                (b"a", b"1", 0),
                (b"b", b"1", 0),
                (b"c", b"1", 0x97),
                (b"a", b"2", 0),
                (b"b", b"", 0),
            ]:
                assert (await device.publish(topic, payload, retain=True)).reason == reason, topic
                await device.subscribe(p.Subscription("x", 0))  # behind the tail
            assert (await device.publish(b"c", b"1", retain=True)).reason == 0

    asyncio.run(main())


def test_the_number_of_wills(streamd_store):
    async def main():
        will = p.Will(b"will", b"gone")
        async with running(streamd_store, limits=Limits(wills_max=1)) as gateway:
            first = await connect(gateway.port, "a", will=will)
            assert (await connect(gateway.port, "b", will=will)).connack.reason == 0x97
            assert (await connect(gateway.port, "b")).connack.reason == 0
            await first.disconnect()
            assert (await connect(gateway.port, "c", will=will)).connack.reason == 0

    asyncio.run(main())


def test_a_client_identifier_that_is_too_long(streamd_store):
    async def main():
        async with running(streamd_store, limits=Limits(client_id_bytes_max=10)) as gateway:
            assert (await connect(gateway.port, "x" * 10)).connack.reason == 0
            assert (await connect(gateway.port, "x" * 11)).connack.reason == Reason.CLIENT_IDENTIFIER_NOT_VALID
            assert (await connect(gateway.port, "x" * 11, version=4)).connack.reason == 2

    asyncio.run(main())


@pytest.mark.parametrize("sent", [b"", b"\x10", b"\x10\xff\x00\x04"])
def test_a_client_without_connect_is_closed(streamd_store, capsys, sent):
    async def main():
        async with running(streamd_store, limits=Limits(connect_s=0.2)) as gateway:
            patient = await connect(gateway.port, "patient")
            device = await Device().open(gateway.port)
            device.writer.write(sent)
            assert await device.packet() is None
            assert await patient.quiet() == []

    asyncio.run(main())
    (line,) = capsys.readouterr().err.splitlines()
    assert "no CONNECT within 0.2 seconds" in line


def test_a_connect_of_more_than_16_kib(streamd_store, capsys):
    async def main():
        async with running(streamd_store) as gateway:
            will = p.Will(b"w", bytes(16_000))
            assert (await connect(gateway.port, "device", will=will)).connack.reason == 0
            device = await Device().open(gateway.port)
            device.send(p.Connect(5, "large", True, will=p.Will(b"w", bytes(16_384))))
            answer = await device.packet()
            assert answer is None or answer.reason == Reason.PACKET_TOO_LARGE
            assert answer is None or await device.packet() is None

    asyncio.run(main())
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_waits_behind_connect_is_bounded(streamd_store):
    """A client that is not let in yet cannot fill the memory."""

    async def main():
        async with running(streamd_store) as gateway:
            admitted = asyncio.Event()
            admit = gateway.access.admit

            async def slowly(*words, **more):
                await admitted.wait()
                return await admit(*words, **more)

            gateway.access.admit = slowly
            device = await Device().open(gateway.port)
            device.send(p.Connect(5, "device", True))
            for number in range(60):
                device.send(p.Publish(b"t", bytes(500_000), 1, packet_id=number + 1))
            async with asyncio.timeout(60):
                while not gateway.paused:
                    await asyncio.sleep(0)
            (connection,) = gateway.paused
            assert sum(len(one.payload) for one in connection._queue or ()) < 3_000_000
            admitted.set()
            await device.expect(p.Connack)
            for number in range(60):
                assert (await device.expect(p.Puback)).packet_id == number + 1

    asyncio.run(main())
