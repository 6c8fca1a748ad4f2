"""The stream: a log with its counters, consumer groups and idempotence table."""

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Final

from streamd.idmp.table import IdmpTable
from streamd.stream.entry_id import ID_MAX
from streamd.stream.groups.group import Group
from streamd.stream.log.entry_log import Log
from streamd.stream.log.shelf import Shelf
from streamd.stream.search.field_index import FieldIndex
from streamd.stream.wire.entry_columns import EntryColumns

# A field takes over the index from another one when so many searches in a row asked for it.
_RIVALS_MAX: Final = 8

# Counters stop here: XSETID may set them so high, and neither RESP nor a record of the journal holds more.
_COUNT_MAX: Final = 2**63 - 1


class Stream:
    """One stream value.

    last_id: the greatest entry ID ever given; survives deletion.
    max_deleted_id: the greatest entry ID that XDEL removed, 0 if none.
    entries_added: entries ever added.
    gaps_to: pending entries behind this ID were never deleted, but may have been trimmed at the front.
    groups: name -> Group, None until the first XGROUP CREATE.
    field_index: the index of the field that searches ask for; None until the first search.
    """

    __slots__ = (
        "entries_added",
        "field_index",
        "gaps_to",
        "groups",
        "idmp",
        "last_id",
        "log",
        "max_deleted_id",
    )

    def __init__(
        self, node_max_entries: int, idmp_duration_s: int, idmp_maxsize: int, shelf: Shelf | None = None
    ) -> None:
        self.log = Log(node_max_entries, shelf)
        self.groups: dict[bytes, Group] | None = None
        self.field_index: FieldIndex | None = None
        self.idmp = IdmpTable(idmp_duration_s, idmp_maxsize)
        self.last_id = 0
        self.max_deleted_id = 0
        self.entries_added = 0
        self.gaps_to = 0

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return len(self.log)

    def append(self, entry_id: int, fields: Sequence[bytes]) -> None:
        """Add an entry; its ID must be greater than `last_id`."""
        self.log.append(entry_id, fields)
        self.last_id = entry_id
        if self.entries_added < _COUNT_MAX:
            self.entries_added += 1

    def append_columns(self, ids: Sequence[int], columns: EntryColumns) -> None:
        """Add entries; their IDs, ascending, must be greater than `last_id`."""
        self.log.append_columns(ids, columns)
        self.last_id = ids[-1]
        self.entries_added = min(self.entries_added + len(ids), _COUNT_MAX)

    def delete(self, entry_id: int) -> bool:
        """Delete an entry; return whether it was there."""
        if not self.log.delete(entry_id):
            return False
        self._note_deleted(entry_id)
        return True

    def _note_deleted(self, entry_id: int) -> None:
        self.gaps_to = max(self.gaps_to, entry_id)
        self.max_deleted_id = max(self.max_deleted_id, entry_id)

    def note_missing(self, entry_id: int) -> None:
        """Note that an entry may be pending that is not there, with no deletion to tell that."""
        self.gaps_to = max(self.gaps_to, entry_id)
        self.log.note_missing(entry_id)

    def delete_each(self, ids: Sequence[int]) -> list[bool]:
        """Delete entries one after the other; return for each whether it was there."""
        results = self.log.delete_each(ids)
        if True in results:
            self._note_deleted(max(compress(ids, results)))
        return results

    def delete_many(self, ids: Sequence[int]) -> list[int]:
        """Delete entries; return which of `ids` were there, ascending. Raises: Absent, before any is deleted."""
        deleted = self.log.delete_many(ids)
        if deleted:
            self._note_deleted(deleted[-1])
        return deleted

    def delete_recorded(self, ids: Sequence[int]) -> None:
        """Delete entries that are known to be there, without looking for them."""
        if ids:
            self.log.delete_recorded(ids)
            self._note_deleted(max(ids))

    def has_all_behind(self, entry_id: int) -> bool:
        """Return whether all pending entries from an ID on are still in the log; False also where that is unknown."""
        return entry_id > self.gaps_to and len(self) > 0 and not self.log.begins_behind(entry_id)

    def has_tombstone_behind(self, entry_id: int) -> bool:
        """Return whether an entry from `entry_id` on may have been deleted out of the middle of the log."""
        if not self.max_deleted_id or entry_id > self.max_deleted_id or not len(self):
            return False
        return not self.log.begins_behind(self.max_deleted_id)

    def entries_up_to(self, entry_id: int) -> int | None:
        """Return how many entries were ever added up to `entry_id`; None when that cannot be known.

        Source: the estimate behind `entries-read` and `lag` of Redis 7.
        """
        if not self.entries_added:
            return 0
        log = self.log
        if not len(log) and entry_id <= self.last_id:
            return self.entries_added
        if entry_id and entry_id < self.max_deleted_id:
            return None
        if entry_id >= self.last_id:
            return self.entries_added if entry_id == self.last_id else None
        if not self.max_deleted_id or log.begins_behind(self.max_deleted_id):
            if log.begins_behind(entry_id):
                return self.entries_added - len(log)
            if log.begins_behind(entry_id - 1):
                return self.entries_added - len(log) + 1
        return None

    def advance(self, group: Group, ends: tuple[int, int], entries: int, ids_of: Callable[[], list[int]]) -> None:
        """Note that the next entries, so many, were delivered to a group; ends: their first and last ID.

        ids_of: returns the IDs of all, ascending; it is called if these must be looked at one by one.

        Source: `entries-read` of Redis 7.4 is counted up while no entry behind the group was deleted, else estimated.
        """
        first_id, last_id = ends
        if last_id <= group.last_id:
            return
        simple = not self.max_deleted_id or self.log.begins_behind(self.max_deleted_id)
        if simple and group.last_id < first_id:
            if group.entries_read is None or self.log.begins_behind(group.last_id):
                read = self.entries_up_to(first_id)
                if read is not None:
                    group.entries_read = min(read + entries - 1, _COUNT_MAX)
                    group.last_id = last_id
                    return
            else:
                group.entries_read = min(group.entries_read + entries, _COUNT_MAX)
                group.last_id = last_id
                return
        for entry_id in ids_of():
            if entry_id > group.last_id:
                if group.entries_read is not None and not self.has_tombstone_behind(group.last_id):
                    group.entries_read = min(group.entries_read + 1, _COUNT_MAX)
                elif self.entries_added:
                    group.entries_read = self.entries_up_to(entry_id)
                group.last_id = entry_id

    def lag(self, group: Group) -> int | None:
        """Return how many entries a group has not read; None when deletions make that unknown."""
        return self.lag_of(group.last_id, group.entries_read)

    def lag_of(self, last_id: int, entries_read: int | None) -> int | None:
        """Return the lag of a group with this last ID, which has read so many entries.

        Source: XINFO GROUPS of Redis 7.4 (7.0 counts trimmed entries as unread).
        """
        if not self.entries_added or not len(self):
            return 0
        log = self.log
        if log.begins_behind(last_id) and log.begins_behind(self.max_deleted_id):
            return len(log)
        if entries_read is not None and not self.has_tombstone_behind(last_id):
            return self.entries_added - entries_read
        read = self.entries_up_to(last_id)
        return None if read is None else self.entries_added - read

    def pass_to(self, group: Group, entry_id: int) -> None:
        """Note that a group with a filter has passed an entry: all entries up to it were delivered or skipped.

        The counters change as `advance` changes them for a group that gets every entry.
        """
        simple = not self.max_deleted_id or self.log.begins_behind(self.max_deleted_id)
        if simple and self.log.begins_behind(group.last_id):
            group.entries_read = self.entries_added - len(self) + self.log.count_range(0, entry_id)
        elif group.entries_read is not None and not self.has_tombstone_behind(group.last_id):
            group.entries_read = min(group.entries_read + self.log.count_range(group.last_id + 1, entry_id), _COUNT_MAX)
        else:
            group.entries_read = self.entries_up_to(entry_id)
        group.last_id = entry_id

    def index_of(self, field: bytes) -> FieldIndex | None:
        """Return the index of a field's values for a search; None if the stream keeps the index of another field.

        A stream has one index, of the field that most searches ask for.
        """
        index, log = self.field_index, self.log
        if index is not None and index.field != field:
            index.rivals += 1
            if index.rivals < _RIVALS_MAX:
                return None
        elif index is not None and index.fits(log.memory_bytes, log.begins_behind(index.until_id)):
            index.rivals = 0
            return index
        self.field_index = FieldIndex(field, log.memory_bytes, self.last_id)
        return self.field_index

    def copy(self) -> "Stream":
        """Return an independent copy, windows, counters and groups included."""
        groups = None if self.groups is None else {name: group.copy() for name, group in self.groups.items()}
        return self._with(groups, self.idmp.copy())

    def snapshot(self) -> "Stream":
        """Return the stream as it is now, for reading only; its large parts are shared until they change."""
        groups = None if self.groups is None else {name: group.snapshot() for name, group in self.groups.items()}
        return self._with(groups, self.idmp.snapshot())

    def without_groups(self) -> "Stream":
        """Return a snapshot of the entries and counters alone."""
        return self._with(None, self.idmp)

    def _with(self, groups: dict[bytes, Group] | None, idmp: IdmpTable) -> "Stream":
        other = Stream(self.log.node_max_entries, self.idmp.duration_s, self.idmp.maxsize)
        other.log = self.log.copy()
        other.groups = groups
        other.idmp = idmp
        other.last_id = self.last_id
        other.max_deleted_id = self.max_deleted_id
        other.entries_added = self.entries_added
        other.gaps_to = self.gaps_to
        return other


def append_to_each(streams: Iterable[Stream], new_id: int, entries: Iterable[Sequence[bytes]]) -> list[int]:
    """Add an entry to each of some streams, of which one may come again; return the IDs.

    An ID is `new_id`, or the one behind the stream's last if that is not less. A stream without one ends it.
    """
    ids: list[int] = []
    for stream, fields in zip(streams, entries):  # noqa: B905 (hot)
        entry_id = new_id
        if new_id <= stream.last_id:
            if stream.last_id == ID_MAX:
                break
            entry_id = stream.last_id + 1
        stream.log.append(entry_id, fields)
        stream.last_id = entry_id
        if stream.entries_added < _COUNT_MAX:
            stream.entries_added += 1
        ids.append(entry_id)
    return ids
