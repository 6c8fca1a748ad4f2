"""`streamd mqtt --replicas`: PUBACK and deliveries wait for replicas, and a destroyed primary loses none of them."""

import asyncio
import shutil
from pathlib import Path

import pytest
import redis

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.gateway.ownership import CannotStart
from streamd.clients.mqtt.store.link import StoreFault
from tests.mqtt.gateway.in_process import connect, running
from tests.replication.clusters import Node, evidence, nodes, sentinels, wait_until

LASTING = {Property.SESSION_EXPIRY_INTERVAL: 3_600}
CONFIRM_MS = "streamd.clients.mqtt.store.confirming.CONFIRM_MS"


def stored(client: redis.Redis) -> list[bytes]:
    """Return the payloads of all entries, those of one shard in their order."""
    found = [fields for key in sorted(client.scan_iter(_type="stream")) for _, fields in client.xrange(key)]
    return [fields[b"p"] for fields in found if b"p" in fields]


async def until(holds, what: str) -> None:
    await asyncio.to_thread(wait_until, holds, what)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with nodes(tmp_path_factory.mktemp("pair"), 1) as (primary, replica):
        yield primary, replica


@pytest.fixture
def empty(pair):
    """A primary and its replica, both empty."""
    primary, replica = pair
    primary.client.flushall()
    primary.client.execute_command("WAIT", 1, 5_000)
    yield primary, replica
    replica.thaw()
    wait_until(replica.is_linked, "the replica is back")


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("version", [4, 5])
def test_a_message_is_acknowledged_and_delivered_when_the_replica_has_it(empty: tuple[Node, Node], version, qos):
    primary, replica = empty

    async def main() -> None:
        async with running(f"redis://127.0.0.1:{primary.port}", replicas=1) as gateway:
            subscriber = await connect(gateway.port, "subscriber")
            await subscriber.subscribe(p.Subscription("t", 2))
            publisher = await connect(gateway.port, "publisher", version=version)
            await publisher.publish(b"t", b"before", qos)
            assert (await subscriber.receive()).payload == b"before"
            await until(lambda: stored(replica.client) == [b"before"], "the replica has it")

            replica.freeze()
            publisher.send(p.Publish(b"t", b"while", qos, packet_id=77))
            await until(lambda: b"while" in stored(primary.client), "the primary has it")
            assert await publisher.quiet() == []
            assert [one for one in await subscriber.quiet() if type(one) is p.Publish] == []

            replica.thaw()
            answer = await publisher.expect(p.Puback if qos == 1 else p.Pubrec)
            assert (answer.packet_id, answer.reason) == (77, 0)
            assert (await subscriber.receive()).payload == b"while"
        await until(lambda: sorted(stored(replica.client)) == [b"before", b"while"], "each is there once")
        assert sorted(stored(primary.client)) == [b"before", b"while"]

    asyncio.run(main())


def test_a_message_of_another_gateway_is_delivered_when_the_replica_has_it(empty):
    primary, replica = empty
    url = f"redis://127.0.0.1:{primary.port}"

    async def main() -> None:
        async with running(url, replicas=1) as gateway, running(url) as other:
            subscriber = await connect(gateway.port, "subscriber")
            await subscriber.subscribe(p.Subscription("t", 2))
            publisher = await connect(other.port, "publisher")
            replica.freeze()
            await publisher.publish(b"t", b"while", 1)
            await until(lambda: gateway._waiting_link._held, "the gateway has read it")
            assert [one for one in await subscriber.quiet() if type(one) is p.Publish] == []
            replica.thaw()
            assert (await subscriber.receive()).payload == b"while"

    asyncio.run(main())


@pytest.mark.interpreted(reason="a compiled module has its constants in its functions")
def test_a_message_that_waits_too_long_is_stored_once_and_acknowledged_later(empty, monkeypatch):
    primary, replica = empty
    lines: list[str] = []
    monkeypatch.setattr(CONFIRM_MS, 200)

    async def main() -> None:
        async with running(f"redis://127.0.0.1:{primary.port}", replicas=1) as gateway:
            gateway.warn = lines.append
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t", b"before")
            replica.freeze()
            publisher.send(p.Publish(b"t", b"while", 1, packet_id=77))
            text = "0 of 1 replicas confirm; publishers wait"
            await until(lambda: text in lines, "the gateway takes the store for away")
            replica.thaw()
            assert (await publisher.expect(p.Puback)).packet_id == 77
            # A client that has given up sends it again: the name keeps it from being stored twice.
            publisher.close()
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t", b"after")
        assert sorted(stored(primary.client)) == [b"after", b"before", b"while"]

    asyncio.run(main())


