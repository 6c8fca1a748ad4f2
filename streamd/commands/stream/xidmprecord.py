"""XIDMPRECORD: tell a stream which idempotent ID made an entry that it has."""

from streamd.base.errors import CommandError
from streamd.catalog import Context, command
from streamd.catalog.applying import Applying, applies
from streamd.commands.stream.group_effects import need_stream
from streamd.commands.stream.iid_times import record_iid
from streamd.resp.types import Reply
from streamd.stream.entry_id import format_id, parse_id


@command(
    "XIDMPRECORD",
    arity=5,
    flags="write denyoom fast",
    keys=(1, 1, 1),
    since="8.6.2",
    complexity="O(1)",
    syntax="key producer-id idempotent-id id",
    access="RW update",
)
def xidmprecord(context: Context, args: list[bytes]) -> Reply:
    """Remember an idempotent ID, as its producer's youngest, for an entry of the stream.

    Raises: InvalidStreamId; CommandError; NoSuchKey; WrongType.
    """
    _, key, pid, iid, id_text = args
    entry_id = parse_id(id_text)
    if not pid:
        raise CommandError("ERR producer ID must be non-empty")
    if not iid:
        raise CommandError("ERR idempotent ID must be non-empty")
    stream = need_stream(context.stream(key))
    if entry_id not in stream.log:
        raise CommandError("ERR No such message in stream")
    idmp = stream.idmp
    if entry_id >> 64 <= context.now_ms - idmp.duration_s * 1000 and idmp.held(pid, iid) == entry_id:
        return "OK"  # expired from the beginning: to record it again would count it again, and change nothing else
    known_id = idmp.lookup(pid, iid, context.now_ms)
    if known_id is not None:
        if known_id != entry_id:
            raise CommandError("ERR IID already exists for this producer with a different stream ID")
        return "OK"

    record_iid(context, key, stream, pid, iid, entry_id)
    context.record(b"XIDMPRECORD", key, pid, iid, format_id(entry_id))
    return "OK"


@applies("XIDMPRECORD", "XIDMPIID")
def apply_iid(applying: Applying, words: list[bytes]) -> None:
    """Remember an idempotent ID as its producer's youngest; as a note, for an entry that is deleted."""
    _, key, pid, iid, entry_id = words
    made_id = parse_id(entry_id)
    applying.stream(key).idmp.record(pid, iid, made_id, applying.recorded_ms(key, made_id))
