"""Who may: files that are read again while clients are connected, patterns, certificates, `iid` and `start`."""

import asyncio
import hashlib
from base64 import b64encode

import pytest

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import Reason
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.listening import Listeners, start
from tests.mqtt.gateway.in_process import Device, connect, running
from tests.mqtt.listening.conftest import certificates  # noqa: F401

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}
EARLIEST = {Property.USER_PROPERTY: (("start", "earliest"),)}
ACL = """topic readwrite open/#
pattern readwrite own/%c/#
pattern read user/%u/#
user ann
topic readwrite a/#
topic read b/#
topic deny b/secret
user bob
topic readwrite #
"""


def line(user, password, salt=b"123456789012"):
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 101)
    return f"{user}:$7$101${b64encode(salt).decode()}${b64encode(digest).decode()}\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "passwords").write_text(line("ann", "a") + line("bob", "b") + line("eve", "e"))
    (tmp_path / "acl").write_text(ACL)
    return {"password_file": tmp_path / "passwords", "acl_file": tmp_path / "acl"}


async def come(gateway, user, client_id=None, password=None, **more):
    return await connect(
        gateway.port, client_id or user, username=user, password=(password or user[0]).encode(), **more
    )


async def read_again(gateway):
    """Do what SIGHUP does."""
    reloaded = await gateway.access.reload()
    gateway.rights_changed(reloaded.changed_users)
    return reloaded


def test_rights_of_users_and_patterns(streamd_store, files):
    async def main():
        async with running(streamd_store, **files) as gateway:
            ann = await come(gateway, "ann", "d1")
            filters = ["a/#", "b/#", "c", "own/d1/x", "own/d2/x", "user/ann/+", "user/bob/+", "b/secret"]
            answer = await ann.subscribe(*[p.Subscription(one, 0) for one in filters])
            no = Reason.NOT_AUTHORIZED
            assert answer.reasons == (0, 0, no, 0, no, 0, no, no)
            for topic, reason in [(b"a/x", 0), (b"b/x", no), (b"own/d1/y", 0), (b"own/d2/y", no), (b"user/ann/x", no)]:
                assert (await connect_free_publish(ann, topic)).reason == reason, topic
            assert (await come(gateway, "ann", "d3", "wrong")).connack.reason == Reason.BAD_USER_NAME_OR_PASSWORD
            assert (await come(gateway, "nobody")).connack.reason == Reason.BAD_USER_NAME_OR_PASSWORD
            bob = await come(gateway, "bob")
            for topic in (b"b/open", b"b/secret", b"b/end"):
                await bob.publish(topic, b"x")
            found = [one for one in await ann.quiet() if type(one) is p.Publish]
            assert [one.topic for one in found if one.topic[:2] == b"b/"] == [b"b/open", b"b/end"]

    asyncio.run(main())


async def connect_free_publish(device, topic):
    """Publish with QoS 1; return the PUBACK, whatever is delivered meanwhile."""
    device.packet_id += 1
    device.send(p.Publish(topic, b"x", 1, packet_id=device.packet_id))
    while type(found := await device.packet()) is not p.Puback:
        pass
    return found


def test_subscriptions_end_when_they_are_no_longer_allowed(store, files):
    async def main():
        async with running(store, **files) as gateway:
            ann = await come(gateway, "ann", properties=LASTING)
            await ann.subscribe(p.Subscription("a/#", 1), p.Subscription("b/#", 1), p.Subscription("$share/g/a/#", 1))
            bob = await come(gateway, "bob")
            await bob.publish(b"a/x", b"1", 1)
            assert sorted([(await ann.receive()).topic for _ in range(2)]) == [b"a/x", b"a/x"]
            files["acl_file"].write_text(ACL.replace("topic readwrite a/#\n", ""))
            await read_again(gateway)
            assert sorted(gateway.clients["ann"].subscriptions) == ["b/#"]
            await bob.publish(b"a/x", b"2")
            await bob.publish(b"b/x", b"3")
            assert (await ann.receive()).payload == b"3"
            assert await ann.quiet() == []
            await ann.disconnect()
            files["acl_file"].write_text(ACL)
            await read_again(gateway)
            ann = await come(gateway, "ann", properties=LASTING, clean=False)
            await bob.publish(b"a/x", b"4")
            await bob.publish(b"b/x", b"5")
            assert (await ann.receive()).payload == b"5"

    asyncio.run(main())


def test_what_a_session_missed_is_not_delivered_without_the_right(store, files):
    """Also for the messages in flight and the subscriptions of a session whose client was away."""

    async def main():
        async with running(store, **files) as gateway:
            ann = await come(gateway, "ann", properties=LASTING)
            await ann.subscribe(p.Subscription("a/#", 1), p.Subscription("b/#", 1))
            bob = await come(gateway, "bob")
            await bob.publish(b"a/before", b"x")
            await ann.receive(acknowledges=False)
            await ann.disconnect()
            await bob.publish(b"a/away", b"x")
            await bob.publish(b"b/away", b"x")
            files["acl_file"].write_text(ACL.replace("topic readwrite a/#\n", ""))
            await read_again(gateway)
            ann = await come(gateway, "ann", properties=LASTING, clean=False)
            assert (await ann.receive()).topic == b"b/away"
            assert await ann.quiet() == []
            await bob.publish(b"a/later", b"x")
            assert await ann.quiet() == []

    asyncio.run(main())


