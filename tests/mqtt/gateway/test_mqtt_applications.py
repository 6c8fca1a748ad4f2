"""Applications: their packs, and what happens when these are not acknowledged in time."""

import asyncio

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.limits import Limits
from tests.mqtt.gateway.in_process import connect
from tests.mqtt.gateway.moved_packs import (
    LASTING,
    application,
    come,
    ids,
    numbers,
    packing,
    publish_many,
    quiet,
)


@pytest.mark.parametrize("version", [4, 5])
def test_a2_the_first_session_begins_at_the_end_and_later_absences_lose_nothing(store, version):
    async def main():
        async with packing(store) as (gateway, _):
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(5))
            app = await application(gateway, p.Subscription("t/+", 1), version=version)
            assert await quiet(app, gateway) == []
            for first in (5, 10):
                await app.disconnect()
                await publish_many(publisher, range(first, first + 5))
                app = await application(gateway, version=version)
                assert app.connack.session_present
                found = await come(app, 5)
                assert numbers(found) == list(range(first, first + 5))
                for one in found:
                    app.acknowledge(one)

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
def test_a3_a_pack_is_not_followed_before_all_of_it_is_acknowledged(store, version):
    async def main():
        async with packing(store, pack=5) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", 1), version=version)
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(12))
            found = await come(app, 5)
            for at in (4, 0, 1, 2):
                app.acknowledge(found[at])
                assert await app.quiet() == []
            app.acknowledge(found[3])
            following = await come(app, 5)
            assert ids(following) == [(packet_id, False) for packet_id in range(6, 11)]
            app.acknowledge(following[0])
            await publish_many(publisher, range(12, 14))
            assert await quiet(app, gateway) == []
            for one in following[1:]:
                app.acknowledge(one)
            assert numbers(await come(app, 4)) == [10, 11, 12, 13]

    asyncio.run(main())


def test_a3_a_pack_has_200_messages_and_one_of_a_shared_subscription_500(store):
    async def main():
        async with packing(store) as (gateway, _):
            own = await application(gateway, p.Subscription("t/+", 1), client_id="app1")
            shared = await application(gateway, p.Subscription("$share/g/t/+", 1), client_id="app2")
            publisher = await connect(gateway.port, "publisher")
            for number in range(650):
                publisher.send(p.Publish(b"t/a", b"%d" % number, 1, packet_id=number + 1))
            for _ in range(650):
                await publisher.expect(p.Puback)
            found = await come(own, 200)
            for one in found:
                own.acknowledge(one)
            found += (following := await come(own, 200))
            for one in following:
                own.acknowledge(one)
            found += await come(own, 200)
            assert numbers(found) == list(range(600))
            of_share = [await shared.receive(acknowledges=False) for _ in range(500)]
            assert await shared.quiet() == []
            for one in of_share:
                shared.acknowledge(one)
            of_share += [await shared.receive() for _ in range(150)]
            assert sorted(numbers(of_share)) == list(range(650))

    asyncio.run(main())


def test_a3_the_first_acknowledgement_closes_a_pack_and_so_does_a_second(store):
    async def main():
        async with packing(store, pack=10) as (gateway, clock):
            app = await application(gateway, p.Subscription("t/+", 1))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(2))
            first, second = await come(app, 2)
            app.acknowledge(first)
            await app.quiet()
            await publish_many(publisher, [2])
            assert await quiet(app, gateway) == []
            app.acknowledge(second)
            (third,) = await come(app, 1)
            clock.advance(0.999)
            await publish_many(publisher, [3])
            (fourth,) = await come(app, 1)
            clock.advance(0.001)
            await publish_many(publisher, [4])
            assert await quiet(app, gateway) == []
            app.acknowledge(fourth)
            app.acknowledge(third)
            assert numbers(await come(app, 1)) == [4]

    asyncio.run(main())


def test_a3_a_pack_may_be_larger_than_what_a_device_has_in_flight(store):
    async def main():
        async with packing(store, limits=Limits(in_flight_max=3), pack=5) as (gateway, _):
            publisher = await connect(gateway.port, "publisher")
            app = await application(gateway, p.Subscription("t/+", 1))
            device = await application(gateway, p.Subscription("t/+", 1), client_id="device")
            await publish_many(publisher, range(10))
            await come(app, 5)
            await come(device, 3)
            for one in (app, device):
                await one.disconnect()
            app, device = await application(gateway), await application(gateway, client_id="device")
            await come(app, 5)
            await come(device, 3)

    asyncio.run(main())


