"""The record of an entry in the journal: `XADD key [IDMP pid iid] ID field value [field value ...]`."""

from collections.abc import Sequence
from typing import Final

from streamd.data.records import RecordColumn

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
