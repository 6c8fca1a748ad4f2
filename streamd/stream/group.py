"""Consumer groups: how far a group has read, who is in it, and what it has not acknowledged."""

from typing import Final

from streamd.stream.pending import Consumer, PastConsumer, PendingEntries

# What groups without consumers share, and snapshots without pending entries.
_NO_CONSUMERS: Final[dict[bytes, Consumer]] = {}
_NO_PENDING: Final = PendingEntries()


class Group:
    """One consumer group.

    last_id: the last entry ID delivered.
    entries_read: how many entries that ever were in the stream are up to last_id; None when unknown.
    """

    __slots__ = ("consumers", "entries_read", "last_id", "pending")

    def __init__(self, last_id: int, entries_read: int | None = None) -> None:
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = _NO_CONSUMERS
        self.pending = PendingEntries()

    def consumer(self, name: bytes, now_ms: int) -> tuple[Consumer, bool]:
        """Return the consumer called `name`, who is seen now, and whether it had to be created."""
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

    def remove_consumer(self, name: bytes) -> int:
        """Remove a consumer with its pending entries; return how many they were."""
        consumer = self.consumers.pop(name, None)
        return 0 if consumer is None else self.pending.remove_owner(consumer)

    def snapshot(self) -> "Group":
        """Return the group as it is now, for reading only: its pending entries are shared until they change.

        `pending.of_consumer` takes the consumers of the snapshot, and all rows say those of this group.
        """
        other = Group(self.last_id, self.entries_read)
        other.consumers = {name: PastConsumer(consumer) for name, consumer in self.consumers.items()}
        other.pending = self.pending.snapshot() if len(self.pending) else _NO_PENDING
        return other

    def copy(self) -> "Group":
        """Return an independent copy."""
        other = Group(self.last_id, self.entries_read)
        other.consumers = {}
        for name, consumer in self.consumers.items():
            twin = other.consumers[name] = Consumer(name, consumer.seen_ms)
            twin.active_ms = consumer.active_ms
        other.pending = self.pending.copy(other.consumers)
        return other
