"""Sets and removes fields of the hash at a key, for several commands."""

from collections.abc import Collection

from streamd.catalog import Context
from streamd.data.hash import Hash
from streamd.data.timed_hash import TimedHash


def set_fields(
    context: Context, key: bytes, value: Hash, pairs: list[bytes], event: str, keeps_times: bool = False
) -> int:
    """Set fields of the hash at a key, `[field, value, ...]`; return how many of the fields are new.

    keeps_times: whether fields keep their times to live.
    """
    kept: dict[bytes, int] = {}
    if keeps_times and isinstance(value, TimedHash):
        times = value.times.due_ms
        kept = {field: times[field] for field in pairs[::2] if field in times}
        added = value.set_keeping_times(pairs)
    else:
        added = value.set_fields(pairs)
    context.record(b"HSET", key, *pairs, changes=len(pairs) // 2)
    for field, due_ms in kept.items():
        context.record(b"HPEXPIREAT", key, b"%d" % due_ms, b"FIELDS", b"1", field, changes=0)
    if key in context.db.followed:
        context.changed(key, "h", event, pairs[::2])
    return added


def remove_fields(context: Context, key: bytes, value: Hash, fields: Collection[bytes], just_set: bool = False) -> int:
    """Remove fields of the hash at a key, and the key with the last one; return how many were there.

    just_set: this command has set all of them, which was counted as its changes.
    """
    removed = [field for field in fields if value.drop(field)]
    if removed:
        context.record_words([b"HDEL", key, *removed], 0 if just_set else len(removed))
        context.changed(key, "h", "hdel", [*fields] if just_set else removed)
        if not value:
            context.db.delete(key)
            context.notify(key, "g", "del")
    return len(removed)
