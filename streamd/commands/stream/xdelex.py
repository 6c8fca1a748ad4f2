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

    As in Redis, ACKED says 2 also of an ID that no entry has but a group has still to read, and DELREF deletes also the
    references to entries that are not there.

    Raises: WrongType; CommandError; InvalidStreamId.
    """
    key = args[1]
    stream = context.stream(key)
    references, words = parse_deletion(args, 2)
    if stream is None:
        return [NOT_FOUND] * len(words)
    ids = parse_ids(words)

    if stream.log.may_wait:
        is_free = references != "acked"
        stream.log.require_ids([entry_id for entry_id in ids if is_free or not is_referenced(stream, entry_id)])
        with stream.log.at_once():
            results, deleted, freed = _delete(stream, ids, references)
    else:
        results, deleted, freed = _delete(stream, ids, references)

    if deleted or freed:
        record_deleted(context, key, [*deleted, *freed], references)
    if deleted:
        context.changed(key, "t", "xdel")
    return results


def _delete(stream: Stream, ids: list[int], references: str) -> tuple[list[int], list[int], list[int]]:
    """Return the result for each entry, the deleted IDs, and those of missing entries that were still pending."""
    kept = {one for one in ids if is_referenced(stream, one)} if references == "acked" else set()
    wanted = [one for one in dict.fromkeys(ids) if one not in kept]
    deleted = stream.delete_many(wanted) if len(wanted) > 1 else [one for one in wanted if stream.delete(one)]
    results: list[int] = []
    there = set(deleted)
    for entry_id in ids:
        if entry_id in there:
            there.remove(entry_id)  # only the first time
            results.append(DELETED)
        else:
            results.append(REFERENCED if entry_id in kept else NOT_FOUND)
    freed: list[int] = []
    if references == "delete":
        freed = sorted(delete_references(stream, ids).difference(deleted))
    return results, deleted, freed


@applies("XDELEX")
def apply_deletion(applying: Applying, words: list[bytes]) -> None:
    """Delete these entries, and with DELREF the references to them."""
    stream = applying.stream(words[1])
    references, texts = parse_deletion(words, 2)
    ids = parse_ids(texts)
    if not (stream.log.may_wait and applying.names_entries):
        _delete(stream, ids, references)
        return
    # Some may have been pending without being there any more.
    stream.delete_recorded([entry_id for entry_id in ids if stream.log.holds_pending(entry_id)])
    if references == "delete":
        delete_references(stream, ids)
