"""The record of an entry, as the journal says it: `XADD key [IDMP pid iid] ID field value [field value ...]`."""

from collections.abc import Sequence
from typing import Final

from streamd.data.records import Column

NAME: Final = b"XADD"
# Where the entry ID stands in a record without an iid, and the fields behind it.
ID_AT: Final = 2
FIELDS_AT: Final = 3
_IDMP: Final = b"IDMP"


def entry_words(
    key: bytes, id_text: bytes, fields: Sequence[bytes], pid: bytes | None = None, iid: bytes | None = None
) -> list[bytes]:
    """Return the words for one entry; with pid and iid, or without both."""
    if pid is None or iid is None:
        return [NAME, key, id_text, *fields]
    return [NAME, key, _IDMP, pid, iid, id_text, *fields]


def entry_columns(
    key: bytes,
    ids: Column,
    fields: Sequence[Column],
    pids: Column | None = None,
    iids: Column | None = None,
) -> list[Column]:
    """Return the same by places, for entries that have as many fields; each argument is a column."""
    if pids is None or iids is None:
        return [NAME, key, ids, *fields]
    return [NAME, key, _IDMP, pids, iids, ids, *fields]
