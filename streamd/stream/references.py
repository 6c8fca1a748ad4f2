"""The references that consumer groups hold to a stream's entries: the pending and the unread ones."""

from collections.abc import Iterable

from streamd.stream.entry_id import ID_MAX
from streamd.stream.groups.group import Group
from streamd.stream.stream import Stream


def groups_of(stream: Stream) -> Iterable[Group]:
    """Return the groups of a stream."""
    return (stream.groups or {}).values()


def read_by_all_up_to(stream: Stream) -> int:
    """Return the last ID that every group has read; ID_MAX when there is no group."""
    return min((group.last_id for group in groups_of(stream)), default=ID_MAX)


def is_referenced(stream: Stream, entry_id: int) -> bool:
    """Return whether some group has not read an entry, or not acknowledged it."""
    return any(entry_id > group.last_id or entry_id in group.pending for group in groups_of(stream))


def delete_references(stream: Stream, ids: list[int]) -> set[int]:
    """Make entries no longer pending in any group; return which of `ids` were pending somewhere."""
    removed: set[int] = set()
    for group in groups_of(stream):
        if len(group.pending):
            removed.update(group.pending.remove_many(ids))
    return removed


def referenced_between(stream: Stream, start: int, end: int) -> set[int]:
    """Return the IDs from `start` to `end` that are pending in some group."""
    return {row[0] for group in groups_of(stream) for row in group.pending.iterate(start, end)}
