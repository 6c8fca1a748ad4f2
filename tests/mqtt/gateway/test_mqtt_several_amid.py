"""Several gateways on one store, and what happens amid something else."""

import asyncio
from contextlib import AsyncExitStack

import pytest
import redis.asyncio

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.gateway.ownership import GATEWAYS
from streamd.clients.mqtt.store.records import Pointer, pointer_key
from streamd.clients.mqtt.store.share_records import entering, share_key, share_name
from tests.mqtt.gateway.in_process import WAIT_S, Device, connect, data_key_of, running
from tests.mqtt.gateway.test_mqtt_rights import line
from tests.mqtt.gateway.test_mqtt_several_gateways import LASTING, lasting, leave_behind, published, two


def test_two_gateways_start_at_once_on_an_empty_store(store):
    async def main():
        async with AsyncExitStack() as stack:
            one, other = await asyncio.gather(*(stack.enter_async_context(running(store)) for _ in range(2)))
            reader = await connect(one.port, "reader")
            await reader.subscribe(p.Subscription("t", 1))
            await (await connect(other.port, "publisher")).publish(b"t", b"x")
            assert (await reader.receive()).payload == b"x"

    asyncio.run(main())


def test_a_session_whose_gateway_lets_go_amid_its_being_taken_stays(store):
    """A gateway may find that it owns the session itself, as what its client has begun is still being stored."""

    async def main():
        async with two(store) as (one, other), redis.asyncio.Redis.from_url(store) as client:
            device = await lasting(one)
            await device.subscribe(p.Subscription("t", 1))

            async def let_go(client_id, pointer):
                key = await data_key_of(client, client_id)
                await client.set(pointer_key(client_id), Pointer(pointer.epoch, None).to_text())
                assert await client.exists(key)
                return True

            other.handing_over.ask_for = let_go
            again = await lasting(other)
            assert again.connack.session_present
            again.send(p.Publish(b"t", b"x", 0))
            assert (await again.receive()).payload == b"x"

    asyncio.run(main())


def test_a_group_whose_only_member_leaves_while_it_is_to_read_reads_on_for_the_next_one(store):
    async def main():
        async with running(store) as gateway:
            faults = []
            asyncio.get_running_loop().set_exception_handler(lambda _, said: faults.append(said))
            member = await lasting(gateway, "member")
            await member.subscribe(p.Subscription("$share/g/t", 1))
            publisher = await connect(gateway.port, "publisher")
            (group,) = gateway.shares.groups.values()
            (part,) = group.parts.values()
            async with part.lock:
                await publisher.publish(b"t", b"x")
                async with asyncio.timeout(WAIT_S):
                    while not part._coming:
                        await asyncio.sleep(0)
                await member.disconnect()
            async with asyncio.timeout(WAIT_S):
                while part.is_at_work:
                    await asyncio.sleep(0)
            assert faults == []
            member = await lasting(gateway, "member")
            assert (await member.receive()).payload == b"x"

    asyncio.run(main())


