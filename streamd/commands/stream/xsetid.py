"""XSETID: set the last generated ID of a stream."""

from streamd.base.errors import CommandError, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.applying import Applying, applies
from streamd.catalog.arguments import Arguments
from streamd.commands.stream.group_effects import need_stream
from streamd.resp.types import Reply
from streamd.stream.entry_id import parse_id
from streamd.stream.stream import Stream


@command(
    "XSETID",
    arity=-3,
    flags="write denyoom fast",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity="O(1)",
    syntax="key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
    access="RW update",
)
def xsetid(context: Context, args: list[bytes]) -> Reply:
    """Set the last generated ID of a stream, and its counters.

    Raises: CommandError; NoSuchKey; WrongType.
    """
    last_id, entries_added, max_deleted_id = _parse(args)
    key = args[1]
    stream = need_stream(context.stream(key))
    if last_id < stream.max_deleted_id:
        raise CommandError("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
    if last_id < (stream.log.last_id or 0):
        raise CommandError("ERR The ID specified in XSETID is smaller than the target stream top item")
    if len(stream) and entries_added is not None and len(stream) > entries_added:
        raise CommandError("ERR The entries_added specified in XSETID is smaller than the target stream length")

    _set(stream, last_id, entries_added, max_deleted_id)

    context.record(*args)
    context.notify(key, "t", "xsetid")  # which Redis does not count as a change for WATCH
    return "OK"


def _parse(args: list[bytes]) -> tuple[int, int | None, int]:
    """Return (last ID, ENTRIESADDED, MAXDELETEDID; 0 for none). Raises: CommandError."""
    last_id = parse_id(args[2])
    entries_added: int | None = None
    max_deleted_id = 0
    options = Arguments(args, 3)
    while options.left():
        if options.flag(b"ENTRIESADDED", 1):
            entries_added = options.integer()
            if entries_added < 0:
                raise CommandError("ERR entries_added must be positive")
        elif options.flag(b"MAXDELETEDID", 1):
            max_deleted_id = parse_id(options.word())
            if last_id < max_deleted_id:
                raise CommandError("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
        else:
            raise SyntaxError_()
    return last_id, entries_added, max_deleted_id


def _set(stream: Stream, last_id: int, entries_added: int | None, max_deleted_id: int) -> None:
    if last_id < stream.last_id:
        stream.note_missing(stream.last_id)  # entries may come whose IDs trimmed ones had
        for group in (stream.groups or {}).values():
            group.pending.forget_missing()
    stream.last_id = last_id
    if entries_added is not None:
        stream.entries_added = entries_added
    if max_deleted_id:
        stream.max_deleted_id = max_deleted_id


@applies("XSETID")
def apply_last_id(applying: Applying, words: list[bytes]) -> None:
    """Set the last generated ID of a stream, and its counters."""
    _set(applying.stream(words[1]), *_parse(words))
