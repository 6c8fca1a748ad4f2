"""XACK: acknowledge entries of a consumer group."""

from streamd.catalog import Context, command
from streamd.catalog.applying import Applying, applies
from streamd.commands.stream.group_effects import find_group, record_removed
from streamd.commands.stream.options import parse_ids
from streamd.resp.types import Reply


@command(
    "XACK",
    arity=-4,
    flags="write fast",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity="O(log(N)) for each entry, N being the number of pending entries of the group.",
    syntax="key group id [id ...]",
    access="RW update",
)
def xack(context: Context, args: list[bytes]) -> Reply:
    """Acknowledge entries and return how many were pending.

    Reply: integer; 0 when the key or the group does not exist.
    Raises: InvalidStreamId; WrongType.
    """
    key, group_name = args[1], args[2]
    found = find_group(context, key, group_name)
    if found is None:
        return 0
    ids = parse_ids(args[3:])

    removed = found[1].pending.remove_many(ids)

    if removed:
        record_removed(context, key, group_name, removed)
    return len(removed)


@applies("XACK")
def apply_acknowledgement(applying: Applying, words: list[bytes]) -> None:
    """Take entries from the pending ones."""
    _, group = applying.group(words[1], words[2])
    group.pending.remove_many(parse_ids(words[3:]))