def test_users_that_were_changed_are_closed(store, files):
    async def main():
        async with running(store, **files) as gateway:
            ann, bob, eve = [await come(gateway, name, properties=LASTING) for name in ("ann", "bob", "eve")]
            files["password_file"].write_text(line("ann", "a") + line("bob", "new"))
            reloaded = await read_again(gateway)
            assert reloaded.changed_users == {"bob", "eve"}
            for one in (bob, eve):
                assert (await one.expect(p.Disconnect)).reason == Reason.ADMINISTRATIVE_ACTION
                assert await one.packet() is None
            assert await ann.quiet() == []
            assert (await come(gateway, "bob")).connack.reason == Reason.BAD_USER_NAME_OR_PASSWORD
            bob = await come(gateway, "bob", password="new", clean=False, properties=LASTING)
            assert bob.connack.session_present
            files["password_file"].write_text("ann:nonsense\n")
            reloaded = await read_again(gateway)
            assert len(reloaded.faults) == 1
            assert [await one.quiet() for one in (ann, bob)] == [[], []]
            assert (await come(gateway, "ann", "d2")).connack.reason == 0

    asyncio.run(main())


def test_start_and_iid_only_where_the_rules_allow_the_topic(store, files):
    async def main():
        async with running(store, **files) as gateway:
            bob = await come(gateway, "bob")
            for topic in (b"a/1", b"b/1", b"b/secret", b"c/1"):
                await bob.publish(topic, b"x")
            ann = await come(gateway, "ann")
            answer = await ann.subscribe(
                p.Subscription("#", 1), p.Subscription("c/#", 1), p.Subscription("b/#", 1), properties=EARLIEST
            )
            assert answer.reasons == (1, Reason.NOT_AUTHORIZED, 1)
            assert sorted([(await ann.receive()).topic for _ in range(2)]) == [b"a/1", b"b/1"]
            assert await ann.quiet() == []
            named = {Property.USER_PROPERTY: (("iid", "n1"),)}
            assert (await ann.publish(b"b/2", b"x", properties=named)).reason == Reason.NOT_AUTHORIZED
            assert (await ann.publish(b"a/2", b"x", properties=named)).reason == 0  # the name was not used up

    asyncio.run(main())


def test_a_will_needs_the_right_to_publish(streamd_store, files):
    async def main():
        async with running(streamd_store, **files) as gateway:
            assert (await come(gateway, "ann", will=p.Will(b"b/x", b"x"))).connack.reason == Reason.NOT_AUTHORIZED
            assert (await come(gateway, "ann", will=p.Will(b"a/x", b"x"))).connack.reason == 0

    asyncio.run(main())


@pytest.mark.parametrize("is_loopback", [True, False])
@pytest.mark.parametrize("allowed", [True, False])
def test_clients_without_a_name(streamd_store, files, is_loopback, allowed):
    async def main():
        settings = {"is_loopback": is_loopback, "allow_anonymous": allowed}
        async with running(streamd_store, **files, **settings) as gateway:
            device = await connect(gateway.port, "device")
            assert (device.connack.reason == 0) == (is_loopback or allowed)
            if device.connack.reason == 0:
                answer = await device.subscribe(p.Subscription("open/x", 0), p.Subscription("a/x", 0))
                assert answer.reasons == (0, Reason.NOT_AUTHORIZED)

    asyncio.run(main())


def test_the_user_of_a_certificate(streamd_store, certificates, tmp_path):  # noqa: F811
    acl = tmp_path / "acl"
    acl.write_text("pattern readwrite own/%u\n")

    async def main():
        async with running(streamd_store, acl_file=acl, certificate_kinds=frozenset({"mqtts"})) as gateway:
            options = {"tls_ca": certificates.ca.cert, "tls_user_from_certificate": True, **certificates.options()}
            listeners = Listeners(port=None, tls_port=0, **options)
            listening = await start(gateway.loop, listeners, lambda kind, _: gateway.make_connection(kind))
            port = int(listening.places[0][1].rpartition(":")[2])
            device = Device()
            context = certificates.client.context(certificates.ca)
            device.reader, device.writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            device.send(p.Connect(5, "device", True, username="somebody", password=b"else"))
            assert (await device.expect(p.Connack)).reason == 0
            assert gateway.clients["device"].user == "d7"
            answer = await device.subscribe(p.Subscription("own/d7", 0), p.Subscription("own/somebody", 0))
            assert answer.reasons == (0, Reason.NOT_AUTHORIZED)
            device.close()
            listening.close()

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(
    "data",
    [
        b"\xf0\x00" * 3,  # AUTH, which 3.1.1 has not
        b"\x30\x05\x00\x09abc",
        b"\x82\x03\x00\x00\x00" * 10,
        b"\xc0\x01\x00\xff\xff",
        bytes(5_000),
    ],
)
def test_malformed_input_gives_one_line_and_touches_nobody_else(streamd_store, capsys, version, data):
    async def main():
        async with running(streamd_store) as gateway:
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("t", 1))
            device = await connect(gateway.port, "device", version=version)
            good = encode(p.Publish(b"t", b"x", 1, packet_id=1), version)
            device.writer.write(good + data + good.replace(b"x", b"y"))
            found = []
            while (one := await device.packet()) is not None:
                found.append(type(one))
            assert [one for one in found if one is not p.Puback] == ([p.Disconnect] if version == 5 else [])
            assert (await reader.receive()).payload == b"x"
            assert await reader.quiet() == []

    asyncio.run(main())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    assert "client 'device' at 127.0.0.1:" in lines[0]


