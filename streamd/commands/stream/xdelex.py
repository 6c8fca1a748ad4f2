"""XDELEX: delete entries, with a say about the consumer groups that refer to them."""

from streamd.catalog import Context, command
from streamd.catalog.applying import Applying, applies
from streamd.commands.stream.group_effects import record_deleted
from streamd.commands.stream.options import parse_deletion, parse_ids
from streamd.resp.types import Reply
from streamd.stream.references import delete_references, is_referenced
from streamd.stream.stream import Stream

NOT_FOUND, DELETED, REFERENCED = -1, 1, 2


@command(
    "XDELEX",
    arity=-5,
    flags="write fast",
    keys=(1, 1, 1),
    since="8.2.0",
    complexity="O(log(S)) for each entry, with S being the number of the stream's segments; O(G log(N)) more with "
    "DELREF or ACKED, G being the number of groups and N of their pending entries.",
    syntax="key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
    access="RW delete",
)
def xdelex(context: Context, args: list[bytes]) -> Reply:
    """Delete entries and return what became of each: 1 deleted, -1 not there, 2 kept because a group refers to it.

    Raises: WrongType; CommandError; InvalidStreamId.
    """
    key = args[1]
    stream = context.stream(key)
    references, words = parse_deletion(args, 2)
    if stream is None:
        return [NOT_FOUND] * len(words)
    ids = parse_ids(words)

    results, deleted = _delete(stream, ids, references)

    if deleted:
        record_deleted(context, key, deleted, references)
        context.changed(key, "t", "xdel")
    return results


def _delete(stream: Stream, ids: list[int], references: str) -> tuple[list[int], list[int]]:
    """Return the result for each entry, and the deleted IDs."""
    results: list[int] = []
    deleted: list[int] = []
    for entry_id in ids:
        if entry_id not in stream.log:
            results.append(NOT_FOUND)
        elif references == "acked" and is_referenced(stream, entry_id):
            results.append(REFERENCED)
        else:
            stream.delete(entry_id)
            deleted.append(entry_id)
            results.append(DELETED)
    if references == "delete":
        delete_references(stream, deleted)
    return results, deleted


@applies("XDELEX")
def apply_deletion(applying: Applying, words: list[bytes]) -> None:
    """Delete these entries, and with DELREF the references to them."""
    references, ids = parse_deletion(words, 2)
    _delete(applying.stream(words[1]), parse_ids(ids), references)
