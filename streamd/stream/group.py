"""Consumer groups: how far a group has read, and who is in it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamd.stream.stream import Stream


class Group:
    """One consumer group.

    last_id: the last entry ID delivered.
    entries_read: how many entries that ever were in the stream are up to last_id; None when unknown.
    """

    __slots__ = ("entries_read", "last_id")

    def __init__(self, last_id: int, entries_read: int | None = None) -> None:
        self.last_id = last_id
        self.entries_read = entries_read

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

    def copy(self) -> "Group":
        """Return an independent copy."""
        return Group(self.last_id, self.entries_read)
