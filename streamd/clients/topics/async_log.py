"""AsyncTopicLog: TopicLog over redis-py's client for asyncio."""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import redis.asyncio

from streamd.clients.topics import administration, leasing, publishing, reading, retention, shares, sharing
from streamd.clients.topics.drivers import block_ms_max, check_client, run_async
from streamd.clients.topics.handle import Handle
from streamd.clients.topics.iterators import Iterator
from streamd.clients.topics.messages import Entry, Message, as_messages
from streamd.clients.topics.reading import Batch, Start
from streamd.clients.topics.shares import Delivery
from streamd.clients.topics.topic_log import By, Publishable


class AsyncTopicLog:
    """A log of messages by topic: see TopicLog, whose methods these are, to be awaited."""

    def __init__(self, client: redis.asyncio.Redis, handle: Handle) -> None:
        self._client = client
        self._handle = handle
        handle.block_ms_max = block_ms_max(client)

    @classmethod
    async def create(
        cls,
        client: redis.asyncio.Redis,
        name: str,
        shards: int = 4,
        by: By = "publisher",
        retention_s: int = 86_400,
        filters: Iterable[str] = ("#",),
    ) -> "AsyncTopicLog":
        """Make a log and return it: see TopicLog.create. Raises: ValueError."""
        check_client(client)
        return cls(client, await run_async(client, administration.create(name, shards, by, retention_s, filters)))

    @classmethod
    async def open(cls, client: redis.asyncio.Redis, name: str) -> "AsyncTopicLog":
        """Return a log that was created before. Raises: ValueError."""
        check_client(client)
        return cls(client, await run_async(client, administration.open_log(name)))

    @staticmethod
    async def names(client: redis.asyncio.Redis) -> list[str]:
        """Return the names of all logs of a server."""
        return await run_async(client, administration.names())

    @property
    def name(self) -> str:
        """The log's name."""
        return self._handle.name

    async def publish(
        self,
        topic: str,
        payload: bytes | str,
        publisher: str | None = None,
        iid: str | bytes | None = None,
        expiry_s: float | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """Store a message; return its entry ID: see TopicLog.publish. Raises: ValueError; LogDropped; NotStored."""
        message = Message(topic, payload, publisher, iid, expiry_s, properties or {})
        return (await run_async(self._client, publishing.publish(self._handle, [message])))[0]

    async def publish_many(self, messages: Iterable[Publishable]) -> list[str]:
        """Store messages in their order; return their entry IDs. Raises: ValueError; LogDropped; NotStored."""
        return await run_async(self._client, publishing.publish(self._handle, as_messages(messages)))

    async def iterator(self, filter: str = "#", start: Start = "earliest") -> Iterator:
        """Return a place in the log. Raises: ValueError; LogDropped."""
        return await run_async(self._client, reading.start_iterator(self._handle, filter, start))

    async def next(self, iterator: Iterator, n: int = 100, block_ms: int = 0) -> Batch:
        """Return up to n entries, the iterator that follows, and a state. Raises: ValueError."""
        return await run_async(self._client, reading.read_next(self._handle, iterator, n, block_ms))

    async def share(
        self,
        name: str,
        filter: str = "#",
        start: Start = "earliest",
        member: str | None = None,
        lease_ms: int = 30_000,
        ordered: bool = False,
    ) -> "AsyncMember":
        """Return a member of a shared replay: see TopicLog.share. Raises: ValueError."""
        steps = shares.join(self._handle, name, filter, start, member or shares.new_name(), lease_ms, ordered)
        return AsyncMember(self._client, await run_async(self._client, steps))

    async def drop_share(self, name: str) -> None:
        """Remove a shared replay. Raises: ValueError."""
        await run_async(self._client, shares.drop_share(self._handle, name))

    async def reconfigure(
        self,
        shards: int | None = None,
        by: By | None = None,
        filters: Iterable[str] | None = None,
        retention_s: int | None = None,
    ) -> None:
        """Begin a generation with other shards or filters, or set another retention. Raises: ValueError."""
        await run_async(self._client, administration.reconfigure(self._handle, shards, by, filters, retention_s))

    async def retain(self) -> int:
        """Remove messages older than the retention; return the number of entries."""
        return await run_async(self._client, retention.retain(self._handle))

    async def drop(self, generation: int | None = None) -> None:
        """Remove a closed generation, or the whole log. Raises: ValueError."""
        if generation is None:
            await run_async(self._client, administration.drop_log(self._handle))
        else:
            await run_async(self._client, administration.drop_generation(self._handle, generation))

    async def info(self) -> dict[str, Any]:
        """Return settings, generations with the number of entries of each shard, shared replays."""
        return await run_async(self._client, administration.describe(self._handle))


class AsyncMember:
    """A member of a shared replay: see Member, whose methods these are, to be awaited."""

    def __init__(self, client: redis.asyncio.Redis, member: shares.Member) -> None:
        self._client = client
        self._member = member
        self._mode = leasing if member.agreement.ordered else sharing

    @property
    def name(self) -> str:
        """The member's name."""
        return self._member.name

    @property
    def start(self) -> str:
        """The start that the first member set."""
        return self._member.agreement.start

    @property
    def start_ignored(self) -> bool:
        """Whether another member came first, so that this one's start and lease are ignored."""
        return not self._member.is_first

    async def next(self, n: int = 100, block_ms: int = 0) -> Delivery:
        """Return up to n entries to work on, and a state. Raises: ValueError."""
        return await run_async(self._client, self._mode.member_next(self._member, n, block_ms))

    async def ack(self, entries: Iterable[Entry]) -> int:
        """Acknowledge entries; return how many of them were still pending for this replay."""
        return await run_async(self._client, shares.acknowledge(self._member, entries))

    async def renew(self) -> None:
        """Begin the lease anew, for work that takes longer."""
        await run_async(self._client, self._mode.renew(self._member))

    async def close(self) -> None:
        """Leave: entries that are still pending go to other members at once."""
        await run_async(self._client, self._mode.leave(self._member))

    async def __aenter__(self) -> "AsyncMember":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