def test_a3_the_receive_maximum_holds_within_a_pack(store):
    async def main():
        async with packing(store, pack=5) as (gateway, _):
            maximum = {Property.RECEIVE_MAXIMUM: 3}
            app = await application(gateway, p.Subscription("t/+", 1), properties=maximum)
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(6))
            found = await come(app, 3)
            app.acknowledge(found[0])
            assert await app.quiet() == []
            app.acknowledge(found[1])
            app.acknowledge(found[2])
            assert numbers(await come(app, 3)) == [3, 4, 5]

    asyncio.run(main())


def test_a4_a_pack_has_its_time_from_its_last_send(store):
    async def main():
        async with packing(store, wait_s=20) as (gateway, clock):
            app = await application(gateway, p.Subscription("t/+", 1), version=4)
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, [0])
            await come(app, 1)
            clock.advance(0.5)
            await publish_many(publisher, [1])
            await come(app, 1)
            clock.advance(19.9)
            assert await app.quiet() == []
            assert gateway.counters.pack_retries == 0
            clock.advance(0.1)
            assert ids([await app.receive(False), await app.receive(False)]) == [(1, True), (2, True)]
            clock.advance(19.9)
            assert await app.quiet() == []
            clock.advance(0.1)
            assert ids([await app.receive(False), await app.receive(False)]) == [(1, True), (2, True)]
            assert await app.quiet() == []
            assert gateway.counters.pack_retries == 2

    asyncio.run(main())


@pytest.mark.parametrize(("version", "resend_v5"), [(4, False), (5, True)])
def test_a5_what_is_unacknowledged_is_sent_again_three_times_within_the_connection(store, version, resend_v5, capsys):
    async def main():
        async with packing(store, pack=5, resend_v5=resend_v5) as (gateway, clock):
            app = await application(gateway, p.Subscription("t/+", 2), version=version)
            publisher = await connect(gateway.port, "publisher")
            for number in range(7):
                await publisher.publish(b"t/a", b"%d" % number, 2 if number % 2 else 1)
            found = await come(app, 5)
            app.acknowledge(found[1])  # of QoS 2
            await app.expect(p.Pubrel)
            app.send(p.Pubcomp(2))
            app.acknowledge(found[2])
            app.acknowledge(found[3])  # of QoS 2: its PUBREL is not answered
            assert await app.expect(p.Pubrel) == p.Pubrel(4)
            assert await app.quiet() == []
            for _ in range(3):
                clock.advance(20)
                assert await app.receive(False) == found[0]._replace(dup=True)
                assert await app.expect(p.Pubrel) == p.Pubrel(4)
                assert await app.receive(False) == found[4]._replace(dup=True)
                assert await app.quiet() == []
            clock.advance(20)
            following = await come(app, 2)
            assert ids(following) == [(6, False), (7, False)]
            assert (gateway.counters.pack_retries, gateway.counters.pack_drops) == (3, 3)
            await app.disconnect()
            app = await application(gateway, version=version)
            assert ids([await app.receive() for _ in range(2)]) == [(6, True), (7, True)]

    asyncio.run(main())
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "dropped" in one]
    assert "'app'" in line
    assert line.endswith("3 messages dropped: not acknowledged within 20 seconds, after 3 retries")


def test_a5_without_a_bound_a_pack_is_sent_again_for_ever(store):
    async def main():
        async with packing(store, retries=0) as (gateway, clock):
            app = await application(gateway, p.Subscription("t/+", 1), version=4)
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, [0])
            await come(app, 1)
            for _ in range(30):
                clock.advance(20)
                assert ids([await app.receive(False)]) == [(1, True)]
            app.send(p.Puback(1))
            clock.advance(20)
            assert await app.quiet() == []
            assert gateway.counters.pack_drops == 0

    asyncio.run(main())


