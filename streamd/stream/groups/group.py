"""Consumer groups: how far a group has read, its consumers, and its unacknowledged entries."""

from collections.abc import Iterable
from typing import Final

from streamd.stream.groups.pending import Consumer, PastConsumer, PendingEntries
from streamd.stream.search.patterns import EntryFilter

# What groups without consumers, and groups without pending entries, share.
_NO_CONSUMERS: Final[dict[bytes, Consumer]] = {}
_NO_PENDING: Final = PendingEntries()

# About how much memory a consumer, or a group, takes.
CONSUMER_BYTES: Final = 300
GROUP_BYTES: Final = 150

# Of the consumers of a group: name, consumer, seen_ms, active_ms and pending.
ConsumerColumns = tuple[list[bytes], list[Consumer], list[int], list[int | None], list[int]]


def columns_of(
    groups: Iterable["Group"],
) -> tuple[list[int], list[int], list[int], list[int | None], list[EntryFilter | None]]:
    """Return five columns over some groups: the number of consumers, the number of pending entries, the last ID
    delivered, the number of entries read, and the filter. Hot path where a stream has 100,000 groups.
    """
    consumers: list[int] = []
    pending: list[int] = []
    last_ids: list[int] = []
    read: list[int | None] = []
    wanted: list[EntryFilter | None] = []
    for group in groups:
        consumers.append(len(group.consumers))
        pending.append(group.pending._length)
        last_ids.append(group.last_id)
        read.append(group.entries_read)
        wanted.append(group.wanted)
    return consumers, pending, last_ids, read, wanted


class Group:
    """One consumer group.

    last_id: the last entry ID delivered.
    entries_read: how many entries were ever added to the stream up to last_id; None when unknown.
    wanted: the filter; entries that do not match it are skipped. None: all entries are delivered.
    """

    __slots__ = ("consumers", "entries_read", "last_id", "pending", "wanted")

    def __init__(self, last_id: int, entries_read: int | None = None, wanted: EntryFilter | None = None) -> None:
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = _NO_CONSUMERS
        self.pending = _NO_PENDING
        self.wanted = wanted

    def own_pending(self) -> PendingEntries:
        """Return the pending entries to add some to: before the first delivery they are those of all such groups."""
        if self.pending is _NO_PENDING:
            self.pending = PendingEntries()
        return self.pending

    def consumer(self, name: bytes, now_ms: int) -> tuple[Consumer, bool]:
        """Return the consumer called `name` and whether it had to be created; set its seen time to `now_ms`."""
        consumer = self.consumers.get(name)
        if consumer is not None:
            consumer.seen_ms = now_ms
            return consumer, False
        consumer = Consumer(name, now_ms)
        if self.consumers:
            self.consumers[name] = consumer
        else:
            self.consumers = {name: consumer}
        return consumer, True

    def remove_consumer(self, name: bytes, dropped: list[object]) -> int:
        """Remove a consumer with its pending entries; return their number. dropped: gets the objects to be freed."""
        consumer = self.consumers.pop(name, None)
        return 0 if consumer is None else self.pending.remove_owner(consumer, dropped)

    def snapshot(self) -> "Group":
        """Return the group as it is now, for reading only; its pending entries are shared until they change.

        `pending.iterate` takes a consumer of the snapshot; the rows it yields name the consumers of this group.
        """
        other = Group(self.last_id, self.entries_read, self.wanted)
        other.consumers = {name: PastConsumer(consumer) for name, consumer in self.consumers.items()}
        if self.pending:
            other.pending = self.pending.snapshot()
        return other

    def copy(self) -> "Group":
        """Return an independent copy."""
        other = Group(self.last_id, self.entries_read, self.wanted)
        other.consumers = {}
        for name, consumer in self.consumers.items():
            twin = other.consumers[name] = Consumer(name, consumer.seen_ms)
            twin.active_ms = consumer.active_ms
        if self.pending:
            other.pending = self.pending.copy(other.consumers)
        return other

    def columns(self) -> ConsumerColumns:
        """Return the consumers as columns: 100,000 take a few milliseconds, where copying them takes 100."""
        every = list(self.consumers.values())
        seen_ms: list[int] = []
        active_ms: list[int | None] = []
        pending: list[int] = []
        for consumer in every:
            seen_ms.append(consumer.seen_ms)
            active_ms.append(consumer.active_ms)
            pending.append(consumer.pending)
        return list(self.consumers), every, seen_ms, active_ms, pending
