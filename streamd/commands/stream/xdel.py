"""XDEL: delete entries by their IDs."""

from streamd.catalog import Context, command
from streamd.catalog.applying import Applying, applies
from streamd.resp.types import Reply
from streamd.stream.entry_id import format_id, parse_id


@command(
    "XDEL",
    arity=-3,
    flags="write fast",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity="O(log(S)) for each entry, with S being the number of the stream's segments.",
    syntax="key id [id ...]",
    access="RW delete",
)
def xdel(context: Context, args: list[bytes]) -> Reply:
    """Delete entries from a stream and return how many were there.

    Reply: integer; 0 when the key does not exist.
    Raises: InvalidStreamId; WrongType.
    """
    key = args[1]
    stream = context.stream(key)
    if stream is None:
        return 0
    ids = [parse_id(word) for word in args[2:]]

    deleted = [entry_id for entry_id in ids if stream.delete(entry_id)]

    if deleted:
        context.record(b"XDEL", key, *map(format_id, deleted), changes=len(deleted))
        context.changed(key, "t", "xdel")
    return len(deleted)


@applies("XDEL")
def apply_deletion(applying: Applying, words: list[bytes]) -> None:
    """Delete these entries; redis-server names also some that were not there."""
    stream = applying.stream(words[1])
    for word in words[2:]:
        stream.delete(parse_id(word))