@pytest.mark.interpreted(reason="a compiled module has its constants in its functions")
def test_a_gateway_does_not_start_with_too_few_replicas_or_without_the_right_to_ask(empty, monkeypatch):
    primary, _ = empty
    monkeypatch.setattr("streamd.clients.mqtt.gateway.gateway._START_S", 0.5)
    primary.client.execute_command("ACL", "SETUSER", "mqtt", "on", "nopass", "~*", "&*", "+@all", "-wait")

    async def main(url: str, replicas: int) -> None:
        async with running(url, replicas=replicas):
            raise AssertionError("it has started")

    place = f"127.0.0.1:{primary.port}"
    with pytest.raises(CannotStart, match=r"redis://127.0.0.1:\d+: 1 of 2 replicas confirm; "):
        asyncio.run(main(f"redis://{place}", 2))
    with pytest.raises(CannotStart, match="no permissions to run the 'wait' command"):
        asyncio.run(main(f"redis://mqtt:x@{place}", 1))


@pytest.mark.redis
@pytest.mark.parametrize("is_destroyed", [True, False])
def test_a_failover_loses_nothing_and_doubles_nothing(newest_redis: Path, tmp_path: Path, is_destroyed: bool):
    with nodes(tmp_path, 2) as servers, sentinels(newest_redis, tmp_path, servers[0].port) as ports:
        url = f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/mymaster"
        try:
            asyncio.run(through_a_failover(url, servers, None if is_destroyed else ports[0]))
        except (AssertionError, TimeoutError, StoreFault) as error:
            raise AssertionError(f"{error}\n{evidence(tmp_path)}") from error


async def through_a_failover(url: str, servers: list[Node], sentinel: int | None) -> None:
    """Destroy the primary, or let a Sentinel hand its role over, while two publish, one listens and one is away."""
    old, *others = servers
    sent = {1: 0, 2: 0}
    is_over = False

    async def publish(qos: int) -> None:
        device = await connect(gateway.port, f"publisher-{qos}", properties=LASTING)
        while not is_over or sent[qos] < 30:
            answer = await device.publish(f"t/{qos}".encode(), b"%d-%05d" % (qos, sent[qos]), qos)
            assert answer.reason == 0
            sent[qos] += 1

    async def receive(device, into: list[bytes]) -> None:
        while True:
            into.append((await device.receive()).payload)

    def switched() -> Node | None:
        return next((one for one in others if one.link().get("role") == "master"), None)

    heard: list[bytes] = []
    async with running(url, replicas=2) as gateway:
        listening = await connect(gateway.port, "listening", properties=LASTING)
        await listening.subscribe(p.Subscription("t/#", 2))
        away = await connect(gateway.port, "away", properties=LASTING)
        await away.subscribe(p.Subscription("t/#", 2))
        await away.disconnect()
        await listening.publish(b"kept", b"retained", 1, retain=True)
        receiving = asyncio.create_task(receive(listening, heard))
        publishing = [asyncio.create_task(publish(qos)) for qos in (1, 2)]
        await until(lambda: min(sent.values()) >= 20, "messages flow")

        if sentinel is None:
            for one in others:  # so that only the machine that is lost has what comes now
                one.freeze()
            old.client.execute_command("CLIENT", "KILL", "TYPE", "replica")
            looks = [sum(sent.values())]

            def is_held_up() -> bool:
                looks.append(sum(sent.values()))
                return looks[-10:] == [looks[-1]] * 10 or looks[-1] > looks[0] + 20

            await until(is_held_up, "nothing is acknowledged")
            old.kill()
            for one in others:
                one.thaw()
            shutil.rmtree(old.directory)
        else:
            redis.Redis(port=sentinel).execute_command("SENTINEL", "FAILOVER", "mymaster")
        await until(lambda: switched() is not None, "a replica is the primary")
        primary = switched()
        assert primary is not None
        if sentinel is None:  # two replicas are wanted: the machine is replaced
            await asyncio.to_thread(old.start, "--replicaof", "127.0.0.1", str(primary.port))
        before = dict(sent)
        await until(lambda: all(sent[qos] >= before[qos] + 20 for qos in sent), "messages flow again")
        is_over = True
        async with asyncio.timeout(30):
            await asyncio.gather(*publishing)
        wanted = sorted(b"%d-%05d" % (qos, number) for qos in sent for number in range(sent[qos]))
        await until(lambda: len(heard) >= len(wanted), "all were delivered")
        new = await connect(gateway.port, "new")
        await new.subscribe(p.Subscription("kept", 1))
        assert (await new.receive()).payload == b"retained"
        receiving.cancel()

    found = [one for one in await asyncio.to_thread(stored, primary.client) if one != b"retained"]
    assert sorted(found) == wanted
    assert sorted(heard) == wanted
    for qos in sent:  # in their order
        assert [one for one in heard if one.startswith(b"%d" % qos)] == [
            one for one in wanted if one.startswith(b"%d" % qos)
        ]
    async with running(url, replicas=2) as gateway:
        away = await connect(gateway.port, "away", clean=False, properties=LASTING)
        assert away.connack.session_present
        got = [(await away.receive()).payload for _ in wanted]
        assert sorted(got) == wanted
        listening = await connect(gateway.port, "listening", clean=False, properties=LASTING)
        assert listening.connack.session_present
        assert [one for one in await listening.quiet() if type(one) is p.Publish] == []
