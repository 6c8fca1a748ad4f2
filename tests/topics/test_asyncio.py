"""The asyncio side: the same logic, over the other client."""

import asyncio
import inspect

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from demo.proxy import CuttingProxy
from streamd.clients.topics import AsyncMember, AsyncTopicLog, Member, Message, TopicLog
from tests.topics.replays import by_pair


def port_of(client):
    return client.connection_pool.connection_kwargs["port"]


def test_both_sides_have_the_same_methods_with_the_same_arguments():
    for plain, other in ((TopicLog, AsyncTopicLog), (Member, AsyncMember)):
        for name, method in vars(plain).items():
            if not name.startswith("_") and callable(getattr(plain, name)):
                mine, theirs = (inspect.signature(getattr(one, name)) for one in (plain, other))
                assert list(mine.parameters) == list(theirs.parameters), name
                assert [one.default for one in mine.parameters.values()] == [
                    one.default for one in theirs.parameters.values()
                ]
                assert method.__doc__
                assert inspect.iscoroutinefunction(getattr(other, name)), name


def test_everything_works_from_asyncio(client):
    asyncio.run(use_everything(port_of(client)))


async def use_everything(port):
    async with redis.asyncio.Redis(port=port) as client:
        log = await AsyncTopicLog.create(client, "log", shards=2)
        assert await log.publish("a/b", b"0", "p", "0") == await log.publish("a/b", b"0", "p", "0")
        await log.publish_many(Message("a/b", str(number), "p", str(number)) for number in range(1, 10))
        await log.reconfigure(shards=3)
        await log.publish_many(Message("a/b", str(number), "p", str(number)) for number in range(5, 15))
        entries, iterator, state = await log.next(await log.iterator("a/+"), 100)
        assert by_pair(entries) == {("p", "a/b"): list(range(15))}
        assert state == "live"
        assert (await log.next(iterator, 1, block_ms=10)).state == "live"
        waiting = asyncio.create_task(log.next(iterator, 10, block_ms=5_000))
        await asyncio.sleep(0)
        await log.publish("a/b", b"15", "p")
        assert by_pair((await waiting).entries) == {("p", "a/b"): [15]}
        for ordered in (False, True):
            async with await log.share(f"group-{ordered}", ordered=ordered) as member:
                done = []
                while (delivery := await member.next(4)).state == "more":
                    done += delivery.entries
                    await member.renew()
                    assert await member.ack(delivery.entries) == len(delivery.entries)
                assert by_pair(done) == {("p", "a/b"): list(range(16))}
                assert not member.start_ignored
                assert member.start == "earliest"
                assert member.name
        await log.drop_share("group-True")
        assert list((await log.info())["shares"]) == ["group-False"]
        assert await log.retain() == 0
        await log.drop(1)
        assert await AsyncTopicLog.names(client) == [log.name]
        reopened = await AsyncTopicLog.open(client, "log")
        await reopened.drop()
        assert (await log.next(iterator)).state == "end"


def test_a_wait_that_is_cancelled_leaves_client_and_iterator_whole(client):
    async def cancel():
        async with redis.asyncio.Redis(port=port_of(client)) as connected:
            log = await AsyncTopicLog.create(connected, "log")
            iterator = await log.iterator()
            waiting = asyncio.create_task(log.next(iterator, 1, block_ms=60_000))
            # Not earlier: before Python 3.11.3, redis-py loses a cancellation that meets its look for a connection.
            while not (await connected.info("clients"))["blocked_clients"]:
                pass
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert waiting.cancelled()
            await log.publish("t", b"1")
            assert [entry.payload for entry in (await log.next(iterator, 10)).entries] == [b"1"]

    asyncio.run(cancel())


def test_many_publishers_of_one_process_are_stored_once_and_in_order_though_connections_are_cut(client):
    proxy = CuttingProxy(port_of(client), (4, 12))
    TopicLog.create(client, "log")
    proxy.start()

    async def publisher(number):
        connected = redis.asyncio.Redis(port=proxy.port, retry=Retry(NoBackoff(), 0))
        log = None
        at = 0
        while at < 100:
            try:
                log = log or await AsyncTopicLog.open(connected, "log")
                await log.publish_many(Message("t", str(one), f"p{number}", str(one)) for one in range(at, at + 10))
                at += 10
            except redis.RedisError:
                continue
        await connected.aclose()

    async def storm():
        await asyncio.gather(*(publisher(number) for number in range(6)))

    try:
        asyncio.run(storm())
    finally:
        proxy.stop()
    assert sum(proxy.cuts.values()) > 3
    log = TopicLog.open(client, "log")
    assert by_pair(log.next(log.iterator(), 10_000).entries) == {(f"p{one}", "t"): list(range(100)) for one in range(6)}
