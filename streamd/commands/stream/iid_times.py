"""Recording idempotent IDs of entries whose IDs may be ahead of the clock."""

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


def record_window(context: Context, key: bytes, stream: Stream) -> None:
    """Record the iids of a stream that has come as a whole, if one of them has a time of its own: the record of the
    stream has no place for that.
    """
    if context.state.records is None:
        return
    idmp = stream.idmp
    times = {pid: idmp.recorded_ms(pid) for pid in idmp.pids()}
    if not any(times.values()):
        return
    duplicates = b"%d" % idmp.iids_duplicates
    settings = b"DURATION", b"%d" % idmp.duration_s, b"MAXSIZE", b"%d" % idmp.maxsize
    context.record(b"XIDMP", b"CFGSET", key, *settings, changes=0)  # which forgets the iids
    for pid, recorded_ms in times.items():
        for iid, entry_id in idmp.iids(pid):
            words = format_id(entry_id)
            if iid in recorded_ms:
                context.record(b"XIDMPDUPLICATE", key, duplicates, words, b"%d" % recorded_ms[iid], changes=0)
            context.record(b"XIDMPIID", key, pid, iid, words, changes=0)
    context.record(b"XIDMPCOUNTERS", key, b"%d" % idmp.iids_added, duplicates, changes=0)
