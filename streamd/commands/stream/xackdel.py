"""XACKDEL: acknowledge entries and delete them."""

from streamd.catalog import Context, command
from streamd.catalog.applying import Applying, applies
from streamd.commands.stream.group_effects import find_group, record_deleted, record_removed
from streamd.commands.stream.options import parse_deletion, parse_ids
from streamd.resp.types import Reply
from streamd.stream.groups.group import Group
from streamd.stream.references import delete_references, is_referenced
from streamd.stream.stream import Stream

NOT_PENDING, DELETED, KEPT = -1, 1, 2


@command(
    "XACKDEL",
    arity=-6,
    flags="write fast",
    keys=(1, 1, 1),
    since="8.2.0",
    complexity="O(log(N)) for each entry, N being the number of pending entries of the group; times the number of "
    "groups with DELREF or ACKED.",
    syntax="key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
    access="RW update delete",
)
def xackdel(context: Context, args: list[bytes]) -> Reply:
    """Acknowledge and delete entries; return for each: 1 both, 2 acknowledged only, -1 it was not pending.

    Raises: WrongType; CommandError; InvalidStreamId.
    """
    key, group_name = args[1], args[2]
    found = find_group(context, key, group_name)
    references, words = parse_deletion(args, 3)
    if found is None:
        return [NOT_PENDING] * len(words)
    stream, group = found
    ids = parse_ids(words)

    if stream.log.may_wait:
        stream.log.require_ids([entry_id for entry_id in ids if entry_id in group.pending])
        with stream.log.at_once():
            results, acknowledged, deleted = _acknowledge(stream, group, ids, references)
    else:
        results, acknowledged, deleted = _acknowledge(stream, group, ids, references)

    if acknowledged:
        record_removed(context, key, group_name, acknowledged)
    else:
        context.counts_as_write()
    if deleted or (acknowledged and references == "delete"):
        record_deleted(context, key, acknowledged if references == "delete" else deleted, references)
    if deleted:
        context.changed(key, "t", "xdel")
    return results


def _acknowledge(
    stream: Stream, group: Group, ids: list[int], references: str
) -> tuple[list[int], list[int], list[int]]:
    """Return the result for each entry, the acknowledged IDs, and the deleted ones."""
    results: list[int] = []
    acknowledged: list[int] = []
    wanted: list[int] = []
    for entry_id in ids:
        if not group.pending.remove(entry_id):
            results.append(NOT_PENDING)
            continue
        acknowledged.append(entry_id)
        if references == "acked" and is_referenced(stream, entry_id):
            results.append(KEPT)
            continue
        wanted.append(entry_id)
        results.append(DELETED)
    deleted = stream.delete_many(wanted) if len(wanted) > 1 else [one for one in wanted if stream.delete(one)]
    if references == "delete":
        delete_references(stream, acknowledged)
    return results, acknowledged, deleted


@applies("XACKDEL")
def apply_acknowledged_deletion(applying: Applying, words: list[bytes]) -> None:
    """Acknowledge and delete these entries, as redis-server says it; streamd records an XACK, and an XDEL or XDELEX."""
    stream, group = applying.group(words[1], words[2])
    references, ids = parse_deletion(words, 3)
    _acknowledge(stream, group, parse_ids(ids), references)
