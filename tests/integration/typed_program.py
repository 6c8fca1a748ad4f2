"""A program of a user, as mypy sees it: what it takes from streamd has types, and misuse is found."""

from typing import assert_type

import redis

from spark_source import StreamdSource
from streamd.clients.topics import AsyncTopicLog, Delivery, Entry, Member, Message, TopicFilter, TopicLog
from streamd.testing import EmbeddedServer, ManualClock


def topics(client: redis.Redis) -> list[bytes]:
    """Publish and read."""
    log = TopicLog.create(client, "telemetry", shards=2, by="topic")
    assert_type(log.publish("devices/d7/temperature", b"21.5", publisher="d7", iid="reading-1"), str)
    assert_type(log.publish_many([Message("devices/d8/temperature", b"20")]), list[str])
    entries, _, _ = log.next(log.iterator("devices/+/temperature", start="earliest"), 100)
    assert_type(entries, list[Entry])
    with log.share("group", "me") as member:
        assert_type(member, Member)
        assert_type(member.next(10), Delivery)
    # wrong: log.publish(7, b"21.5")
    # wrong: log.next("no iterator", 100)
    # wrong: TopicLog.create(client, "telemetry", by="shard")
    return [entry.payload for entry in entries]


async def topics_of_asyncio(log: AsyncTopicLog) -> str:
    """Publish and wait for it."""
    # wrong: log.publish("a", b"b").upper()
    return await log.publish("a", b"b")


def testing() -> int:
    """Move the clock of a server."""
    clock = ManualClock()
    with EmbeddedServer(clock, stream_idmp_duration=5, requirepass="x") as server:
        assert_type(server.port, int)
        assert_type(server.url, str)
        server.client().ping()
        server.advance(seconds=1.5)
        # wrong: server.advance(seconds="1.5")
        # wrong: EmbeddedServer(clock, stream_idmp_duration=[])
        return server.internal_errors


def names() -> tuple[str, type[StreamdSource]]:
    """Take a name from Spark's source, and a filter."""
    # wrong: TopicFilter(7)
    TopicFilter("devices/#")
    return StreamdSource.name(), StreamdSource