def test_a5_a_client_of_mqtt_5_is_disconnected_and_gets_the_rest_when_it_comes_again(store):
    """5:4.4.0-1"""

    async def main():
        async with packing(store, pack=3, retries=3) as (gateway, clock):
            app = await application(gateway, p.Subscription("t/+", 1))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(5))
            found = await come(app, 3)
            app.acknowledge(found[1])
            await app.quiet()
            for retries in (1, 2, 3):
                clock.advance(20)
                told = await app.expect(p.Disconnect)
                assert told.reason == Reason.UNSPECIFIED_ERROR
                assert "20 seconds" in told.properties[Property.REASON_STRING]
                assert await app.packet() is None
                assert gateway.counters.pack_retries == retries
                app = await application(gateway)
                assert app.connack.session_present
                assert await come(app, 2) == [found[0]._replace(dup=True), found[2]._replace(dup=True)]
            app.writer.close()  # a connection that is lost is no retry
            app = await application(gateway)
            assert ids(await come(app, 2)) == [(1, True), (3, True)]
            clock.advance(20)
            assert ids(await come(app, 2)) == [(4, False), (5, False)]
            assert (gateway.counters.pack_retries, gateway.counters.pack_drops) == (3, 2)
            await app.disconnect()
            app = await application(gateway)
            assert ids(await come(app, 2)) == [(4, True), (5, True)]
            clock.advance(20)
            assert type(await app.packet()) is p.Disconnect  # the retries of the pack before are not counted

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
def test_a6_a_pack_may_be_skipped(store, version):
    async def main():
        async with packing(store, pack=3, skips=True) as (gateway, clock):
            app = await application(gateway, p.Subscription("t/+", 1), version=version)
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(5))
            assert ids(await come(app, 3)) == [(1, False), (2, False), (3, False)]
            clock.advance(20)
            found = await come(app, 2)
            assert ids(found) == [(4, False), (5, False)]
            assert (gateway.counters.pack_retries, gateway.counters.pack_drops) == (0, 3)
            for one in found:
                app.acknowledge(one)
            await app.disconnect()
            app = await application(gateway, version=version)
            assert await quiet(app, gateway) == []

    asyncio.run(main())


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(("version", "count"), [(4, 3), (5, 0)])
def test_a6_what_is_dropped_counts_for_the_receive_maximum_of_mqtt_5(store, version, count, qos):
    async def main():
        async with packing(store, pack=3, skips=True) as (gateway, clock):
            maximum = {Property.RECEIVE_MAXIMUM: 3}
            app = await application(gateway, p.Subscription("t/+", qos), version=version, properties=maximum)
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(7), qos=qos)
            await come(app, 3)
            clock.advance(20)
            await come(app, count)
            if version == 5:
                # Late.
                app.send(p.Puback(2) if qos == 1 else p.Pubrec(2, Reason.QUOTA_EXCEEDED))
                if qos == 2:
                    assert await app.expect(p.Pubrel) == p.Pubrel(2, Reason.PACKET_IDENTIFIER_NOT_FOUND)
                assert ids(await come(app, 1)) == [(4, False)]
                await app.disconnect()
                app = await application(gateway, properties=maximum)
                assert ids(await come(app, 1)) == [(4, True)]

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
def test_a7_a_message_leaves_its_pack_with_the_last_acknowledgement_of_its_qos(store, version):
    async def main():
        async with packing(store, pack=2) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", 2), version=version)
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(4), qos=0)
            assert numbers([await app.receive() for _ in range(4)]) == [0, 1, 2, 3]
            await publish_many(publisher, [5], qos=0)
            await publish_many(publisher, [6], qos=2)
            await publish_many(publisher, [7], qos=0)
            zero, two = [await app.receive(acknowledges=False) for _ in range(2)]
            assert (zero.qos, two.qos) == (0, 2)
            app.acknowledge(two)
            assert await app.expect(p.Pubrel) == p.Pubrel(two.packet_id)
            assert await app.quiet() == []
            app.send(p.Pubcomp(two.packet_id))
            assert numbers(await come(app, 1)) == [7]

    asyncio.run(main())