@pytest.mark.interpreted(reason="what is told is not heard")
@pytest.mark.parametrize("moment", ["its client speaks", "a tick"])
def test_a_gateway_that_stood_still_stores_nothing_of_a_client_that_has_gone(store, monkeypatch, moment):
    """Its client has sent the same message of QoS 2 to the other gateway."""
    monkeypatch.setattr("streamd.clients.mqtt.gateway.handing_over._PATIENCE_S", 0)

    async def main():
        async with two(store) as (one, other):
            reader = await connect(other.port, "reader")
            await reader.subscribe(p.Subscription("t", 2))
            one.handing_over._do = lambda said: None
            older = await lasting(one)
            newer = await lasting(other)
            await newer.publish(b"t", b"x", 2)
            assert (await reader.receive()).payload == b"x"
            older.send(p.Publish(b"t", b"x", 2, packet_id=1), p.Pingreq())
            one.ticked_s -= 10
            if moment == "a tick":
                one._tick()
            assert (await older.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER
            assert await older.packet() is None
            await newer.publish(b"t", b"y", 2)
            assert (await reader.receive()).payload == b"y"
            assert published(await reader.quiet()) == []

    asyncio.run(main())


def test_clients_of_a_gateway_that_stood_still_go_on_if_nobody_has_taken_them(store):
    async def main():
        async with two(store) as (one, _):
            device, other = await lasting(one), await connect(one.port, "other")
            for number in range(3):
                one.ticked_s -= 10
                await asyncio.gather(*(who.subscribe(p.Subscription(f"t{number}", 1)) for who in (device, other)))
                one.ticked_s -= 10
                for who in (device, other):
                    await who.publish(b"u", b"x", 2)

    asyncio.run(main())


@pytest.mark.interpreted(reason="lines are counted")
@pytest.mark.parametrize("properties", [{}, LASTING])
def test_two_devices_of_one_name_at_two_gateways_make_one_line(store, properties):
    async def main():
        async with two(store) as gateways:
            lines = []
            for gateway in gateways:
                gateway.takeovers._say = lines.append
                gateway.takeovers.wait = no_wait
            older = None
            for number in range(6):
                device = await connect(gateways[number % 2].port, "d", False, 5, properties)
                if older is not None:
                    assert (await older.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER
                older = device
            assert len(lines) == 1, lines

    async def no_wait(client_id):
        pass

    asyncio.run(main())


@pytest.mark.interpreted(reason="lines are counted")
def test_a_client_whose_gateways_end_one_after_the_other_makes_no_line(store):
    async def main():
        async with two(store) as (one, _), redis.asyncio.Redis.from_url(store) as client:
            lines = []
            one.takeovers._say = lines.append
            for run in ("dead1", "dead2", "dead3"):
                await leave_behind(client, "d", {"version": 2, "uid": "u", "expiry_s": 1_000}, run)
                device = await lasting(one)
                assert device.connack.session_present
                device.close()
                async with asyncio.timeout(WAIT_S):
                    while not (await client.get(pointer_key("d"))).endswith(b"-"):
                        await asyncio.sleep(0)
            assert lines == []

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["any", "ordered"])
def test_a_gateway_that_starts_leaves_the_members_of_others_alone_that_have_no_session(store, mode):
    properties = {Property.USER_PROPERTY: (("share", mode),)}

    async def main():
        async with running(store) as one:
            member = await connect(one.port, "member")
            await member.subscribe(p.Subscription("$share/g/t", 1), properties=properties)
            publisher = await connect(one.port, "publisher")
            await publisher.publish(b"t", b"1")
            assert (await member.receive()).payload == b"1"
            async with running(store) as other, redis.asyncio.Redis.from_url(store) as client:
                assert await client.scard("mqtt:shares") == 1
                await publisher.publish(b"t", b"2")
                assert (await member.receive()).payload == b"2"
                late = await connect(other.port, "late")
                await late.subscribe(p.Subscription("$share/g/t", 1), properties=properties)
                await late.disconnect()
                await publisher.publish(b"t", b"3")
                assert (await member.receive()).payload == b"3"

    asyncio.run(main())


def test_members_of_a_gateway_that_is_dead_that_have_no_session_end_with_it(store):
    text = "$share/g/t"
    name = share_name(text)

    async def main():
        async with two(store) as (one, _), redis.asyncio.Redis.from_url(store) as client:
            member = await connect(one.port, "member")
            await member.subscribe(p.Subscription(text, 1))
            for words in entering(name, text, "any", "u", "gone", "dead"):
                await client.execute_command(*words)
            await leave_behind(client, "of it", {"version": 2, "uid": "v", "expiry_s": 1_000})
            async with asyncio.timeout(WAIT_S):
                while await client.hexists(GATEWAYS, "dead"):
                    await asyncio.sleep(0)
            fields = await client.hgetall(share_key(name))
            assert list(fields.values()).count(b"gone") == 0
            assert list(fields.values()).count(b"member") == 1
            await (await connect(one.port, "publisher")).publish(b"t", b"x")
            assert (await member.receive()).payload == b"x"

    asyncio.run(main())


def test_another_user_at_another_gateway_takes_no_connection_over(store, tmp_path):
    (tmp_path / "passwords").write_text(line("ann", "a") + line("bob", "b"))
    ann, bob = {"username": "ann", "password": b"a"}, {"username": "bob", "password": b"b"}

    async def main():
        async with two(store, password_file=tmp_path / "passwords") as (one, other):
            older = await connect(one.port, "d", **ann)
            await connect(other.port, "d", **bob)
            witness = await connect(one.port, "witness", **ann)
            await connect(other.port, "witness", **ann)
            assert (await witness.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER  # told behind it
            older.send(p.Pingreq())
            await older.expect(p.Pingresp)
            lasting_one = await connect(one.port, "lasting", properties=LASTING, **ann)
            device = await Device().open(other.port)
            device.send(p.Connect(5, "lasting", True, **bob))
            assert (await device.expect(p.Connack)).reason == Reason.NOT_AUTHORIZED
            lasting_one.send(p.Pingreq())
            await lasting_one.expect(p.Pingresp)

    asyncio.run(main())


@pytest.mark.interpreted(reason="what is told is not heard")
def test_what_a_group_gives_to_a_session_that_another_gateway_has_taken_is_not_lost(store, monkeypatch):
    """The older gateway reads some of the messages, and finds that it has lost the session."""
    monkeypatch.setattr("streamd.clients.mqtt.gateway.handing_over._PATIENCE_S", 0)
    limits = Limits(share_lease_ms=2_000)

    async def main():
        async with two(store, limits=limits) as (one, other):
            one.handing_over._do = lambda said: None
            older = await lasting(one)
            await older.subscribe(p.Subscription("$share/g/t", 2))
            newer = await lasting(other)
            assert newer.connack.session_present
            (group,) = other.shares.groups.values()
            for part in group.parts.values():
                part._round, of_its_own = _nothing, part._round
            publisher = await connect(other.port, "publisher")
            for number in range(5):
                await publisher.publish(b"t", b"%d" % number, 2)
            assert (await older.expect(p.Disconnect)).reason == Reason.SESSION_TAKEN_OVER
            part._round = of_its_own
            part.joined(next(iter(group.members.values())))
            got = [(await newer.receive()).payload for _ in range(5)]
            assert published(await newer.quiet()) == []
            assert sorted(got) == [b"0", b"1", b"2", b"3", b"4"]

    asyncio.run(main())


async def _nothing():
    pass


@pytest.mark.interpreted(reason="a moment is chosen")
def test_a_message_of_qos_2_whose_member_leaves_right_when_it_is_given_to_it_is_not_lost(store):
    async def main():
        async with running(store) as gateway:
            member = await lasting(gateway)
            await member.subscribe(p.Subscription("$share/g/t", 2))
            begin = gateway.shares._begin

            def begin_and_leave(session, connection):
                begin(session, connection)
                gateway.leaving_clients.left(connection, session)
                connection.transport.abort()

            gateway.shares._begin = begin_and_leave
            await (await connect(gateway.port, "publisher")).publish(b"t", b"x", 2)
            assert await member.packet() is None
            gateway.shares._begin = begin
            member = await lasting(gateway)
            found = await member.receive()
            assert (found.payload, found.dup) == (b"x", True)

    asyncio.run(main())
