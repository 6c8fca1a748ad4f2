"""XNACK: give pending entries back to the group."""

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Final

from streamd.base.errors import CommandError
from streamd.catalog import Context, command
from streamd.catalog.applying import Applying, applies
from streamd.catalog.arguments import Arguments
from streamd.commands.stream.group_effects import decoded, no_group
from streamd.commands.stream.options import parse_ids
from streamd.resp.types import Reply
from streamd.stream.entry_id import format_id
from streamd.stream.groups.group import Group
from streamd.stream.groups.pending import COUNT_MAX
from streamd.stream.log.entry_log import Log

_IDS_MAX: Final = 2**31 - 1
# What becomes of the delivery count.
MODES: Final[dict[bytes, Callable[[int], int]]] = {
    b"SILENT": lambda count: max(0, count - 1),
    b"FAIL": lambda count: count,
    b"FATAL": lambda count: COUNT_MAX,
}


@command(
    "XNACK",
    arity=-7,
    flags="write fast",
    keys=(1, 1, 1),
    since="8.8.0",
    complexity="O(log(N)) for each entry, N being the number of pending entries of the group.",
    syntax="key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]",
    access="RW update",
)
def xnack(context: Context, args: list[bytes]) -> Reply:
    """Release pending entries, so that any consumer may claim them at once; return how many.

    SILENT takes the delivery back, FAIL lets it count, FATAL marks the entry as one that cannot be processed.

    Raises: NoGroup; WrongType; CommandError; InvalidStreamId.
    """
    key, group_name = args[1], args[2]
    stream = context.stream(key)
    group = None if stream is None else (stream.groups or {}).get(group_name)
    if stream is None or group is None:
        raise no_group(key, group_name)
    mode, ids, retry_count, force = _parse(args)
    there: Log | set[int] = stream.log
    if force and stream.log.may_wait:
        there = _read(stream.log, group, ids)

    released: list[tuple[int, int]] = []
    for entry_id in ids:
        entry = group.pending.get(entry_id)
        if entry is None and not (force and entry_id in there):
            continue
        count = mode(0 if entry is None else entry[3]) if retry_count is None else retry_count
        group.own_pending().set(entry_id, None, 0, count)
        released.append((count, entry_id))

    # A record has one count, and whoever claims gets what was released first: so a record for each run of equal counts.
    for count, run in groupby(released, key=itemgetter(0)):
        ids = [entry_id for _, entry_id in run]
        words = [b"XNACK", key, group_name, b"FAIL", b"IDS", b"%d" % len(ids), *map(format_id, ids)]
        context.record(*words, b"RETRYCOUNT", b"%d" % count, b"FORCE")
    if released:
        context.db.signal(key)
    return len(released)


def _read(log: Log, group: Group, ids: list[int]) -> set[int]:
    """Return which of some entries are in the log, pending ones aside. Raises: Absent."""
    fresh = [entry_id for entry_id in ids if entry_id not in group.pending]
    log.require_ids(fresh)
    with log.at_once():
        return {entry_id for entry_id in fresh if entry_id in log}


def _parse(args: list[bytes]) -> tuple[Callable[[int], int], list[int], int | None, bool]:
    """Return (the change of the delivery count, IDs, RETRYCOUNT, FORCE); of options given twice the last one counts.

    Raises: CommandError; InvalidStreamId.
    """
    mode = MODES.get(args[3].upper())
    if mode is None:
        raise CommandError("ERR mode must be SILENT, FAIL, or FATAL")
    ids: list[bytes] = []
    retry_count, force = None, False
    options = Arguments(args, 4)
    while options.left():
        if options.flag(b"IDS", 1):
            ids = _parse_ids(options)
        elif options.flag(b"FORCE"):
            force = True
        elif options.flag(b"RETRYCOUNT", 1):
            retry_count = options.integer()
            if retry_count < 0:
                raise CommandError("ERR Invalid RETRYCOUNT value, must be >= 0")
        else:
            raise CommandError(f"ERR Unrecognized XNACK option '{decoded(options.word())}'")
    if not ids:
        raise CommandError("ERR syntax error, expected IDS keyword")
    return mode, parse_ids(ids), retry_count, force


def _parse_ids(options: Arguments) -> list[bytes]:
    """Return the words of `numids id [id ...]`. Raises: CommandError."""
    error = CommandError("ERR numids must be a positive integer")
    number = options.integer(error)
    if not 1 <= number <= _IDS_MAX:
        raise error
    if number > options.left():
        raise CommandError("ERR number of IDs doesn't match numids")
    return [options.word() for _ in range(number)]


@applies("XNACK")
def apply_release(applying: Applying, words: list[bytes]) -> None:
    """Release entries with the delivery count that it says, also such as were deleted."""
    stream, group = applying.group(words[1], words[2])
    mode, ids, count, force = _parse(words)
    for entry_id in ids:
        entry = group.pending.get(entry_id)
        if entry is None and not stream.log.holds_pending(entry_id):
            stream.note_missing(entry_id)
        if entry is not None or force:
            counted = mode(0 if entry is None else entry[3]) if count is None else count
            group.own_pending().set(entry_id, None, 0, counted)
