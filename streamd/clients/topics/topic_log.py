"""TopicLog: a log of messages by topic, over redis-py's plain client."""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Literal

import redis

from streamd.clients.topics import administration, leasing, publishing, reading, retention, shares, sharing
from streamd.clients.topics.drivers import block_ms_max, check_client, run
from streamd.clients.topics.handle import Handle
from streamd.clients.topics.iterators import Iterator
from streamd.clients.topics.messages import Entry, Message, as_messages
from streamd.clients.topics.reading import Batch, Start
from streamd.clients.topics.shares import Delivery

By = Literal["publisher", "topic"]
Publishable = Message | Mapping[str, object] | tuple[str, bytes | str]


class TopicLog:
    """A log of messages by topic, which readers replay by a filter from any time, and go on live.

        log = TopicLog.create(redis.Redis(), "telemetry")
        log.publish("devices/d7/temperature", b"21.5", publisher="d7", iid="reading-1")
        entries, iterator, state = log.next(log.iterator("devices/+/temperature"), 100)

    It is made by `create` or `open`. Several threads may share it, as they may share its client.
    """

    def __init__(self, client: redis.Redis, handle: Handle) -> None:
        self._client = client
        self._handle = handle
        handle.block_ms_max = block_ms_max(client)

    @classmethod
    def create(
        cls,
        client: redis.Redis,
        name: str,
        shards: int = 4,
        by: By = "publisher",
        retention_s: int = 86_400,
        filters: Iterable[str] = ("#",),
    ) -> "TopicLog":
        """Make a log and return it.

        by: whether a publisher's messages, or a topic's, go to one shard. filters: the topics that it takes.

        Raises: ValueError, also if a log has this name, or takes a topic that this one would take.
        """
        check_client(client)
        return cls(client, run(client, administration.create(name, shards, by, retention_s, filters)))

    @classmethod
    def open(cls, client: redis.Redis, name: str) -> "TopicLog":
        """Return a log that was created before. Raises: ValueError."""
        check_client(client)
        return cls(client, run(client, administration.open_log(name)))

    @staticmethod
    def names(client: redis.Redis) -> list[str]:
        """Return the names of all logs of a server."""
        return run(client, administration.names())

    @property
    def name(self) -> str:
        """The log's name."""
        return self._handle.name

    def publish(
        self,
        topic: str,
        payload: bytes | str,
        publisher: str | None = None,
        iid: str | bytes | None = None,
        expiry_s: float | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """Store a message; return its entry ID.

        With an iid, the publisher's name for the message, it is stored once: after a lost connection, call this again.
        expiry_s: for how many seconds readers get it, None for as long as the log keeps it.

        Raises: ValueError; LogDropped; NotStored.
        """
        message = Message(topic, payload, publisher, iid, expiry_s, properties or {})
        return run(self._client, publishing.publish(self._handle, [message]))[0]

    def publish_many(self, messages: Iterable[Publishable]) -> list[str]:
        """Store messages in their order, many in a round trip; return their entry IDs. All are checked before.

        A message is a Message, a mapping of its arguments, or a pair of topic and payload.

        Raises: ValueError; LogDropped; NotStored.
        """
        return run(self._client, publishing.publish(self._handle, as_messages(messages)))

    def iterator(self, filter: str = "#", start: Start = "earliest") -> Iterator:
        """Return a position in the log: its oldest message, its present end, or a time with its zone.

        Raises: ValueError; LogDropped.
        """
        return run(self._client, reading.start_iterator(self._handle, filter, start))

    def next(self, iterator: Iterator, n: int = 100, block_ms: int = 0) -> Batch:
        """Return up to n entries, the iterator that follows, and a state: see `Batch`.

        block_ms: for how long to wait if there is nothing. Raises: ValueError, if the iterator is another log's.
        """
        return run(self._client, reading.read_next(self._handle, iterator, n, block_ms))

    def share(
        self,
        name: str,
        filter: str = "#",
        start: Start = "earliest",
        member: str | None = None,
        lease_ms: int = 30_000,
        ordered: bool = False,
    ) -> "Member":
        """Return a member of a shared replay, whose messages are dealt out to its members.

        The first member sets start and lease_ms; `start_ignored` tells the others. member: a name that no other has at
        the time; one is made if none is given. lease_ms: the time after which a member's pending entries go to another
        one. ordered: lease whole shards, so that each publisher's messages of a topic are worked on in order.

        Raises: ValueError, also if the others have another filter.
        """
        steps = shares.join(self._handle, name, filter, start, member or shares.new_name(), lease_ms, ordered)
        return Member(self._client, run(self._client, steps))

    def drop_share(self, name: str) -> None:
        """Remove a shared replay. Raises: ValueError."""
        run(self._client, shares.drop_share(self._handle, name))

    def reconfigure(
        self,
        shards: int | None = None,
        by: By | None = None,
        filters: Iterable[str] | None = None,
        retention_s: int | None = None,
    ) -> None:
        """Begin a generation with other shards or filters, or set another retention; nothing is rewritten.

        Raises: ValueError.
        """
        run(self._client, administration.reconfigure(self._handle, shards, by, filters, retention_s))

    def retain(self) -> int:
        """Remove the entries older than the retention; return their number. Publishers and new readers do it, too."""
        return run(self._client, retention.retain(self._handle))

    def drop(self, generation: int | None = None) -> None:
        """Remove a closed generation, or the whole log. Raises: ValueError."""
        if generation is None:
            run(self._client, administration.drop_log(self._handle))
        else:
            run(self._client, administration.drop_generation(self._handle, generation))

    def info(self) -> dict[str, Any]:
        """Return settings, generations with the number of entries of each shard, shared replays."""
        return run(self._client, administration.describe(self._handle))


class Member:
    """A member of a shared replay; the end of a `with` hands its pending entries back.

    with log.share("averages", "devices/+/temperature") as member:
        entries, state = member.next(100, block_ms=1_000)
        ...
        member.ack(entries)
    """

    def __init__(self, client: redis.Redis, member: shares.Member) -> None:
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

    def next(self, n: int = 100, block_ms: int = 0) -> Delivery:
        """Return up to n entries to work on, and a state. Raises: ValueError."""
        return run(self._client, self._mode.member_next(self._member, n, block_ms))

    def ack(self, entries: Iterable[Entry]) -> int:
        """Acknowledge entries; return how many of them were still pending for this replay."""
        return run(self._client, shares.acknowledge(self._member, entries))

    def renew(self) -> None:
        """Begin the lease anew, for work that takes longer."""
        run(self._client, self._mode.renew(self._member))

    def close(self) -> None:
        """Leave: entries that are still pending go to other members at once."""
        run(self._client, self._mode.leave(self._member))

    def __enter__(self) -> "Member":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
