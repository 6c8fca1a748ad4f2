"""The record of an entry in the journal: `XADD key [IDMP pid iid] ID field value [field value ...]`."""

from collections.abc import Sequence
from typing import Final

from streamd.data.records import ColumnsRecord, Record, RecordColumn

NAME: Final = b"XADD"
IDMP: Final = b"IDMP"
# Where the entry ID stands, in a record without an iid and in one that has pid and iid at these places. The fields are
# behind it.
ID_AT: Final = 2
PID_AT: Final = 3
IID_AT: Final = 4
NAMED_ID_AT: Final = 5


def entry_words(key: bytes, id_text: bytes, fields: Sequence[bytes], pid: bytes = b"", iid: bytes = b"") -> list[bytes]:
    """Return the words for one entry; with pid and iid, or without both."""
    if pid:
        return [NAME, key, IDMP, pid, iid, id_text, *fields]
    return [NAME, key, id_text, *fields]


def entry_columns(
    key: RecordColumn,
    ids: RecordColumn,
    fields: Sequence[RecordColumn],
    pids: RecordColumn | None = None,
    iids: RecordColumn | None = None,
) -> list[RecordColumn]:
    """Return the words of many entries by places; all have as many fields, and each argument is a column."""
    if pids is None or iids is None:
        return [NAME, key, ids, *fields]
    return [NAME, key, IDMP, pids, iids, ids, *fields]


class EntryRows:
    """Entries of several streams, added one by one; `records` returns their records.

    If all entries have as many fields, their records are encoded by columns, with half the work.
    """

    __slots__ = ("_fields", "_ids", "_iids", "_keys", "_pids")

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._ids: list[bytes] = []
        self._fields: list[Sequence[bytes]] = []
        self._pids: list[bytes] = []
        self._iids: list[bytes] = []

    def add(self, key: bytes, id_text: bytes, fields: Sequence[bytes], pid: bytes, iid: bytes) -> None:
        """Add an entry, with pid and iid or without both; all entries must be alike in this."""
        self._keys.append(key)
        self._ids.append(id_text)
        self._fields.append(fields)
        if pid:
            self._pids.append(pid)
            self._iids.append(iid)

    def records(self, db_index: int) -> list[Record | ColumnsRecord]:
        """Return the records of all entries."""
        keys, ids, fields, pids, iids = self._keys, self._ids, self._fields, self._pids, self._iids
        if len(keys) > 1 and len(set(map(len, fields))) == 1:
            columns = [
                column[0] if not at & 1 and column.count(column[0]) == len(column) else column
                for at, column in enumerate(zip(*fields, strict=True))
            ]
            return [ColumnsRecord(db_index, entry_columns(keys, ids, columns, pids or None, iids or None))]
        if not pids:
            return [(db_index, entry_words(*row)) for row in zip(keys, ids, fields, strict=True)]
        return [(db_index, entry_words(*row)) for row in zip(keys, ids, fields, pids, iids, strict=True)]
