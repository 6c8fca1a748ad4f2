"""Recording an idempotent ID for an entry whose ID may be ahead of the clock."""

from streamd.catalog import Context
from streamd.stream.entry_id import format_id
from streamd.stream.stream import Stream


def record_iid(context: Context, key: bytes, stream: Stream, pid: bytes, iid: bytes, entry_id: int) -> None:
    """Remember an iid as its producer's youngest. Where the entry ID is ahead of the clock, the iid expires by the
    present time, which the journal gets in front of the record of the iid, for which the caller cares.
    """
    now_ms, idmp = context.now_ms, stream.idmp
    if entry_id >> 64 <= now_ms:
        idmp.record(pid, iid, entry_id)
        return
    idmp.record(pid, iid, entry_id, now_ms)
    times = format_id(entry_id), b"%d" % now_ms
    context.record(b"XIDMPDUPLICATE", key, b"%d" % idmp.iids_duplicates, *times, changes=0)