@pytest.mark.parametrize(("qos", "is_passed_on"), [(1, True), (2, False)])
@pytest.mark.parametrize("how", ["any", "ordered"])
def test_what_a_member_may_not_read_any_more_is_not_sent_again(store, tmp_path, how, qos, is_passed_on):
    rules = tmp_path / "acl"
    rules.write_text("user one\ntopic read t/#\nuser two\ntopic read t/#\nuser p\ntopic write t/#\n")
    mode = {Property.USER_PROPERTY: (("share", how),)}

    async def main():
        async with running(store, acl_file=rules, limits=Limits(share_lease_ms=3_600_000)) as gateway:
            one = await connect(gateway.port, "one", properties=LASTING, username="one")
            await one.subscribe(p.Subscription("$share/g/t/#", qos), properties=mode)
            publisher = await connect(gateway.port, "p", username="p")
            for payload in (b"first", b"second"):
                await publisher.publish(b"t/secret", payload, qos)
                assert (await one.receive(acknowledges=False)).payload == payload
            one.close()
            two = await connect(gateway.port, "two", properties=LASTING, username="two")
            await two.subscribe(p.Subscription("$share/g/t/#", qos), properties=mode)
            with rules.open("a") as file:
                file.write("user one\ntopic deny t/secret\n")
            await read_again(gateway)
            one = await connect(gateway.port, "one", clean=False, properties=LASTING, username="one")
            assert one.connack.session_present
            if is_passed_on:
                assert [(await two.receive()).payload for _ in range(2)] == [b"first", b"second"]
            assert [one for one in (await one.quiet()) if type(one) is p.Publish] == []
            assert [one for one in (await two.quiet()) if type(one) is p.Publish] == []
            await gateway.shares.link.ask(("PING",))
            (part,) = gateway.shares.groups["$share/g/t/#"].parts.values()
            for member in part.group.members.values():
                assert await part.pending_of(member.consumer) == member.flying == {}

    asyncio.run(main())


STATE = b"$SYS/broker/connection/hub/state"
ACL_OF_BRIDGES = (
    "topic readwrite #\nuser ann\ntopic write $SYS/broker/connection/hub/state\nuser bob\ntopic readwrite #\n"
)


@pytest.mark.parametrize("version", [4, 5])
def test_the_state_of_a_bridge_is_written_as_a_will_or_retained_by_users_whose_rights_name_it(
    streamd_store, files, version
):
    files["acl_file"].write_text(ACL_OF_BRIDGES)

    def will(topic):
        return p.Will(topic, b"0", 1, True)

    async def refused(gateway, user, topic):
        device = await Device(version).open(gateway.port)
        device.send(p.Connect(version, user, True, username=user, password=user[:1].encode(), will=will(topic)))
        return (await device.expect(p.Connack)).reason

    async def main():
        async with running(streamd_store, **files) as gateway:
            ann = await come(gateway, "ann", version=version, will=will(STATE))
            assert (await ann.publish(STATE, b"1", 1, retain=True)).reason == 0
            assert (gateway.retained._tree.get(STATE).payload, gateway.counters.publishes_refused) == (b"1", 0)
            for topic, retain in (
                (STATE, False),
                (b"$SYS/broker/uptime", True),
                (b"$SYS/broker/connection/x/state", True),
            ):
                await ann.publish(topic, b"1", 1, retain=retain)
            bob = await come(gateway, "bob", version=version)
            await bob.publish(STATE, b"2", 1, retain=True)
            assert gateway.counters.publishes_refused == 4
            not_authorized = 5 if version == 4 else Reason.NOT_AUTHORIZED
            assert await refused(gateway, "bob", STATE) == not_authorized
            assert await refused(gateway, "ann", b"$SYS/broker/uptime") == not_authorized
            assert gateway.retained._tree.get(STATE).payload == b"1"

    asyncio.run(main())