def test_a7_a_message_that_the_client_refuses_leaves_its_pack(store):
    async def main():
        async with packing(store, pack=2) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", 2))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(3), qos=2)
            await come(app, 2)
            app.send(p.Pubrec(1, Reason.QUOTA_EXCEEDED), p.Pubrec(2, Reason.QUOTA_EXCEEDED))
            assert numbers(await come(app, 1)) == [2]

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
def test_a10_what_has_expired_takes_no_packet_id_and_the_rest_says_what_is_left(store, version):
    async def main():
        async with packing(store, pack=1, resend_v5=True) as (gateway, clock):
            app = await application(gateway, p.Subscription("t/+", 1), version=version)
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, [0])
            for number, expiry_s in ((1, 30), (2, 100)):
                await publish_many(publisher, [number], properties={Property.MESSAGE_EXPIRY_INTERVAL: expiry_s})
            (first,) = await come(app, 1)
            gateway.clock_ahead_ms += 60_000
            app.acknowledge(first)
            (last,) = await come(app, 1)
            assert (numbers([last]), last.packet_id) == ([2], 2)
            left = last.properties.get(Property.MESSAGE_EXPIRY_INTERVAL, 40)
            assert 35 <= left <= 40
            gateway.clock_ahead_ms += 30_000
            clock.advance(20)
            (again,) = await come(app, 1)
            assert ids([again]) == [(2, True)]
            assert left - 31 <= again.properties.get(Property.MESSAGE_EXPIRY_INTERVAL, left - 30) <= left - 30
            gateway.clock_ahead_ms += 30_000
            clock.advance(20)  # it is not sent again, and nothing waits for it
            await publish_many(publisher, [3])
            (following,) = await come(app, 1)
            assert (numbers([following]), following.packet_id, following.dup) == ([3], 3, False)

    asyncio.run(main())


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_a13_a_message_has_the_lower_qos_of_publisher_and_subscription(store, asked):
    async def main():
        async with packing(store) as (gateway, _):
            app = await application(gateway, p.Subscription("t/+", asked))
            publisher = await connect(gateway.port, "publisher")
            for qos in (0, 1, 2):
                await publish_many(publisher, [qos], qos=qos)
            assert [one.qos for one in await come(app, 3)] == [min(asked, qos) for qos in (0, 1, 2)]

    asyncio.run(main())


KINDS = [
    ("app-1", None, None, True),
    ("sensor", None, None, False),
    ("sensor", None, "application", False),  # the property alone does nothing
    ("app-1", None, "device", True),
    ("sensor", "service-a", None, True),
    ("sensor", "service-a", "device", False),
    ("sensor", "service-a", "application", True),
    ("sensor", "service-a", "gizmo", True),
    ("app-1", "service-a", "device", False),
    ("sensor", "ann", "application", False),
    ("APP-1", None, None, False),
]


@pytest.mark.parametrize(("client_id", "user", "kind", "is_application"), KINDS)
@pytest.mark.parametrize("expiry_s", [0, 1_000])
def test_globs_on_client_ids_and_users_say_which_clients_are_applications(
    streamd_store, client_id, user, kind, is_application, expiry_s
):
    async def main():
        async with packing(streamd_store, ids=("app-*",), users=("service-?",)) as (gateway, _):
            properties = {Property.SESSION_EXPIRY_INTERVAL: expiry_s} if expiry_s else {}
            if kind is not None:
                properties[Property.USER_PROPERTY] = (("kind", kind),)
            device = await connect(gateway.port, client_id, properties=properties, username=user)
            assert (gateway.clients[client_id].pack is not None) == (is_application and expiry_s > 0)
            await device.disconnect()

    asyncio.run(main())


def test_a_client_of_3_1_1_with_a_clean_session_is_a_device(streamd_store):
    async def main():
        async with packing(streamd_store) as (gateway, _):
            devices = [await connect(gateway.port, name, clean, 4) for name, clean in (("app1", True), ("app2", False))]
            assert all(one.connack.reason == 0 for one in devices)
            assert [gateway.clients[one].pack is None for one in ("app1", "app2")] == [True, False]

    asyncio.run(main())


def test_a_device_has_more_in_flight_than_a_pack(store):
    async def main():
        async with packing(store, pack=3) as (gateway, clock):
            device = await connect(gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t/+", 1))
            publisher = await connect(gateway.port, "publisher")
            await publish_many(publisher, range(10))
            assert numbers(await come(device, 10)) == list(range(10))
            clock.advance(100)
            assert await device.quiet() == []

    asyncio.run(main())
