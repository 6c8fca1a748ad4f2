"""Consumer groups: how far a group has read, who is in it, and what it has not acknowledged."""

from typing import TYPE_CHECKING

from streamd.stream.pending import Consumer, PendingEntries

if TYPE_CHECKING:
    from streamd.stream.stream import Stream


class Group:
    """One consumer group.

    last_id: the last entry ID delivered.
    entries_read: how many entries that ever were in the stream are up to last_id; None when unknown.
    """

    __slots__ = ("consumers", "entries_read", "last_id", "pending")

    def __init__(self, last_id: int, entries_read: int | None = None) -> None:
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pending = PendingEntries()

    def consumer(self, name: bytes, now_ms: int) -> tuple[Consumer, bool]:
        """Return the consumer called `name`, who is seen now, and whether it had to be created."""
        consumer = self.consumers.get(name)
        if consumer is not None:
            consumer.seen_ms = now_ms
            return consumer, False
        consumer = self.consumers[name] = Consumer(name, now_ms)
        return consumer, True

    def remove_consumer(self, name: bytes) -> int:
        """Remove a consumer with its pending entries; return how many they were."""
        consumer = self.consumers.pop(name, None)
        return 0 if consumer is None else self.pending.remove_owner(consumer)

    def advance(self, stream: "Stream", ids: list[int]) -> None:
        """Note that the entries `ids`, ascending, the stream's next ones, were delivered.

        Source: `entries-read` of Redis 7.4: counted up while no entry behind the group was deleted, else estimated.
        """
        if ids[-1] <= self.last_id:
            return
        first_id = stream.log.first_id or 0
        simple = not stream.max_deleted_id or stream.max_deleted_id < first_id
        if simple and self.last_id < ids[0]:
            if self.entries_read is None or self.last_id < first_id:
                read = stream.entries_up_to(ids[0])
                if read is not None:
                    self.entries_read = read + len(ids) - 1
                    self.last_id = ids[-1]
                    return
            else:
                self.entries_read += len(ids)
                self.last_id = ids[-1]
                return
        for entry_id in ids:
            if entry_id > self.last_id:
                if self.entries_read is not None and not stream.has_tombstone_behind(self.last_id):
                    self.entries_read += 1
                elif stream.entries_added:
                    self.entries_read = stream.entries_up_to(entry_id)
                self.last_id = entry_id

    def lag(self, stream: "Stream") -> int | None:
        """Return how many entries the group has not read; None when deletions make that unknown.

        Source: XINFO GROUPS of Redis 7.4 (7.0 counts trimmed entries as unread).
        """
        if not stream.entries_added or not len(stream):
            return 0
        first_id = stream.log.first_id or 0
        if self.last_id < first_id and stream.max_deleted_id < first_id:
            return len(stream)
        if self.entries_read is not None and not stream.has_tombstone_behind(self.last_id):
            return stream.entries_added - self.entries_read
        read = stream.entries_up_to(self.last_id)
        return None if read is None else stream.entries_added - read

    def snapshot(self) -> "Group":
        """Return the group as it is now, for reading only; its pending entries say the consumers of this one."""
        other = Group(self.last_id, self.entries_read)
        for name, consumer in self.consumers.items():
            twin = other.consumers[name] = Consumer(name, consumer.seen_ms)
            twin.active_ms = consumer.active_ms
        other.pending = self.pending.snapshot()
        return other

    def copy(self) -> "Group":
        """Return an independent copy."""
        other = Group(self.last_id, self.entries_read)
        for name, consumer in self.consumers.items():
            twin = other.consumers[name] = Consumer(name, consumer.seen_ms)
            twin.active_ms = consumer.active_ms
        other.pending = self.pending.copy(other.consumers)
        return other
