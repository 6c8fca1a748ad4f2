"""The stream: a log with its counters, consumer groups and idempotence table."""

from typing import TYPE_CHECKING

from streamd.idmp.table import IdmpTable
from streamd.stream.log import Log

if TYPE_CHECKING:
    from streamd.stream.group import Group


class Stream:
    """One stream value.

    last_id: the greatest entry ID ever given; survives deletion.
    max_deleted_id: the greatest entry ID that XDEL removed, 0 if none.
    entries_added: entries ever added.
    groups: name -> Group, None until the first XGROUP CREATE.
    """

    __slots__ = ("entries_added", "groups", "idmp", "last_id", "log", "max_deleted_id")

    def __init__(self, node_max_entries: int, idmp_duration_s: int, idmp_maxsize: int) -> None:
        self.log = Log(node_max_entries)
        self.groups: dict[bytes, Group] | None = None
        self.idmp = IdmpTable(idmp_duration_s, idmp_maxsize)
        self.last_id = 0
        self.max_deleted_id = 0
        self.entries_added = 0

    def __len__(self) -> int:
        return len(self.log)

    def copy(self) -> "Stream":
        """Return an independent copy, windows, counters and groups included."""
        other = Stream.__new__(Stream)
        other.log = self.log.copy()
        other.groups = None if self.groups is None else {name: group.copy() for name, group in self.groups.items()}
        other.idmp = self.idmp.copy()
        other.last_id = self.last_id
        other.max_deleted_id = self.max_deleted_id
        other.entries_added = self.entries_added
        return other
